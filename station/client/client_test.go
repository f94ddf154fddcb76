package client_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"thoth/station/client"
	"thoth/station/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a station made of one handler.
func serve(t *testing.T, h http.HandlerFunc, o client.Options) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return dial(t, s.URL, o)
}

func dial(t *testing.T, address string, o client.Options) *client.Client {
	t.Helper()
	c, err := client.New(address, o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func requireCode(t *testing.T, err error, code wire.Code) *wire.Error {
	t.Helper()
	var e *wire.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, "%v", err)
	return e
}

func TestNew_RefusesBadAddresses(t *testing.T) {
	for _, a := range []string{"", "127.0.0.1:8000", "http://", "unix://", "ftp://host", "http://[::1"} {
		_, err := client.New(a, client.Options{})
		require.Error(t, err, a)
	}
}

func TestClient_SendsRoutesHeadersAndBodies(t *testing.T) {
	var got *http.Request
	var body []byte
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, `{"type":"done","done":{"reason":"eog"}}`+"\n")
	}, client.Options{Owner: "host-7"})
	ctx := client.WithRequestID(t.Context(), "req-1")
	drain := func(s *client.Stream, err error) error {
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = s.Next()
		return err
	}
	calls := []struct {
		method, path, body string
		call               func() error
	}{
		{"GET", wire.RouteHealth, "", func() error { _, err := c.Health(ctx); return err }},
		{"GET", wire.RouteModel, "", func() error { _, err := c.Model(ctx); return err }},
		{"GET", wire.RouteStats, "", func() error { _, err := c.Stats(ctx); return err }},
		{"POST", wire.RouteTokenize, `{"prompt":{"text":"a"}}`, func() error {
			_, err := c.Tokenize(ctx, &wire.TokenizeRequest{Prompt: wire.Prompt{Text: "a"}})
			return err
		}},
		{"POST", wire.RouteDetokenize, `{"tokens":[1]}`, func() error {
			_, err := c.Detokenize(ctx, &wire.DetokenizeRequest{Tokens: []int32{1}})
			return err
		}},
		{"POST", wire.RouteEmbed, `{"session":"s","prompt":{"text":"a"}}`, func() error {
			_, err := c.Embed(ctx, &wire.EmbedRequest{Session: "s", Prompt: wire.Prompt{Text: "a"}})
			return err
		}},
		{"POST", wire.RouteForward, `{"session":"s"}`, func() error { _, err := c.Forward(ctx, &wire.ForwardRequest{Session: "s"}); return err }},
		{"POST", wire.RouteForward, `{"session":"s","stream":true}`, func() error { return drain(c.ForwardStream(ctx, &wire.ForwardRequest{Session: "s"})) }},
		{"POST", wire.RouteGenerate, `{"prompt":{"text":"a"},"sampling":{}}`, func() error {
			return drain(c.Generate(ctx, &wire.GenerateRequest{Prompt: wire.Prompt{Text: "a"}}))
		}},
		{"POST", wire.RouteDecodeNext, `{"session":"s","n":1}`, func() error { return drain(c.DecodeNext(ctx, &wire.DecodeRequest{Session: "s", N: 1})) }},
		{"POST", wire.RouteKVSession + "/save", `{}`, func() error { _, err := c.KVSession(ctx, "save", "probe", 0); return err }},
	}
	for _, k := range calls {
		t.Run(k.method+k.path, func(t *testing.T) {
			require.NoError(t, k.call())
			require.Equal(t, k.method, got.Method)
			require.Equal(t, k.path, got.URL.Path)
			require.Equal(t, k.body, string(body))
			require.Equal(t, "req-1", got.Header.Get(wire.HeaderRequestID))
			require.Equal(t, "host-7", got.Header.Get(wire.HeaderOwner))
			if k.body != "" {
				require.Equal(t, "application/json", got.Header.Get("Content-Type"))
			}
		})
	}
	require.Equal(t, "probe", got.Header.Get(wire.HeaderSessionID))
	require.Equal(t, "0", got.Header.Get(wire.HeaderPrefixLength))
}

func TestClient_SendsNoEmptyHeaders(t *testing.T) {
	var got http.Header
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { got = r.Header; _, _ = io.WriteString(w, "{}") }, client.Options{})
	_, err := c.Health(t.Context())
	require.NoError(t, err)
	require.NotContains(t, got, http.CanonicalHeaderKey(wire.HeaderOwner))
	require.NotContains(t, got, http.CanonicalHeaderKey(wire.HeaderRequestID))
}

