//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// familyTemplates are the chat templates of the main families, by name.
func familyTemplates(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root(t), "host", "prompt", "testdata", "templates", "*.jinja"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	all := map[string]string{}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		all[strings.TrimSuffix(filepath.Base(path), ".jinja")] = string(b)
	}
	return all
}

// plainTools have arguments that every family can be held to: those that write
// texts without quotes know no length of one.
func plainTools() []obj {
	return []obj{function("get_weather", obj{"type": "object", "required": []string{"city", "days"}, "additionalProperties": false,
		"properties": obj{"city": obj{"enum": []string{"Oslo", "New York", "Rome"}}, "days": obj{"type": "integer", "minimum": 1, "maximum": 9}}}),
		function("get_time", nil)}
}

// tireless are families that think before they call and cannot be asked not to:
// the test model, which was not trained for it, may think until the cap.
var tireless = []string{"deepseek-r1", "gpt-oss"}

// Whatever a family's calls look like, the model is held to them, and they are
// read as calls of the tool.
func TestTools_EveryFamilysCallsAreEnforcedAndRead(t *testing.T) {
	defer shared.unharmed(t)()
	for name, template := range familyTemplates(t) {
		t.Run(name, func(t *testing.T) {
			s := shared.otherTemplate(t, template)
			tools := obj{"tools": plainTools(), "chat_template_kwargs": obj{"enable_thinking": false, "thinking": false}}
			for _, more := range []obj{
				{"tool_choice": namedTool("get_weather"), "parallel_tool_calls": false},
				{"tool_choice": namedTool("get_time"), "parallel_tool_calls": false},
				{"tool_choice": "required", "parallel_tool_calls": false, "temperature": 1, "seed": 4},
				{"tool_choice": "required", "temperature": 1, "seed": 5},
			} {
				said := s.bothWays(t, needy(tools, more)...)
				require.Empty(t, said.text(), "all of it is the call")
				callsAreValid(t, said, plainTools()...)
				if slices.Contains(tireless, name) && said.Finish == "length" {
					require.NotEmpty(t, said.Reasoning)
					continue
				}
				require.NotEmpty(t, said.Calls)
				if more["parallel_tool_calls"] == false {
					require.Equal(t, "tool_calls", said.Finish)
					require.Len(t, said.Calls, 1)
				}
			}
			// The call, its result and the answer to it.
			said := turn{Content: nil, Calls: []madeCall{{"abcdefgh1", "get_weather", `{"city": "Oslo", "days": 2}`}}}
			messages := []obj{user("How will the weather be in Oslo?"), said.message(), {"role": "tool", "tool_call_id": "abcdefgh1", "content": "Rain."}}
			after := s.bothWays(t, needy(tools, obj{"messages": messages, "tool_choice": "none", "max_tokens": 24})...)
			require.Empty(t, after.Calls)
			require.Positive(t, s.talk(t, needy(tools, obj{"messages": messages, "max_tokens": 8})...).Prompt)
		})
	}
}

// The arguments of a call are a string on the wire and an object to a template.
func TestTools_ArgumentsReachATemplateThatReadsThem(t *testing.T) {
	defer shared.unharmed(t)()
	templates := familyTemplates(t)
	which := user("Which city did you look up? Answer with its name.")
	for _, name := range []string{"qwen3-coder", "chatml-hermes", "gemma"} {
		s := shared.otherTemplate(t, templates[name])
		ask := func(arguments any) obj {
			return obj{"messages": append(lookup(arguments, "clear sky"), which), "max_tokens": 24}
		}
		said := s.bothWays(t, ask(`{"city":"Oslo","n":2}`))
		require.NotContains(t, said.text(), `\"`, name)
		if name != "gemma" { // which the test model does not speak
			require.Contains(t, said.text(), "Oslo", name)
		}
		whole, object := s.talk(t, ask(`{"city":"Oslo","n":2}`)).Prompt, s.talk(t, ask(obj{"city": "Oslo", "n": 2})).Prompt
		require.Equal(t, whole, object, "%s: an object is its own text", name)
		require.Less(t, s.talk(t, ask("")).Prompt, whole, name)
		for _, bad := range []any{"{bad", "[1]", "5", `"x"`, 5, []int{1}} {
			e := s.chat(t, ask(bad)).Err(t, 400)
			require.Regexp(t, `^messages\[1\]\.tool_calls`, e["param"], "%s: %v", name, bad)
		}
	}
}
