package station_test

import (
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/client"
	"thoth/station/engine"
	"thoth/station/stationtest"
	"thoth/station/wire"
)

// The end of a stream costs its reader no read of its own: what a connection is given last
// is the last frame and the end of the body.
func TestStream_ItsLastFrameAndItsEndAreOneWrite(t *testing.T) {
	zero, two := float32(0), 2
	greedy := wire.Sampling{Temperature: &zero}
	prompt := wire.Prompt{Tokens: slices.Repeat([]int32{40}, 20)} // three batches
	generate := func(fork *int, kv *wire.KVTurn) func(*client.Client) (*client.Stream, error) {
		return func(c *client.Client) (*client.Stream, error) {
			return c.Generate(t.Context(), &wire.GenerateRequest{Prompt: prompt, Sampling: greedy, MaxTokens: 5, IgnoreEOG: true, KV: kv, Later: wire.Later{Fork: fork}})
		}
	}
	session := func(c *client.Client) string {
		a, err := c.Embed(t.Context(), &wire.EmbedRequest{Prompt: prompt})
		if err != nil {
			return "" // the call says that there is none
		}
		return a.Session
	}
	for name, k := range map[string]struct {
		call  func(*client.Client) (*client.Stream, error)
		first int // the decode call behind which the first frame is sent
		fail  int // the one that fails
		last  string
	}{
		"generate":             {generate(nil, nil), 3, 0, `{"type":"done","done":`},
		"generate with kv":     {generate(nil, &wire.KVTurn{Answers: true}), 3, 0, `{"type":"done","done":`},
		"generate with a fork": {generate(&two, nil), 3, 0, `{"type":"done","choice":`},
		"an error":             {generate(nil, nil), 3, 5, `{"type":"error",`},
		"forward": {func(c *client.Client) (*client.Stream, error) {
			return c.ForwardStream(t.Context(), &wire.ForwardRequest{Session: session(c)})
		}, 1, 0, `{"type":"done","forward":`},
		"decode-next": {func(c *client.Client) (*client.Stream, error) {
			return c.DecodeNext(t.Context(), &wire.DecodeRequest{Session: session(c), Sampling: &greedy, N: 5, IgnoreEOG: true})
		}, 3, 0, `{"type":"done","done":`},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, stationtest.Options{EOGEvery: -1, BatchSize: 8}, station.Options{})
			var sent writes
			srv := httptest.NewUnstartedServer(f.st.Handler())
			srv.Listener = &watched{srv.Listener, &sent}
			srv.Start()
			defer srv.Close()
			c, err := client.New(srv.URL, client.Options{})
			require.NoError(t, err)
			defer c.Close()
			if k.fail > 0 {
				f.eng.FailDecode(k.fail, engine.ErrDecode)
			}

			pause := f.eng.Pause()
			var s *client.Stream
			called := make(chan struct{})
			go func() { defer close(called); s, err = k.call(c) }()
			for range k.first {
				pause.Step()
			}
			<-called // the first frame is here, the last cannot come with it
			pause.Resume()
			require.NoError(t, err)
			require.Equal(t, k.fail > 0, collect(s, nil).err != nil)
			end := sent.last()
			require.Contains(t, end, k.last)
			require.True(t, strings.HasSuffix(end, "\r\n0\r\n\r\n"), "%q", end)
		})
	}
}

// writes are those of all connections.
type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) note(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(b))
}

func (w *writes) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[len(w.all)-1]
}

// watched notes what its connections are given.
type watched struct {
	net.Listener
	sent *writes
}

func (l *watched) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return watchedConn{c, l.sent}, err
}

type watchedConn struct {
	net.Conn
	sent *writes
}

func (c watchedConn) Write(b []byte) (int, error) {
	c.sent.note(b)
	return c.Conn.Write(b)
}
