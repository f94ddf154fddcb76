//go:build e2e && clients

package e2e

import (
	"errors"
	"io"
	"testing"

	"github.com/openai/openai-go/v3"
	sdk "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// Vectors and plain completions, by both clients for Go.

// clientTexts are to be told apart by their vectors: the first two are alike.
var clientTexts = []string{"a cat sits on the mat", "a kitten rests on a rug", "the price of copper fell"}

const (
	clientDimensions = 384
	clientStory      = "Once upon a time"
)

func requireVectors(t *testing.T, v [][]float64) {
	t.Helper()
	require.Len(t, v, len(clientTexts))
	for _, x := range v {
		require.Len(t, x, clientDimensions)
		require.InDelta(t, 1, dot(x, x), 1e-4)
	}
	require.Greater(t, dot(v[0], v[1]), dot(v[0], v[2])+0.2)
}

// officialTexts is openai/openai-go.
func officialTexts(t *testing.T, on *clientServers) {
	t.Run("embeddings", func(t *testing.T) {
		c := officialClient(on.embed)
		ask := openai.EmbeddingNewParams{Model: "test-model", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: clientTexts}}
		r, err := c.Embeddings.New(t.Context(), ask)
		require.NoError(t, err)
		var all [][]float64
		for i, d := range r.Data {
			require.EqualValues(t, i, d.Index)
			all = append(all, d.Embedding)
		}
		requireVectors(t, all)
		require.Positive(t, r.Usage.PromptTokens)

		ask.Dimensions = openai.Int(clientDimensions + 1)
		_, err = c.Embeddings.New(t.Context(), ask)
		var e *openai.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, []any{400, "dimensions"}, []any{e.StatusCode, e.Param})
	})
	t.Run("completions", func(t *testing.T) {
		c := officialClient(on.open)
		ask := openai.CompletionNewParams{Model: "test-model", Temperature: openai.Float(0), MaxTokens: openai.Int(12),
			Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(clientStory)}}
		whole, err := c.Completions.New(t.Context(), ask)
		require.NoError(t, err)
		require.NotEmpty(t, whole.Choices[0].Text)
		require.Equal(t, whole.Usage.PromptTokens+whole.Usage.CompletionTokens, whole.Usage.TotalTokens)
		s := c.Completions.NewStreaming(t.Context(), ask)
		defer s.Close()
		text := ""
		for s.Next() {
			text += s.Current().Choices[0].Text
		}
		require.NoError(t, s.Err())
		require.Equal(t, whole.Choices[0].Text, text)
	})
}

// communityTexts is sashabaranov/go-openai.
func communityTexts(t *testing.T, on *clientServers) {
	t.Run("embeddings", func(t *testing.T) {
		c := communityClient(on.embed, "none")
		r, err := c.CreateEmbeddings(t.Context(), sdk.EmbeddingRequestStrings{Model: "test-model", Input: clientTexts})
		require.NoError(t, err)
		all := make([][]float64, len(r.Data))
		for i, d := range r.Data {
			for _, x := range d.Embedding {
				all[i] = append(all[i], float64(x))
			}
		}
		requireVectors(t, all)

		// It takes apart what base64 has by itself.
		b, err := c.CreateEmbeddings(t.Context(), sdk.EmbeddingRequestStrings{Model: "test-model", Input: clientTexts, EncodingFormat: sdk.EmbeddingEncodingFormatBase64})
		require.NoError(t, err)
		require.Equal(t, r.Data, b.Data)
		_, err = c.CreateEmbeddings(t.Context(), sdk.EmbeddingRequestStrings{Model: "test-model", Input: clientTexts, Dimensions: clientDimensions + 1})
		var e *sdk.APIError
		require.ErrorAs(t, err, &e)
		require.Equal(t, "dimensions", *e.Param)
	})
	t.Run("completions", func(t *testing.T) {
		c := communityClient(on.open, "none")
		ask := sdk.CompletionRequest{Model: "test-model", Prompt: clientStory, MaxTokens: 12, Temperature: 1e-9}
		whole, err := c.CreateCompletion(t.Context(), ask)
		require.NoError(t, err)
		require.NotEmpty(t, whole.Choices[0].Text)
		s, err := c.CreateCompletionStream(t.Context(), ask)
		require.NoError(t, err)
		defer s.Close()
		text := ""
		for {
			r, err := s.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			text += r.Choices[0].Text
		}
		require.Equal(t, whole.Choices[0].Text, text)
	})
}
