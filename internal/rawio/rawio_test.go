package rawio_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/internal/rawio"
)

func plain(ln net.Listener) net.Listener { return ln }

// pair is a connection's two ends: what a listener accepted, and the dialler's.
func pair(t *testing.T, network string, listener func(net.Listener) net.Listener) (accepted, dialled net.Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	ln, err := net.Listen(network, address)
	require.NoError(t, err)
	ln = listener(ln)
	defer ln.Close()
	dialled, err = net.Dial(network, ln.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { dialled.Close() })
	accepted, err = ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { accepted.Close() })
	return accepted, dialled
}

// each runs a test over both kinds of sockets.
func each(t *testing.T, test func(t *testing.T, network string)) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) { test(t, network) })
	}
}

// narrow makes writes stop in the middle when the peer does not read.
func narrow(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.(interface{ SetWriteBuffer(int) error }).SetWriteBuffer(8<<10))
}

func TestBytes_ArriveAsTheyWereWritten(t *testing.T) {
	each(t, func(t *testing.T, network string) {
		from, to := pair(t, network, rawio.Listener)
		narrow(t, from)
		all := make([]byte, 8<<20)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(all)
		written := make(chan error, 1)
		go func() {
			var err error
			for rest := all; len(rest) > 0 && err == nil; {
				n := min(rand.IntN([]int{100, rawio.Most, 4 * rawio.Most}[rand.IntN(3)]), len(rest))
				var took int
				if took, err = from.Write(rest[:n]); err == nil && took != n {
					err = fmt.Errorf("%d of %d bytes, and no error", took, n)
				}
				rest = rest[n:]
			}
			written <- errors.Join(err, from.Close())
		}()
		var got bytes.Buffer
		in, buf := rawio.Reader(to), make([]byte, 4*rawio.Most)
		var err error
		for err == nil {
			var n int
			n, err = in.Read(buf[:rand.IntN(len(buf)+1)])
			got.Write(buf[:n])
		}
		require.Equal(t, io.EOF, err)
		require.NoError(t, <-written)
		require.True(t, bytes.Equal(all, got.Bytes()))
	})
}

// A small read and a large one get what is there, without waiting for more.
func TestReader_GivesWhatIsThere(t *testing.T) {
	each(t, func(t *testing.T, network string) {
		from, to := pair(t, network, plain)
		in := rawio.Reader(to)
		for range 10 { // more than are raw in a row
			for _, room := range []int{5, rawio.Most, rawio.Most + 1} {
				n, err := in.Read(nil)
				require.Zero(t, n)
				require.NoError(t, err)
				_, err = from.Write([]byte("token"))
				require.NoError(t, err)
				buf := make([]byte, room)
				n, err = in.Read(buf)
				require.NoError(t, err)
				require.Equal(t, "token", string(buf[:n]))
			}
		}
	})
}

func TestListener_WritesAtOnceDoNotMix(t *testing.T) {
	each(t, func(t *testing.T, network string) {
		from, to := pair(t, network, rawio.Listener)
		narrow(t, from)
		const writers, times = 4, 50
		size := func(i byte) int { return (int(i) + 1) * rawio.Most / 2 } // raw ones, and larger
		sum := 0
		for i := range byte(writers) {
			sum += times * size(i)
			go func() {
				for range times {
					_, _ = from.Write(bytes.Repeat([]byte{i}, size(i)))
				}
			}()
		}
		got := make([]byte, sum)
		_, err := io.ReadFull(to, got)
		require.NoError(t, err)
		for len(got) > 0 {
			n := size(got[0])
			require.Equal(t, n, bytes.Count(got[:n], got[:1]))
			got = got[n:]
		}
	})
}

func TestListener_AWriteThatIsCutTellsWhatHasLeft(t *testing.T) {
	each(t, func(t *testing.T, network string) {
		from, to := pair(t, network, rawio.Listener)
		narrow(t, from)
		require.NoError(t, from.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
		var err error
		left := 0
		for err == nil {
			var n int
			n, err = from.Write(make([]byte, rawio.Most))
			left += n
		}
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		if network == "unix" { // TCP nearly always takes a short write whole, or nothing of it
			require.NotZero(t, left%rawio.Most, "or the last write was not cut in its middle")
		}
		require.NoError(t, from.SetWriteDeadline(time.Time{}))
		ended := make(chan error, 1)
		go func() {
			_, err := from.Write([]byte("more"))
			ended <- errors.Join(err, from.Close())
		}()
		got, err := io.ReadAll(to)
		require.NoError(t, err)
		require.NoError(t, <-ended)
		require.Equal(t, left+len("more"), len(got))
	})
}

func TestListener_AConnectionIsHalfClosed(t *testing.T) {
	each(t, func(t *testing.T, network string) {
		c, peer := pair(t, network, rawio.Listener)
		_, err := c.Write([]byte("all"))
		require.NoError(t, err)
		require.NoError(t, c.(interface{ CloseWrite() error }).CloseWrite())
		got, err := io.ReadAll(peer)
		require.NoError(t, err)
		require.Equal(t, "all", string(got))
		_, err = peer.Write([]byte("heard"))
		require.NoError(t, err)
		require.NoError(t, peer.Close())
		got, err = io.ReadAll(c)
		require.NoError(t, err)
		require.Equal(t, "heard", string(got))
	})
}

// counted is a connection that looks at what is read and written.
type counted struct {
	*net.TCPConn
	read int
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.read += n
	return n, err
}

func TestReader_WhatWrapsAConnectionIsRead(t *testing.T) {
	from, to := pair(t, "tcp", plain)
	c := &counted{TCPConn: to.(*net.TCPConn)}
	_, err := from.Write([]byte("token"))
	require.NoError(t, err)
	_, err = io.ReadFull(rawio.Reader(c), make([]byte, 5))
	require.NoError(t, err)
	require.Equal(t, 5, c.read)
}

func TestCalls_AllocateNothing(t *testing.T) {
	each(t, func(t *testing.T, network string) {
		from, to := pair(t, network, rawio.Listener)
		in, token, buf := rawio.Reader(to), []byte("token"), make([]byte, rawio.Most)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			for range 10 { // the average is rounded down, and not all reads are raw
				if _, err := from.Write(token); err != nil {
					panic(err)
				}
				if n, err := in.Read(buf); n != len(token) || err != nil {
					panic(err)
				}
			}
		}))
	})
}

// The race detector takes what was done before a write to come before what is done
// after its read.
func TestCalls_OrderWhatBothEndsDo(t *testing.T) {
	each(t, func(t *testing.T, network string) {
		from, to := pair(t, network, rawio.Listener)
		for range 3 { // all raw
			said := false
			go func() {
				said = true
				_, _ = from.Write(one)
			}()
			_, err := rawio.Reader(to).Read(make([]byte, 1))
			require.NoError(t, err)
			require.True(t, said)
		}
	})
}
