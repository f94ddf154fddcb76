package host

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wrapping is a listener whose connections are not package net's own.
type wrapping struct{ net.Listener }

func (w wrapping) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	return struct{ net.Conn }{c}, err
}

func TestServe_StreamsOverEveryListener(t *testing.T) {
	for _, network := range []string{"tcp", "unix", "wrapped tcp"} {
		t.Run(network, func(t *testing.T) {
			network, wrapped := strings.CutPrefix(network, "wrapped ")
			h := newHost(t, newFakeStation(t))
			ln, err := net.Listen(network, map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")}[network])
			require.NoError(t, err)
			address := ln.Addr().String()
			if wrapped {
				ln = wrapping{ln}
			}
			served := make(chan error, 1)
			go func() { served <- h.Serve(ln) }()
			dials := 0
			tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				dials++
				return net.Dial(network, address)
			}}
			over := *h
			over.http = &http.Client{Transport: tr}
			for range 3 {
				r := over.chat(`"stream":true`)
				require.Equal(t, 200, r.status)
				require.Contains(t, r.body, `"content":"Hello"`)
				require.Contains(t, r.body, `"content":" there"`)
				require.True(t, strings.HasSuffix(r.body, "data: [DONE]\n\n"), r.body)
			}
			require.Equal(t, 1, dials, "the connection is kept")
			tr.CloseIdleConnections()
			require.NoError(t, h.Close())
			require.NoError(t, <-served)
		})
	}
}
