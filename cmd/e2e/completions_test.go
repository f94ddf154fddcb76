//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Completions by the real model.

// completed is an answer of /v1/completions, whole or put together.
type completed struct {
	Choices []struct {
		Index    int
		Text     string
		Finish   string `json:"finish_reason"`
		Logprobs *struct {
			Tokens        []string
			TokenLogprobs []*float64           `json:"token_logprobs"`
			TopLogprobs   []map[string]float64 `json:"top_logprobs"`
			TextOffset    []int                `json:"text_offset"`
		}
	}
	Usage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Gnosis gnosis `json:"_gnosis"`
}

func (s *server) complete(t *testing.T, merge ...obj) (c completed) {
	t.Helper()
	q := obj{"model": "test-model", "prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
	for _, m := range merge {
		for k, v := range m {
			q[k] = v
		}
	}
	r := s.do(t, "POST", "/v1/completions", q)
	require.Equal(t, 200, r.Status, "%s", r.Body)
	require.NoError(t, json.Unmarshal(r.Body, &c), "%s", r.Body)
	return c
}

// streamedText puts the texts of a stream's choices together.
func (s *server) streamedText(t *testing.T, n int, q obj) []string {
	t.Helper()
	q["model"], q["stream"] = "test-model", true
	r := s.do(t, "POST", "/v1/completions", q)
	require.Equal(t, 200, r.Status, "%s", r.Body)
	texts := make([]string, n)
	for _, event := range bytes.Split(r.Body, []byte("\n\n")) {
		var c completed
		if data, ok := bytes.CutPrefix(event, []byte("data: {")); ok {
			require.NoError(t, json.Unmarshal(append([]byte("{"), data...), &c))
		}
		for _, one := range c.Choices {
			texts[one.Index] += one.Text
		}
	}
	require.True(t, bytes.HasSuffix(r.Body, []byte("data: [DONE]\n\n")))
	return texts
}

func TestCompletions_FormsOfAPromptAreOne(t *testing.T) {
	defer shared.unharmed(t)()
	want := shared.complete(t).Choices[0]
	require.NotEmpty(t, want.Text)
	tokens := shared.do(t, "POST", "/tokenize", obj{"content": "The capital of France is", "parse_special": false}).JSON(t)["tokens"]
	require.Equal(t, want.Text, shared.complete(t, obj{"prompt": tokens}).Choices[0].Text)
	lists := shared.complete(t, obj{"prompt": []any{tokens, tokens}, "n": 2})
	require.Len(t, lists.Choices, 4)
	for i, c := range lists.Choices {
		require.Equal(t, i, c.Index)
		require.Equal(t, want.Text, c.Text)
	}
	texts := []string{"The capital of France is", "One, two, three,"}
	two := shared.complete(t, obj{"prompt": texts, "echo": true})
	streamed := shared.streamedText(t, 2, obj{"prompt": texts, "echo": true, "max_tokens": 8, "temperature": 0})
	for i, c := range two.Choices {
		require.True(t, strings.HasPrefix(c.Text, texts[i]))
		require.Equal(t, c.Text, streamed[i])
	}
	// A control token's text is text.
	plain := shared.complete(t, obj{"prompt": "<|im_end|>", "max_tokens": 0, "echo": true, "logprobs": 0}).Choices[0].Logprobs.Tokens
	require.Greater(t, len(plain), 1)
}

func TestCompletions_EchoScoresWhatTheModelWouldWrite(t *testing.T) {
	defer shared.unharmed(t)()
	said := shared.complete(t, obj{"logprobs": 2}).Choices[0]
	scored := shared.complete(t, obj{"prompt": "The capital of France is" + said.Text, "echo": true, "logprobs": 2, "max_tokens": 0})
	require.Zero(t, scored.Usage.CompletionTokens)
	all := scored.Choices[0]
	require.Equal(t, "The capital of France is"+said.Text, strings.Join(all.Logprobs.Tokens, ""))
	require.Len(t, all.Logprobs.Tokens, scored.Usage.PromptTokens)
	require.Nil(t, all.Logprobs.TokenLogprobs[0])
	require.Nil(t, all.Logprobs.TopLogprobs[0])
	end := len(all.Logprobs.Tokens) - len(said.Logprobs.Tokens)
	for i, token := range said.Logprobs.Tokens {
		require.Equal(t, token, all.Logprobs.Tokens[end+i])
		require.InDelta(t, *said.Logprobs.TokenLogprobs[i], *all.Logprobs.TokenLogprobs[end+i], 0.05, "drawn and scored")
		require.Equal(t, all.Logprobs.TextOffset[end]+said.Logprobs.TextOffset[i], all.Logprobs.TextOffset[end+i])
		require.Len(t, all.Logprobs.TopLogprobs[end+i], 2)
		require.Contains(t, all.Logprobs.TopLogprobs[end+i], token, "greedy draws the likeliest")
	}
}

func TestCompletions_BestOfSuffixAndReuse(t *testing.T) {
	defer shared.unharmed(t)()
	best := shared.complete(t, obj{"best_of": 3, "temperature": 1, "seed": 5})
	require.Len(t, best.Choices, 1)
	require.Greater(t, best.Usage.CompletionTokens, 8)
	e := shared.do(t, "POST", "/v1/completions", obj{"model": "test-model", "prompt": "a", "suffix": "b"}).Err(t, 400)
	require.Equal(t, "suffix", e["param"], "this model fills no middle")

	long := words(61, 80)
	first := shared.complete(t, obj{"prompt": long})
	again := shared.complete(t, obj{"prompt": long})
	require.Equal(t, first.Choices[0].Text, again.Choices[0].Text)
	require.Equal(t, "hit", again.Gnosis.Memory)
	require.Equal(t, again.Usage.PromptTokens-1, again.Usage.Details.CachedTokens)
}
