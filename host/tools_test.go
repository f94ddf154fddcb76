package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"thoth/host/grammar/grammartest"
	"thoth/station/wire"
)

func TestTools_CallsAreTakenOutOfTheText(t *testing.T) {
	for name, template := range map[string]string{"native": hermesTemplate, "generic": chatml} {
		f, h := newModel(t, template)
		for _, size := range []int{1, 3, 1000} {
			f.does(writes(oslo, size, wire.ReasonEOG))
			s := h.bothWays(weatherTools)
			require.Nil(t, s.content, name)
			require.Equal(t, "tool_calls", s.finish)
			require.Equal(t, []string{"get_weather"}, s.names())
			require.JSONEq(t, `{"city":"Oslo"}`, s.calls[0].Arguments)
			require.Empty(t, f.last().Sampling.Grammar, "auto leaves the model free")

			f.does(writes("Let me see. 😀\n"+oslo+"\n"+paris, size, wire.ReasonEOG))
			s = h.bothWays(weatherTools, `"tool_choice":"auto"`)
			require.Equal(t, "Let me see. 😀", strings.TrimSpace(s.text()))
			require.Equal(t, []string{"get_weather", "get_weather"}, s.names())
			require.JSONEq(t, `{"city":"Paris"}`, s.calls[1].Arguments)

			f.does(writes("It is fine.", size, wire.ReasonEOG))
			s = h.bothWays(weatherTools)
			require.Equal(t, said{content: s.content, finish: "stop"}, s)
			require.Equal(t, "It is fine.", s.text())
		}
	}
}

func TestTools_WhatOnlyLooksLikeACallIsText(t *testing.T) {
	f, h := newModel(t, hermesTemplate)
	for _, text := range []string{
		"<tool_call> is how a call begins.", "<tool_call>\n{\"name\": 5}\n</tool_call>", called("no_such", `{}`), "a <tool", "{\"name\": \"get_weather\", \"arguments\": {}}",
	} {
		f.does(writes(text, 2, wire.ReasonEOG))
		s := h.bothWays(weatherTools)
		require.Equal(t, text, s.text())
		require.Empty(t, s.calls)
		require.Equal(t, "stop", s.finish)
	}
	// Without tools nothing is a call, nor with tools that may not be called.
	f.does(writes(oslo, 2, wire.ReasonEOG))
	require.Equal(t, oslo, h.bothWays().text())
	require.Equal(t, oslo, h.bothWays(weatherTools, `"tool_choice":"none"`).text())
	s := h.bothWays(weatherTools, `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"get_time"}}]}}`)
	require.Equal(t, oslo, s.text())
}

func TestTools_ThePromptShowsThemWhateverTheChoice(t *testing.T) {
	for _, template := range []string{hermesTemplate, chatml} {
		f, h := newModel(t, template)
		f.does(writes(oslo, 1000, wire.ReasonEOG))
		prompts := map[string]bool{}
		for _, choice := range []string{`"none"`, `"auto"`, `"required"`, `{"type":"function","function":{"name":"get_weather"}}`} {
			require.Equal(t, 200, h.chat(weatherTools, `"tool_choice":`+choice).status)
			prompts[text(f.last().Prompt.Segments)] = true
		}
		require.Len(t, prompts, 1, "the prefix stays the same")
		for p := range prompts {
			require.Contains(t, p, "get_weather")
			require.Contains(t, p, "get_time")
			require.Contains(t, p, "The weather of a city.")
		}
		require.Equal(t, 200, h.chat().status)
		require.NotContains(t, text(f.last().Prompt.Segments), "get_weather")
	}
}

func TestTools_ResultsGoBackToTheModel(t *testing.T) {
	f, h := newModel(t, hermesTemplate)
	history := `{"model":"` + model + `",` + weatherTools + `,"messages":[{"role":"user","content":"Weather?"},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"get_weather","arguments":"{\"city\": \"Oslo\"}"}}]},` +
		`{"role":"tool","tool_call_id":%s,"content":"rain"}]}`
	require.Equal(t, 200, h.do("POST", "/v1/chat/completions", fmt.Sprintf(history, `"c1"`)).status)
	p := text(f.last().Prompt.Segments)
	require.Contains(t, p, oslo, "a call is shown as the model wrote it")
	require.Contains(t, p, "rain")
	r := h.do("POST", "/v1/chat/completions", fmt.Sprintf(history, `"c2"`))
	require.Equal(t, 400, r.status)
	require.Equal(t, "messages[2].tool_call_id", param(t, r))
}

// param of an error.
func param(t *testing.T, r reply) any {
	t.Helper()
	r.code(t)
	return r.json(t)["error"].(map[string]any)["param"]
}

