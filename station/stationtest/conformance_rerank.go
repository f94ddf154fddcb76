package stationtest

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// scoreDrift is how far a pair's score may move beside others.
const scoreDrift = 0.02

// scores tests POST /rerank.
func (s *suite) scores(t *testing.T) {
	m := s.health.Rerank
	require.NotNil(t, m, "a loaded station says in /health whether it scores")
	rank := func(query string, documents ...string) (*wire.RerankResponse, error) {
		return s.c.Rerank(s.ctx(t), &wire.RerankRequest{Query: query, Documents: documents})
	}
	if !m.Scores {
		require.NotEmpty(t, m.Reason)
		_, err := rank("a", "b")
		e := requireCode(t, err, wire.CodeUnsupported)
		require.Equal(t, "/rerank", e.Param)
		require.Contains(t, e.Message, m.Reason)
		return
	}
	require.Positive(t, m.MaxTokens)
	require.Positive(t, m.MaxDocuments)
	query := "the old mill"
	documents := []string{"The river carried the boats past the old mill.", "Nobody on the bank said a word.", "mill", "Zürich: 我喜欢咖啡 🍕"}
	together, err := rank(query, documents...)
	require.NoError(t, err)
	require.Len(t, together.Scores, len(documents))
	require.Len(t, together.Tokens, len(documents))
	for i, d := range documents {
		alone, err := rank(query, d)
		require.NoError(t, err)
		require.InDelta(t, together.Scores[i], alone.Scores[0], scoreDrift, "%q beside others", d)
		require.Equal(t, together.Tokens[i], alone.Tokens[0])
	}
	require.NotEqual(t, together.Scores[0], together.Scores[1])

	t.Run("long", func(t *testing.T) {
		one := together.Tokens[2]
		var long *wire.RerankResponse
		for k := min(m.MaxTokens, 600) - one; k > 0 && long == nil; k -= 16 {
			a, err := rank(query, strings.Repeat("word ", k))
			if err == nil {
				long = a
			} else {
				requireCode(t, err, wire.CodeContextLength)
			}
		}
		require.NotNil(t, long)
		_, err := rank(query, "a", strings.Repeat("word ", m.MaxTokens+1))
		e := requireCode(t, err, wire.CodeContextLength)
		require.Equal(t, "documents[1]", e.Param)
		require.Contains(t, e.Message, fmt.Sprint(m.MaxTokens))
	})
	t.Run("many documents", func(t *testing.T) {
		many := make([]string, 70)
		for i := range many {
			many[i] = documents[i%len(documents)]
		}
		a, err := rank(query, many...)
		require.NoError(t, err)
		for i := range many {
			require.InDelta(t, together.Scores[i%len(documents)], a.Scores[i], scoreDrift, "document %d", i)
		}
		many[69] = strings.Repeat("word ", m.MaxTokens+1)
		_, err = rank(query, many...)
		require.Equal(t, "documents[69]", requireCode(t, err, wire.CodeContextLength).Param)
		_, err = rank(many[69], many...)
		require.Equal(t, "query", requireCode(t, err, wire.CodeContextLength).Param, "which is too long for all of them")
	})
	t.Run("refusals", func(t *testing.T) {
		for param, q := range map[string]wire.RerankRequest{
			"query":        {Documents: []string{"a"}},
			"documents":    {Query: "a"},
			"documents[1]": {Query: "a", Documents: []string{"b", ""}},
		} {
			_, err := s.c.Rerank(s.ctx(t), &q)
			require.Equal(t, param, requireCode(t, err, wire.CodeInvalid).Param)
		}
		_, err := rank("a", make([]string, m.MaxDocuments+1)...)
		require.Equal(t, "documents", requireCode(t, err, wire.CodeInvalid).Param)
	})
	t.Run("many at once", func(t *testing.T) {
		var calls sync.WaitGroup
		for c := range s.o.Clients {
			calls.Go(func() {
				var many []string
				for i := range 1 + c%5 {
					many = append(many, documents[(c+i)%len(documents)])
				}
				a, err := rank(query, many...)
				if err != nil {
					t.Errorf("client %d: %v", c, err)
					return
				}
				for i := range many {
					if d := a.Scores[i] - together.Scores[(c+i)%len(documents)]; d > scoreDrift || d < -scoreDrift {
						t.Errorf("client %d: the score of document %d is another's", c, i)
					}
				}
			})
		}
		calls.Wait()
	})
}
