//go:build e2e

package e2e

import (
	"encoding/base64"
	bin "encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goldenText is a text with the vector that the original weights give it; see
// testdata/golden_embeddings.py.
type goldenText struct {
	Name, Text, Vector string
	Tokens             []int
}

func (g goldenText) vector(t *testing.T) []float64 { return fromBase64(t, g.Vector) }

func goldenTexts(t *testing.T) []goldenText {
	t.Helper()
	b, err := os.ReadFile("testdata/golden_embeddings.json")
	require.NoError(t, err)
	var all []goldenText
	require.NoError(t, json.Unmarshal(b, &all))
	require.Greater(t, len(all), 10)
	return all
}

func fromBase64(t *testing.T, text string) []float64 {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	v := make([]float64, len(raw)/4)
	for i := range v {
		v[i] = float64(math.Float32frombits(bin.LittleEndian.Uint32(raw[4*i:])))
	}
	return v
}

func dot(a, b []float64) float64 {
	var sum float64
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// embed asks for vectors and checks the form of the answer.
func embed(t *testing.T, s *server, input any, more obj) (vectors [][]float64, tokens int) {
	t.Helper()
	q := obj{"model": "test-model", "input": input}
	for k, v := range more {
		q[k] = v
	}
	r := s.do(t, http.MethodPost, "/v1/embeddings", q)
	require.Equal(t, 200, r.Status, "%s", r.Body)
	var a struct {
		Object, Model string
		Data          []struct {
			Object    string
			Index     int
			Embedding json.RawMessage
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
			Total  int `json:"total_tokens"`
		}
	}
	require.NoError(t, json.Unmarshal(r.Body, &a))
	require.Equal(t, "list", a.Object)
	require.Equal(t, "test-model", a.Model)
	require.Equal(t, a.Usage.Prompt, a.Usage.Total)
	for i, d := range a.Data {
		require.Equal(t, i, d.Index)
		var v []float64
		if d.Embedding[0] == '"' {
			var text string
			require.NoError(t, json.Unmarshal(d.Embedding, &text))
			v = fromBase64(t, text)
		} else {
			require.NoError(t, json.Unmarshal(d.Embedding, &v))
		}
		require.InDelta(t, 1, dot(v, v), 1e-5, "vectors have length 1")
		vectors = append(vectors, v)
	}
	return vectors, a.Usage.Prompt
}

// all-MiniLM-L6-v2, converted from its safetensors, says what the original
// weights say.
func TestEmbeddings_OfATrueModel(t *testing.T) {
	file := os.Getenv("THOTH_TEST_EMBED_MODEL")
	require.NotEmpty(t, file, "THOTH_TEST_EMBED_MODEL must name the converted embedding model: run make test")
	s := start(t, "THOTH_MODEL="+file, "THOTH_CONTEXT_LENGTH=0")
	golden := goldenTexts(t)
	var texts []string
	var tokens [][]int
	count := 0
	for _, g := range golden {
		texts, tokens = append(texts, g.Text), append(tokens, g.Tokens)
		count += len(g.Tokens)
	}
	together, used := embed(t, s, texts, nil)
	require.Equal(t, count, used, "tokens are counted as the model's own tokeniser makes them")
	for i, g := range golden {
		cosine := dot(together[i], g.vector(t))
		t.Logf("%-14s %3d tokens, cosine %.6f", g.Name, len(g.Tokens), cosine)
		require.GreaterOrEqual(t, cosine, 0.999, g.Name)
		alone, n := embed(t, s, g.Text, nil)
		require.Equal(t, len(g.Tokens), n, g.Name)
		require.Greater(t, dot(alone[0], together[i]), 0.99999, "%s alone and beside others", g.Name)
	}
	based, _ := embed(t, s, texts, obj{"encoding_format": "base64"})
	for i := range based {
		require.InDeltaSlice(t, together[i], based[i], 1e-7, "base64 is the same numbers")
	}
	for name, form := range map[string]func([]int) []int{
		"whole": func(ids []int) []int { return ids }, "bare": func(ids []int) []int { return ids[1 : len(ids)-1] },
	} {
		var given [][]int
		for _, ids := range tokens {
			given = append(given, form(slices.Clone(ids)))
		}
		got, n := embed(t, s, given, nil)
		require.Equal(t, count, n, name)
		for i := range got {
			require.Greater(t, dot(got[i], together[i]), 0.99999, "%s tokens of %s", name, golden[i].Name)
		}
	}
	short, _ := embed(t, s, texts[0], obj{"dimensions": 64})
	require.Len(t, short[0], 64)
	require.Greater(t, dot(together[0], together[1]), dot(together[0], together[2])+0.2, "near texts have near vectors")

	e := s.do(t, http.MethodPost, "/v1/embeddings", obj{"model": "test-model", "input": []string{"a", strings.Repeat("word ", 600)}}).Err(t, 400)
	require.Equal(t, "context_length_exceeded", e["code"])
	require.Equal(t, "input[1]", e["param"])
	require.Contains(t, e["message"], "602 tokens")
	require.Contains(t, e["message"], "512")
	e = s.do(t, http.MethodPost, "/v1/chat/completions", obj{"model": "test-model", "messages": []obj{{"role": "user", "content": "Hi"}}}).Err(t, 400)
	require.Contains(t, e["message"], "/v1/embeddings")
	require.Contains(t, string(s.do(t, http.MethodGet, "/v1/models", nil).Body), "test-model")
	require.Equal(t, 200, s.do(t, http.MethodGet, "/readyz", nil).Status)
}

// A chat model gives vectors beside its answers, also of a text that takes many
// batches.
func TestEmbeddings_OfAChatModel(t *testing.T) {
	defer shared.unharmed(t)()
	long := strings.Repeat("The river carried the boats past the old mill. ", 60)
	texts := []string{"The river carried the boats.", "Boats were carried by the river.", long}
	together, n := embed(t, shared, texts, nil)
	require.Greater(t, n, 600)
	for i, text := range texts {
		alone, _ := embed(t, shared, text, nil)
		require.Greater(t, dot(alone[0], together[i]), 0.999, fmt.Sprint("text ", i))
	}
	require.NotEmpty(t, shared.chat(t).Text(t))
}
