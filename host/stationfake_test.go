package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"thoth/station/client"
	"thoth/station/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const chatml = `{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// fakeStation is a station of one script. Its zero script answers "Hello" and
// " there".
type fakeStation struct {
	t   *testing.T
	srv *httptest.Server

	mu       sync.Mutex
	health   wire.Health
	model    wire.Model
	script   script
	requests []wire.GenerateRequest
	looks    int
	frozen   chan struct{} // when set, nothing is answered until it closes
	active   int
}

// script answers one /generate.
type script func(ctx context.Context, q *wire.GenerateRequest, out *frames)

// frames writes a stream.
type frames struct{ w http.ResponseWriter }

func (f *frames) send(v wire.Frame) {
	f.w.Header().Set("Content-Type", wire.ContentTypeStream)
	b, _ := json.Marshal(v)
	_, _ = f.w.Write(append(b, '\n'))
	_ = http.NewResponseController(f.w).Flush()
}

func (f *frames) text(pieces ...string) {
	for i, p := range pieces {
		f.send(wire.Frame{Type: wire.FrameText, Text: p, Tokens: []int32{int32(i)}})
	}
}

func (f *frames) done(reason wire.Reason, tokens int) {
	f.send(wire.Frame{Type: wire.FrameDone, Done: &wire.Done{Reason: reason, PromptTokens: 9, CompletionTokens: tokens,
		Timings: wire.Timings{QueueMS: 1, PrefillMS: 2, TTFTMS: 3, DecodeMS: 4, TokensPerSecond: 100}}})
}

func (f *frames) refuse(e *wire.Error) {
	f.w.WriteHeader(e.Status())
	_ = json.NewEncoder(f.w).Encode(wire.ErrorBody{Error: e})
}

func hello(_ context.Context, _ *wire.GenerateRequest, out *frames) {
	out.text("Hello", " there")
	out.done(wire.ReasonEOG, 2)
}

// forever sends tokens until its caller goes.
func forever(ctx context.Context, _ *wire.GenerateRequest, out *frames) {
	for ctx.Err() == nil {
		out.text("tok ")
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// silent accepts and never says anything.
func silent(ctx context.Context, _ *wire.GenerateRequest, _ *frames) { <-ctx.Done() }

func newFakeStation(t *testing.T) *fakeStation {
	no := false
	f := &fakeStation{t: t, script: hello,
		health: wire.Health{Status: wire.StatusOK, Wire: wire.Version, Build: "b1", EngineABI: "abi", ContextLength: 8192, KVSession: &no, Embeddings: &wire.Embeddings{Pooling: "mean", Dimensions: 4, MaxTokens: 512, MaxInputs: 2048}, Rerank: &wire.Rerank{Scores: true, MaxTokens: 512, MaxDocuments: 2048}, Backend: wire.Backend{Selected: "cpu"}},
		model: wire.Model{Name: "Fake Model 1B", File: "fake.gguf", Digest: "d", Architecture: "llama", Vocabulary: 1000, ChatTemplate: chatml,
			Special: wire.SpecialTokens{BOSText: "<s>", EOSText: "<|im_end|>"}}}
	f.srv = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.srv.Close)
	return f
}

func (f *fakeStation) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	frozen, health, model, run := f.frozen, f.health, f.model, f.script
	f.mu.Unlock()
	if frozen != nil {
		_, _ = io.Copy(io.Discard, r.Body) // or the caller's end goes unnoticed
		select {
		case <-frozen:
		case <-r.Context().Done():
			return
		}
	}
	switch r.URL.Path {
	case wire.RouteHealth:
		f.mu.Lock()
		f.looks++
		f.mu.Unlock()
		_ = json.NewEncoder(w).Encode(health)
	case wire.RouteModel:
		_ = json.NewEncoder(w).Encode(model)
	case wire.RouteStats:
		_ = json.NewEncoder(w).Encode(wire.Stats{Status: health.Status, Steps: 7})
	case wire.RouteGenerate:
		var q wire.GenerateRequest
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return // the host went away over it
		}
		if err := json.Unmarshal(b, &q); err != nil {
			f.t.Errorf("the host sent a body that does not decode: %v", err)
		}
		f.mu.Lock()
		f.requests = append(f.requests, q)
		f.active++
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			f.active--
			f.mu.Unlock()
		}()
		run(r.Context(), &q, &frames{w})
	default:
		(&frames{w}).refuse(&wire.Error{Code: wire.CodeNoRoute, Message: "no route"})
	}
}

func (f *fakeStation) set(change func(*fakeStation)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeStation) does(s script) { f.set(func(f *fakeStation) { f.script = s }) }

func (f *fakeStation) running() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.active
}

