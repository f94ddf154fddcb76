package liquid

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/client"
	"thoth/station/engine"
	"thoth/station/kvstore"
	"thoth/station/stationtest"
	"thoth/station/wire"
)

// rig is a manager in front of a real station on the fake engine, with a place
// between them where calls can be made to fail.
type rig struct {
	*Manager
	t      *testing.T
	client *client.Client
	eng    *stationtest.Engine
	logs   *buffer
	turns  bool // the station says that it can do a request in one call

	mu     sync.Mutex
	faults map[string]fault
	calls  []call
}

// fault takes a call instead of the station, or gives it to next.
type fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

type call struct {
	path, session, prefix string
	body                  []byte
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newRig has a station that is asked by single calls.
func newRig(t *testing.T, eo stationtest.Options, change ...func(*Options)) *rig {
	t.Helper()
	return newRigOf(t, eo, station.Options{}, false, change...)
}

// newTurnRig has a station that does a request in one call.
func newTurnRig(t *testing.T, eo stationtest.Options, change ...func(*Options)) *rig {
	t.Helper()
	return newRigOf(t, eo, station.Options{}, true, change...)
}

// eachWay runs a test of what is the same for both.
func eachWay(t *testing.T, f func(t *testing.T, newRig func(*testing.T, stationtest.Options, ...func(*Options)) *rig)) {
	t.Run("calls", func(t *testing.T) { f(t, newRig) })
	t.Run("turn", func(t *testing.T) { f(t, newTurnRig) })
}

func newRigOf(t *testing.T, eo stationtest.Options, so station.Options, turns bool, change ...func(*Options)) *rig {
	t.Helper()
	g := &rig{t: t, eng: stationtest.NewEngine(eo), logs: new(buffer), turns: turns, faults: map[string]fault{}}
	if !turns {
		g.faults[wire.RouteHealth] = edit(func(h *wire.Health) { h.KVTurn = false })
	}
	so.Build, so.KV, so.Logger = "test", kvstore.Options{WarmBytes: 64 << 20}, zerolog.Nop()
	st := station.New(so)
	loaded := make(chan struct{})
	st.Start(g.eng.Load, func(engine.Info) { close(loaded) })
	<-loaded
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, st.Handler()) }))
	var err error
	g.client, err = client.New(srv.URL, client.Options{Owner: "test"})
	require.NoError(t, err)
	o := Options{Enabled: true, Station: g.client, Log: zerolog.New(g.logs)}
	for _, f := range change {
		f(&o)
	}
	g.Manager, err = New(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		g.Manager.Close()
		g.client.Close()
		srv.CloseClientConnections()
		srv.Close()
		st.Close()
		g.eng.Check(t)
	})
	g.look(true)
	require.True(t, g.On(), g.State().Reason)
	require.Equal(t, turns, g.State().StationKVTurn)
	return g
}

func (g *rig) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	g.mu.Lock()
	g.calls = append(g.calls, call{r.URL.Path, r.Header.Get(wire.HeaderSessionID), r.Header.Get(wire.HeaderPrefixLength), body})
	f := g.faults[r.URL.Path]
	g.mu.Unlock()
	if f != nil {
		f(w, r, next)
		return
	}
	next.ServeHTTP(w, r)
}

func (g *rig) fault(path string, f fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f == nil {
		delete(g.faults, path)
		return
	}
	g.faults[path] = f
}

// took gives the calls of a path so far, and forgets all.
func (g *rig) took(path string) (calls []call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.calls {
		if c.path == path {
			calls = append(calls, c)
		}
	}
	g.calls = nil
	return calls
}

func (g *rig) look(fresh bool) {
	g.t.Helper()
	h, err := g.client.Health(g.t.Context())
	require.NoError(g.t, err)
	m, err := g.client.Model(g.t.Context())
	require.NoError(g.t, err)
	require.NoError(g.t, g.Look(g.t.Context(), Look{Health: h, Model: m, Fresh: fresh, Render: chatml}))
}

// chatml renders messages without any care for what they hold.
func chatml(messages json.RawMessage) ([]wire.Segment, error) {
	var all []struct{ Role, Content string }
	if err := json.Unmarshal(messages, &all); err != nil {
		return nil, err
	}
	var out []wire.Segment
	for _, m := range all {
		out = append(out, wire.Segment{Text: "<|im_start|>", Special: true}, wire.Segment{Text: m.Role + "\n" + m.Content}, wire.Segment{Text: "<|im_end|>", Special: true}, wire.Segment{Text: "\n"})
	}
	return append(out, wire.Segment{Text: "<|im_start|>", Special: true}, wire.Segment{Text: "assistant\n"}), nil
}