func TestTools_GrammarBindsWhereTheChoiceSaysSo(t *testing.T) {
	f, h := newModel(t, hermesTemplate)
	f.does(writes(oslo, 5, wire.ReasonEOG))
	strict := strings.Replace(weatherTools, `"name":"get_weather",`, `"name":"get_weather","strict":true,`, 1)
	const text, wrong = "Let me see.", `{"town": 5}`
	clock := called("get_time", `{}`)
	bad := called("get_weather", wrong)
	for fields, want := range map[string]struct{ takes, refuses []string }{
		weatherTools:                               {}, // auto leaves the model free
		weatherTools + `,"tool_choice":"none"`:     {[]string{text, "a <b>"}, []string{oslo, text + "\n" + oslo}},
		weatherTools + `,"tool_choice":"required"`: {[]string{oslo, clock, oslo + "\n" + clock}, []string{text, bad, called("get_disk", `{}`), called("get_time", `{"a": 1}`)}},
		weatherTools + `,"tool_choice":"required","parallel_tool_calls":false`:                                                           {[]string{oslo, clock}, []string{text, oslo + "\n" + clock}},
		weatherTools + `,"tool_choice":{"type":"function","function":{"name":"get_weather"}}`:                                            {[]string{oslo}, []string{text, clock, bad}},
		weatherTools + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[` + named("get_time") + `]}}`: {[]string{clock}, []string{text, oslo}},
		weatherTools + `,"parallel_tool_calls":false`:                                                                                    {[]string{text, oslo, text + oslo}, []string{oslo + "\n" + clock}},
		strict: {[]string{text, oslo, text + oslo + "\n" + clock}, []string{bad, text + bad}},
		weatherTools + `,"response_format":{"type":"json_object"}`:                      {[]string{`{"a": 1}`, oslo}, []string{text, bad}},
		weatherTools + `,"response_format":{"type":"json_object"},"tool_choice":"none"`: {[]string{`{"a": 1}`}, []string{text, oslo}},
	} {
		require.Equal(t, 200, h.chat(fields).status, fields)
		rules := f.last().Sampling.Grammar
		if want.takes == nil {
			require.Empty(t, rules, fields)
			continue
		}
		g, err := grammartest.Compile(rules)
		require.NoError(t, err, rules)
		for _, answer := range want.takes {
			require.True(t, g.Match(answer), "%s takes %s:\n%s", fields, answer, rules)
		}
		for _, answer := range want.refuses {
			require.False(t, g.Match(answer), "%s refuses %s:\n%s", fields, answer, rules)
		}
	}
}

// named is how tool_choice names a tool.
func named(tool string) string { return `{"type":"function","function":{"name":"` + tool + `"}}` }

func TestTools_CallsThatAreBoundCome(t *testing.T) {
	f, h := newModel(t, hermesTemplate)
	f.does(writes(oslo, 5, wire.ReasonEOG))
	s := h.bothWays(weatherTools, `"tool_choice":"required"`)
	require.Equal(t, "tool_calls", s.finish)
	require.JSONEq(t, `{"city":"Oslo"}`, s.calls[0].Arguments)
	f.does(writes(oslo+"\n"+paris, 5, wire.ReasonEOG))
	require.Len(t, h.bothWays(weatherTools, `"tool_choice":"required"`).calls, 2)
	require.Len(t, h.bothWays(weatherTools, `"parallel_tool_calls":false`).calls, 1)
}

func TestTools_ACutCallIsCutByLength(t *testing.T) {
	f, h := newModel(t, hermesTemplate)
	f.does(writes("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Os", 4, wire.ReasonLength))
	s := h.bothWays(weatherTools, `"tool_choice":"required"`)
	require.Equal(t, "length", s.finish)
	require.Equal(t, []string{"get_weather"}, s.names())
	require.Equal(t, `{"city": "Os`, s.calls[0].Arguments, "bound by a grammar, a call begins as it is")
	require.Nil(t, s.content)

	s = h.bothWays(weatherTools)
	require.Equal(t, "length", s.finish)
	require.Empty(t, s.calls, "free, it was no call yet")
	require.Contains(t, s.text(), "<tool_call>")
}

func TestTools_AStopStringInACallMakesNoCall(t *testing.T) {
	f, h := newModel(t, hermesTemplate)
	f.does(writes("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Os", 4, wire.ReasonStop))
	require.Equal(t, "stop", h.bothWays(weatherTools, `"stop":"lo"`).finish, "its arguments are not whole")
	f.does(writes(oslo+"\n", 4, wire.ReasonStop))
	require.Equal(t, "tool_calls", h.bothWays(weatherTools, `"stop":"Obs"`).finish)
}

func TestTools_MarkersThatAreControlTokensAreAskedForAsText(t *testing.T) {
	f, h := newModel(t, mistralTemplate)
	f.does(writes(`[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Oslo"}}]`, 7, wire.ReasonEOG))
	s := h.bothWays(weatherTools)
	require.Equal(t, []string{"get_weather"}, s.names())
	require.True(t, f.last().ControlText)
	f.does(hello)
	require.Equal(t, 200, h.chat().status)
	require.False(t, f.last().ControlText, "a plain chat shows none")
}

