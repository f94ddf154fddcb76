package host

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/host/openai"
	"thoth/host/responses"
	"thoth/station/wire"
)

// reader is a client that reads all it is sent, and tells of the first of it.
type reader struct {
	*httptest.ResponseRecorder
	heard chan struct{}
}

func newReader() *reader { return &reader{httptest.NewRecorder(), make(chan struct{})} }

func (c *reader) Write(b []byte) (int, error) {
	if c.Body.Len() == 0 {
		close(c.heard)
	}
	return c.ResponseRecorder.Write(b)
}

func (c *reader) reply() reply { return reply{c.Code, c.Header(), c.Body.String()} }

// kept is what a sink gave to be kept, and what its client knew by then.
type kept struct {
	response responses.Response
	known    string
}

// respond asks for a response, and gives what is kept of it; keep may change it. It
// has nothing of the store around the sinks.
func (h *testHost) respond(ctx context.Context, c *reader, keep func(*responses.Response), fields ...string) (all []kept) {
	h.t.Helper()
	handler := h.observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.serve(w, r, openai.WriteError, func(in *intake) (*job, sink, *openai.Error) {
			req, e := responses.Decode(in.body, in.limits, false)
			require.Nil(h.t, e)
			said, e := responses.Conversation(req.Instructions, nil, req.Input, req.Tools)
			require.Nil(h.t, e)
			said.Generic = in.view.dialect.Generic()
			j, e := h.newChat(r.Context(), in, time.Now(), &task{stream: req.Stream, conversation: said, cache: req.Cache(), tools: req.Tools, choice: req.Choice,
				parallel: req.Parallel(), format: req.Format, choices: 1, generate: req.Generate, param: responses.Param})
			require.Nil(h.t, e)
			resp := responses.New(req, responses.NewID(responses.PrefixResponse), in.view.names[0], j.rec.arrived)
			told := func(r *responses.Response) []byte {
				keep(r)
				all = append(all, kept{*r, c.Body.String()})
				return nil
			}
			if req.Stream {
				return j, newResponseStream(w, j, resp, time.Second, told), nil
			}
			return j, newResponseAnswer(w, j, resp, time.Second, told), nil
		})
	}))
	b := `{"model":"` + model + `"`
	if !strings.Contains(strings.Join(fields, ""), `"input":`) {
		b += `,"input":"Say hi"`
	}
	for _, f := range fields {
		b += "," + f
	}
	handler.ServeHTTP(c, httptest.NewRequestWithContext(ctx, "POST", "/v1/responses", strings.NewReader(b+"}")))
	return all
}

func nothing(*responses.Response) {}

// response asks for one that nobody keeps.
func (h *testHost) response(fields ...string) reply {
	h.t.Helper()
	c := newReader()
	h.respond(h.t.Context(), c, nothing, fields...)
	return c.reply()
}

// last is the response of a stream's last event, and the event's name.
func (r reply) last(t *testing.T) (string, responses.Response) {
	t.Helper()
	blocks := strings.Split(strings.TrimSuffix(r.body, "\n\n"), "\n\n")
	name, data, ok := strings.Cut(blocks[len(blocks)-1], "\ndata: ")
	require.True(t, ok, r.body)
	var e struct{ Response responses.Response }
	require.NoError(t, json.Unmarshal([]byte(data), &e))
	return strings.TrimPrefix(name, "event: "), e.Response
}

var (
	itemID = regexp.MustCompile(`(resp|rs|fc|msg)_\w{26}`)
	times  = regexp.MustCompile(`"(created_at|completed_at)":\d+`)
)

