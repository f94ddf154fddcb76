//go:build e2e && clients

package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"
)

func responseAsk(tokens int64) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: "test-model", Temperature: openai.Float(0), MaxOutputTokens: openai.Int(tokens),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Say hi")}}
}

// officialEndlessResponse keeps the ends of a turn out, by a parameter beyond the reference.
var officialEndlessResponse = option.WithJSONSet("logit_bias", map[string]int{"0": -100, "2": -100})

// officialResponses is openai/openai-go and its responses.
func officialResponses(t *testing.T, on *clientServers) {
	c := officialClient(on.open)
	ask := func(t *testing.T, c *openai.Client, p responses.ResponseNewParams) *responses.Response {
		t.Helper()
		r, err := c.Responses.New(t.Context(), p)
		require.NoError(t, err)
		return r
	}
	// streamed reads events to their end, and gives the response that the last one has.
	streamed := func(t *testing.T, p responses.ResponseNewParams) (text string, kinds map[string]bool, whole responses.Response) {
		t.Helper()
		s := c.Responses.NewStreaming(t.Context(), p)
		defer s.Close()
		kinds = map[string]bool{}
		for n := int64(0); s.Next(); n++ {
			e := s.Current()
			require.Equal(t, n, e.SequenceNumber)
			if kinds[e.Type] = true; e.Type == "response.output_text.delta" {
				text += e.Delta
			}
			whole = e.Response
		}
		require.NoError(t, s.Err())
		return text, kinds, whole
	}
	fails := func(t *testing.T, err error, status int, code string) *openai.Error {
		t.Helper()
		var e *openai.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, []any{status, code}, []any{e.StatusCode, e.Code})
		return e
	}
	ended := func(t *testing.T, c *openai.Client, r *responses.Response) *responses.Response {
		t.Helper()
		for end := time.Now().Add(patience); r.Status == "queued" || r.Status == "in_progress"; time.Sleep(50 * time.Millisecond) {
			require.True(t, time.Now().Before(end), "it does not end")
			var err error
			r, err = c.Responses.Get(t.Context(), r.ID, responses.ResponseGetParams{})
			require.NoError(t, err)
		}
		return r
	}

	t.Run("responses", func(t *testing.T) {
		p := responseAsk(16)
		p.Instructions = openai.String("Be short.")
		r := ask(t, c, p)
		require.NotEmpty(t, r.OutputText())
		require.Equal(t, r.Usage.InputTokens+r.Usage.OutputTokens, r.Usage.TotalTokens)
		text, kinds, whole := streamed(t, p)
		require.Equal(t, r.OutputText(), text)
		require.Equal(t, r.OutputText(), whole.OutputText())
		require.Contains(t, kinds, "response.created")
		count, err := c.Responses.InputTokens.Count(t.Context(), responses.InputTokenCountParams{Model: openai.String("test-model"),
			Instructions: p.Instructions, Input: responses.InputTokenCountParamsInputUnion{OfString: openai.String("Say hi")}})
		require.NoError(t, err)
		require.Equal(t, r.Usage.InputTokens, count.InputTokens)
	})
	t.Run("responses/tools", func(t *testing.T) {
		p := responseAsk(100)
		p.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "get_weather", Strict: openai.Bool(true), Parameters: weatherSchema}}}
		p.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsRequired)}
		p.ParallelToolCalls = openai.Bool(false)
		r := ask(t, c, p)
		require.Len(t, r.Output, 1)
		call := r.Output[0].AsFunctionCall()
		requireWeather(t, call.Name, call.Arguments)
		_, kinds, whole := streamed(t, p)
		require.Contains(t, kinds, "response.function_call_arguments.done")
		require.Len(t, whole.Output, 1)
		requireWeather(t, whole.Output[0].Name, whole.Output[0].AsFunctionCall().Arguments)

		p.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsNone)}
		p.PreviousResponseID = openai.String(r.ID)
		result := responses.ResponseInputItemParamOfFunctionCallOutput("12 degrees")
		result.OfFunctionCallOutput.CallID = openai.String(call.CallID)
		p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{result}}
		require.NotEmpty(t, ask(t, c, p).OutputText())
	})
	t.Run("responses/structured", func(t *testing.T) {
		p := responseAsk(60)
		p.Text = responses.ResponseTextConfigParam{Format: responses.ResponseFormatTextConfigParamOfJSONSchema("mood", moodSchema)}
		r := ask(t, c, p)
		requireMood(t, r.OutputText())
		text, _, _ := streamed(t, p)
		require.Equal(t, r.OutputText(), text)
	})
	t.Run("responses/errors", func(t *testing.T) {
		p := responseAsk(16)
		p.TopP = openai.Float(2)
		_, err := c.Responses.New(t.Context(), p)
		require.Equal(t, "top_p", fails(t, err, 400, "invalid_value").Param)
		p = responseAsk(16)
		p.PreviousResponseID = openai.String("resp_unknown")
		_, err = c.Responses.New(t.Context(), p)
		fails(t, err, 400, "previous_response_not_found")
		_, err = officialClient(on.keyed, option.WithAPIKey("wrong")).Responses.New(t.Context(), responseAsk(16))
		fails(t, err, 401, "invalid_api_key")
		on.turns.reset()
		require.NotEmpty(t, ask(t, officialClient(on.turns.base, option.WithMaxRetries(2)), responseAsk(16)).OutputText())
		_, err = officialClient(on.turns.base).Responses.New(t.Context(), responseAsk(16))
		fails(t, err, http.StatusTooManyRequests, "overloaded")
		on.turns.retried(t)
	})
	t.Run("responses/turns", func(t *testing.T) {
		first := ask(t, c, responseAsk(16))
		p := responseAsk(16)
		p.PreviousResponseID = openai.String(first.ID)
		second := ask(t, c, p)
		require.Greater(t, second.Usage.InputTokens, first.Usage.TotalTokens)
		got, err := c.Responses.Get(t.Context(), second.ID, responses.ResponseGetParams{})
		require.NoError(t, err)
		require.Equal(t, second.OutputText(), got.OutputText())
		require.NoError(t, c.Responses.Delete(t.Context(), second.ID))
		_, err = c.Responses.Get(t.Context(), second.ID, responses.ResponseGetParams{})
		require.ErrorAs(t, err, new(*openai.Error))

		p = responseAsk(16)
		p.Background = openai.Bool(true)
		require.Equal(t, first.OutputText(), ended(t, c, ask(t, c, p)).OutputText())
	})
	one := officialClient(on.one.base + "/v1")
	t.Run("responses/cancellation", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := one.Responses.NewStreaming(ctx, responseAsk(3500), officialEndlessResponse)
		for s.Next() && s.Current().Type != "response.output_text.delta" {
		}
		require.Equal(t, 1, on.one.inFlight())
		require.NoError(t, s.Close())
		on.one.freed(t)

		p := responseAsk(3500)
		p.Background = openai.Bool(true)
		r, err := one.Responses.New(t.Context(), p, officialEndlessResponse)
		require.NoError(t, err)
		r, err = one.Responses.Cancel(t.Context(), r.ID)
		require.NoError(t, err)
		require.Equal(t, responses.ResponseStatusCancelled, r.Status)
		on.one.freed(t)
	})
}
