//go:build amd64 || arm64

package rawio

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// atOnce is how many reads in a row may be raw that found bytes waiting. What that
// many can bring keeps a goroutine busy for a few milliseconds.
const atOnce = 4

// Listener is ln, whose connections' short writes are raw.
func Listener(ln net.Listener) net.Listener { return listener{ln} }

// Reader reads from conn, raw where it can; by one goroutine at a time. Deadlines and
// Close of conn hold for it.
func Reader(conn net.Conn) io.Reader {
	if s, ok := open(conn); ok {
		r := &reader{socket: s}
		r.attempt = r.recv
		return r
	}
	return conn
}

// Awake has the runtime's monitor watch until the process is idle again: it makes an
// ordinary call, of no use by itself.
func Awake() { _, _, _ = syscall.Syscall(syscall.SYS_GETPID, 0, 0, 0) }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s, ok := open(conn)
	if !ok {
		return conn, nil
	}
	w := &writer{socket: s}
	w.attempt = w.send
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &tcpConn{tcp, w}, nil
	}
	return &unixConn{conn.(*net.UnixConn), w}, nil
}

// tcpConn and unixConn have all that the connections of package net have: a server
// half-closes them, for one.
type tcpConn struct {
	*net.TCPConn
	w *writer
}

func (c *tcpConn) Write(b []byte) (int, error) { return c.w.Write(b) }

type unixConn struct {
	*net.UnixConn
	w *writer
}

func (c *unixConn) Write(b []byte) (int, error) { return c.w.Write(b) }

// socket is a connection of package net and the way to its descriptor. It holds a
// call's arguments and results, and the function that makes the call, so that a call
// allocates nothing.
type socket struct {
	conn    net.Conn
	network string
	raw     syscall.RawConn
	attempt func(fd uintptr) (done bool)

	b     []byte
	n     int
	errno syscall.Errno
}

// open fails for what is not a connection of package net.
func open(conn net.Conn) (socket, bool) {
	s := socket{conn: conn}
	var err error
	switch c := conn.(type) {
	case *net.TCPConn:
		s.network = "tcp"
		s.raw, err = c.SyscallConn()
	case *net.UnixConn:
		if s.network = c.LocalAddr().Network(); s.network != "unix" {
			return s, false // of messages, an empty one is no end
		}
		s.raw, err = c.SyscallConn()
	default:
		return s, false
	}
	return s, err == nil
}

func (s *socket) begin(b []byte) { s.b, s.n, s.errno = b, 0, 0 }

// failed is what package net would say.
func (s *socket) failed(op string) error {
	return &net.OpError{Op: op, Net: s.network, Source: s.conn.LocalAddr(), Addr: s.conn.RemoteAddr(), Err: os.NewSyscallError(op, s.errno)}
}

type reader struct {
	socket
	tries  int // of this call
	atOnce int // calls in a row that did not wait
}

func (r *reader) Read(b []byte) (int, error) {
	if len(b) == 0 || len(b) > Most || r.atOnce == atOnce {
		r.atOnce = 0
		return r.conn.Read(b)
	}
	r.begin(b)
	r.tries = 0
	err := r.raw.Read(r.attempt)
	r.b = nil
	if r.atOnce++; r.tries != 1 {
		r.atOnce = 0
	}
	switch {
	case err != nil: // it is closed, or too late
		return r.conn.Read(b) // which tells that in its own words
	case r.errno != 0:
		return 0, r.failed("read")
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}

func (r *reader) recv(fd uintptr) bool {
	r.tries++
	for {
		if r.n, r.errno = recv(fd, r.b); r.errno != syscall.EINTR {
			return r.errno != syscall.EAGAIN
		}
	}
}

// writer writes what the socket takes at once; an ordinary call waits for the rest. What
// else the connection has to write with, such as ReadFrom, must not be called beside it.
type writer struct {
	mu sync.Mutex // one call at a time, and the rest of one goes before another
	socket
}

func (w *writer) Write(b []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if 0 < len(b) && len(b) <= Most {
		w.begin(b)
		_ = w.raw.Write(w.attempt) // it is closed, or too late: so it is for an ordinary call, which tells
		w.b = nil
		switch w.errno {
		case 0, syscall.EAGAIN, syscall.EINTR:
		default:
			return 0, w.failed("write")
		}
		if n = w.n; n == len(b) {
			return n, nil
		}
	}
	rest, err := w.conn.Write(b[n:])
	return n + rest, err
}

func (w *writer) send(fd uintptr) bool {
	w.n, w.errno = send(fd, w.b)
	return true
}
