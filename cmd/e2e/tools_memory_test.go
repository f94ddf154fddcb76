//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A tool's result, its call and all before them are reused: with the model's own
// template, which knows no tools, and with one that does.
func TestTools_ResultReusesAllBeforeIt(t *testing.T) {
	defer shared.unharmed(t)()
	hermes, err := os.ReadFile(filepath.Join(root(t), "host", "prompt", "testdata", "templates", "chatml-hermes.jinja"))
	require.NoError(t, err)
	for name, s := range map[string]*server{"generic": shared, "hermes": shared.otherTemplate(t, string(hermes))} {
		t.Run(name, func(t *testing.T) {
			for _, stream := range []bool{false, true} {
				messages := []obj{system("You look things up. " + words(31, 80) + name), user("What is the weather in Oslo?")}
				more := obj{"tools": allTools(), "max_tokens": 160, "stream": stream, "cache_salt": name}
				first := s.talk(t, more, obj{"messages": messages, "tool_choice": "required", "parallel_tool_calls": false})
				said := first.Turns[0]
				require.Equal(t, "tool_calls", said.Finish)

				messages = append(messages, said.message(), obj{"role": "tool", "tool_call_id": said.Calls[0].ID, "content": "It rains, 7 degrees."})
				second := s.talk(t, more, obj{"messages": messages})
				require.Equal(t, "hit", second.Gnosis.Memory)
				require.GreaterOrEqual(t, second.Cached, first.Prompt, "the prompt, with its tools")

				messages = append(messages, second.Turns[0].message(), user("And in Bergen?"))
				third := s.talk(t, more, obj{"messages": messages, "tool_choice": namedTool("get_weather"), "parallel_tool_calls": false})
				require.Equal(t, "hit", third.Gnosis.Memory)
				require.GreaterOrEqual(t, third.Cached, second.Prompt, "the result too")
				callsAreValid(t, third.Turns[0])
			}
		})
	}
}

// The tools are a part of the prompt, and what is asked of them is not.
func TestTools_ListIsPartOfThePrefix(t *testing.T) {
	defer shared.unharmed(t)()
	messages := []obj{system("You look things up. " + words(32, 60)), user("Which tools do you have?")}
	ask := func(tools []obj, more ...obj) talk {
		return shared.talk(t, append(more, obj{"messages": messages, "tools": tools, "max_tokens": 8})...)
	}
	first := ask(allTools())
	for _, choice := range []any{"none", "auto", "required", namedTool("add")} {
		again := ask(allTools(), obj{"tool_choice": choice, "parallel_tool_calls": choice == "auto"})
		require.Equal(t, first.Prompt, again.Prompt, "%v", choice)
		require.Equal(t, again.Prompt-1, again.Cached, "%v", choice)
	}
	changed := func(at int) int {
		tools := allTools()
		tools[at] = function("xylophone", obj{"type": "object", "properties": obj{"zeal": obj{"type": "string"}}})
		return ask(tools, obj{"cache_salt": nil}).Cached
	}
	last, early := changed(2), changed(0)
	require.Less(t, early, last, "a change ends the prefix where it stands")
	require.Less(t, last, first.Prompt-10)
	bare := shared.talk(t, obj{"messages": messages, "max_tokens": 8})
	require.Less(t, bare.Prompt, first.Prompt-50)
}
