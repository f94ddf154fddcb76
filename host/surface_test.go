package host

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// Tests of the HTTP surface: routes, headers, keys, limits.

func TestSurface_UnknownRoutesAndMethodsAreEnvelopes(t *testing.T) {
	h := newHost(t, newFakeStation(t))
	for _, c := range []struct {
		method, path, allow string
		status              int
	}{
		{"GET", "/v1/chat/completions", "POST", 405}, {"DELETE", "/v1/chat/completions", "POST", 405},
		{"OPTIONS", "/v1/chat/completions", "POST", 405}, {"POST", "/v1/models", "GET, HEAD", 405},
		{"PUT", "/health", "GET, HEAD", 405}, {"POST", "/v1/nope", "", 404}, {"GET", "/v1/embeddings", "POST", 405},
		{"GET", "/v1/responses", "POST", 405}, {"GET", "/v1/responses/input_tokens", "POST", 405}, {"DELETE", "/v1/responses/input_tokens", "POST", 405}, {"PUT", "/v1/responses/input_tokens", "POST", 405}, {"PUT", "/v1/responses/resp_a", "GET, HEAD, DELETE", 405}, {"GET", "/v1/responses/resp_a/cancel", "POST", 405}, {"POST", "/v1/responses/a/b", "", 404}, {"GET", "/", "", 404}, {"GET", "/v1/models/none", "", 404},
		{"BREW", "/health", "GET, HEAD", 405},
	} {
		r := h.do(c.method, c.path, "")
		require.Equal(t, c.status, r.status, "%s %s", c.method, c.path)
		r.code(t)
		require.Equal(t, c.allow, r.header.Get("Allow"), c.path)
	}
}

func TestSurface_ModelsListAndNames(t *testing.T) {
	f := newFakeStation(t)
	f.model.Name = ""
	f.model.File = "My Model.Q4_1.gguf"
	h := newHost(t, f, func(o *Options) { o.Aliases = []string{"org/alias:latest"} })
	m := h.get("/v1/models").json(t)
	require.Equal(t, "list", m["object"])
	require.Len(t, m["data"], 2)
	for i, want := range []string{"My-Model.Q4_1", "org/alias:latest"} {
		e := m["data"].([]any)[i].(map[string]any)
		require.Equal(t, want, e["id"])
		require.Equal(t, "model", e["object"])
		require.NotZero(t, e["created"])
		require.NotEmpty(t, e["owned_by"])
		r := h.do("POST", "/v1/chat/completions", `{"model":"`+want+`","messages":[{"role":"user","content":"x"}]}`)
		require.Equal(t, 200, r.status)
		require.Equal(t, "My-Model.Q4_1", r.json(t)["model"])
	}
	for _, path := range []string{"org/alias:latest", "org%2Falias%3Alatest"} {
		require.Equal(t, "org/alias:latest", h.get("/v1/models/" + path).json(t)["id"])
	}
	require.Equal(t, "model_not_found", h.get("/v1/models/none").code(t))
}

func TestSurface_ServedNameIsNeverAPath(t *testing.T) {
	for in, want := range map[[2]string]string{
		{"SmolLM2 135M", "f.gguf"}:      "SmolLM2-135M",
		{"/home/me/models/secret", "f"}: "secret",
		{"", "/abs/path/llama-3.gguf"}:  "llama-3",
		{"..", ""}:                      "default",
		{"模型", "мой.gguf"}:              "default",
	} {
		require.Equal(t, want, servedName(&wire.Model{Name: in[0], File: in[1]}))
	}
}

func TestSurface_KeysGuardAllButTheProbes(t *testing.T) {
	h := newHost(t, newFakeStation(t), func(o *Options) { o.APIKeys = []string{"key-one", "key-two"} })
	for _, path := range []string{"/health", "/livez", "/readyz"} {
		require.Equal(t, 200, h.get(path).status)
		r := h.do("HEAD", path, "")
		require.Equal(t, 200, r.status)
		require.Empty(t, r.body)
	}
	for _, path := range []string{"/v1/models", "/stats", "/metrics", "/v1/nope"} {
		for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer key-on", "Basic key-one", "key-one"} {
			r := h.get(path, "Authorization", auth)
			require.Equal(t, 401, r.status, "%s %q", path, auth)
			require.Equal(t, "invalid_api_key", r.code(t))
			require.Equal(t, "Bearer", r.header.Get("WWW-Authenticate"))
		}
	}
	require.Equal(t, 401, h.chat().status)
	for _, auth := range []string{"Bearer key-one", "bearer key-two"} {
		require.Equal(t, 200, h.do("POST", "/v1/chat/completions", body(), "Authorization", auth).status)
	}
	require.NotContains(t, h.logs.String(), "key-one")
}

