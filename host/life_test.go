package host

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// Tests of what happens around a chat: disconnects, overload, a station that
// loads, freezes or dies, the end of the server.

func TestLife_DisconnectReachesTheStationStreamedOrNot(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f)
	f.does(forever)
	l := h.open()
	l.next(t)
	require.Equal(t, 1, f.running())
	l.close()
	h.eventually(func() bool { return f.running() == 0 })

	f.does(silent)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", h.base+"/v1/chat/completions", strings.NewReader(body()))
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { _, err := h.http.Do(req); ended <- err }()
	h.eventually(func() bool { return f.running() == 1 })
	cancel()
	require.Error(t, <-ended)
	h.eventually(func() bool { return f.running() == 0 })
	h.eventually(func() bool { return strings.Contains(h.logs.String(), "client_closed_request") })
	f.does(hello)
	require.Equal(t, 200, h.chat().status)
}

func TestLife_ExcessIs429AndTheAcceptedFinish(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.MaxInFlight, o.MaxBacklog = 2, 3 })
	gate := make(chan struct{})
	f.does(func(ctx context.Context, q *wire.GenerateRequest, out *frames) { <-gate; hello(ctx, q, out) })
	replies := make(chan reply, 5)
	for range 5 {
		go func() { replies <- h.chat() }()
	}
	h.eventually(func() bool { a, b := h.admission.counts(); return a == 2 && b == 3 })
	require.Equal(t, 2, f.running())
	for _, stream := range []string{`"stream":true`, `"stream":false`} {
		r := h.chat(stream)
		require.Equal(t, 429, r.status)
		require.Equal(t, "overloaded", r.code(t))
		require.Equal(t, "2", r.header.Get("Retry-After"))
	}
	for _, path := range []string{"/livez", "/readyz", "/health"} {
		require.Equal(t, 200, h.get(path).status, "busy is not unwell")
	}
	close(gate)
	for range 5 {
		require.Equal(t, 200, (<-replies).status)
	}
	a, b := h.admission.counts()
	require.Zero(t, a+b)
}

func TestLife_OneRequestTakesAQuarterOfThePlacesAtMost(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.MaxInFlight, o.MaxBacklog = 8, -1 })
	gate := make(chan struct{})
	f.does(func(ctx context.Context, q *wire.GenerateRequest, out *frames) { <-gate; hello(ctx, q, out) })
	wide := make(chan reply)
	go func() { wide <- h.completion(`["a","b","c","d","e"]`, `"n":2`) }()
	h.eventually(func() bool { return f.running() == 2 })
	places, _ := h.admission.counts()
	require.Equal(t, 2, places)
	f.does(hello)
	require.Equal(t, 200, h.chat().status, "there is room for others")
	require.Len(t, f.got(), 3)
	close(gate)
	choices := (<-wide).texts(t)
	require.Len(t, choices, 10)
	for _, c := range choices {
		require.Equal(t, "Hello there", c.Text)
	}
}

func TestLife_AnswersOneAtATimeKeepTheirOrder(t *testing.T) {
	f := newStoreStation(t)
	h := startHost(t, f.srv.URL, func(o *Options) { o.LiquidMemory, o.MaxInFlight = false, 1 })
	h.await(200)
	f.does(perPrompt)
	require.Len(t, h.completion(`["a","b","c"]`, `"n":2`).texts(t), 6)
	var order string
	for _, q := range f.got() {
		order += q.Prompt.Segments[0].Text
	}
	require.Equal(t, "aabbcc", order)
	// What goes ahead of an answer takes its turn, too.
	choices := h.bothTexts(`["a","bcd"]`, `"n":2,"echo":true,"logprobs":0`)
	require.Equal(t, "bcdBCD!", choices[3].Text)
}

func TestLife_DisconnectedWhileQueuedIsNeverRun(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.MaxInFlight = 1 })
	gate := make(chan struct{})
	f.does(func(ctx context.Context, q *wire.GenerateRequest, out *frames) {
		out.text("first")
		<-gate
		hello(ctx, q, out)
	})
	active := h.open()
	active.next(t)
	ctx, cancel := context.WithCancel(t.Context())
	var gone sync.WaitGroup
	for range 10 {
		req, err := http.NewRequestWithContext(ctx, "POST", h.base+"/v1/chat/completions", strings.NewReader(body()))
		require.NoError(t, err)
		gone.Go(func() {
			if resp, err := h.http.Do(req); err == nil {
				resp.Body.Close()
			}
		})
	}
	h.eventually(func() bool { _, n := h.admission.counts(); return n == 10 })
	cancel()
	gone.Wait()
	h.eventually(func() bool { _, n := h.admission.counts(); return n == 0 })
	done := make(chan reply, 1)
	go func() { done <- h.chat() }()
	h.eventually(func() bool { _, n := h.admission.counts(); return n == 1 })
	close(gate)
	require.Equal(t, 200, (<-done).status)
	rest, err := io.ReadAll(active.lines)
	require.NoError(t, err)
	require.Contains(t, string(rest), "[DONE]", "the active one is left alone")
	require.Len(t, f.got(), 2)
}