func TestClient_ErrorsOfTheStation(t *testing.T) {
	cases := []struct {
		name      string
		status    int
		body      string
		code      wire.Code
		retryable bool
	}{
		{"its own error", 409, `{"error":{"code":"session_busy","message":"m","retryable":true}}`, wire.CodeBusy, true},
		{"its own code wins over the status", 503, `{"error":{"code":"loading","message":"m","retryable":true}}`, wire.CodeLoading, true},
		{"bare 404: an older station without the route", 404, "404 page not found\n", wire.CodeNoRoute, false},
		{"404 with foreign JSON", 404, `{"error":"nope"}`, wire.CodeNoRoute, false},
		{"bare 405", 405, "", wire.CodeMethod, false},
		{"bare 410", 410, "", wire.CodeGone, false},
		{"bare 400", 400, "", wire.CodeInvalid, false},
		{"bare 429", 429, "", wire.CodeOverloaded, true},
		{"a proxy's 502", 502, "<html>", wire.CodeUnavailable, true},
		{"bare 503", 503, "", wire.CodeUnavailable, true},
		{"bare 500", 500, "panic", wire.CodeInternal, false},
		{"error without code", 500, `{"error":{"message":"m"}}`, wire.CodeInternal, false},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			c := serve(t, answer(k.status, k.body), client.Options{})
			_, err := c.Embed(t.Context(), &wire.EmbedRequest{})
			require.Equal(t, k.retryable, requireCode(t, err, k.code).Retryable)
			_, err = c.Generate(t.Context(), &wire.GenerateRequest{})
			requireCode(t, err, k.code)
			_, err = c.KVSession(t.Context(), "save", "probe", 0)
			requireCode(t, err, k.code)
		})
	}
}

func TestClient_DeadStationIsUnavailable(t *testing.T) {
	s := httptest.NewServer(answer(200, "{}"))
	c := dial(t, s.URL, client.Options{})
	_, err := c.Health(t.Context())
	require.NoError(t, err)
	s.Close()
	_, err = c.Health(t.Context())
	require.True(t, requireCode(t, err, wire.CodeUnavailable).Retryable)
	_, err = c.Generate(t.Context(), &wire.GenerateRequest{})
	requireCode(t, err, wire.CodeUnavailable)
}

// What a request may have done to the station decides whether it is asked of the next one.
func TestClient_TellsWhetherTheStationHadTheRequest(t *testing.T) {
	refuse := func(code wire.Code) http.HandlerFunc {
		return answer(http.StatusServiceUnavailable, `{"error":{"code":"`+string(code)+`","message":"no"}}`)
	}
	die := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		station http.HandlerFunc
		warm    bool // a connection is kept from before
		gone    bool // nobody listens any more
		taken   bool
	}{
		"loading":                    {station: refuse(wire.CodeLoading)},
		"draining":                   {station: refuse(wire.CodeDraining)},
		"nobody there":               {station: die, gone: true},
		"gone since the last":        {station: die, warm: true, gone: true},
		"ends before it answers":     {station: die, taken: true},
		"a gateway without an end":   {station: answer(http.StatusBadGateway, ""), taken: true},
		"an answer that breaks off":  {station: answer(200, `{"type":"progress"`), taken: true},
		"an error inside the answer": {station: answer(200, `{"type":"error","error":{"code":"draining","message":"no"}}`), taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == wire.RouteHealth {
					answer(200, "{}")(w, r)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				c.station(w, r)
			}))
			defer s.Close()
			client := dial(t, s.URL, client.Options{})
			if c.warm {
				_, err := client.Health(t.Context())
				require.NoError(t, err)
			}
			if c.gone {
				s.Close()
			}
			stream, err := client.Generate(t.Context(), &wire.GenerateRequest{})
			if err == nil {
				defer stream.Close()
				_, err = stream.Next()
			}
			var e *wire.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.taken, e.Taken, e.Message)
		})
	}
}

// It ends at a request over a kept connection: sent once more, that meets nobody.
func TestClient_ARequestThatEndedTheStationWasTakenAlthoughItIsRefusedLater(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.RouteHealth {
			answer(200, "{}")(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_ = l.Close()
		panic(http.ErrAbortHandler)
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	defer func() { _ = s.Close(); <-served }()
	c := dial(t, "http://"+l.Addr().String(), client.Options{})
	_, err = c.Health(t.Context())
	require.NoError(t, err)
	_, err = c.Generate(t.Context(), &wire.GenerateRequest{})
	e := requireCode(t, err, wire.CodeUnavailable)
	require.Contains(t, e.Message, "refused")
	require.True(t, e.Taken)
}

func TestClient_AnswerThatIsNoJSONIsUnavailable(t *testing.T) {
	for _, body := range []string{"", "<html>", `{"status":`} {
		c := serve(t, answer(200, body), client.Options{})
		_, err := c.Health(t.Context())
		requireCode(t, err, wire.CodeUnavailable)
	}
}

func TestClient_UnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(answer(200, `{"status":"ok","wire":1}`))
	require.NoError(t, s.Listener.Close())
	s.Listener = l
	s.Start()
	defer s.Close()
	h, err := dial(t, "unix://"+path, client.Options{}).Health(t.Context())
	require.NoError(t, err)
	require.Equal(t, wire.StatusOK, h.Status)
}

func TestClient_TrailingSlashInTheAddress(t *testing.T) {
	var path string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		_, _ = io.WriteString(w, "{}")
	}))
	defer s.Close()
	_, err := dial(t, s.URL+"/", client.Options{}).Health(t.Context())
	require.NoError(t, err)
	require.Equal(t, wire.RouteHealth, path)
}

