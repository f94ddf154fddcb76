package host

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// left waits until the station has nothing to do, and no request a place.
func (h *testHost) left(f *fakeStation) {
	h.t.Helper()
	h.eventually(func() bool {
		inFlight, waiting := h.admission.counts()
		return len(f.got()) > 0 && f.running() == 0 && inFlight+waiting == 0
	})
}

// drain drains the host in the background; the channel closes when that is done.
func (h *testHost) drain() <-chan struct{} {
	drained := make(chan struct{})
	go func() { h.Drain(context.Background()); close(drained) }()
	h.eventually(h.draining.Load)
	return drained
}

func TestDrain_WaitsForWhatIsBeingStored(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), func(o *Options) { o.DrainTimeout = time.Minute })
	slow := &brokenStore{responseStore: h.responses, ends: make(chan struct{})}
	h.responses = slow
	var answer reply
	var asking sync.WaitGroup
	asking.Go(func() { answer = h.ask(`"a"`) })
	h.left(f)
	require.True(t, h.busy(), "its answer is being stored")
	drained := h.drain()
	close(slow.ends)
	<-drained
	asking.Wait()
	made := answer.response(t)
	require.Equal(t, "completed", made.Status)
	require.True(t, made.Store)
	require.Equal(t, 200, h.kept(made.ID).status)
}

// silent asks for a chat, whose answer it leaves to the caller to read.
func (h *testHost) silent() (net.Conn, *bufio.Reader) {
	h.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body()), body())
	require.NoError(h.t, err)
	return conn, bufio.NewReaderSize(conn, 64<<10)
}

// saysMuch makes the station answer with n bytes.
func saysMuch(n int) func(context.Context, *wire.GenerateRequest, *frames) {
	piece := strings.Repeat("word ", 200<<10)
	return func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		for range n / len(piece) {
			out.text(piece)
		}
		out.done(wire.ReasonEOG, n/len(piece))
	}
}

func TestDrain_WaitsForWhoReadsSlowly(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.DrainTimeout = time.Minute })
	f.does(saysMuch(16 << 20))
	_, in := h.silent()
	h.left(f)
	require.True(t, h.busy(), "its answer is not read")
	drained := h.drain()
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	all, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, byte('\n'), all[len(all)-1])
	require.Greater(t, len(all), 15<<20)
	<-drained
}

func TestDrain_DoesNotWaitForWhoSendsSlowly(t *testing.T) {
	h := newHost(t, newFakeStation(t), func(o *Options) { o.DrainTimeout = time.Minute })
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n{")
	require.NoError(t, err)
	h.eventually(func() bool { return h.bodies.held() > 0 })
	<-h.drain()
	require.NoError(t, conn.Close())
}

func TestLife_DrainRefusesNewFinishesOldAndCutsTheRest(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.DrainTimeout = 5 * time.Second })
	gate := make(chan struct{})
	f.does(func(ctx context.Context, q *wire.GenerateRequest, out *frames) {
		out.text("begun")
		select {
		case <-gate:
			hello(ctx, q, out)
		case <-ctx.Done():
		}
	})
	l := h.open()
	l.next(t)
	drained := make(chan struct{})
	go func() { h.Drain(t.Context()); close(drained) }()
	h.await(503)
	require.Equal(t, 200, h.get("/livez").status)
	require.Contains(t, h.get("/health").body, `"status":"draining"`)
	r := h.chat()
	require.Equal(t, 503, r.status)
	require.Equal(t, "draining", r.code(t))
	close(gate)
	<-drained
	rest, err := io.ReadAll(l.lines)
	require.NoError(t, err)
	require.Contains(t, string(rest), "[DONE]")
}

func TestLife_EndOfTheDrainIsAnErrorEvent(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f)
	f.does(forever)
	l := h.open()
	l.next(t)
	hurry, now := context.WithCancel(t.Context())
	now() // a second signal
	h.Drain(hurry)
	rest, err := io.ReadAll(l.lines)
	require.NoError(t, err)
	require.Contains(t, string(rest), `"code":"draining"`)
	require.NotContains(t, string(rest), "[DONE]")
	h.eventually(func() bool { return f.running() == 0 })
}
