package rawio_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/internal/rawio"
)

// serve gives a client of a server over a raw listener, and its dialler.
func serve(t *testing.T, network string, h http.HandlerFunc) (*http.Client, func() net.Conn) {
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	ln, err := net.Listen(network, address)
	require.NoError(t, err)
	srv := httptest.NewUnstartedServer(h)
	require.NoError(t, srv.Listener.Close())
	srv.Listener = rawio.Listener(ln)
	srv.Config.MaxHeaderBytes = 1 << 10
	srv.Start()
	t.Cleanup(srv.Close)
	dial := func() net.Conn {
		c, err := net.Dial(network, ln.Addr().String())
		require.NoError(t, err)
		return c
	}
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial(network, ln.Addr().String()) }}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}, dial
}

func TestListener_AServerStreams(t *testing.T) {
	each(t, func(t *testing.T, network string) {
		next, cut := make(chan struct{}), make(chan error, 1)
		client, _ := serve(t, network, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			for i := range 100 {
				_ = rc.SetWriteDeadline(time.Now().Add(time.Hour))
				_, _ = fmt.Fprintln(w, i)
				_ = rc.Flush()
				<-next
			}
			if r.URL.Path == "/cut" { // the client does not read any more
				_ = rc.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
				var err error
				for err == nil {
					_, err = io.WriteString(w, strings.Repeat("x", 1000))
				}
				cut <- err
			}
		})
		for _, path := range []string{"/whole", "/cut", "/whole"} {
			resp, err := client.Get("http://server" + path)
			require.NoError(t, err)
			in := bufio.NewReader(resp.Body)
			for i := range 100 {
				line, err := in.ReadString('\n')
				require.NoError(t, err)
				require.Equal(t, fmt.Sprintln(i), line)
				next <- struct{}{}
			}
			if path == "/cut" {
				require.ErrorIs(t, <-cut, os.ErrDeadlineExceeded)
			} else {
				_, err = in.ReadByte()
				require.Equal(t, io.EOF, err)
			}
			require.NoError(t, resp.Body.Close())
		}
	})
}

// A server that refuses a request unread half-closes, so that its answer is read
// before the client hears of a reset.
func TestListener_AServerRefusesWhatItDoesNotRead(t *testing.T) {
	each(t, func(t *testing.T, network string) {
		_, dial := serve(t, network, func(http.ResponseWriter, *http.Request) {})
		c := dial()
		defer c.Close()
		_, err := io.WriteString(c, "GET / HTTP/1.1\r\nLong: "+strings.Repeat("x", 64<<10))
		require.NoError(t, err)
		all, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Contains(t, string(all), "431 Request Header Fields Too Large")
	})
}
