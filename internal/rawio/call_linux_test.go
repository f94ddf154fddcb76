//go:build (amd64 || arm64) && !race

package rawio_test

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/internal/rawio"
)

// A raw call that waited would hold up all goroutines of its processor; here the
// kernel would wait for ever.
func TestReader_DoesNotWaitInTheKernel(t *testing.T) {
	each(t, func(t *testing.T, network string) {
		_, c := pair(t, network, plain)
		raw, err := c.(syscall.Conn).SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) { err = syscall.SetNonblock(int(fd), false) }))
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		ended := make(chan error, 1)
		go func() {
			_, err := rawio.Reader(c).Read(one)
			ended <- err
		}()
		select {
		case err := <-ended:
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		case <-time.After(10 * time.Second):
			t.Fatal("it waits")
		}
	})
}

// Only a raw write leaves out the signal, so this tells which writes are raw.
func TestListener_ShortWritesAreRaw(t *testing.T) {
	signals := make(chan os.Signal, 2)
	const mark = syscall.SIGWINCH // comes behind the other
	signal.Notify(signals, syscall.SIGPIPE, mark)
	defer signal.Stop(signals)
	each(t, func(t *testing.T, network string) {
		for _, k := range []struct {
			bytes int
			want  []os.Signal
		}{{1, []os.Signal{mark}}, {rawio.Most, []os.Signal{mark}}, {rawio.Most + 1, []os.Signal{syscall.SIGPIPE, mark}}} {
			c, _ := pair(t, network, rawio.Listener)
			require.NoError(t, c.(interface{ CloseWrite() error }).CloseWrite())
			_, err := c.Write(make([]byte, k.bytes))
			require.ErrorIs(t, err, syscall.EPIPE)
			require.NoError(t, syscall.Kill(os.Getpid(), mark))
			var got []os.Signal
			for len(got) == 0 || got[len(got)-1] != mark {
				got = append(got, <-signals)
			}
			require.Equal(t, k.want, got, k.bytes)
		}
	})
}
