package host

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// message asks by Anthropic's API; messages is JSON.
func (h *testHost) message(messages string, fields ...string) reply {
	h.t.Helper()
	b := `{"model":"` + model + `","max_tokens":2000,"messages":` + messages
	for _, f := range fields {
		b += "," + f
	}
	return h.do("POST", "/v1/messages", b+"}", "X-Api-Key", "k", "Anthropic-Version", "2023-06-01", "Content-Type", "application/json")
}

const sayHi = `[{"role":"user","content":"Say hi"}]`

const enabled = `"thinking":{"type":"enabled","budget_tokens":1024}`

const weatherInput = `"tools":[{"name":"get_weather","description":"The weather.","input_schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]`

type block struct {
	Type, Text, Thinking, ID, Name string
	Input                          json.RawMessage
}

type messageJSON struct {
	Type, Role, Model string
	Content           []block
	StopReason        *string `json:"stop_reason"`
	StopSequence      *string `json:"stop_sequence"`
	Usage             map[string]int
}

// whole reads an answer, or puts a stream's events together the way Anthropic's
// libraries do, and checks their order.
func (r reply) whole(t *testing.T) (m messageJSON) {
	t.Helper()
	require.Equal(t, 200, r.status, r.body)
	require.NotEmpty(t, r.header.Get("Request-Id"))
	if !strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
		require.NoError(t, json.Unmarshal([]byte(r.body), &m))
		return m
	}
	open, over := -1, false
	var input string
	var compact bytes.Buffer
	for _, e := range strings.Split(strings.TrimSuffix(r.body, "\n\n"), "\n\n") {
		head, data, ok := strings.Cut(e, "\ndata: ")
		require.True(t, ok, e)
		var d struct {
			Type    string
			Message messageJSON
			Index   int
			Block   block `json:"content_block"`
			Delta   struct {
				Type, Text, Thinking string
				PartialJSON          string  `json:"partial_json"`
				StopReason           *string `json:"stop_reason"`
				StopSequence         *string `json:"stop_sequence"`
			}
			Usage map[string]int
		}
		require.NoError(t, json.Unmarshal([]byte(data), &d))
		require.Equal(t, "event: "+d.Type, head)
		require.False(t, over, "nothing follows message_stop")
		switch d.Type {
		case "ping":
		case "message_start":
			m = d.Message
		case "content_block_start":
			require.Equal(t, -1, open, "blocks do not overlap")
			require.Equal(t, len(m.Content), d.Index)
			m.Content, open, input = append(m.Content, d.Block), d.Index, ""
		case "content_block_delta":
			require.Equal(t, open, d.Index)
			b := &m.Content[d.Index]
			b.Text, b.Thinking, input = b.Text+d.Delta.Text, b.Thinking+d.Delta.Thinking, input+d.Delta.PartialJSON
			require.Equal(t, map[string]string{"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}[b.Type], d.Delta.Type)
		case "content_block_stop":
			require.Equal(t, open, d.Index)
			if input != "" {
				require.NoError(t, json.Compact(&compact, []byte(input))) // as in a whole answer
				m.Content[open].Input = bytes.Clone(compact.Bytes())
				compact.Reset()
			}
			open = -1
		case "message_delta":
			require.Equal(t, -1, open)
			m.StopReason, m.StopSequence, m.Usage = d.Delta.StopReason, d.Delta.StopSequence, d.Usage
		case "message_stop":
			over = true
		default:
			require.Fail(t, e)
		}
	}
	require.True(t, over)
	return m
}

// bothMessages asks whole and streamed, and wants the same.
func (h *testHost) bothMessages(messages string, fields ...string) messageJSON {
	h.t.Helper()
	whole := h.message(messages, fields...).whole(h.t)
	streamed := h.message(messages, append(fields, `"stream":true`)...).whole(h.t)
	require.Len(h.t, streamed.Content, len(whole.Content))
	for i := range whole.Content {
		streamed.Content[i].ID = whole.Content[i].ID
	}
	require.Equal(h.t, whole, streamed)
	return whole
}

func TestGolden_BytesOfMessages(t *testing.T) {
	for name, c := range map[string]struct {
		template, fields string
		does             script
	}{
		"text":      {chatml, `"metadata":{"user_id":"u"}`, writes("Hi 😀!", 3, wire.ReasonEOG)},
		"empty":     {chatml, `"top_k":1`, writes("", 3, wire.ReasonEOG)},
		"cut":       {chatml, `"top_k":1`, writes("Hi", 3, wire.ReasonLength)},
		"reasoning": {thinkingTemplate, enabled, writes("<think>\nTwo.\n</think>\n\nFour.", 4, wire.ReasonEOG)},
		"call":      {hermesTemplate, weatherInput, writes("I look.\n"+oslo, 9, wire.ReasonEOG)},
		"calls":     {hermesTemplate, weatherInput, writes(oslo+"\n"+paris, 9, wire.ReasonEOG)},
	} {
		t.Run(name, func(t *testing.T) {
			f, h := newModel(t, c.template)
			f.does(c.does)
			golden(t, "message-"+name+".json", h.message(sayHi, c.fields).body)
			golden(t, "message-"+name+".sse", h.message(sayHi, c.fields, `"stream":true`).body)
		})
	}
}

func TestMessage_BlocksOfAnAnswer(t *testing.T) {
	f, h := newModel(t, hermesTemplate)
	f.does(writes("I look.\n"+oslo+"\n"+paris, 5, wire.ReasonEOG))
	m := h.bothMessages(sayHi, weatherInput)
	require.Len(t, m.Content, 3)
	require.Equal(t, block{Type: "text", Text: "I look."}, m.Content[0])
	require.Equal(t, []string{"tool_use", "get_weather"}, []string{m.Content[1].Type, m.Content[1].Name})
	require.JSONEq(t, `{"city":"Oslo"}`, string(m.Content[1].Input))
	require.Regexp(t, `^toolu_\w{24}$`, m.Content[1].ID)
	require.NotEqual(t, m.Content[1].ID, m.Content[2].ID)
	require.Equal(t, "tool_use", *m.StopReason)

	f.does(writes(oslo[:len(oslo)-20], 5, wire.ReasonLength))
	r := h.message(sayHi, weatherInput).whole(t)
	require.Equal(t, "max_tokens", *r.StopReason)

	f, h = newModel(t, thinkingTemplate)
	f.does(writes("<think>\nTwo.\n</think>\n\nFour.", 2, wire.ReasonEOG))
	m = h.bothMessages(sayHi, enabled)
	require.Equal(t, []block{{Type: "thinking", Thinking: "Two."}, {Type: "text", Text: "Four."}}, m.Content)
	require.Equal(t, "end_turn", *m.StopReason)
}

func TestMessage_ThinkingThatIsOmittedLeavesEmptyBlocks(t *testing.T) {
	f, h := newModel(t, thinkingTemplate)
	f.does(writes("<think>\nTwo.\n</think>\n\nFour.", 2, wire.ReasonEOG))
	shown := h.bothMessages(sayHi, `"thinking":{"type":"enabled","budget_tokens":1024,"display":"summarized"}`)
	require.Equal(t, []block{{Type: "thinking", Thinking: "Two."}, {Type: "text", Text: "Four."}}, shown.Content)

	const omitted = `"thinking":{"type":"adaptive","display":"omitted"}`
	m := h.bothMessages(sayHi, omitted)
	require.Equal(t, []block{{Type: "thinking"}, {Type: "text", Text: "Four."}}, m.Content)
	require.Equal(t, shown.Usage["output_tokens"], m.Usage["output_tokens"])
	require.Contains(t, h.message(sayHi, omitted).body, `{"type":"thinking","thinking":"","signature":""}`)
	stream := h.message(sayHi, omitted, `"stream":true`).body
	require.Contains(t, stream, `"content_block":{"type":"thinking","thinking":"","signature":""}`)
	require.NotContains(t, stream, "thinking_delta")
	h.message(`[{"role":"user","content":"2+2?"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":""},{"type":"text","text":"Four."}]},{"role":"user","content":"Sure?"}]`, omitted).whole(t)

	for _, kind := range []string{"enabled", "disabled"} {
		r := h.message(sayHi, `"thinking":{"type":"`+kind+`","budget_tokens":1024,"display":"hidden"}`)
		require.Equal(t, 400, r.status)
		require.Contains(t, r.body, `thinking.display is \"hidden\": allowed are summarized and omitted`)
	}
}

func TestMessage_AStopSequenceIsNamed(t *testing.T) {
	f, h := newModel(t, chatml)
	f.does(func(_ context.Context, q *wire.GenerateRequest, out *frames) {
		out.text("Hi")
		out.send(wire.Frame{Type: wire.FrameDone, Done: &wire.Done{Reason: wire.ReasonStop, StopString: q.Stop[1], PromptTokens: 9, CompletionTokens: 2}})
	})
	m := h.bothMessages(sayHi, `"stop_sequences":["a","END"]`)
	require.Equal(t, []string{"stop_sequence", "END"}, []string{*m.StopReason, *m.StopSequence})
}

func TestMessage_ParametersReachTheStation(t *testing.T) {
	f, h := newModel(t, chatml)
	h.message(sayHi, `"temperature":0.5,"top_p":0.25,"top_k":3,"stop_sequences":["x"],"system":[{"type":"text","text":"Be"},{"type":"text","text":"brief"}]`).whole(t)
	q := f.got()[0]
	require.Equal(t, []any{float32(.5), float32(.25), 3, []string{"x"}, 2000}, []any{*q.Sampling.Temperature, *q.Sampling.TopP, *q.Sampling.TopK, q.Stop, q.MaxTokens})
	require.Equal(t, "<|im_start|>system\nBe\n\nbrief<|im_end|>\n<|im_start|>user\nSay hi<|im_end|>\n<|im_start|>assistant\n", text(q.Prompt.Segments))
}

func TestMessage_ALastAssistantMessageIsTheAnswersBeginning(t *testing.T) {
	f, h := newModel(t, chatml)
	h.message(`[{"role":"user","content":"Say hi"},{"role":"assistant","content":"<|im_end|> Hi"}]`).whole(t)
	s := f.got()[0].Prompt.Segments
	require.Equal(t, wire.Segment{Text: "<|im_end|> Hi"}, s[len(s)-1], "a client's text is plain")
	require.True(t, strings.HasSuffix(text(s), "<|im_start|>assistant\n<|im_end|> Hi"))

	f, h = newModel(t, `{% for m in messages %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endfor %}{{ '<|start|>assistant' }}{# <|channel|> #}`)
	r := h.message(`[{"role":"user","content":"Say hi"},{"role":"assistant","content":"Hi"}]`)
	require.Equal(t, 400, r.status, r.body)
	kind, message := r.failure(t)
	require.Equal(t, "invalid_request_error", kind)
	require.Contains(t, message, "messages end with an assistant message", "its text would stand in a header")
	require.Empty(t, f.got())
}

func TestMessage_ToolsAndResultsAreThoseOfTheChat(t *testing.T) {
	f, h := newModel(t, hermesTemplate)
	const call = `{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"city":"Oslo"}}]}`
	h.message(`[{"role":"user","content":"Weather?"},`+call+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"rain"}]},{"type":"text","text":"So?"}]}]`, weatherInput).whole(t)
	h.chat().json(t)
	require.Equal(t, 200, h.do("POST", "/v1/chat/completions", `{"model":"`+model+`","max_tokens":2000,"messages":[{"role":"user","content":"Weather?"},
		{"role":"assistant","content":"I look.","tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]},
		{"role":"tool","tool_call_id":"toolu_1","content":"rain"},{"role":"user","content":"So?"}],
		"tools":[{"type":"function","function":{"name":"get_weather","description":"The weather.","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}]}`).status)
	got := f.got()
	require.Equal(t, got[2], got[0])
}

func TestMessage_ToolChoiceBindsTheAnswer(t *testing.T) {
	f, h := newModel(t, hermesTemplate)
	f.does(writes(oslo, 9, wire.ReasonEOG))
	for choice, bound := range map[string]bool{`{"type":"auto"}`: false, `{"type":"any"}`: true, `{"type":"tool","name":"get_weather"}`: true,
		`{"type":"auto","disable_parallel_tool_use":true}`: true} {
		f.set(func(f *fakeStation) { f.requests = nil })
		h.message(sayHi, weatherInput, `"tool_choice":`+choice).whole(t)
		require.Equal(t, bound, f.got()[0].Sampling.Grammar != "", choice)
	}
	f.does(writes("no", 9, wire.ReasonEOG))
	m := h.message(sayHi, weatherInput, `"tool_choice":{"type":"none"}`).whole(t)
	require.Equal(t, "end_turn", *m.StopReason)
}

func TestMessage_OutputFollowsItsSchema(t *testing.T) {
	f, h := newModel(t, chatml)
	const schema = `{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}}`
	h.message(sayHi, `"output_config":{"format":`+schema+`}`).whole(t)
	h.message(sayHi, `"output_format":`+schema).whole(t)
	got := f.got()
	require.Contains(t, got[0].Sampling.Grammar, "root")
	require.Equal(t, got[0].Sampling.Grammar, got[1].Sampling.Grammar)
	r := h.message(sayHi, `"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"$ref":"http://x"}}}}}`)
	require.Equal(t, 400, r.status)
	require.Contains(t, r.body, "output_config.format.schema.properties.a")
	r = h.message(sayHi, `"tools":[{"name":"f","strict":true,"input_schema":{"type":"object","properties":{"a":{"$ref":"http://x"}}}}]`)
	require.Equal(t, 400, r.status)
	require.Contains(t, r.body, `"message":"tools[0].input_schema.properties.a`)
}

func TestMessage_ReasonsWhereItIsAskedTo(t *testing.T) {
	f, h := newModel(t, thinkingTemplate)
	const off = "<think>\n\n</think>\n\n"
	for fields, closed := range map[string]bool{`"top_k":1`: true, `"thinking":{"type":"disabled"}`: true,
		enabled: false, `"thinking":{"type":"adaptive"}`: false} {
		f.set(func(f *fakeStation) { f.requests = nil })
		h.message(sayHi, fields).whole(t)
		require.Equal(t, closed, strings.HasSuffix(text(f.got()[0].Prompt.Segments), off), fields)
	}
	_, h = newModel(t, chatml)
	r := h.message(sayHi, enabled)
	require.Equal(t, 400, r.status)
	require.Contains(t, r.body, "this model does not reason")
	h.message(sayHi, `"thinking":{"type":"disabled"}`).whole(t)
}

func TestMessage_CacheControlKeepsWithItsTTLAndUsageIsSplit(t *testing.T) {
	f := newStoreStation(t)
	h := startHost(t, f.srv.URL)
	h.await(200)
	h.eventually(func() bool { return h.memory.On() })
	long := strings.Repeat("rules ", 20)
	r := h.message(`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"question?","cache_control":{"type":"ephemeral"}}]}]`,
		`"system":[{"type":"text","text":"`+long+`","cache_control":{"type":"ephemeral","ttl":"1h"}}]`)
	m := r.whole(t)
	require.Equal(t, "liquid", r.header.Get(headerPath))
	_, saves := f.asked()
	require.Equal(t, int64(3600), saves[0].TTLSeconds)
	require.Len(t, saves[0].Points, 2)
	require.Zero(t, m.Usage["cache_read_input_tokens"])
	require.Equal(t, len("<|im_start|>system\n"+long+"<|im_end|>\n<|im_start|>user\naquestion?<|im_end|>\n<|im_start|>assistant\n"),
		m.Usage["input_tokens"]+m.Usage["cache_creation_input_tokens"])
	require.Positive(t, m.Usage["cache_creation_input_tokens"])

	f.mu.Lock()
	f.load = wire.KVLoadResponse{Position: 100, Tiers: wire.KVTiers{Hot: 100}, DiffersAt: -1}
	f.mu.Unlock()
	m = h.message(`[{"role":"user","content":"`+long+`"}]`, `"stream":true`).whole(t)
	require.Equal(t, 100, m.Usage["cache_read_input_tokens"])
}

func TestMessage_CountTokensCountsThePrompt(t *testing.T) {
	f := newStoreStation(t)
	h := openTextHost(t, f)
	r := h.do("POST", "/v1/messages/count_tokens", `{"model":"`+model+`","messages":`+sayHi+`,"system":"Be brief"}`)
	require.Equal(t, 200, r.status, r.body)
	require.JSONEq(t, `{"input_tokens":`+jsonNumber(len("<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\nSay hi<|im_end|>\n<|im_start|>assistant\n"))+`}`, r.body)
	require.Equal(t, 400, h.do("POST", "/v1/messages/count_tokens", `{"model":"`+model+`"}`).status)
}

func jsonNumber(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// failure reads an error in Anthropic's form.
func (r reply) failure(t *testing.T) (kind, message string) {
	t.Helper()
	var e struct {
		Type      string
		Error     struct{ Type, Message string }
		RequestID string `json:"request_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &e), r.body)
	require.Equal(t, "error", e.Type)
	require.Equal(t, r.header.Get("X-Request-Id"), e.RequestID)
	require.Equal(t, e.RequestID, r.header.Get("Request-Id"))
	return e.Error.Type, e.Error.Message
}

func TestMessage_ErrorsHaveTheirForm(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.APIKeys = []string{"k"} })
	kind, _ := h.do("POST", "/v1/messages", "{}").failure(t)
	require.Equal(t, "authentication_error", kind)
	require.Equal(t, 401, h.do("POST", "/v1/messages", "{}", "X-Api-Key", "other").status)
	r := h.message(sayHi, `"stop_sequences":[""]`)
	require.Equal(t, 400, r.status)
	kind, text := r.failure(t)
	require.Equal(t, []string{"invalid_request_error", "stop_sequences has an empty string"}, []string{kind, text})
	require.NotContains(t, h.get("/livez").header, "Request-Id", "it is Anthropic's")
	r = h.do("POST", "/v1/messages", `{"model":"none","max_tokens":1,"messages":`+sayHi+`}`, "X-Api-Key", "k")
	require.Equal(t, 404, r.status)
	kind, _ = r.failure(t)
	require.Equal(t, "not_found_error", kind)
	r = h.do("GET", "/v1/messages", "", "X-Api-Key", "k")
	require.Equal(t, 405, r.status)
	r.failure(t)
	r = h.do("POST", "/v1/messages/none", "{}", "X-Api-Key", "k")
	require.Equal(t, 404, r.status)
	r.failure(t)
	h = newHost(t, f, limited)
	r = h.do("POST", "/v1/messages", "{}", "X-Api-Key", "k-boss")
	require.Equal(t, 403, r.status)
	r.failure(t)
	for range 3 {
		r = h.do("POST", "/v1/messages/count_tokens", "{}", "X-Api-Key", "k-small")
	}
	require.Equal(t, 429, r.status)
	kind, _ = r.failure(t)
	require.Equal(t, "rate_limit_error", kind)

	h = newHost(t, f, func(o *Options) { o.MaxInFlight, o.MaxBacklog = 1, -1 })
	f.does(forever)
	l := h.open(`"max_tokens":1000`)
	t.Cleanup(l.close)
	l.next(t)
	r = h.message(sayHi)
	require.Equal(t, 529, r.status, r.body)
	kind, _ = r.failure(t)
	require.Equal(t, "overloaded_error", kind)
	require.NotEmpty(t, r.header.Get("Retry-After"))
}

func TestMessage_AStreamThatFailsEndsWithAnErrorEvent(t *testing.T) {
	f, h := newModel(t, chatml)
	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.text("Hi")
		out.send(wire.Frame{Type: wire.FrameError, Error: &wire.Error{Code: wire.CodeEngine, Message: "broke"}})
	})
	r := h.message(sayHi, `"stream":true`)
	events := strings.Split(strings.TrimSuffix(r.body, "\n\n"), "\n\n")
	last := events[len(events)-1]
	require.Contains(t, last, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"broke\"}")
	require.NotContains(t, r.body, "message_stop")

	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.refuse(&wire.Error{Code: wire.CodeContextLength, Message: "too long"})
	})
	r = h.message(sayHi, `"stream":true`)
	require.Equal(t, http.StatusBadRequest, r.status)
	kind, _ := r.failure(t)
	require.Equal(t, "invalid_request_error", kind)
}
