package stationtest

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// vectors tests POST /embed with texts, on a station whose model gives vectors.
func (s *suite) vectors(t *testing.T) {
	m := s.health.Embeddings
	require.NotNil(t, m, "a loaded station says in /health what vectors it gives")
	if m.Pooling == "" {
		require.NotEmpty(t, m.Reason)
		_, err := s.c.Vectors(s.ctx(t), &wire.EmbedRequest{Input: []string{"a"}})
		requireCode(t, err, wire.CodeUnsupported)
		return
	}
	require.Positive(t, m.Dimensions)
	require.Positive(t, m.MaxTokens)
	embed := func(t *testing.T, texts ...string) *wire.VectorsResponse {
		t.Helper()
		a, err := s.c.Vectors(s.ctx(t), &wire.EmbedRequest{Input: texts})
		require.NoError(t, err)
		require.Len(t, a.Vectors, len(texts))
		require.Len(t, a.Tokens, len(texts))
		require.Equal(t, m.Dimensions, a.Dimensions)
		require.Equal(t, m.Pooling, a.Pooling)
		for i, v := range a.Vectors {
			require.Len(t, v, m.Dimensions, "text %d", i)
			require.Positive(t, a.Tokens[i])
		}
		return a
	}
	texts := []string{"The river carried the boats past the old mill.", "Nobody on the bank said a word.", "river", "Zürich: 我喜欢咖啡 🍕"}
	together := embed(t, texts...)
	for i, text := range texts {
		alone := embed(t, text)
		require.Equal(t, together.Tokens[i], alone.Tokens[0])
		require.Greater(t, similarity(alone.Vectors[0], together.Vectors[i]), 0.9999, "%q beside others", text)
	}
	require.Less(t, similarity(together.Vectors[0], together.Vectors[1]), 0.9999, "other texts have other vectors")

	t.Run("tokens", func(t *testing.T) {
		for i, text := range texts {
			no := false
			toks, err := s.c.Tokenize(s.ctx(t), &wire.TokenizeRequest{Prompt: wire.Prompt{Text: text, AddBOS: &no}})
			require.NoError(t, err)
			a, err := s.c.Vectors(s.ctx(t), &wire.EmbedRequest{InputTokens: [][]int32{toks.Tokens}})
			require.NoError(t, err)
			require.Equal(t, together.Tokens[i], a.Tokens[0], "what stands around a text stands around its tokens")
			require.Greater(t, similarity(a.Vectors[0], together.Vectors[i]), 0.9999)
		}
	})
	t.Run("long", func(t *testing.T) {
		one := embed(t, "word").Tokens[0]
		var text string
		n := 0
		for k := min(m.MaxTokens, 700) - one; n <= m.MaxTokens-8 && k > 0; k -= 16 {
			text = strings.TrimSpace(strings.Repeat("word ", k))
			a, err := s.c.Vectors(s.ctx(t), &wire.EmbedRequest{Input: []string{text}})
			if err != nil {
				requireCode(t, err, wire.CodeContextLength)
				continue
			}
			n = a.Tokens[0]
			require.LessOrEqual(t, n, m.MaxTokens)
			b := embed(t, "Nobody said a word.", text)
			require.Greater(t, similarity(a.Vectors[0], b.Vectors[1]), 0.9999)
			break
		}
		require.Positive(t, n)
		_, err := s.c.Vectors(s.ctx(t), &wire.EmbedRequest{Input: []string{"a", strings.Repeat("word ", m.MaxTokens+1)}})
		we := requireCode(t, err, wire.CodeContextLength)
		require.Equal(t, "input[1]", we.Param)
		require.Contains(t, we.Message, fmt.Sprint(m.MaxTokens))
	})
	t.Run("refusals", func(t *testing.T) {
		for name, bad := range map[string]struct {
			q     wire.EmbedRequest
			param string
		}{
			"empty text": {wire.EmbedRequest{Input: []string{"a", ""}}, "input[1]"},
			"too many":   {wire.EmbedRequest{Input: make([]string, m.MaxInputs+1)}, "input"},
			"token":      {wire.EmbedRequest{InputTokens: [][]int32{{0}, {1, int32(s.model.Vocabulary)}}}, "input_tokens[1][1]"},
			"no tokens":  {wire.EmbedRequest{InputTokens: [][]int32{{}}}, "input_tokens[0]"},
			"twice":      {wire.EmbedRequest{Input: []string{"a"}, InputTokens: [][]int32{{0}}}, "input_tokens"},
			"a prompt":   {wire.EmbedRequest{Input: []string{"a"}, Prompt: wire.Prompt{Text: "b"}}, "prompt"},
			"a session":  {wire.EmbedRequest{Input: []string{"a"}, Session: "s"}, "session"},
			"append":     {wire.EmbedRequest{Input: []string{"a"}, Append: true}, "append"},
		} {
			_, err := s.c.Vectors(s.ctx(t), &bad.q)
			require.Equal(t, bad.param, requireCode(t, err, wire.CodeInvalid).Param, name)
		}
	})
	t.Run("many at once", func(t *testing.T) {
		var calls sync.WaitGroup
		for c := range s.o.Clients {
			calls.Go(func() {
				var many []string
				for i := range 1 + c%5 {
					many = append(many, texts[(c+i)%len(texts)])
				}
				a, err := s.c.Vectors(s.ctx(t), &wire.EmbedRequest{Input: many})
				if err != nil {
					t.Errorf("client %d: %v", c, err)
					return
				}
				for i := range many {
					if similarity(a.Vectors[i], together.Vectors[(c+i)%len(texts)]) < 0.9999 {
						t.Errorf("client %d: the vector of text %d is another's", c, i)
					}
				}
			})
		}
		calls.Wait()
	})
}

// EncoderConformance tests a station whose model is an encoder: vectors or scores,
// and everything else refused by name.
func EncoderConformance(t *testing.T, base string, o ConformanceOptions) {
	t.Helper()
	s := newSuite(t, base, o)
	require.True(t, s.health.Embeddings.Only)
	require.Equal(t, p(false), s.health.KVSession)
	require.Equal(t, p(false), s.health.DecodeNext)
	require.NotEmpty(t, s.health.KVReason)
	require.Zero(t, s.health.Cells)
	t.Run("vectors", s.vectors)
	t.Run("scores", s.scores)
	t.Run("nothing else", func(t *testing.T) {
		_, err := s.c.Generate(s.ctx(t), &wire.GenerateRequest{Prompt: wire.Prompt{Text: "a"}})
		require.Equal(t, "/generate", requireCode(t, err, wire.CodeUnsupported).Param)
		_, err = s.c.Embed(s.ctx(t), &wire.EmbedRequest{Prompt: wire.Prompt{Text: "a"}})
		require.Equal(t, "/embed", requireCode(t, err, wire.CodeUnsupported).Param)
		_, err = s.c.Forward(s.ctx(t), &wire.ForwardRequest{Session: "s"})
		require.Equal(t, "/forward", requireCode(t, err, wire.CodeUnsupported).Param)
		_, err = s.c.DecodeNext(s.ctx(t), &wire.DecodeRequest{Session: "s"})
		require.Equal(t, "/decode-next", requireCode(t, err, wire.CodeUnsupported).Param)
		_, err = s.c.KVLookup(s.ctx(t), &wire.KVLookupRequest{Prompt: wire.Prompt{Text: "a"}})
		requireCode(t, err, wire.CodeUnsupported)
	})
}

func similarity(a, b wire.Vector) float64 {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}

func p[T any](v T) *T { return &v }
