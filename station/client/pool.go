package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"thoth/internal/rawio"
	"thoth/station/wire"
)

// pool carries requests to one station over plain connections, which it keeps.
//
// It is net/http's transport without what a station's neighbour has no use for. That
// one has two goroutines for each connection, and a call wakes them and is woken by
// them; a request by single calls is half a dozen of them. Here the caller's goroutine
// writes and reads. What is left of HTTP, request and response, is net/http's.
//
// Invariants: a link is idle in the pool or its request's alone; a link whose answer
// was not read to its end is closed and never idle; the end of a context closes its
// link at once.
type pool struct {
	dial func(context.Context) (net.Conn, error)
	most int           // links kept
	keep time.Duration // how long one is kept without a request

	mu struct {
		sync.Mutex
		idle []*link // least recently used first
	}
}

// link is one connection.
type link struct {
	conn net.Conn
	r    *bufio.Reader
	w    *bufio.Writer
	used time.Time // last
	room int       // bytes of the header that may still come; negative: it is here
	raw  io.Reader // conn, for the frames of a stream
	body io.Reader // raw or conn
	late bool      // its reads have a deadline
}

// A frame is a few hundred bytes, and most prompts are a few thousand; small buffers keep
// many connections cheap.
const (
	readBuffer  = 16 << 10
	writeBuffer = 16 << 10
)

// maxHeaderBytes bounds the header of an answer.
const maxHeaderBytes = 1 << 20

var errHeaderTooLong = errors.New("the header of the answer is too long")

var _ http.RoundTripper = (*pool)(nil)

// RoundTrip sends a request and reads the header of its answer. A kept link that the
// station has closed meanwhile is noticed before anything is sent, nearly always: one
// that is closed between that look and the request fails, and the request is sent once
// more, on a new link, if that can be done without doing twice what it asks for.
func (p *pool) RoundTrip(req *http.Request) (*http.Response, error) {
	l := p.take()
	kept := l != nil
	resp, err := p.send(req, l)
	var u *unanswered
	if errors.As(err, &u) && kept && (u.cut || repeatable(req)) && req.Context().Err() == nil {
		if req, again := rewound(req); again {
			if resp, err = p.send(req, nil); err != nil && !u.cut {
				err = &unanswered{error: err} // whatever became of it now, the first time it may have been taken
			}
		}
	}
	return resp, err
}

// send does it on a link, or on a new one.
func (p *pool) send(req *http.Request, l *link) (*http.Response, error) {
	ctx := req.Context()
	if l == nil {
		conn, err := p.dial(ctx)
		if err != nil {
			return nil, err
		}
		l = &link{conn: conn, w: bufio.NewWriterSize(conn, writeBuffer), raw: rawio.Reader(conn)}
		l.r = bufio.NewReaderSize(l, readBuffer)
	}
	stop := context.AfterFunc(ctx, func() { _ = l.conn.Close() }) // at once: the station is to stop
	resp, err := l.exchange(req)
	if err != nil {
		stop()
		_ = l.conn.Close()
		return nil, err
	}
	resp.Body = &answer{rest: resp.Body, p: p, l: l, stop: stop, last: resp.Close}
	return resp, nil
}

// unanswered is the error of a link that the other side has closed, when not a byte of
// an answer came.
type unanswered struct {
	error
	cut bool // the request was not taken whole: who reads it first, as a station does, has done nothing
}

func (u *unanswered) Unwrap() error { return u.error }