func TestLife_LoadingIs503AndHealsByItself(t *testing.T) {
	f := newFakeStation(t)
	f.health.Status, f.health.LoadProgress = wire.StatusLoading, 0.5
	h := startHost(t, f.srv.URL)
	h.eventually(func() bool { return strings.Contains(h.get("/health").body, `"status":"loading"`) })
	for _, stream := range []string{`"stream":true`, `"stream":false`} {
		r := h.chat(stream)
		require.Equal(t, 503, r.status)
		require.Equal(t, "model_loading", r.code(t))
		require.NotEmpty(t, r.header.Get("Retry-After"))
		require.Contains(t, r.body, "50 %")
	}
	require.Equal(t, 503, h.get("/readyz").status)
	require.Equal(t, 200, h.get("/livez").status)
	require.Equal(t, 400, h.chat(`"temperature":"hot"`).status, "what is wrong is wrong without a model")
	require.JSONEq(t, `{"object":"list","data":[]}`, h.get("/v1/models").body)
	f.set(func(f *fakeStation) { f.health.Status = wire.StatusOK })
	h.await(200)
	require.Equal(t, 200, h.chat().status)
}

func TestLife_FailedModelIsSteady503WithTheReason(t *testing.T) {
	f := newFakeStation(t)
	f.health.Status, f.health.Error = wire.StatusFailed, "model.gguf is truncated"
	h := startHost(t, f.srv.URL)
	h.eventually(func() bool { return strings.Contains(h.get("/readyz").body, "truncated") })
	r := h.chat()
	require.Equal(t, 503, r.status)
	require.Contains(t, r.body, "truncated")
}

func TestLife_BrokenTemplateIsNotReadyAndSaysSo(t *testing.T) {
	f := newFakeStation(t)
	f.model.ChatTemplate = `{% for m in messages %}{{ m.content | frobnicate }}{% endfor %}`
	h := startHost(t, f.srv.URL)
	h.eventually(func() bool { return strings.Contains(h.get("/health").body, `"status":"template_broken"`) })
	require.Equal(t, 503, h.get("/readyz").status)
	r := h.chat()
	require.Equal(t, 503, r.status)
	require.Equal(t, "chat_template_broken", r.code(t))
	require.NotContains(t, r.body, "frobnicate", "no template source for clients")
	require.Contains(t, h.get("/health").body, "frobnicate")
	// A restarted station with another model is another story.
	f.set(func(f *fakeStation) { f.model.ChatTemplate, f.health.Build = chatml, "b2" })
	h.await(200)
}

func TestLife_KilledStationEndsStreamsWithAnEventAndComesBack(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f)
	f.does(forever)
	l := h.open()
	l.next(t)
	whole := make(chan reply, 1)
	go func() { whole <- h.chat() }()
	h.eventually(func() bool { return f.running() == 2 })
	address := f.srv.Listener.Addr().String()
	f.srv.Listener.Close()
	f.srv.CloseClientConnections()
	rest, err := io.ReadAll(l.lines)
	require.NoError(t, err)
	require.Contains(t, string(rest), `data: {"error":{`)
	require.Contains(t, string(rest), "station_unavailable")
	require.NotContains(t, string(rest), "[DONE]")
	r := <-whole
	require.Equal(t, 503, r.status)
	require.Equal(t, "station_unavailable", r.code(t))
	h.await(503)
	r = h.chat()
	require.Equal(t, 503, r.status)
	require.NotEmpty(t, r.header.Get("Retry-After"))

	ln, err := net.Listen("tcp", address)
	require.NoError(t, err)
	back := &httptest.Server{Listener: ln, Config: &http.Server{Handler: http.HandlerFunc(f.serve)}}
	back.Start()
	t.Cleanup(back.Close)
	f.does(hello)
	h.await(200)
	require.Equal(t, 200, h.chat().status)
}

