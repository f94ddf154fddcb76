//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// thinker is the template of a model that thinks and calls tools; end is how its
// generation prompt ends. It shows earlier reasoning, so that the test model, which
// was not trained to think, has something to imitate.
func thinker(end string) string {
	return `{% if tools %}<|im_start|>system
Tools:{% for tool in tools %}
{{ tool | tojson }}{% endfor %}<|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content or '' }}{% for call in m.tool_calls %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% else %}` + end + `{% endif %}{% endif %}`
}

// Who opens the reasoning: the template, or the model.
var thinkers = map[string]string{"by the template": thinker("<think>\n"), "by the model": thinker("")}

// thoughts are turns that think shortly and then answer.
func thoughts(last string) obj {
	var messages []obj
	for _, q := range [][2]string{{"Is the sky blue?", "yes"}, {"Is fire cold?", "no"}, {"Is ice cold?", "yes"}} {
		messages = append(messages, user(q[0]), obj{"role": "assistant", "reasoning_content": "I know this.", "content": q[1]})
	}
	return obj{"messages": append(messages, user(last)), "max_tokens": 120}
}

func TestReasoning_IsApartFromTheAnswer(t *testing.T) {
	defer shared.unharmed(t)()
	for name, template := range thinkers {
		t.Run(name, func(t *testing.T) {
			s := shared.otherTemplate(t, template)
			more := thoughts("Is grass green?")
			said := s.bothWays(t, more)
			require.Equal(t, "stop", said.Finish)
			require.NotEmpty(t, said.Reasoning)
			require.NotEmpty(t, said.text())
			require.NotContains(t, said.Reasoning+said.text(), "think>")
			a := s.talk(t, more)
			require.Positive(t, a.Thought)
			require.Less(t, a.Thought, a.Completion)

			// Without the reasoning by the template's switch, under each of its names.
			for _, off := range []obj{{"chat_template_kwargs": obj{"enable_thinking": false}}, {"reasoning_effort": "none"}} {
				said := s.bothWays(t, more, off)
				require.Empty(t, said.Reasoning)
				require.NotEmpty(t, said.text())
				require.Zero(t, s.talk(t, more, off).Thought)
			}
			e := s.chat(t, more, obj{"reasoning_effort": "high"}).Err(t, 400)
			require.Equal(t, "reasoning_effort", e["param"])
			require.Contains(t, e["message"], "none", "what it knows is named")

			// What came back is sent back, under either name.
			turn := said.message()
			for _, field := range []string{"reasoning_content", "reasoning"} {
				again := obj{"role": "assistant", "content": turn["content"], field: said.Reasoning}
				messages := append(more["messages"].([]obj), again, user("Is snow green?"))
				require.NotEmpty(t, s.bothWays(t, more, obj{"messages": messages}).Finish)
			}
		})
	}
}

// A format binds what follows the reasoning, and calls do so too.
func TestReasoning_BeforeWhatIsEnforced(t *testing.T) {
	defer shared.unharmed(t)()
	for name, template := range thinkers {
		t.Run(name, func(t *testing.T) {
			s := shared.otherTemplate(t, template)
			thought := 0
			for seed := range 4 {
				more := []obj{thoughts("Is grass green?"), {"temperature": 0.6, "seed": seed}}
				said := s.bothWays(t, append(more, schemaFormat(moodSchema))...)
				if said.Finish == "stop" {
					valid(t, moodSchema, said.text())
				} else {
					require.Empty(t, strings.Trim(said.text(), "{\"lmeodv: 0123456789,cangry"), "%q", said.text())
				}
				if said.Reasoning != "" && said.Finish == "stop" {
					thought++
				}
				said = s.bothWays(t, append(more, obj{"tools": allTools(), "tool_choice": "required", "parallel_tool_calls": false})...)
				require.Empty(t, said.text())
				callsAreValid(t, said)
				if said.Finish == "tool_calls" {
					require.Len(t, said.Calls, 1)
				}
				said = s.bothWays(t, append(more, obj{"chat_template_kwargs": obj{"enable_thinking": false}}, schemaFormat(moodSchema))...)
				require.Equal(t, "stop", said.Finish)
				require.Empty(t, said.Reasoning)
				valid(t, moodSchema, said.text())
			}
			require.Positive(t, thought, "some answers think, and end")
		})
	}
}

// A cap that is reached while the model thinks leaves no text, and says length.
func TestReasoning_CutWhileThinking(t *testing.T) {
	defer shared.unharmed(t)()
	s := shared.otherTemplate(t, thinkers["by the template"])
	puzzle := obj{"messages": []obj{user("Three doors, two liars, one question: which door?")}, "max_tokens": 12}
	for _, more := range []obj{{}, schemaFormat(moodSchema), {"tools": allTools()}, {"tools": allTools(), "tool_choice": "required"}} {
		said := s.bothWays(t, puzzle, more)
		require.Equal(t, "length", said.Finish)
		require.NotNil(t, said.Content, "a client may join it")
		require.Empty(t, said.text())
		require.NotEmpty(t, said.Reasoning)
		for _, stream := range []bool{false, true} {
			a := s.talk(t, puzzle, more, obj{"stream": stream})
			require.Equal(t, 12, a.Completion)
			require.Equal(t, 12, a.Thought)
		}
	}
}

// A model that does not think has no reasoning to set.
func TestReasoning_EffortOfAModelThatDoesNotThink(t *testing.T) {
	defer shared.unharmed(t)()
	require.Equal(t, shared.chat(t).Text(t), shared.chat(t, obj{"reasoning_effort": "none"}).Text(t))
	for _, effort := range []any{"low", "medium", "high", "huge", 5} {
		require.Equal(t, "reasoning_effort", refusal(t, 400, obj{"reasoning_effort": effort})["param"], "%v", effort)
	}
}
