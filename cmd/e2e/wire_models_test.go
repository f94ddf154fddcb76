//go:build e2e

package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

func TestModels_ListedNamesWorkInChat(t *testing.T) {
	defer shared.unharmed(t)()
	list := shared.do(t, http.MethodGet, "/v1/models", nil).JSON(t)
	require.Equal(t, "list", list["object"])
	var ids []string
	for _, m := range list["data"].([]any) {
		m := m.(obj)
		id := m["id"].(string)
		ids = append(ids, id)
		require.Equal(t, "model", m["object"])
		created := m["created"].(float64)
		require.Equal(t, created, float64(int64(created)))
		require.Positive(t, created)
		require.NotEmpty(t, m["owned_by"].(string))
		require.NotContains(t, id, "/")

		one := shared.do(t, http.MethodGet, "/v1/models/"+url.PathEscape(id), nil)
		require.Equal(t, 200, one.Status)
		require.Equal(t, m, one.JSON(t))
		require.NotEmpty(t, shared.chat(t, obj{"model": id}).Text(t))
	}
	require.Equal(t, []string{"test-model", "test-alias"}, ids)
	require.Equal(t, "model_not_found", shared.do(t, http.MethodGet, "/v1/models/none", nil).Err(t, 404)["code"])

	models, err := library(shared, "none").ListModels(t.Context())
	require.NoError(t, err)
	require.Len(t, models.Models, 2)
	require.Equal(t, "test-model", models.Models[0].ID)
}

func TestModels_NameWithSlashAndColon(t *testing.T) {
	const name = "org/some model:q4_1"
	s := hostBefore(t, standIn(t, wire.Model{Name: "m", Digest: "d", ChatTemplate: plainTemplate}), "THOTH_MODEL_NAME="+name)
	s.serves(t)
	for _, path := range []string{url.PathEscape(name), strings.ReplaceAll(url.PathEscape(name), ":", "%3A"), "org/some%20model:q4_1"} {
		r := s.do(t, http.MethodGet, "/v1/models/"+path, nil)
		require.Equal(t, 200, r.Status, path)
		require.Equal(t, name, r.JSON(t)["id"])
	}
	require.Equal(t, name, s.chat(t, obj{"model": name}).JSON(t)["model"])
	got, err := library(s, "none").GetModel(t.Context(), url.PathEscape(name))
	require.NoError(t, err)
	require.Equal(t, name, got.ID)
}

func TestModels_OwnNameHoldsNoPath(t *testing.T) {
	s := hostBefore(t, standIn(t, wire.Model{Name: "/srv/private/secret/Model One", File: "one.gguf", Digest: "d", ChatTemplate: plainTemplate}))
	s.serves(t)
	id := s.do(t, http.MethodGet, "/v1/models", nil).JSON(t)["data"].([]any)[0].(obj)["id"].(string)
	require.Equal(t, "Model-One", id)
	require.NotEmpty(t, s.chat(t, obj{"model": id}).Text(t))
}

func TestChat_UsageDoesNotDependOnWhatIsCached(t *testing.T) {
	defer shared.unharmed(t)()
	long := obj{"messages": []obj{user(strings.Repeat("The river flows through the green valley. ", 70) + "What flows?")}}
	first := 0
	for range 3 {
		r := shared.chat(t, long)
		e := shared.stream(t, long, obj{"stream_options": obj{"include_usage": true}})
		streamed := e.JSON[len(e.JSON)-1]["usage"].(obj)
		for _, u := range []obj{r.JSON(t)["usage"].(obj), streamed} {
			prompt := int(u["prompt_tokens"].(float64))
			if first == 0 {
				first = prompt
			}
			require.Greater(t, prompt, 500)
			require.Equal(t, first, prompt)
			require.Equal(t, u["total_tokens"], u["prompt_tokens"].(float64)+u["completion_tokens"].(float64))
			require.LessOrEqual(t, u["prompt_tokens_details"].(obj)["cached_tokens"].(float64), u["prompt_tokens"].(float64))
		}
	}
}

func TestChat_AClientLibraryReadsAnswersAndStreams(t *testing.T) {
	defer shared.unharmed(t)()
	client := library(shared, "none")
	request := openai.ChatCompletionRequest{Model: "test-model", Temperature: 0.5, MaxCompletionTokens: 16, Seed: new(7),
		Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "Say hi"}}}
	whole, err := client.CreateChatCompletion(t.Context(), request)
	require.NoError(t, err)
	stream, err := client.CreateChatCompletionStream(t.Context(), request)
	require.NoError(t, err)
	defer stream.Close()
	var text strings.Builder
	for {
		chunk, err := stream.Recv()
		if err != nil {
			break // the end; a broken stream shows in the text
		}
		text.WriteString(chunk.Choices[0].Delta.Content)
	}
	require.Equal(t, whole.Choices[0].Message.Content, text.String())
}
