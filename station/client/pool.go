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
	"time"
)

// pool carries requests to one station over plain connections, which it keeps.
//
// It is net/http's transport without what a station's neighbour has no use for. That
// one has two goroutines for each connection, and a call wakes them and is woken by
// them; a request by liquid memory is half a dozen calls. Here the caller's goroutine
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
	room int       // bytes of the header that may still come
}

// A frame is a few hundred bytes; small buffers keep many connections cheap.
const (
	readBuffer  = 16 << 10
	writeBuffer = 4 << 10
)

// maxHeaderBytes bounds the header of an answer.
const maxHeaderBytes = 1 << 20

var errHeaderTooLong = errors.New("the header of the answer is too long")

var _ http.RoundTripper = (*pool)(nil)

// RoundTrip sends a request and reads the header of its answer. A kept link that the
// station has closed meanwhile is noticed before anything is sent: a request is
// never sent twice.
func (p *pool) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	l := p.take()
	if l == nil {
		conn, err := p.dial(ctx)
		if err != nil {
			return nil, err
		}
		l = &link{conn: conn, w: bufio.NewWriterSize(conn, writeBuffer)}
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

func (l *link) exchange(req *http.Request) (*http.Response, error) {
	sent := req.Write(l.w)
	if sent == nil {
		sent = l.w.Flush()
	}
	l.room = maxHeaderBytes
	for {
		resp, err := http.ReadResponse(l.r, req)
		switch {
		case err != nil && sent != nil:
			return nil, sent // nothing came that would say why
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case resp.StatusCode >= 200:
			if l.room = -1; sent != nil {
				resp.Close = true // it did not want the whole request
			}
			return resp, nil
		}
	}
}

// Read reads for the buffer.
func (l *link) Read(b []byte) (int, error) {
	if l.room < 0 {
		return l.conn.Read(b)
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

func (a *answer) release(whole bool) {
	l := a.l
	a.l = nil
	if a.stop() && whole {
		a.p.put(l)
		return
	}
	_ = l.conn.Close()
}