func TestSurface_CORSAnswersPreflightsWithoutAKeyAndMarksEverything(t *testing.T) {
	origin := "http://localhost:5173"
	h := newHost(t, newFakeStation(t), func(o *Options) { o.APIKeys, o.CORSOrigins = []string{"k"}, []string{origin} })
	asked := "authorization,content-type,x-stainless-os,x-stainless-lang,x-stainless-retry-count"
	r := h.do("OPTIONS", "/v1/chat/completions", "", "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", asked)
	require.Contains(t, []int{200, 204}, r.status)
	require.Equal(t, origin, r.header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, r.header.Get("Access-Control-Allow-Methods"), "POST")
	got := strings.ToLower(r.header.Get("Access-Control-Allow-Headers"))
	for _, want := range strings.Split(asked, ",") {
		require.True(t, got == "*" || strings.Contains(got, want), got)
	}
	for _, fields := range []string{`"n":1`, `"n":0`, `"stream":true`} {
		r := h.do("POST", "/v1/chat/completions", body(fields), "Origin", origin, "Authorization", "Bearer k")
		require.Equal(t, origin, r.header.Get("Access-Control-Allow-Origin"), fields)
	}
	require.Equal(t, origin, h.get("/v1/nope", "Origin", origin).header.Get("Access-Control-Allow-Origin"), "401 too")
	require.Empty(t, h.get("/v1/models", "Origin", "http://evil").header.Get("Access-Control-Allow-Origin"))
}

func TestSurface_ContentTypes(t *testing.T) {
	h := newHost(t, newFakeStation(t))
	for kind, want := range map[string]int{
		"": 200, "application/json; charset=utf-8": 200, "Application/JSON;charset=UTF-8": 200, "text/plain": 200,
		"application/x-www-form-urlencoded": 200, "application/json; charset=latin1": 415, "multipart/form-data; boundary=x": 415, "a/b/c;;": 415,
	} {
		r := h.do("POST", "/v1/chat/completions", body(), "Content-Type", kind)
		require.Equal(t, want, r.status, kind)
		if want == 415 {
			r.code(t)
			require.Contains(t, r.body, "Content-Type")
		}
	}
	require.Equal(t, 415, h.do("POST", "/v1/chat/completions", body(), "Content-Encoding", "gzip").status)
}

func TestSurface_RequestIDIsTheClientsWhereItIsSane(t *testing.T) {
	h := newHost(t, newFakeStation(t))
	require.Equal(t, "abc-1.2_3", h.get("/livez", "X-Request-Id", "abc-1.2_3").header.Get("X-Request-Id"))
	for _, bad := range []string{"", "a b", strings.Repeat("x", 129), "<script>"} {
		require.Regexp(t, `^req-\w{20,}$`, h.get("/livez", "X-Request-Id", bad).header.Get("X-Request-Id"))
	}
}

func TestSurface_HugeBodiesAreRefusedEarly(t *testing.T) {
	h := newHost(t, newFakeStation(t), func(o *Options) { o.BodyLimit = 1 << 16 })
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	// A length that is announced and never sent.
	conn := dial()
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n0123456789")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, 413, resp.StatusCode)
	// A chunked body without end.
	conn = dial()
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
	go func() {
		chunk := "1000\r\n" + strings.Repeat("x", 0x1000) + "\r\n"
		for {
			if _, err := io.WriteString(conn, chunk); err != nil {
				return
			}
		}
	}()
	resp, err = http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, 413, resp.StatusCode)
	require.Equal(t, 400, h.chat(`"tools":`+strings.Repeat("[", 20000)+strings.Repeat("]", 20000)).status)
	require.Equal(t, 413, h.chat(`"stop":"`+strings.Repeat("x", 1<<17)+`"`).status)
	require.Equal(t, 200, h.chat().status)
}

func TestSurface_HalfSentRequestsAreClosedAndTakeNoPlace(t *testing.T) {
	h := newHost(t, newFakeStation(t), func(o *Options) {
		o.MaxInFlight, o.MaxBacklog = 1, -1
		o.HeaderTimeout, o.BodyTimeout = 300*time.Millisecond, 300*time.Millisecond
	})
	var conns []net.Conn
	for i := range 40 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		conns = append(conns, conn)
		if i%2 == 0 {
			fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost:")
		} else {
			fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{\"model\":")
		}
	}
	require.Equal(t, 200, h.chat().status)
	for i, conn := range conns {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
		b, err := io.ReadAll(conn)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "closed by the server")
		if i%2 == 1 {
			require.Contains(t, string(b), "408")
		}
	}
	// Where no handler reads the body, too.
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/nope HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\nhalf")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = io.ReadAll(conn)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	// A kept connection has no deadline left over from its last request.
	require.Equal(t, 200, h.chat().status)
	time.Sleep(350 * time.Millisecond) // longer than the body's time
	require.Equal(t, 200, h.chat(`"stream":true`).status)
}

