package openai

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

func TestAnswerBytes_AreAboutThoseOfTheAnswer(t *testing.T) {
	const texts, dimensions = 100, 300
	vectors := &wire.VectorsResponse{Dimensions: dimensions}
	for range texts {
		v := make([]float32, dimensions)
		for i := range v {
			v[i] = float32(math.Sin(float64(i + 1)))
		}
		vectors.Vectors, vectors.Tokens = append(vectors.Vectors, v), append(vectors.Tokens, 1)
	}
	input := `["a"` + strings.Repeat(`,"a"`, texts-1) + `]`
	for _, fields := range []string{``, `,"encoding_format":"base64"`, `,"dimensions":30`} {
		r, e := DecodeEmbedding(fmt.Appendf(nil, `{"model":"m","input":%s%s}`, input, fields), Limits{})
		require.Nil(t, e)
		list, e := NewEmbeddingList(r, "m", vectors)
		require.Nil(t, e)
		require.InEpsilon(t, len(Encode(list)), r.AnswerBytes(dimensions), 0.1, fields)
	}

	ranks := &wire.RerankResponse{Scores: make([]float64, texts), Tokens: make([]int, texts)}
	for i := range ranks.Scores {
		ranks.Scores[i] = math.Sin(float64(i + 1))
	}
	input = strings.ReplaceAll(input, "a", strings.Repeat("a", 100))
	for _, fields := range []string{``, `,"top_n":30`, `,"return_documents":true`} {
		r, e := DecodeRerank(fmt.Appendf(nil, `{"model":"m","query":"q","documents":%s%s}`, input, fields), Limits{})
		require.Nil(t, e)
		require.InEpsilon(t, len(Encode(NewRerankList(r, "m", ranks))), r.AnswerBytes(), 0.15, fields)
	}
}
