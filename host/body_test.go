package host

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

func TestHold_GrowsWithTheBytesAndNotWithTheLength(t *testing.T) {
	b := &bodyBudget{most: 1 << 20}
	for _, n := range []int{0, 1, bodyFirst, bodyFirst + 1, 100_000, 1 << 20} {
		text := strings.Repeat("x", n)
		h := &hold{budget: b}
		got, err := h.read(iotest.OneByteReader(strings.NewReader(text)), 1<<20)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		require.LessOrEqual(t, h.bytes, int64(max(2*n, bodyFirst)))
		require.GreaterOrEqual(t, h.bytes, int64(n))
		require.Equal(t, h.bytes, b.held())
		h.release()
		h.release()
		require.Zero(t, b.held())
	}
	h := &hold{budget: &bodyBudget{most: 1<<20 - 1}}
	_, err := h.read(strings.NewReader(strings.Repeat("x", 1<<20)), 1<<20)
	require.ErrorIs(t, err, errBodyMemory)
	_, err = (&hold{budget: b}).read(iotest.ErrReader(io.ErrUnexpectedEOF), 1<<20)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// post writes the head of a chat whose body is still to come, and its first bytes.
func (h *testHost) post(length int, start string) net.Conn {
	h.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
	require.NoError(h.t, err)
	h.t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", length, start)
	return conn
}

func padded(n int) string {
	return body(`"user":"` + strings.Repeat("x", n-len(body(`"user":""`))) + `"`)
}

func TestBody_AnAnnouncedLengthHoldsNothing(t *testing.T) {
	h := newHost(t, newFakeStation(t))
	var conns []net.Conn
	for range 50 {
		conns = append(conns, h.post(8<<20, `{"model":`))
	}
	h.eventually(func() bool { return h.bodies.held() == 50*bodyFirst })
	for _, c := range conns {
		c.Close()
	}
	h.eventually(func() bool { return h.bodies.held() == 0 })
}

func TestBody_BeyondTheMemoryIs429AndTheAcceptedFinish(t *testing.T) {
	const limit = 64 << 10
	h := newHost(t, newFakeStation(t), func(o *Options) { o.BodyLimit, o.MaxBodyMemory = limit, limit })
	whole := padded(60_000)
	conn := h.post(len(whole), whole[:40_000])
	h.eventually(func() bool { return h.bodies.held() == 60_000 })

	r := h.do("POST", "/v1/chat/completions", padded(20_000))
	require.Equal(t, 429, r.status)
	require.Equal(t, "overloaded", r.code(t))
	require.NotEmpty(t, r.header.Get("Retry-After"))
	require.Equal(t, int64(60_000), h.bodies.held(), "the refused one holds nothing")
	for _, path := range []string{"/livez", "/readyz", "/health", "/metrics", "/v1/models"} {
		require.Equal(t, 200, h.get(path).status)
	}
	require.Equal(t, 200, h.chat().status, "a small one still fits")

	_, err := io.WriteString(conn, whole[40_000:])
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Zero(t, h.bodies.held())
	require.Equal(t, 200, h.do("POST", "/v1/chat/completions", padded(limit)).status, "the largest fits when it is alone")
}

func TestBody_CountsUntilItsRequestHasAPlace(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.MaxInFlight = 1 })
	gate := make(chan struct{})
	f.does(func(ctx context.Context, q *wire.GenerateRequest, out *frames) { <-gate; hello(ctx, q, out) })
	replies := make(chan reply, 2)
	send := func(n int) { replies <- h.do("POST", "/v1/chat/completions", padded(n)) }
	go send(1000)
	h.eventually(func() bool { return f.running() == 1 })
	require.Zero(t, h.bodies.held())
	go send(2000)
	h.eventually(func() bool { _, n := h.admission.counts(); return n == 1 })
	require.Equal(t, int64(2000), h.bodies.held())
	require.Equal(t, 400, h.chat(`"n":0`).status)
	require.Equal(t, int64(2000), h.bodies.held(), "the refused one holds nothing")
	close(gate)
	require.Equal(t, 200, (<-replies).status)
	require.Equal(t, 200, (<-replies).status)
	require.Zero(t, h.bodies.held())
}