func (f *fakeStation) got() []wire.GenerateRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]wire.GenerateRequest(nil), f.requests...)
}

// testHost is a host on a real port.
type testHost struct {
	*Server
	t    *testing.T
	base string
	http *http.Client
	logs *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// newHost starts a host in front of f and waits until it is ready, unless f is
// loading or otherwise unable.
func newHost(t *testing.T, f *fakeStation, change ...func(*Options)) *testHost {
	h := startHost(t, f.srv.URL, change...)
	h.await(http.StatusOK)
	return h
}

func startHost(t *testing.T, station string, change ...func(*Options)) *testHost {
	c, err := client.New(station, client.Options{})
	require.NoError(t, err)
	logs := new(syncBuffer)
	o := Options{Station: c, Log: zerolog.New(logs), Build: "test", HealthInterval: 20 * time.Millisecond, LiquidMemory: true}
	for _, f := range change {
		f(&o)
	}
	s, err := New(o)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.Start()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	tr := &http.Transport{MaxIdleConnsPerHost: 100}
	h := &testHost{Server: s, t: t, base: "http://" + ln.Addr().String(), http: &http.Client{Transport: tr}, logs: logs}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = s.Close()
		require.NoError(t, <-served)
	})
	return h
}

// await polls readiness.
func (h *testHost) await(status int) {
	h.t.Helper()
	h.eventually(func() bool {
		resp := h.get("/readyz")
		return resp.status == status
	})
}

func (h *testHost) eventually(ok func() bool) {
	h.t.Helper()
	require.Eventually(h.t, ok, 10*time.Second, 5*time.Millisecond)
}

type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) json(t *testing.T) map[string]any {
	t.Helper()
	require.Contains(t, r.header.Get("Content-Type"), "application/json", r.body)
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.body), &m), r.body)
	return m
}

// code checks the envelope and gives its code.
func (r reply) code(t *testing.T) string {
	t.Helper()
	e, ok := r.json(t)["error"].(map[string]any)
	require.True(t, ok, r.body)
	require.NotEmpty(t, e["message"])
	require.NotEmpty(t, e["type"])
	require.Contains(t, e, "param")
	return e["code"].(string)
}

func (h *testHost) do(method, path, body string, header ...string) reply {
	h.t.Helper()
	req, err := http.NewRequest(method, h.base+path, strings.NewReader(body))
	require.NoError(h.t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := h.http.Do(req)
	require.NoError(h.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(h.t, err)
	return reply{resp.StatusCode, resp.Header, string(b)}
}

func (h *testHost) get(path string, header ...string) reply { return h.do("GET", path, "", header...) }

const model = "Fake-Model-1B"

// body is P of the cases with more fields.
func body(fields ...string) string {
	b := `{"model":"` + model + `","messages":[{"role":"user","content":"Say hi"}]`
	for _, f := range fields {
		b += "," + f
	}
	return b + "}"
}

func (h *testHost) chat(fields ...string) reply {
	h.t.Helper()
	return h.do("POST", "/v1/chat/completions", body(fields...), "Content-Type", "application/json")
}

// events checks the framing of a stream and gives its data, comments apart.
func events(t *testing.T, raw string) (data []map[string]any, done bool) {
	t.Helper()
	require.True(t, strings.HasSuffix(raw, "\n\n"), "the last event is terminated")
	for _, block := range strings.Split(strings.TrimSuffix(raw, "\n\n"), "\n\n") {
		if strings.HasPrefix(block, ":") {
			continue
		}
		text, ok := strings.CutPrefix(block, "data: ")
		require.True(t, ok, "%q", block)
		require.False(t, done, "nothing follows [DONE]")
		if text == "[DONE]" {
			done = true
			continue
		}
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &m), text)
		data = append(data, m)
	}
	return data, done
}

// live is a stream that is read while it runs.
type live struct {
	resp   *http.Response
	lines  *bufio.Reader
	cancel context.CancelFunc
}

func (h *testHost) open(fields ...string) *live {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "POST", h.base+"/v1/chat/completions", strings.NewReader(body(append(fields, `"stream":true`)...)))
	require.NoError(h.t, err)
	resp, err := h.http.Do(req)
	require.NoError(h.t, err)
	l := &live{resp, bufio.NewReader(resp.Body), cancel}
	h.t.Cleanup(l.close)
	return l
}

func (l *live) close() {
	l.cancel()
	_ = l.resp.Body.Close()
}

// next reads one event's text, comments included.
func (l *live) next(t *testing.T) string {
	t.Helper()
	line, err := l.lines.ReadString('\n')
	require.NoError(t, err)
	_, err = l.lines.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSuffix(line, "\n")
}
