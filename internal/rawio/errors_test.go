package rawio_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/internal/rawio"
)

var one = make([]byte, 1)

func soon() time.Time { return time.Now().Add(20 * time.Millisecond) }

// failed makes n calls and gives their errors.
func failed(n int, call func() error) (errs []error) {
	for range n {
		errs = append(errs, call())
	}
	return errs
}

// reset closes c so that its peer hears of it as a reset: TCP does it when asked to, a
// unix socket when something was left unread.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// What goes wrong with a read is told as by package net.
func TestReader_ErrorsAreThoseOfPackageNet(t *testing.T) {
	for name, does := range map[string]func(c, peer net.Conn, read func() error) []error{
		"after the deadline": func(c, _ net.Conn, read func() error) []error {
			_ = c.SetReadDeadline(time.Unix(1, 0))
			return failed(2, read)
		},
		"at the deadline": func(c, _ net.Conn, read func() error) []error {
			_ = c.SetReadDeadline(soon())
			return failed(2, read)
		},
		"after a close": func(c, _ net.Conn, read func() error) []error {
			_ = c.Close()
			return failed(2, read)
		},
		"closed meanwhile": func(c, _ net.Conn, read func() error) []error {
			time.AfterFunc(20*time.Millisecond, func() { _ = c.Close() })
			return failed(2, read)
		},
		"at the end": func(_, peer net.Conn, read func() error) []error {
			_ = peer.Close()
			return failed(2, read)
		},
		"reset": func(c, peer net.Conn, read func() error) []error {
			_, _ = c.Write(one)
			reset(peer)
			return failed(2, read)
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, network string) {
				peer, c := pair(t, network, plain)
				want := told(c, does(c, peer, func() error { _, err := c.Read(one); return err }))
				peer, c = pair(t, network, plain)
				in := rawio.Reader(c)
				require.Equal(t, want, told(c, does(c, peer, func() error { _, err := in.Read(one); return err })))
			})
		})
	}
}

// And so is what goes wrong with a write.
func TestListener_ErrorsAreThoseOfPackageNet(t *testing.T) {
	for name, does := range map[string]func(c, peer net.Conn) []error{
		"after the deadline": func(c, _ net.Conn) []error {
			_ = c.SetWriteDeadline(time.Unix(1, 0))
			return failed(2, write(c))
		},
		"at the deadline": func(c, _ net.Conn) []error {
			_ = c.SetWriteDeadline(soon())
			return failed(2, full(c))
		},
		"after a close": func(c, _ net.Conn) []error {
			_ = c.Close()
			return failed(2, write(c))
		},
		"closed meanwhile": func(c, _ net.Conn) []error {
			time.AfterFunc(20*time.Millisecond, func() { _ = c.Close() })
			return failed(2, full(c))
		},
		"nobody there": func(c, peer net.Conn) []error {
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
			return failed(2, write(c))
		},
		"reset": func(c, peer net.Conn) []error {
			_ = write(c)()
			reset(peer)
			return failed(2, write(c))
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, network string) {
				c, peer := pair(t, network, plain)
				want := told(c, does(c, peer))
				c, peer = pair(t, network, rawio.Listener)
				require.Equal(t, want, told(c, does(c, peer)))
			})
		})
	}
}

func write(c net.Conn) func() error {
	return func() error { _, err := c.Write(one); return err }
}

// full writes until it is not done.
func full(c net.Conn) func() error {
	return func() (err error) {
		for err == nil {
			_, err = c.Write(make([]byte, 1000))
		}
		return err
	}
}

// told is all that a caller could ask an error of c for.
func told(c net.Conn, errs []error) (all []map[string]any) {
	for _, err := range errs {
		m := map[string]any{"type": fmt.Sprintf("%T", err), "end": err == io.EOF}
		for _, kind := range []error{os.ErrDeadlineExceeded, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE, io.ErrUnexpectedEOF} {
			m[kind.Error()] = errors.Is(err, kind)
		}
		var n net.Error
		if errors.As(err, &n) {
			m["timeout"] = n.Timeout()
		}
		var op *net.OpError
		if errors.As(err, &op) {
			m["op"], m["net"], m["text"] = op.Op, op.Net, op.Err.Error()
			m["addresses"] = op.Source == c.LocalAddr() && op.Addr == c.RemoteAddr()
		}
		var call *os.SyscallError
		if errors.As(err, &call) {
			m["call"] = call.Syscall
		}
		all = append(all, m)
	}
	return all
}