func TestSurface_HealthTellsTheWholeStory(t *testing.T) {
	f := newFakeStation(t)
	f.health.KVReason = "not built"
	h := newHost(t, f)
	m := h.get("/health").json(t)
	require.Equal(t, "ok", m["status"])
	require.Equal(t, false, m["liquid_memory"])
	require.Equal(t, true, m["liquid_memory_env"])
	require.Equal(t, false, m["station_kv_session"])
	require.Equal(t, "the station cannot save KV sessions: not built", m["liquid_reason"])
	require.Equal(t, "model", m["chat_template"])
	require.Equal(t, "fake.gguf", m["model"].(map[string]any)["file"])
	require.Equal(t, "cpu", m["station"].(map[string]any)["backend"].(map[string]any)["selected"])
}

func TestSurface_OlderStationWithoutFieldsIsServedAndProbed(t *testing.T) {
	f := newFakeStation(t)
	f.health = wire.Health{}
	h := newHost(t, f)
	require.Equal(t, 200, h.chat().status)
	m := h.get("/health").json(t)
	require.Equal(t, false, m["station_kv_session"])
	require.Equal(t, "the station cannot save KV sessions", m["liquid_reason"])
}

func TestSurface_MetricsAndStatsCount(t *testing.T) {
	h := newHost(t, newFakeStation(t))
	require.Equal(t, 200, h.chat().status)
	require.Equal(t, 400, h.chat(`"n":0`).status)
	require.Equal(t, 404, h.get("/made-up-by-the-client").status)
	h.eventually(func() bool { return strings.Contains(h.logs.String(), "unknown") })
	metrics := h.get("/metrics").body
	for _, want := range []string{
		`thoth_http_requests_total{method="POST",route="/v1/chat/completions",status="200"} 1`,
		`thoth_http_requests_total{method="GET",route="unknown",status="404"} 1`,
		`thoth_tokens_total{kind="completion"} 2`, `thoth_errors_total{code="invalid_value"} 1`, `thoth_ready 1`, `thoth_in_flight 0`,
		`thoth_chat_first_token_seconds_count 1`,
	} {
		require.Contains(t, metrics, want)
	}
	require.NotContains(t, metrics, "made-up")
	m := h.get("/stats").json(t)
	require.Equal(t, 1., m["host"].(map[string]any)["chats"])
	require.Equal(t, 7., m["station"].(map[string]any)["steps"])
}

func TestSurface_APanicIsA500AndTheServerGoesOn(t *testing.T) {
	h := newHost(t, newFakeStation(t), func(o *Options) { o.HealthInterval = time.Hour })
	whole := h.station.current()
	// A view that cannot be: it serves and has no health to quote.
	broken := *whole
	broken.health = nil
	h.station.view.Store(&broken)
	r := h.chat()
	require.Equal(t, 500, r.status)
	require.Equal(t, "internal_error", r.code(t))
	require.NotContains(t, r.body, "nil pointer")
	h.eventually(func() bool { return strings.Contains(h.logs.String(), "handler panicked") })
	h.station.view.Store(whole)
	require.Equal(t, 200, h.chat().status)
	a, b := h.admission.counts()
	require.Zero(t, a+b)
}

func TestOptions_ConflictsAreRefused(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f)
	ok := Options{Station: h.o.Station}
	for name, change := range map[string]func(*Options){
		"no station":               func(o *Options) { o.Station = nil },
		"negative time":            func(o *Options) { o.PingInterval = -1 },
		"doubled name":             func(o *Options) { o.ModelName, o.Aliases = "a", []string{"a"} },
		"padded alias":             func(o *Options) { o.Aliases = []string{" a"} },
		"empty key":                func(o *Options) { o.APIKeys = []string{""} },
		"body memory below a body": func(o *Options) { o.MaxBodyMemory = 1 },
		"negative flight":          func(o *Options) { o.MaxInFlight = -1 },
	} {
		o := ok
		change(&o)
		_, err := New(o)
		require.Error(t, err, name)
	}
}