func TestLife_FrozenStationIsNotReadyAndItsRequestsEnd(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.HealthTimeout, o.StallTimeout = 50*time.Millisecond, 150*time.Millisecond })
	f.does(silent)
	whole := make(chan reply, 1)
	go func() { whole <- h.chat() }()
	h.eventually(func() bool { return f.running() == 1 })
	thaw := make(chan struct{})
	f.set(func(f *fakeStation) { f.frozen = thaw })
	h.await(503)
	r := <-whole
	require.Equal(t, 504, r.status)
	require.Equal(t, "station_timeout", r.code(t))
	require.Equal(t, 503, h.chat().status)
	f.set(func(f *fakeStation) { f.frozen, f.script = nil, hello })
	close(thaw)
	h.await(200)
	require.Equal(t, 200, h.chat().status)
}

func TestLife_SilenceBetweenTokensEndsTheStream(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.TokenTimeout = 50 * time.Millisecond })
	f.does(func(ctx context.Context, _ *wire.GenerateRequest, out *frames) { out.text("one"); <-ctx.Done() })
	r := h.chat(`"stream":true`)
	require.Equal(t, 200, r.status)
	data, done := events(t, r.body)
	require.False(t, done)
	require.Equal(t, "station_timeout", data[len(data)-1]["error"].(map[string]any)["code"])
	require.Equal(t, 504, h.chat().status)
	h.eventually(func() bool { return f.running() == 0 })
}

// The last words of a streamed answer do not wait for the end of the station's stream.
func TestLife_LastWordsDoNotWaitForTheStreamsEnd(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f)
	seen, cut := make(chan struct{}), make(chan bool, 1)
	f.does(func(ctx context.Context, q *wire.GenerateRequest, out *frames) {
		hello(ctx, q, out)
		select {
		case <-seen:
			cut <- false
		case <-ctx.Done():
			cut <- true
		}
	})
	stream := h.open()
	for !strings.Contains(stream.next(t), "[DONE]") {
	}
	close(seen)
	require.False(t, <-cut)
}

// A station that hangs behind the last frame of an answer does not keep its place.
func TestLife_AStreamThatDoesNotEndIsCut(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f)
	f.does(func(ctx context.Context, q *wire.GenerateRequest, out *frames) { hello(ctx, q, out); <-ctx.Done() })
	require.Equal(t, 200, h.chat().status)
	r := h.chat(`"stream":true`)
	_, done := events(t, r.body)
	require.True(t, done)
	for _, c := range h.bothTexts(`["a","b"]`) { // by calls in goroutines of their own
		require.Equal(t, "Hello there", c.Text)
	}
	h.eventually(func() bool { return f.running() == 0 && !h.busy() })
}

// One prompt's tokens say nothing of another prompt, which may be long.
func TestLife_APromptBehindAnotherHasThePrefillsTime(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.TokenTimeout = 50 * time.Millisecond })
	f.does(func(ctx context.Context, q *wire.GenerateRequest, out *frames) {
		if q.Prompt.Segments[0].Text == "slow" {
			out.send(wire.Frame{Type: wire.FrameProgress, Progress: &wire.Progress{Queue: 1}})
			select {
			case <-time.After(250 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
		hello(ctx, q, out)
	})
	for _, c := range h.bothTexts(`["fast","slow"]`) {
		require.Equal(t, "Hello there", c.Text)
	}
	f.does(func(ctx context.Context, _ *wire.GenerateRequest, out *frames) { out.text("one"); <-ctx.Done() })
	require.Equal(t, 504, h.completion(`["a","b"]`).status, "all have begun")
}

func TestLife_PingsFillSilenceAlsoWhileQueued(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.MaxInFlight, o.PingInterval = 1, 20*time.Millisecond })
	gate := make(chan struct{})
	f.does(func(ctx context.Context, q *wire.GenerateRequest, out *frames) { <-gate; hello(ctx, q, out) })
	first, second := h.open(), h.open()
	require.Equal(t, ": ping", first.next(t))
	require.Equal(t, ": ping", second.next(t))
	require.Equal(t, 1, f.running())

	cfg := sdk.DefaultConfig("any")
	cfg.BaseURL, cfg.HTTPClient = h.base+"/v1", h.http
	texts := make(chan string, 1)
	go func() {
		var text strings.Builder
		defer func() { texts <- text.String() }()
		s, err := sdk.NewClientWithConfig(cfg).CreateChatCompletionStream(t.Context(), sdk.ChatCompletionRequest{
			Model: model, Messages: []sdk.ChatCompletionMessage{{Role: "user", Content: "hi"}}})
		if err != nil {
			text.WriteString(err.Error())
			return
		}
		defer s.Close()
		for {
			c, err := s.Recv()
			if err != nil {
				return
			}
			text.WriteString(c.Choices[0].Delta.Content)
		}
	}()
	h.eventually(func() bool { _, n := h.admission.counts(); return n == 2 })
	require.Equal(t, ": ping", second.next(t), "while queued")
	close(gate)
	for _, l := range []*live{first, second} {
		rest, err := io.ReadAll(l.lines)
		require.NoError(t, err)
		_, done := events(t, string(rest))
		require.True(t, done)
	}
	require.Equal(t, "Hello there", <-texts, "an SDK skips comments")

	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		time.Sleep(50 * time.Millisecond) // longer than the ping's interval
		out.refuse(&wire.Error{Code: wire.CodeContextLength, Message: "too long"})
	})
	r := h.chat(`"stream":true`)
	require.Equal(t, 200, r.status)
	require.Contains(t, r.body, ": ping\n\n")
	require.Contains(t, r.body, "context_length_exceeded")
}