func TestGolden_BytesOfResponses(t *testing.T) {
	const weather = `"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]`
	for name, c := range map[string]struct {
		template, fields string
		does             script
	}{
		"text":        {chatml, `"instructions":"Be brief."`, writes("Hi 😀!", 3, wire.ReasonEOG)},
		"empty":       {chatml, `"user":"u"`, writes("", 3, wire.ReasonStop)},
		"cut":         {chatml, `"max_output_tokens":2`, writes("Hi", 2, wire.ReasonLength)},
		"logprobs":    {chatml, `"include":["message.output_text.logprobs"]`, writes("Hi!", 2, wire.ReasonEOG)},
		"reasoning":   {thinkingTemplate, `"reasoning":{"summary":"auto"}`, writes("<think>\nTwo.\n</think>\n\nFour.", 4, wire.ReasonEOG)},
		"thought-cut": {thinkingTemplate, `"user":"u"`, writes("<think>\nTwo", 4, wire.ReasonLength)},
		"calls":       {hermesTemplate, weather, writes("Both.\n"+oslo+"\n"+paris, 9, wire.ReasonEOG)},
		"json":        {chatml, `"text":{"format":{"type":"json_object"}}`, writes(`{"a": "\"b"}`, 4, wire.ReasonEOG)},
	} {
		t.Run(name, func(t *testing.T) {
			f, h := newModel(t, c.template)
			f.does(c.does)
			clean := func(raw string) string {
				return times.ReplaceAllString(itemID.ReplaceAllString(raw, "${1}_ID"), `"$1":1`)
			}
			whole, streamed := h.response(c.fields), h.response(c.fields, `"stream":true`)
			golden(t, "response-"+name+".json", clean(whole.body))
			golden(t, "response-"+name+".sse", clean(streamed.body))
			_, last, _ := strings.Cut(streamed.body[strings.LastIndex(streamed.body, "\ndata: "):], `"response":`)
			require.Equal(t, steady(clean(whole.body)), steady(clean(strings.TrimSuffix(last, "}\n\n")))+"\n", "streamed or not, it is one response")
		})
	}
}

func TestResponse_IsKeptBeforeItsClientHearsOfTheEnd(t *testing.T) {
	f, h := newModel(t, chatml)
	f.does(writes("Hi", 1, wire.ReasonEOG))
	notStored := func(r *responses.Response) { r.Store = false }

	c := newReader()
	all := h.respond(t.Context(), c, notStored)
	require.Len(t, all, 1)
	require.Equal(t, responses.StatusCompleted, all[0].response.Status)
	require.NotNil(t, all[0].response.Usage)
	require.Empty(t, all[0].known)
	var got responses.Response
	require.NoError(t, json.Unmarshal(c.Body.Bytes(), &got))
	require.False(t, got.Store, "what keeping it says is told")
	require.Equal(t, "native", c.Header().Get(headerPath))

	c = newReader()
	all = h.respond(t.Context(), c, notStored, `"stream":true`)
	require.Len(t, all, 1)
	require.Equal(t, responses.StatusCompleted, all[0].response.Status)
	require.Contains(t, all[0].known, "response.output_item.done")
	require.NotContains(t, all[0].known, "response.completed")
	name, last := c.reply().last(t)
	require.Equal(t, "response.completed", name)
	require.False(t, last.Store)
}

// tooLong refuses a prompt once the client has heard something, or at once.
func tooLong(heard <-chan struct{}) script {
	return func(ctx context.Context, _ *wire.GenerateRequest, out *frames) {
		if heard != nil {
			select {
			case <-heard:
			case <-ctx.Done():
			}
		}
		out.refuse(&wire.Error{Code: wire.CodeContextLength, Message: "too long"})
	}
}

func TestResponse_AnErrorInPlaceOfItIsNotKept(t *testing.T) {
	f, h := newModel(t, chatml)
	f.does(tooLong(nil))
	for _, stream := range []string{"false", "true"} {
		c := newReader()
		require.Empty(t, h.respond(t.Context(), c, nothing, `"stream":`+stream))
		require.Equal(t, 400, c.Code)
		require.Equal(t, "context_length_exceeded", c.reply().code(t))
		require.Equal(t, "input", param(t, c.reply()))
	}
}

func TestResponse_AnErrorBehindCommentsIsAnEvent(t *testing.T) {
	f, h := newModel(t, chatml, func(o *Options) { o.PingInterval = time.Millisecond })
	c := newReader()
	f.does(tooLong(c.heard))
	require.Empty(t, h.respond(t.Context(), c, nothing, `"stream":true`))
	require.Equal(t, "event: error\ndata: "+`{"type":"error","sequence_number":0,"code":"context_length_exceeded","message":"too long","param":"input"}`+"\n\n",
		strings.ReplaceAll(c.Body.String(), ": ping\n\n", ""))
}

