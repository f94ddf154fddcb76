package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
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
	for _, kind := range []string{"application/json", wire.ContentTypeStream} {
		t.Run(kind, func(t *testing.T) {
			gone := make(chan struct{}, 2)
			p := newPooled(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", kind)
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
			_, err = io.ReadFull(resp.Body, make([]byte, len("some")))
			require.NoError(t, err)
			time.AfterFunc(20*time.Millisecond, cancel) // while it waits for more
			_, err = io.ReadAll(resp.Body)
			require.ErrorIs(t, err, net.ErrClosed)
			<-gone
			require.NoError(t, resp.Body.Close())
			require.Empty(t, p.mu.idle)
		})
	}
}

func TestPool_FramesAloneAreReadRaw(t *testing.T) {
	p := newPooled(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Accept"))
		echo(w, r)
	})
	for _, kind := range []string{wire.ContentTypeStream, "application/json", wire.ContentTypeStream} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.srv.URL, strings.NewReader("question"))
		require.NoError(t, err)
		req.Header.Set("Accept", kind)
		resp, err := p.RoundTrip(req)
		require.NoError(t, err)
		l := resp.Body.(*answer).l
		want := map[bool]io.Reader{true: l.raw, false: l.conn}[kind == wire.ContentTypeStream]
		require.True(t, want == l.body, kind) // where no call is raw, both are the same
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "question", string(b))
	}
	require.EqualValues(t, 1, p.made.Load(), "or the kinds did not share a link")
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

// A station that refuses a body before it has come whole is heard, though the rest
// cannot be sent.
func TestPool_AnAnswerBeforeTheRequestIsWhole(t *testing.T) {
	var asked atomic.Int32
	p := newPooled(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
	})
	p.whole(t.Context())
	const tooMuch = 64 << 20 // for the buffers of both ends
	resp, err := p.post(t.Context(), strings.Repeat("x", tooMuch))
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	_, _ = io.ReadAll(resp.Body)
	require.Empty(t, p.mu.idle)
	require.EqualValues(t, 2, asked.Load(), "what was answered is not asked again")
}

// racing is a connection that something happens to right before it is written to.
type racing struct {
	net.Conn
	before *atomic.Pointer[func()]
}

func (r racing) SyscallConn() (syscall.RawConn, error) { return r.Conn.(syscall.Conn).SyscallConn() }

func (r racing) Write(b []byte) (int, error) {
	if do := r.before.Swap(nil); do != nil {
		(*do)()
	}
	return r.Conn.Write(b)
}

// A peer that gives a link up just when the next request comes costs no request: what
// did not leave is sent again, and so is what may be executed twice. Over TCP what is
// written to a connection that is no more is taken without a word, and nobody knows.
func TestPool_ALinkThatIsClosedUnderARequest(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		for _, marked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, repeatable %t", network, marked), func(t *testing.T) {
				ln, err := net.Listen(network, map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")}[network])
				require.NoError(t, err)
				srv := httptest.NewUnstartedServer(http.HandlerFunc(echo))
				require.NoError(t, srv.Listener.Close())
				srv.Listener = ln
				srv.Start()
				defer srv.Close()
				var before atomic.Pointer[func()]
				p := &pool{most: 2, keep: time.Hour, dial: func(ctx context.Context) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, network, ln.Addr().String())
					if err != nil {
						return nil, err
					}
					return racing{c, &before}, nil
				}}
				defer p.CloseIdleConnections()
				ask := func() (string, error) {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://station", strings.NewReader("question"))
					require.NoError(t, err)
					if marked {
						req.Header[headerRepeatable] = nil
					}
					resp, err := p.RoundTrip(req)
					if err != nil {
						return "", err
					}
					defer resp.Body.Close()
					b, err := io.ReadAll(resp.Body)
					return string(b), err
				}
				_, err = ask()
				require.NoError(t, err)
				cut := srv.CloseClientConnections
				before.Store(&cut)
				text, err := ask()
				require.Nil(t, before.Load(), "the link was used again")
				if network == "tcp" && !marked {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, "question", text, "the whole body, once more")
			})
		}
	}
}

// noting is a connection that says when something was written to it.
type noting struct {
	net.Conn
	written chan<- struct{}
}

func (n noting) SyscallConn() (syscall.RawConn, error) { return n.Conn.(syscall.Conn).SyscallConn() }

func (n noting) Write(b []byte) (int, error) {
	defer func() { n.written <- struct{}{} }()
	return n.Conn.Write(b)
}

// A unix socket tells that a peer which closed it left the request unread: nothing was
// done, whatever it asks for.
func TestPool_ARequestThatWasNotReadIsSentAgain(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	defer ln.Close()
	written := make(chan struct{}, 4)
	answered := make(chan error, 1)
	go func() {
		for i := range 2 { // links
			c, err := ln.Accept()
			if err == nil {
				_, err = http.ReadRequest(bufio.NewReader(c))
			}
			if err == nil {
				<-written
				_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
			if i == 0 {
				<-written // the second request
			}
			if err != nil || c.Close() != nil {
				answered <- err
				return
			}
		}
		answered <- nil
	}()
	p := &pool{most: 2, keep: time.Hour, dial: func(ctx context.Context) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "unix", ln.Addr().String())
		return noting{c, written}, err
	}}
	defer p.CloseIdleConnections()
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://station", strings.NewReader("question"))
		require.NoError(t, err)
		resp, err := p.RoundTrip(req)
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "ok", string(b))
	}
	require.NoError(t, <-answered)
}

// A request that was read is sent again only where that does no harm, only once, only
// for a link that was kept, and never after a part of an answer.
func TestPool_HowOftenARequestIsSent(t *testing.T) {
	for name, k := range map[string]struct {
		kept, marked bool
		part         string // of an answer
		asked        int
	}{
		"a link that was kept":       {kept: true, asked: 1},
		"and the request repeatable": {kept: true, marked: true, asked: 2},
		"a new link":                 {marked: true, asked: 1},
		"the answer begun":           {kept: true, marked: true, part: "HTTP/1.1 200 OK\r\n", asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			p := newPooled(t, func(w http.ResponseWriter, r *http.Request) {
				if b, _ := io.ReadAll(r.Body); string(b) == "first" {
					return
				}
				asked.Add(1)
				c, _, err := w.(http.Hijacker).Hijack()
				if err == nil {
					_, _ = io.WriteString(c, k.part)
					_ = c.Close()
				}
			})
			if k.kept {
				resp, err := p.post(t.Context(), "first")
				require.NoError(t, err)
				_, _ = io.ReadAll(resp.Body)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.srv.URL, strings.NewReader("question"))
			require.NoError(t, err)
			if k.marked {
				req.Header[headerRepeatable] = nil
			}
			_, err = p.RoundTrip(req)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.EqualValues(t, k.asked, asked.Load())
		})
	}
}
