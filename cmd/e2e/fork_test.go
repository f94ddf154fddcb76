//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The choices of a prompt share one prefill, by whatever path, and are the answers
// of requests of their own. Whichever of them a conversation goes on with, its
// tokens are kept.
func TestFork_ChoicesShareThePromptsPrefill(t *testing.T) {
	defer shared.unharmed(t)()
	const n = 4
	for name, c := range map[string]struct {
		header []string
		path   string
	}{
		"native": {off, "native"}, "liquid": {nil, "liquid"},
	} {
		t.Run(name, func(t *testing.T) {
			q := obj{"messages": []obj{user(fmt.Sprintf("%s %s", name, words(77, 300)))}, "max_tokens": 20, "temperature": 0.8, "seed": 900, "ignore_eos": true}
			shared.idle(t)
			before := shared.station(t).PromptTokens
			r := shared.do(t, "POST", chatPath, P(q, obj{"n": n, "logprobs": true}), c.header...)
			require.Equal(t, 200, r.Status, "%s", r.Body)
			var many said
			require.NoError(t, many.add(r.Body))
			var texts []string
			for _, choice := range r.JSON(t)["choices"].([]any) {
				texts = append(texts, choice.(obj)["message"].(obj)["content"].(string))
			}
			require.Len(t, texts, n)
			require.Equal(t, c.path, many.Gnosis.Path)
			evaluated := int(shared.station(t).PromptTokens - before)
			require.Equal(t, many.Prompt-many.Gnosis.Prefix, evaluated, "once")
			require.Equal(t, n*20, many.Completion)
			for i, text := range texts {
				q["seed"] = 900 + i
				one := shared.fresh(t, q)
				require.Equal(t, one.Text, text, "choice %d", i)
				require.Equal(t, one.Prompt, many.Prompt)
				if c.path == "liquid" {
					next := shared.say(t, obj{"messages": append(q["messages"].([]obj), assistant(text), user("Go on.")), "max_tokens": 2})
					require.GreaterOrEqual(t, next.Cached, one.Prompt+15, "choice %d", i)
				}
			}
		})
	}
}
