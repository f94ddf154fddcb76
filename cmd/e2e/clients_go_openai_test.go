//go:build e2e && clients

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	sdk "github.com/sashabaranov/go-openai"
	"github.com/sashabaranov/go-openai/jsonschema"
	"github.com/stretchr/testify/require"
)

// communityClient is the go-openai client of a base URL.
func communityClient(base, key string) *sdk.Client {
	config := sdk.DefaultConfig(key)
	config.BaseURL = base
	return sdk.NewClientWithConfig(config)
}

func communityAsk(tokens int) sdk.ChatCompletionRequest {
	// It leaves a temperature of 0 out.
	return sdk.ChatCompletionRequest{Model: "test-model", Temperature: 1e-9, MaxCompletionTokens: tokens,
		Messages: []sdk.ChatCompletionMessage{{Role: sdk.ChatMessageRoleUser, Content: "Say hi"}}}
}

// communityEndless is an answer of a minute: the ends of a turn are kept out.
func communityEndless() sdk.ChatCompletionRequest {
	p := communityAsk(3500)
	p.LogitBias = map[string]int{"0": -100, "2": -100}
	return p
}

// communityWhole is a stream read to its end: text, calls put together, usage.
func communityWhole(t *testing.T, c *sdk.Client, p sdk.ChatCompletionRequest) (text string, call sdk.ToolCall, usage *sdk.Usage) {
	t.Helper()
	s, err := c.CreateChatCompletionStream(t.Context(), p)
	require.NoError(t, err)
	defer s.Close()
	for {
		r, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return text, call, usage
		}
		require.NoError(t, err)
		if r.Usage != nil {
			usage = r.Usage
		}
		for _, choice := range r.Choices {
			text += choice.Delta.Content
			for _, part := range choice.Delta.ToolCalls {
				require.Zero(t, *part.Index, "one call alone")
				call.ID += part.ID
				call.Function.Name += part.Function.Name
				call.Function.Arguments += part.Function.Arguments
			}
		}
	}
}

