//go:build e2e && clients

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"
)

// officialClient is the openai-go client of a base URL. It retries nothing unless told to.
func officialClient(base string, more ...option.RequestOption) *openai.Client {
	c := openai.NewClient(append([]option.RequestOption{option.WithBaseURL(base), option.WithAPIKey("none"), option.WithMaxRetries(0)}, more...)...)
	return &c
}

func officialAsk(tokens int64) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: "test-model", Temperature: openai.Float(0), MaxTokens: openai.Int(tokens),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say hi")}}
}

// officialEndless is an answer of a minute: the ends of a turn are kept out.
func officialEndless() openai.ChatCompletionNewParams {
	p := officialAsk(3500)
	p.LogitBias = map[string]int64{"0": -100, "2": -100}
	return p
}

// officialWhole reads a stream to its end.
func officialWhole(t *testing.T, c *openai.Client, p openai.ChatCompletionNewParams) openai.ChatCompletionAccumulator {
	t.Helper()
	var whole openai.ChatCompletionAccumulator
	s := c.Chat.Completions.NewStreaming(t.Context(), p)
	defer s.Close()
	for s.Next() {
		require.True(t, whole.AddChunk(s.Current()))
	}
	require.NoError(t, s.Err())
	require.Len(t, whole.Choices, 1)
	return whole
}

// officialGo is openai/openai-go.
func officialGo(t *testing.T, on *clientServers) {
	c := officialClient(on.open)
	ask := func(t *testing.T, c *openai.Client, p openai.ChatCompletionNewParams) *openai.ChatCompletion {
		t.Helper()
		r, err := c.Chat.Completions.New(t.Context(), p)
		require.NoError(t, err)
		return r
	}
	fails := func(t *testing.T, c *openai.Client, p openai.ChatCompletionNewParams, status int, code, param string) *openai.Error {
		t.Helper()
		_, err := c.Chat.Completions.New(t.Context(), p)
		var e *openai.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, []any{status, code, param}, []any{e.StatusCode, e.Code, e.Param})
		return e
	}

	t.Run("chat", func(t *testing.T) {
		r := ask(t, c, officialAsk(12))
		require.NotEmpty(t, r.Choices[0].Message.Content)
		require.Equal(t, "test-model", r.Model)
		m, err := c.Models.Get(t.Context(), "test-model")
		require.NoError(t, err)
		require.Equal(t, "test-model", m.ID)
	})
	t.Run("stream", func(t *testing.T) {
		want := ask(t, c, officialAsk(12)).Choices[0]
		whole := officialWhole(t, c, officialAsk(12))
		require.Equal(t, want.Message.Content, whole.Choices[0].Message.Content)
		require.Equal(t, want.FinishReason, whole.Choices[0].FinishReason)
	})
	t.Run("tools", func(t *testing.T) {
		p := officialAsk(100)
		p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: "get_weather", Strict: openai.Bool(true), Parameters: weatherSchema})}
		p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
		p.ParallelToolCalls = openai.Bool(false)
		said := ask(t, c, p).Choices[0]
		require.Equal(t, "tool_calls", said.FinishReason)
		require.Len(t, said.Message.ToolCalls, 1)
		call := said.Message.ToolCalls[0]
		requireWeather(t, call.Function.Name, call.Function.Arguments)
		streamed := officialWhole(t, c, p).Choices[0].Message.ToolCalls
		require.Len(t, streamed, 1)
		requireWeather(t, streamed[0].Function.Name, streamed[0].Function.Arguments)

		p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("none")}
		p.Messages = append(p.Messages, said.Message.ToParam(), openai.ToolMessage("12 degrees", call.ID))
		require.NotEmpty(t, ask(t, c, p).Choices[0].Message.Content)
	})
	t.Run("structured", func(t *testing.T) {
		p := officialAsk(60)
		p.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &openai.ResponseFormatJSONSchemaParam{
			JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{Name: "mood", Strict: openai.Bool(true), Schema: moodSchema}}}
		r := ask(t, c, p).Choices[0]
		require.Equal(t, "stop", r.FinishReason)
		requireMood(t, r.Message.Content)
		require.Equal(t, r.Message.Content, officialWhole(t, c, p).Choices[0].Message.Content)
	})
	t.Run("errors", func(t *testing.T) {
		p := officialAsk(12)
		p.Temperature = openai.Float(3)
		e := fails(t, c, p, 400, "invalid_value", "temperature")
		require.Equal(t, "invalid_request_error", e.Type)
		s := c.Chat.Completions.NewStreaming(t.Context(), p)
		require.False(t, s.Next())
		require.ErrorAs(t, s.Err(), &e)
		p = officialAsk(12)
		p.Model = "unknown"
		fails(t, c, p, 404, "model_not_found", "model")
		fails(t, officialClient(on.keyed, option.WithAPIKey("wrong")), officialAsk(12), 401, "invalid_api_key", "")
		require.NotEmpty(t, ask(t, officialClient(on.keyed, option.WithAPIKey("secret")), officialAsk(12)).Choices[0].Message.Content)
	})
	t.Run("retries", func(t *testing.T) {
		on.turns.reset()
		require.NotEmpty(t, ask(t, officialClient(on.turns.base, option.WithMaxRetries(2)), officialAsk(12)).Choices)
		e := fails(t, officialClient(on.turns.base), officialAsk(12), http.StatusTooManyRequests, "overloaded", "")
		require.NotEmpty(t, e.Response.Header.Get("Retry-After"))
		on.turns.retried(t)
	})
	one := officialClient(on.one.base + "/v1")
	t.Run("cancellation", func(t *testing.T) {
		for _, leave := range []string{"Close", "Context"} {
			ctx, cancel := context.WithCancel(t.Context())
			s := one.Chat.Completions.NewStreaming(ctx, officialEndless())
			for range 3 {
				require.True(t, s.Next(), "%v", s.Err())
			}
			require.Equal(t, 1, on.one.inFlight())
			if leave == "Close" {
				require.NoError(t, s.Close())
			} else {
				cancel()
			}
			on.one.freed(t)
			cancel()
		}
	})
	t.Run("timeouts", func(t *testing.T) {
		_, err := one.Chat.Completions.New(t.Context(), officialEndless(), option.WithRequestTimeout(time.Second))
		require.True(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
		on.one.freed(t)
	})
	t.Run("usage", func(t *testing.T) {
		u := ask(t, c, officialAsk(12)).Usage
		require.Positive(t, u.PromptTokens)
		require.Positive(t, u.CompletionTokens)
		require.Equal(t, u.PromptTokens+u.CompletionTokens, u.TotalTokens)
		p := officialAsk(12)
		p.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
		require.Equal(t, u.TotalTokens, officialWhole(t, c, p).Usage.TotalTokens)
	})
}

// requireWeather checks a call against weatherSchema.
func requireWeather(t *testing.T, name, arguments string) {
	t.Helper()
	require.Equal(t, "get_weather", name)
	requireInstance(t, weatherSchema, arguments)
}

func requireMood(t *testing.T, text string) {
	t.Helper()
	requireInstance(t, moodSchema, text)
}

func requireInstance(t *testing.T, schema any, text string) {
	t.Helper()
	require.True(t, json.Valid([]byte(text)), "%s", text)
	j, err := newJudge(schema)
	require.NoError(t, err)
	require.NoError(t, j.check(text))
}
