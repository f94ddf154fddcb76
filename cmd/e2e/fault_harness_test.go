//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/client"
	"thoth/station/wire"
)

// Routes whose absence or failure a host must bear.
const (
	saveRoute = wire.RouteKVSession + "/" + wire.VerbSave
	loadRoute = wire.RouteKVSession + "/" + wire.VerbLoad
)

// stationAt starts the station alone on an address, and returns once it serves.
func stationAt(t *testing.T, address string, env ...string) (stop func()) {
	t.Helper()
	s := &server{cmd: exec.Command(binary(stationProgram))}
	s.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "THOTH_MODEL=" + model(), "THOTH_CONTEXT_LENGTH=4096",
		"THOTH_KV_STORE=none", "THOTH_STATION_LISTEN=" + address}, env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Stderr = lockedWriter{&s.mu, &s.err}
	require.NoError(t, s.cmd.Start())
	stop = sync.OnceFunc(func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		_ = s.cmd.Wait()
	})
	t.Cleanup(stop)
	c, err := client.New("http://"+address, client.Options{})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	eventually(t, "the station", func() bool {
		h, err := c.Health(t.Context())
		return err == nil && h.Status == wire.StatusOK
	})
	return stop
}

// oldStation is a station of a few lines, from before /kv-session: its /health
// says nothing of it, and what it has not is 404.
func oldStation(t *testing.T, address string) (stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.RouteHealth, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"status":"ok","wire":1,"build":"old","context_length":4096}`)
	})
	mux.HandleFunc("GET "+wire.RouteModel, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(wire.Model{Name: "old", Digest: "d", KVCut: true, ChatTemplate: chatml})
	})
	mux.HandleFunc("POST "+wire.RouteGenerate, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", wire.ContentTypeStream)
		for _, f := range []wire.Frame{
			{Type: wire.FrameText, Text: "I am old.", Tokens: []int32{1, 2, 3}},
			{Type: wire.FrameDone, Done: &wire.Done{Reason: wire.ReasonEOG, PromptTokens: 9, CompletionTokens: 3}},
		} {
			_ = json.NewEncoder(w).Encode(f)
		}
	})
	srv := &http.Server{Handler: mux}
	go func() { _ = srv.Serve(ln) }()
	stop = sync.OnceFunc(func() { _ = srv.Close() })
	t.Cleanup(stop)
	return stop
}

// middleman stands between a host and a station and spoils what it is told to.
type middleman struct {
	url     string
	station http.Handler

	mu      sync.Mutex
	faults  map[string]http.HandlerFunc // by path
	hanging int
	asked   map[string]int
}

// between starts a host behind a middleman, before a station of its own that is
// asked by single calls: it is as if its /health were from before turns.
func between(t *testing.T) (*server, *middleman) {
	t.Helper()
	return betweenWith(t, func(h *wire.Health) { h.KVTurn = false })
}

// betweenWith is between with a change of what the station says in /health.
func betweenWith(t *testing.T, change func(*wire.Health)) (*server, *middleman) {
	t.Helper()
	address := "127.0.0.1:" + freePort(t)
	stationAt(t, address)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := &middleman{url: "http://" + ln.Addr().String(), faults: map[string]http.HandlerFunc{}, asked: map[string]int{}}
	station := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	station.FlushInterval = -1                    // a frame leaves as it comes
	station.ErrorLog = log.New(io.Discard, "", 0) // of callers that go
	m.station = station
	station.ModifyResponse = func(r *http.Response) error {
		if r.Request.URL.Path != wire.RouteHealth {
			return nil
		}
		var h wire.Health
		if err := json.NewDecoder(r.Body).Decode(&h); err != nil {
			return err
		}
		change(&h)
		b, err := json.Marshal(h)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
		r.Header.Set("Content-Length", strconv.Itoa(len(b)))
		return err
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Read to its end first: a proxy whose station answers before that may cut
		// the answer, and a caller that goes is seen only after it.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		m.mu.Lock()
		m.asked[r.URL.Path]++
		fault := m.faults[r.URL.Path]
		m.mu.Unlock()
		if fault != nil {
			fault(w, r)
			return
		}
		station.ServeHTTP(w, r)
	})}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	s := hostBefore(t, m.url, "THOTH_MODEL_NAME=test-model", "THOTH_HEALTH_INTERVAL=200ms")
	s.serves(t)
	on, _, reason := s.memory(t)
	require.True(t, on, reason)
	return s, m
}

// spoil makes a path answer with f; nil heals it.
func (m *middleman) spoil(path string, f http.HandlerFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults[path] = f
}

func (m *middleman) count(path string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[path]
}

// hang holds a request until its caller gives it up.
func (m *middleman) hang(_ http.ResponseWriter, r *http.Request) {
	add := func(n int) {
		m.mu.Lock()
		m.hanging += n
		m.mu.Unlock()
	}
	add(1)
	defer add(-1)
	<-r.Context().Done()
}

func (m *middleman) hangs() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hanging
}

// ofTurns spoils calls of /generate that restore and save; the native path has the
// same route.
func (m *middleman) ofTurns(f http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var q wire.GenerateRequest
		if json.Unmarshal(body, &q) == nil && q.KV != nil {
			f(w, r)
			return
		}
		m.station.ServeHTTP(w, r)
	}
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_ = json.NewEncoder(w).Encode(wire.ErrorBody{Error: &wire.Error{Code: wire.CodeNoRoute, Message: "not here"}})
}

func broken(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "broken", http.StatusInternalServerError)
}