// communityGo is sashabaranov/go-openai.
func communityGo(t *testing.T, on *clientServers) {
	c := communityClient(on.open, "none")
	ask := func(t *testing.T, c *sdk.Client, p sdk.ChatCompletionRequest) sdk.ChatCompletionResponse {
		t.Helper()
		r, err := c.CreateChatCompletion(t.Context(), p)
		require.NoError(t, err)
		require.Len(t, r.Choices, 1)
		return r
	}
	fails := func(t *testing.T, c *sdk.Client, p sdk.ChatCompletionRequest, status int, code string, param any) {
		t.Helper()
		_, err := c.CreateChatCompletion(t.Context(), p)
		var e *sdk.APIError
		require.ErrorAs(t, err, &e)
		require.Equal(t, []any{status, code}, []any{e.HTTPStatusCode, e.Code})
		if param == nil {
			require.Nil(t, e.Param)
			return
		}
		require.NotNil(t, e.Param)
		require.Equal(t, param, *e.Param)
	}

	t.Run("chat", func(t *testing.T) {
		require.NotEmpty(t, ask(t, c, communityAsk(12)).Choices[0].Message.Content)
		m, err := c.GetModel(t.Context(), "test-model")
		require.NoError(t, err)
		require.Equal(t, "test-model", m.ID)
	})
	t.Run("stream", func(t *testing.T) {
		text, _, _ := communityWhole(t, c, communityAsk(12))
		require.Equal(t, ask(t, c, communityAsk(12)).Choices[0].Message.Content, text)
	})
	t.Run("tools", func(t *testing.T) {
		p := communityAsk(100)
		p.Tools = []sdk.Tool{{Type: sdk.ToolTypeFunction, Function: &sdk.FunctionDefinition{Name: "get_weather", Strict: true, Parameters: weatherSchema}}}
		p.ToolChoice = sdk.ToolChoice{Type: sdk.ToolTypeFunction, Function: sdk.ToolFunction{Name: "get_weather"}}
		p.ParallelToolCalls = false
		said := ask(t, c, p).Choices[0].Message
		require.Len(t, said.ToolCalls, 1)
		requireWeather(t, said.ToolCalls[0].Function.Name, said.ToolCalls[0].Function.Arguments)
		_, call, _ := communityWhole(t, c, p)
		require.NotEmpty(t, call.ID)
		requireWeather(t, call.Function.Name, call.Function.Arguments)

		p.ToolChoice = "none"
		p.Messages = append(p.Messages, said, sdk.ChatCompletionMessage{Role: sdk.ChatMessageRoleTool, ToolCallID: said.ToolCalls[0].ID, Content: "12 degrees"})
		require.NotEmpty(t, ask(t, c, p).Choices[0].Message.Content)
	})
	t.Run("structured", func(t *testing.T) {
		var mood struct {
			Mood  string `json:"mood" enum:"calm,angry" required:"true"`
			Great bool   `json:"great" required:"true"`
		}
		schema, err := jsonschema.GenerateSchemaForType(mood)
		require.NoError(t, err)
		p := communityAsk(60)
		p.ResponseFormat = &sdk.ChatCompletionResponseFormat{Type: sdk.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &sdk.ChatCompletionResponseFormatJSONSchema{Name: "mood", Strict: true, Schema: schema}}
		text := ask(t, c, p).Choices[0].Message.Content
		require.NoError(t, schema.Unmarshal(text, &mood), text)
		require.Contains(t, []string{"calm", "angry"}, mood.Mood)
		streamed, _, _ := communityWhole(t, c, p)
		require.Equal(t, text, streamed)

		p.ResponseFormat = &sdk.ChatCompletionResponseFormat{Type: sdk.ChatCompletionResponseFormatTypeJSONObject}
		p.MaxCompletionTokens = 200
		if r := ask(t, c, p).Choices[0]; r.FinishReason == sdk.FinishReasonStop {
			require.NoError(t, json.Unmarshal([]byte(r.Message.Content), new(obj)))
		}
	})
	t.Run("errors", func(t *testing.T) {
		p := communityAsk(12)
		p.TopP = 2
		fails(t, c, p, 400, "invalid_value", "top_p")
		_, err := c.CreateChatCompletionStream(t.Context(), p)
		require.ErrorAs(t, err, new(*sdk.APIError))
		p = communityAsk(12)
		p.Model = "unknown"
		fails(t, c, p, 404, "model_not_found", "model")
		fails(t, communityClient(on.keyed, "wrong"), communityAsk(12), 401, "invalid_api_key", nil)
		require.NotEmpty(t, ask(t, communityClient(on.keyed, "secret"), communityAsk(12)).Choices[0].Message.Content)
	})
	// It does not retry by itself: its error tells the caller to.
	t.Run("retries", func(t *testing.T) {
		on.turns.reset()
		turns := communityClient(on.turns.base, "none")
		fails(t, turns, communityAsk(12), http.StatusTooManyRequests, "overloaded", nil)
		require.NotEmpty(t, ask(t, turns, communityAsk(12)).Choices)
	})
	one := communityClient(on.one.base+"/v1", "none")
	t.Run("cancellation", func(t *testing.T) {
		s, err := one.CreateChatCompletionStream(t.Context(), communityEndless())
		require.NoError(t, err)
		for range 3 {
			_, err := s.Recv()
			require.NoError(t, err)
		}
		require.Equal(t, 1, on.one.inFlight())
		require.NoError(t, s.Close())
		on.one.freed(t)
	})
	t.Run("timeouts", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := one.CreateChatCompletion(ctx, communityEndless())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		on.one.freed(t)
	})
	t.Run("usage", func(t *testing.T) {
		u := ask(t, c, communityAsk(12)).Usage
		require.Positive(t, u.PromptTokens)
		require.Positive(t, u.CompletionTokens)
		require.Equal(t, u.PromptTokens+u.CompletionTokens, u.TotalTokens)
		p := communityAsk(12)
		p.StreamOptions = &sdk.StreamOptions{IncludeUsage: true}
		_, _, last := communityWhole(t, c, p)
		require.NotNil(t, last)
		require.Equal(t, u.TotalTokens, last.TotalTokens)
	})
}