func TestLife_TokensArriveOneByOne(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f)
	step := make(chan struct{})
	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		for i := range 5 {
			<-step
			out.text(fmt.Sprint("t", i))
		}
		out.done(wire.ReasonEOG, 5)
	})
	// HTTP/1.0 and compression-loving clients too.
	for _, proto := range []string{"HTTP/1.1\r\nConnection: close", "HTTP/1.0", "HTTP/1.1\r\nConnection: close\r\nAccept-Encoding: gzip, br"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
		require.NoError(t, err)
		b := body(`"stream":true`)
		fmt.Fprintf(conn, "POST /v1/chat/completions %s\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", proto, len(b), b)
		rd := bufio.NewReader(conn)
		for i := range 5 {
			step <- struct{}{} // the next token is made only after the last was read
			for {
				line, err := rd.ReadString('\n')
				require.NoError(t, err)
				require.NotContains(t, line, "Content-Encoding")
				if strings.Contains(line, fmt.Sprintf(`"content":"t%d"`, i)) {
					break
				}
			}
		}
		_, err = io.ReadAll(rd)
		require.NoError(t, err)
		conn.Close()
	}
}

func TestLife_AClientThatDoesNotReadIsDropped(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.WriteTimeout = 100 * time.Millisecond })
	big := strings.Repeat("x", 1<<16)
	f.does(func(ctx context.Context, _ *wire.GenerateRequest, out *frames) {
		for ctx.Err() == nil {
			out.text(big)
		}
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	b := body(`"stream":true`)
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
	h.eventually(func() bool { return f.running() == 1 })
	h.eventually(func() bool { a, _ := h.admission.counts(); return f.running() == 0 && a == 0 })
}

func TestLife_NoLookAtTheStationPrecedesARequest(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.HealthInterval = time.Hour })
	looks := func() int { f.mu.Lock(); defer f.mu.Unlock(); return f.looks }
	before := looks()
	for range 5 {
		require.Equal(t, 200, h.chat().status)
		require.Equal(t, 200, h.get("/readyz").status)
	}
	require.Equal(t, before, looks())
}

func TestLife_MixedLoadLeavesNothingBehind(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.MaxInFlight, o.MaxBacklog = 4, 1000 })
	f.does(func(ctx context.Context, q *wire.GenerateRequest, out *frames) {
		for i := 0; i < 20 && ctx.Err() == nil; i++ {
			out.text("x")
		}
		out.done(wire.ReasonLength, 20)
	})
	const clients, each = 8, 40
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := range each {
				switch (c + i) % 8 {
				case 0: // leaves in the middle
					l := h.open(`"n":2`)
					_, _ = l.lines.ReadString('\n')
					l.close()
				case 1:
					if r := h.chat(`"temperature":9`); r.status != 400 {
						t.Errorf("a bad request got %d", r.status)
					}
				case 2, 3:
					if r := h.chat(); r.status != 200 {
						t.Errorf("a chat got %d: %s", r.status, r.body)
					}
				default:
					r := h.chat(`"stream":true`)
					if r.status != 200 || !strings.HasSuffix(r.body, "data: [DONE]\n\n") || strings.Count(r.body, `"content":"x"`) != 20 {
						t.Errorf("a stream got %d: %s", r.status, r.body)
					}
				}
			}
		})
	}
	all.Wait()
	h.eventually(func() bool { a, b := h.admission.counts(); return a+b == 0 && f.running() == 0 })
	require.Equal(t, 200, h.chat().status)
}

// What comes before a chat asks for its place, its body and its prompt, is no
// time in the queue.
func TestLife_TheQueueBeginsWhenAPlaceIsAskedFor(t *testing.T) {
	h := newHost(t, newFakeStation(t))
	rec := &record{id: "r", arrived: time.Now().Add(-time.Hour)}
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body()))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.Server.chat(w, r.WithContext(context.WithValue(r.Context(), recordKey{}, rec)))
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	require.Positive(t, rec.queue)
	require.Less(t, rec.queue, time.Minute)
	require.Greater(t, rec.ttft, time.Hour)
}