func TestResponse_AStreamThatFailsSaysWhy(t *testing.T) {
	f, h := newModel(t, chatml)
	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.text("Hi")
		out.send(wire.Frame{Type: wire.FrameError, Error: &wire.Error{Code: wire.CodeEngine, Message: "broke"}})
	})
	c := newReader()
	all := h.respond(t.Context(), c, nothing, `"stream":true`)
	require.Len(t, all, 1)
	require.Equal(t, responses.StatusFailed, all[0].response.Status)
	require.NotContains(t, all[0].known, "response.failed")
	name, last := c.reply().last(t)
	require.Equal(t, "response.failed", name)
	require.Equal(t, &responses.Failure{Code: "server_error", Message: "broke"}, last.Error)
	require.Equal(t, "Hi", last.Output[0].Content[0].Text)
	require.Equal(t, responses.StatusIncomplete, last.Output[0].Status)
}

func TestResponse_OneWhoseClientGoesIsCancelled(t *testing.T) {
	f, h := newModel(t, chatml)
	c := newReader()
	ctx, leave := context.WithCancel(t.Context())
	f.does(func(ctx context.Context, _ *wire.GenerateRequest, out *frames) {
		out.text("tok")
		<-c.heard
		leave()
		<-ctx.Done()
	})
	all := h.respond(ctx, c, nothing, `"stream":true`)
	require.Len(t, all, 1)
	require.Equal(t, responses.StatusCancelled, all[0].response.Status)
	require.Nil(t, all[0].response.Error)
	require.Equal(t, "tok", all[0].response.Output[0].Content[0].Text)
}

func TestResponse_OneOfTheBackgroundBeginsAtOnceAndIsKeptHoweverItEnds(t *testing.T) {
	f, h := newModel(t, chatml)
	const background = `"background":true`
	c := newReader()
	f.does(func(ctx context.Context, q *wire.GenerateRequest, out *frames) {
		<-c.heard // before there is a token
		hello(ctx, q, out)
	})
	require.Len(t, h.respond(t.Context(), c, nothing, background, `"stream":true`), 1)
	var names []string
	for _, block := range strings.Split(c.Body.String(), "\n\n")[:3] {
		name, _, _ := strings.Cut(block, "\n")
		names = append(names, name)
	}
	require.Equal(t, []string{"event: response.created", "event: response.queued", "event: response.in_progress"}, names)

	f.does(tooLong(nil))
	for _, fields := range []string{`"stream":false`, `"stream":true`} {
		c := newReader()
		all := h.respond(t.Context(), c, nothing, background, fields)
		require.Len(t, all, 1)
		require.Equal(t, &responses.Failure{Code: "invalid_prompt", Message: "too long"}, all[0].response.Error)
	}
}

func TestResponse_TheNextTurnBeginsWithWhatWasWritten(t *testing.T) {
	const tools = `"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]`
	user := map[string]any{"role": "user", "content": "Oslo & <Paris>?"}
	for name, c := range map[string]struct {
		template, fields, answer string
	}{
		"text":   {chatml, `"temperature":0`, "Hi 😀, \"you\" <there>\n & all"},
		"empty":  {chatml, `"temperature":0`, ""},
		"calls":  {hermesTemplate, tools, "Both.\n" + oslo + "\n" + paris},
		"schema": {chatml, `"text":{"format":{"type":"json_object"}}`, `{"a": [1, "\u00e5 & <b>"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			f, h := newModel(t, c.template)
			f.does(writes(c.answer, 3, wire.ReasonEOG))
			ask := func(items []any) responses.Response {
				input, err := json.Marshal(items)
				require.NoError(t, err)
				r := h.response(c.fields, `"instructions":"Be brief."`, `"input":`+string(input))
				require.Equal(t, 200, r.status, r.body)
				var got responses.Response
				require.NoError(t, json.Unmarshal([]byte(r.body), &got))
				return got
			}
			said := []any{user}
			for _, item := range ask(said).Output {
				said = append(said, item)
			}
			written := text(f.last().Prompt.Segments) + c.answer + "<|im_end|>\n"
			for _, item := range said {
				if call, ok := item.(responses.Item); ok && call.Type == responses.TypeCall {
					said = append(said, map[string]any{"type": "function_call_output", "call_id": call.CallID, "output": "rain"})
				}
			}
			ask(append(said, user))
			require.True(t, strings.HasPrefix(text(f.last().Prompt.Segments), written), "%q\n%q", written, text(f.last().Prompt.Segments))
		})
	}
}