func (g *rig) eventually(ok func() bool) {
	g.t.Helper()
	require.Eventually(g.t, ok, 10*time.Second, 2*time.Millisecond)
}

// noSessions waits until the station has none, nor cells of one that ended and is
// still found: nothing was left behind.
func (g *rig) noSessions() {
	g.t.Helper()
	g.eventually(func() bool {
		s, err := g.client.Stats(context.Background())
		return err == nil && s.Sessions == 0 && s.Running == 0 && s.Waiting == 0 && s.CellsUsed == 0
	})
}

func status(code int) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(code) }
}

// hang answers nothing until the caller goes.
func hang(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }

// edit changes the station's answer.
func edit[T any](change func(*T)) fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		v := new(T)
		if err := json.Unmarshal(rec.Body.Bytes(), v); err != nil {
			panic(err)
		}
		change(v)
		for k := range rec.Header() {
			w.Header().Set(k, rec.Header().Get(k))
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(rec.Code)
		_ = json.NewEncoder(w).Encode(v)
	}
}

// ask is a greedy request of a prompt.
func ask(text string, n int) *Request {
	cold := float32(0)
	return &Request{Generate: &wire.GenerateRequest{Prompt: wire.Prompt{Segments: []wire.Segment{{Text: "<|im_start|>", Special: true}, {Text: text}}},
		Sampling: wire.Sampling{Temperature: &cold}, MaxTokens: n, IgnoreEOG: true}}
}

// long is a text of about n tokens that begins with head.
func long(head string, n int) string {
	return head + strings.Repeat(" the river and the world of hello", n/7+1)
}

type reply struct {
	text    string
	tokens  []int32
	done    *wire.Done
	outcome *Outcome
	first   *Outcome // at the first token
}

func (g *rig) open(ctx context.Context, q *Request) (r reply, err error) {
	s, err := g.Open(ctx, q)
	if err != nil {
		return r, err
	}
	defer s.Close()
	for {
		f, err := s.Next()
		if err == io.EOF {
			return r, nil
		}
		if err != nil {
			return r, err
		}
		r.outcome = s.Outcome()
		if f.Type == wire.FrameText && r.first == nil {
			r.first = s.Outcome()
		}
		r.text += f.Text
		r.tokens = append(r.tokens, f.Tokens...)
		if f.Done != nil {
			r.done = f.Done
		}
	}
}

func (g *rig) run(q *Request) reply {
	g.t.Helper()
	r, err := g.open(g.t.Context(), q)
	require.NoError(g.t, err)
	require.NotNil(g.t, r.done)
	return r
}

// fresh is what /generate alone says.
func (g *rig) fresh(q *Request) reply {
	g.t.Helper()
	b := *q
	b.Bypass = true
	r := g.run(&b)
	require.Equal(g.t, &Outcome{Memory: Bypass, Path: Native, Reason: ReasonBypass, DiffersAt: -1}, r.outcome)
	return r
}

func (g *rig) same(want, got reply) {
	g.t.Helper()
	require.Equal(g.t, want.tokens, got.tokens)
	require.Equal(g.t, want.text, got.text)
	require.Equal(g.t, want.done.PromptTokens, got.done.PromptTokens)
	require.Equal(g.t, want.done.CompletionTokens, got.done.CompletionTokens)
	require.Equal(g.t, want.done.Reason, got.done.Reason)
}

// distrusts asks once more for what is stored, with a fault that makes the station
// contradict itself: the prompt is computed natively.
func (g *rig) distrusts(path string, f fault) {
	g.t.Helper()
	q := ask(long("A", 200), 8)
	want := g.fresh(q)
	g.same(want, g.run(q))
	g.fault(path, f)
	r := g.run(q)
	g.same(want, r)
	require.Equal(g.t, &Outcome{Memory: Miss, Path: Native, Reason: ReasonPosition, DiffersAt: -1}, r.outcome)
	require.EqualValues(g.t, 1, g.Report(g.t.Context()).Mismatches)
	require.Contains(g.t, g.logs.String(), `"level":"error"`)
	g.noSessions()
}