func TestClient_KeepsConnections(t *testing.T) {
	conns := map[string]bool{}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conns[r.RemoteAddr] = true
		_, _ = io.WriteString(w, "{}\n")
	}, client.Options{})
	for range 5 {
		_, err := c.Health(t.Context())
		require.NoError(t, err)
	}
	require.Len(t, conns, 1)
}

func TestClient_EndOfTheCallersContext(t *testing.T) {
	for name, k := range map[string]struct {
		end  func(context.Context) (context.Context, context.CancelFunc)
		code wire.Code
	}{
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }, wire.CodeCancelled},
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 100*time.Millisecond)
		}, wire.CodeTimeout},
	} {
		t.Run(name+" before the answer", func(t *testing.T) {
			arrived := make(chan struct{})
			left := make(chan struct{})
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				close(arrived)
				<-r.Context().Done()
				close(left)
			}, client.Options{})
			ctx, cancel := k.end(t.Context())
			defer cancel()
			go func() {
				<-arrived
				if k.code == wire.CodeCancelled {
					cancel()
				}
			}()
			_, err := c.Health(ctx)
			requireCode(t, err, k.code)
			<-left // the station learns of it
		})
		t.Run(name+" in a stream", func(t *testing.T) {
			left := make(chan struct{})
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, `{"type":"text","text":"a"}`+"\n")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				close(left)
			}, client.Options{})
			ctx, cancel := k.end(t.Context())
			defer cancel()
			s, err := c.Generate(ctx, &wire.GenerateRequest{})
			require.NoError(t, err)
			defer s.Close()
			f, err := s.Next()
			require.NoError(t, err)
			require.Equal(t, "a", f.Text)
			if k.code == wire.CodeCancelled {
				cancel()
			}
			_, err = s.Next()
			requireCode(t, err, k.code)
			<-left
		})
	}
}

// A station whose connection ends without an answer may have done what it was asked
// for: what goes on from where a session is must not be asked for again.
func TestClient_AsksAgainOnlyWhatMayBeDoneTwice(t *testing.T) {
	stream := func(s *client.Stream, err error) error {
		if err != nil {
			return err
		}
		return s.Close()
	}
	for name, k := range map[string]struct {
		call  func(context.Context, *client.Client) error
		again bool
	}{
		"model": {func(x context.Context, c *client.Client) error { _, err := c.Model(x); return err }, true},
		"tokenize": {func(x context.Context, c *client.Client) error {
			_, err := c.Tokenize(x, &wire.TokenizeRequest{})
			return err
		}, true},
		"generate": {func(x context.Context, c *client.Client) error { return stream(c.Generate(x, &wire.GenerateRequest{})) }, true},
		"rerank": {func(x context.Context, c *client.Client) error {
			_, err := c.Rerank(x, &wire.RerankRequest{})
			return err
		}, true},
		"vectors": {func(x context.Context, c *client.Client) error {
			_, err := c.Vectors(x, &wire.EmbedRequest{Input: []string{"a"}})
			return err
		}, true},
		"save": {func(x context.Context, c *client.Client) error {
			_, err := c.KVSave(x, "s", 1, &wire.KVSaveRequest{})
			return err
		}, true},
		"delete": {func(x context.Context, c *client.Client) error {
			_, err := c.KVDelete(x, "s", &wire.KVDeleteRequest{})
			return err
		}, true},
		"embed": {func(x context.Context, c *client.Client) error {
			_, err := c.Embed(x, &wire.EmbedRequest{Session: "s"})
			return err
		}, false},
		"load": {func(x context.Context, c *client.Client) error {
			_, err := c.KVLoad(x, "s", 0, &wire.KVLoadRequest{})
			return err
		}, false},
		"forward": {func(x context.Context, c *client.Client) error {
			_, err := c.Forward(x, &wire.ForwardRequest{Session: "s"})
			return err
		}, false},
		"decodeNext": {func(x context.Context, c *client.Client) error {
			return stream(c.DecodeNext(x, &wire.DecodeRequest{Session: "s"}))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if r.URL.Path != wire.RouteHealth {
					if asked.Add(1) == 1 {
						panic(http.ErrAbortHandler)
					}
				}
				_, _ = io.WriteString(w, "{}\n")
			}, client.Options{})
			_, err := c.Health(t.Context()) // leaves its connection
			require.NoError(t, err)
			err = k.call(t.Context(), c)
			if k.again {
				require.NoError(t, err)
				require.EqualValues(t, 2, asked.Load())
				return
			}
			requireCode(t, err, wire.CodeUnavailable)
			require.EqualValues(t, 1, asked.Load())
		})
	}
}

func TestRequestID_RoundTrips(t *testing.T) {
	require.Empty(t, client.RequestID(t.Context()))
	require.Equal(t, "a", client.RequestID(client.WithRequestID(t.Context(), "a")))
}

// do gives *wire.Error through the error interface: a typed nil would be an error.
func TestClient_SuccessIsANilError(t *testing.T) {
	c := serve(t, answer(200, "{}"), client.Options{})
	_, err := c.Health(t.Context())
	require.True(t, err == nil)
	_, err = c.KVSession(t.Context(), "save", "probe", 0)
	require.True(t, err == nil)
}