// closed tells that the other side ended the connection: no other error says so, and
// a timeout, above all, says nothing of what the other side does.
func closed(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// repeatable tells that a request may be executed twice; net/http's transport takes
// the same mark.
func repeatable(req *http.Request) bool {
	_, marked := req.Header[headerRepeatable]
	return marked || req.Method == http.MethodGet
}

// headerRepeatable is not sent when it has no values.
const headerRepeatable = "Idempotency-Key"

// rewound is the request with its body from the beginning.
func rewound(req *http.Request) (_ *http.Request, ok bool) {
	again := req.WithContext(req.Context()) // a copy
	if req.Body == nil || req.Body == http.NoBody {
		return again, true
	}
	if req.GetBody == nil {
		return nil, false
	}
	body, err := req.GetBody()
	again.Body = body
	return again, err == nil
}

func (l *link) exchange(req *http.Request) (*http.Response, error) {
	sent := req.Write(l.w)
	if sent == nil {
		sent = l.w.Flush()
	}
	l.room = maxHeaderBytes
	for {
		resp, err := http.ReadResponse(l.r, req)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && sent != nil {
			err = sent // nothing came that would say why
		}
		switch {
		case err != nil && l.room == maxHeaderBytes && closed(err):
			return nil, &unanswered{error: err, cut: sent != nil || l.unread(err)}
		case err != nil:
			return nil, err
		case resp.StatusCode >= 200:
			// What is done with a frame is soon done; a whole answer may be large, and long
			// to decode.
			l.room, l.body = -1, l.conn
			if resp.Header.Get("Content-Type") == wire.ContentTypeStream {
				l.body = l.raw
			}
			if sent != nil {
				resp.Close = true // it did not want the whole request
			}
			return resp, nil
		}
	}
}

// unread tells by the error of a read that the other side has left some of the request
// unread. A unix socket is reset for nothing else; on TCP a router may have done it.
func (l *link) unread(err error) bool {
	return l.conn.RemoteAddr().Network() == "unix" && errors.Is(err, syscall.ECONNRESET)
}

// Read reads for the buffer.
func (l *link) Read(b []byte) (int, error) {
	if l.room < 0 {
		return l.body.Read(b)
	}
	if l.room == 0 {
		return 0, errHeaderTooLong
	}
	n, err := l.conn.Read(b[:min(len(b), l.room)])
	l.room -= n
	return n, err
}

// take gives the link used last, which is the most likely to be alive.
func (p *pool) take() *link {
	for {
		p.mu.Lock()
		n := len(p.mu.idle)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		l := p.mu.idle[n-1]
		p.mu.idle[n-1] = nil
		p.mu.idle = p.mu.idle[:n-1]
		p.mu.Unlock()
		if time.Since(l.used) < p.keep && l.r.Buffered() == 0 && quiet(l.conn) {
			return l
		}
		_ = l.conn.Close()
	}
}

// put keeps a link, and drops those nobody has needed for long.
func (p *pool) put(l *link) {
	l.used = time.Now()
	p.mu.Lock()
	old := 0
	for old < len(p.mu.idle) && (l.used.Sub(p.mu.idle[old].used) > p.keep || len(p.mu.idle)-old >= p.most) {
		old++
	}
	dropped := slices.Clone(p.mu.idle[:old])
	p.mu.idle = append(slices.Delete(p.mu.idle, 0, old), l)
	p.mu.Unlock()
	for _, d := range dropped {
		_ = d.conn.Close()
	}
}

// CloseIdleConnections closes what is idle; http.Client calls it.
func (p *pool) CloseIdleConnections() {
	p.mu.Lock()
	idle := p.mu.idle
	p.mu.idle = nil
	p.mu.Unlock()
	for _, l := range idle {
		_ = l.conn.Close()
	}
}

// answer is the body of an answer, which has its link until it ends or is closed.
type answer struct {
	rest io.ReadCloser
	p    *pool
	l    *link // nil once it is given back
	stop func() bool
	last bool // the station closes the connection after it
}

func (a *answer) Read(b []byte) (int, error) {
	if a.l == nil {
		return 0, io.EOF
	}
	n, err := a.rest.Read(b)
	if err == io.EOF {
		a.release(!a.last)
	}
	return n, err
}

// Close cuts an answer that was not read to its end.
func (a *answer) Close() error {
	if a.l != nil {
		a.release(false)
	}
	return nil
}

// hurry bounds the time in which the rest may come.
func (a *answer) hurry(d time.Duration) {
	a.l.late = true
	_ = a.l.conn.SetReadDeadline(time.Now().Add(d))
}

func (a *answer) release(whole bool) {
	l := a.l
	a.l = nil
	if l.late {
		l.late = false
		_ = l.conn.SetReadDeadline(time.Time{})
	}
	if a.stop() && whole {
		a.p.put(l)
		return
	}
	_ = l.conn.Close()
}
