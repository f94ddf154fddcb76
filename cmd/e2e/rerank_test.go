//go:build e2e

package e2e

import (
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goldenQuery is a query whose documents have the scores that the original
// weights give them; see testdata/golden_rerank.py.
type goldenQuery struct {
	Query     string
	Documents []struct {
		Text   string
		Tokens int
		Score  float64
	}
}

// order are the documents from the best to the worst.
func (g goldenQuery) order() []int {
	var order []int
	for i := range g.Documents {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(g.Documents[b].Score, g.Documents[a].Score) })
	return order
}

func goldenQueries(t *testing.T) (all []goldenQuery) {
	t.Helper()
	b, err := os.ReadFile("testdata/golden_rerank.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &all))
	require.Len(t, all, 3)
	return all
}

type ranked struct {
	Object, Model string
	Results       []struct {
		Index    int
		Score    float64 `json:"relevance_score"`
		Document *struct{ Text string }
	}
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
}

func rerank(t *testing.T, s *server, query string, documents []string, more obj) (a ranked) {
	t.Helper()
	q := obj{"model": "test-model", "query": query, "documents": documents}
	for k, v := range more {
		q[k] = v
	}
	r := s.do(t, http.MethodPost, "/v1/rerank", q)
	require.Equal(t, 200, r.Status, "%s", r.Body)
	require.NoError(t, json.Unmarshal(r.Body, &a))
	require.Equal(t, "list", a.Object)
	require.Equal(t, "test-model", a.Model)
	require.Equal(t, a.Usage.Prompt, a.Usage.Total)
	return a
}

// How far a logit may lie from the original's, in float64 of float32 weights: the
// model's weights are F16, and llama.cpp's GELU is an approximation. A relevance,
// from 0 to 1, moves by a quarter of it at most.
const scoreTolerance = 0.01

// A cross-encoder converted from its safetensors says what the original weights
// say, and ranks as they do.
func TestRerank_OfACrossEncoder(t *testing.T) {
	s := start(t, "THOTH_MODEL="+crossEncoder(t), "THOTH_CONTEXT_LENGTH=0")
	worst := 0.0
	for _, g := range goldenQueries(t) {
		var documents []string
		tokens := 0
		for _, d := range g.Documents {
			documents, tokens = append(documents, d.Text), tokens+d.Tokens
		}
		raw := rerank(t, s, g.Query, documents, obj{"raw_scores": true})
		require.Equal(t, tokens, raw.Usage.Prompt, "pairs have the tokens of the model's own tokeniser")
		var order []int
		for _, r := range raw.Results {
			order = append(order, r.Index)
			want := g.Documents[r.Index].Score
			require.InDelta(t, want, r.Score, scoreTolerance, documents[r.Index])
			worst = max(worst, math.Abs(want-r.Score))
			alone := rerank(t, s, g.Query, documents[r.Index:r.Index+1], obj{"raw_scores": true})
			require.InDelta(t, r.Score, alone.Results[0].Score, 1e-4, "%q alone and beside others", documents[r.Index])
		}
		require.Equal(t, g.order(), order, "the original's ranking")
		best := rerank(t, s, g.Query, documents, obj{"top_n": 2, "return_documents": true})
		require.Len(t, best.Results, 2)
		for i, r := range best.Results {
			require.Equal(t, order[i], r.Index)
			require.Equal(t, documents[r.Index], r.Document.Text)
			require.InDelta(t, 1/(1+math.Exp(-g.Documents[r.Index].Score)), r.Score, 1e-3)
		}
	}
	t.Logf("scores are at most %.4f from the original's", worst)

	ask := func(path string, q obj) obj { return s.do(t, http.MethodPost, path, q).Err(t, 400) }
	e := ask("/rerank", obj{"model": "test-model", "query": "a", "documents": []string{"a", strings.Repeat("word ", 600)}})
	require.Equal(t, "context_length_exceeded", e["code"])
	require.Equal(t, "documents[1]", e["param"])
	require.Contains(t, e["message"], "604 tokens")
	require.Contains(t, e["message"], "512")
	e = ask("/v1/embeddings", obj{"model": "test-model", "input": "a"})
	require.Contains(t, e["message"], "reranker")
	e = ask("/v1/chat/completions", obj{"model": "test-model", "messages": []obj{{"role": "user", "content": "Hi"}}})
	require.Contains(t, e["message"], "/v1/rerank")
	health := s.do(t, http.MethodGet, "/health", nil)
	require.Contains(t, string(health.Body), `"rerank":{"scores":true,"max_tokens":512,"max_documents":2048}`)
	require.Equal(t, 200, s.do(t, http.MethodGet, "/readyz", nil).Status)
}

func TestRerank_AChatModelSaysThatItCannot(t *testing.T) {
	defer shared.unharmed(t)()
	e := shared.do(t, http.MethodPost, "/v1/rerank", obj{"model": "test-model", "query": "a", "documents": []string{"b"}}).Err(t, 400)
	require.Equal(t, "unsupported_parameter", e["code"])
	require.Contains(t, e["message"], "no classification head")
}