func TestTools_LiquidMemoryAsksForTheSameAnswer(t *testing.T) {
	f := newFaultStation(t)
	f.set(func(f *fakeStation) { f.model.ChatTemplate = mistralTemplate })
	h := startHost(t, f.srv.URL)
	h.await(http.StatusOK)
	h.eventually(h.memory.On)
	var asked wire.DecodeRequest
	f.fault(wire.RouteDecodeNext, func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		out := &frames{w}
		out.text(`[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Oslo"}}]`)
		out.done(wire.ReasonEOG, 1)
	})
	r := h.chat(weatherTools, `"tool_choice":"required"`)
	require.Equal(t, []string{"get_weather"}, whole(t, r).names())
	require.Equal(t, "liquid", r.header.Get(headerPath))
	require.True(t, asked.ControlText)
	require.NotEmpty(t, asked.Sampling.Grammar)
}

func TestTools_StreamIsKeptAliveWhileACallGrows(t *testing.T) {
	f, h := newModel(t, hermesTemplate, func(o *Options) { o.PingInterval = 20 * time.Millisecond })
	goOn := make(chan struct{})
	f.does(func(ctx context.Context, _ *wire.GenerateRequest, out *frames) {
		out.text("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"")
		for {
			out.text("x")
			select {
			case <-goOn:
				out.text("\"}}\n</tool_call>")
				out.done(wire.ReasonEOG, 9)
				return
			case <-ctx.Done():
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	l := h.open(weatherTools)
	for !strings.Contains(l.next(t), `"role":"assistant"`) {
	}
	require.Equal(t, ": ping", l.next(t), "tokens that the client does not see are no sign of life to it")
	close(goOn)
	for line := l.next(t); !strings.Contains(line, "[DONE]"); line = l.next(t) {
	}
}

func TestTools_SDKReadsCalls(t *testing.T) {
	f, h := newModel(t, hermesTemplate)
	f.does(writes("Both.\n"+oslo+"\n"+paris, 4, wire.ReasonEOG))
	cfg := sdk.DefaultConfig("any")
	cfg.BaseURL, cfg.HTTPClient = h.base+"/v1", h.http
	c := sdk.NewClientWithConfig(cfg)
	var parameters any = json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)
	req := sdk.ChatCompletionRequest{Model: model, Messages: []sdk.ChatCompletionMessage{{Role: "user", Content: "hi"}},
		Tools: []sdk.Tool{{Type: sdk.ToolTypeFunction, Function: &sdk.FunctionDefinition{Name: "get_weather", Parameters: parameters}}}}
	answer, err := c.CreateChatCompletion(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, sdk.FinishReasonToolCalls, answer.Choices[0].FinishReason)
	calls := answer.Choices[0].Message.ToolCalls
	require.Len(t, calls, 2)
	require.Equal(t, `{"city": "Paris"}`, calls[1].Function.Arguments)

	stream, err := c.CreateChatCompletionStream(t.Context(), req)
	require.NoError(t, err)
	defer stream.Close()
	arguments := map[int]string{}
	var finish sdk.FinishReason
	for {
		chunk, err := stream.Recv()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
		for _, call := range chunk.Choices[0].Delta.ToolCalls {
			arguments[*call.Index] += call.Function.Arguments
		}
		finish = chunk.Choices[0].FinishReason
	}
	require.Equal(t, map[int]string{0: `{"city": "Oslo"}`, 1: `{"city": "Paris"}`}, arguments)
	require.Equal(t, sdk.FinishReasonToolCalls, finish)

	// What came is what goes back.
	req.Messages = append(req.Messages, answer.Choices[0].Message)
	for _, call := range calls {
		req.Messages = append(req.Messages, sdk.ChatCompletionMessage{Role: "tool", ToolCallID: call.ID, Content: "rain"})
	}
	_, err = c.CreateChatCompletion(t.Context(), req)
	require.NoError(t, err)
	require.Contains(t, text(f.last().Prompt.Segments), "Both.\n"+oslo+"\n"+paris, "as the model wrote it")
}

func TestTools_MoreThanCanBeRenderedAreRefusedByName(t *testing.T) {
	_, h := newModel(t, hermesTemplate)
	tool := `{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{},"x":[` + strings.Repeat("0,", 120_000) + `0]}}}`
	require.Equal(t, 200, h.chat(`"tools":[`+tool+`]`).status)
	r := h.chat(`"tools":[` + tool + `,` + strings.Replace(tool, `"f"`, `"g"`, 1) + `]`)
	require.Equal(t, 400, r.status)
	require.Equal(t, "tools", *errorParam(t, r))
	require.Contains(t, r.body, "200000")
}
