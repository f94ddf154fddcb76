//go:build amd64 || arm64

package rawio

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// ordinary counts a connection's ordinary reads.
type ordinary struct {
	net.Conn
	reads int
}

func (o *ordinary) Read(b []byte) (int, error) {
	o.reads++
	return o.Conn.Read(b)
}

// late is a raw connection to which bytes come when a read has found none.
type late struct {
	syscall.RawConn
	send func()
}

func (l late) Read(attempt func(uintptr) bool) error {
	return l.RawConn.Read(func(fd uintptr) bool {
		done := attempt(fd)
		if !done {
			l.send()
		}
		return done
	})
}

// A goroutine that is never without work makes ordinary calls, which wake the monitor.
func TestReader_ReadsThatDoNotWaitAreNotAllRaw(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	peer, err := ln.Accept()
	require.NoError(t, err)
	defer peer.Close()

	r := Reader(conn).(*reader)
	o := &ordinary{Conn: conn}
	send := func() { _, _ = peer.Write([]byte("token")) }
	r.conn, r.raw = o, late{r.raw, send}
	read := func(room int) {
		t.Helper()
		buf := make([]byte, room)
		n, err := r.Read(buf)
		require.NoError(t, err)
		require.Equal(t, "token", string(buf[:n]))
	}
	for range 5 * (atOnce + 1) { // bytes are there
		send()
		read(Most)
	}
	require.Equal(t, 5, o.reads, "one behind so many raw ones")
	for range 5 * (atOnce + 1) { // they are waited for
		read(Most)
	}
	require.Equal(t, 5, o.reads)
	for range 5 * atOnce { // they are there, with a pause after each but one
		send()
		read(Most)
		read(Most)
	}
	require.Equal(t, 5, o.reads)
	send()
	read(Most + 1)
	require.Equal(t, 6, o.reads, "a large one")
}
