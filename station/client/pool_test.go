package client

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pooled is a pool in front of a server that counts its connections.
type pooled struct {
	*pool
	t    *testing.T
	srv  *httptest.Server
	made atomic.Int32
}

func newPooled(t *testing.T, h http.HandlerFunc) *pooled {
	p := &pooled{t: t, srv: httptest.NewUnstartedServer(h)}
	p.srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			p.made.Add(1)
		}
	}
	p.srv.Start()
	p.pool = &pool{most: 2, keep: time.Hour, dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", p.srv.Listener.Addr().String())
	}}
	t.Cleanup(func() {
		p.CloseIdleConnections()
		p.srv.Close()
	})
	return p
}

func (p *pooled) post(ctx context.Context, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.srv.URL, strings.NewReader(body))
	require.NoError(p.t, err)
	return p.RoundTrip(req)
}

// whole sends a request and reads its whole answer.
func (p *pooled) whole(ctx context.Context) string {
	p.t.Helper()
	resp, err := p.post(ctx, "question")
	require.NoError(p.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return string(b)
}

func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

func TestPool_ALinkServesOneRequestAfterTheOther(t *testing.T) {
	p := newPooled(t, echo)
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		require.Equal(t, "question", p.whole(ctx))
		cancel() // too late to matter
	}
	require.EqualValues(t, 1, p.made.Load())
}

func TestPool_ALinkTheStationClosedIsNotUsed(t *testing.T) {
	p := newPooled(t, echo)
	p.whole(t.Context())
	p.srv.CloseClientConnections()
	require.Equal(t, "question", p.whole(t.Context()))
	require.EqualValues(t, 2, p.made.Load())
}

func TestPool_ALinkWithMoreThanItsAnswerIsNotUsed(t *testing.T) {
	p := newPooled(t, func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
			_ = rw.Flush()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	})
	for range 2 {
		require.Equal(t, "ok", p.whole(t.Context()))
	}
	require.EqualValues(t, 2, p.made.Load())
}

func TestPool_AnAnswerCutShortClosesItsLink(t *testing.T) {
	gone := make(chan struct{}, 2)
	p := newPooled(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "some")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		gone <- struct{}{}
	})
	resp, err := p.post(t.Context(), "")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	<-gone

	ctx, cancel := context.WithCancel(t.Context())
	resp, err = p.post(ctx, "")
	require.NoError(t, err)
	cancel()
	<-gone
	_, err = io.ReadAll(resp.Body)
	require.Error(t, err)
	require.NoError(t, resp.Body.Close())
	require.Empty(t, p.mu.idle)
}

func TestPool_KeepsNoMoreThanItMay(t *testing.T) {
	all := make(chan struct{})
	p := newPooled(t, func(w http.ResponseWriter, r *http.Request) { <-all })
	done := make(chan string)
	for range 5 {
		go func() { done <- p.whole(t.Context()) }()
	}
	require.Eventually(t, func() bool { return p.made.Load() == 5 }, 10*time.Second, time.Millisecond)
	close(all)
	for range 5 {
		<-done
	}
	require.Len(t, p.mu.idle, 2)

	p.keep = 0
	require.Empty(t, p.whole(t.Context()))
	require.EqualValues(t, 6, p.made.Load(), "both were kept for too long")
}

func TestPool_AHeaderIsBounded(t *testing.T) {
	p := newPooled(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", maxHeaderBytes))
	})
	_, err := p.post(t.Context(), "")
	require.ErrorIs(t, err, errHeaderTooLong)
}

// A station that refuses a body before it has come whole is heard.
func TestPool_AnAnswerBeforeTheRequestIsWhole(t *testing.T) {
	p := newPooled(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})
	resp, err := p.post(t.Context(), strings.Repeat("x", 1<<10))
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	_, _ = io.ReadAll(resp.Body)
	require.Empty(t, p.mu.idle)
}
