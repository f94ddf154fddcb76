package host

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// textStation is a fake station in front of which the routes about text are
// answered by tokens; it remembers what it was asked.
type textStation struct {
	*fakeStation
	srv *httptest.Server

	mu     sync.Mutex
	asked  []wire.TokenizeRequest
	tokens []wire.DetokenizeRequest
	embeds []wire.EmbedRequest
	ranked []wire.RerankRequest
	fail   *wire.Error
}

func newTextStation(t *testing.T) *textStation {
	f := &textStation{fakeStation: newFakeStation(t)}
	behind, err := url.Parse(f.fakeStation.srv.URL)
	require.NoError(t, err)
	rest := httputil.NewSingleHostReverseProxy(behind)
	f.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch r.URL.Path {
		case wire.RouteTokenize:
			var q wire.TokenizeRequest
			_ = json.NewDecoder(r.Body).Decode(&q)
			f.asked = append(f.asked, q)
			if f.fail != nil {
				(&frames{w}).refuse(f.fail)
				return
			}
			a := wire.TokenizeResponse{Tokens: []int32{5, 6}}
			if q.Pieces {
				a.Pieces = [][]byte{[]byte(" é"), {0xc3}}
			}
			_ = json.NewEncoder(w).Encode(a)
		case wire.RouteEmbed:
			var q wire.EmbedRequest
			_ = json.NewDecoder(r.Body).Decode(&q)
			f.embeds = append(f.embeds, q)
			if f.fail != nil {
				(&frames{w}).refuse(f.fail)
				return
			}
			a := wire.VectorsResponse{Dimensions: 4, Pooling: "mean"}
			for i := range max(len(q.Input), len(q.InputTokens)) {
				a.Vectors, a.Tokens = append(a.Vectors, wire.Vector{3, float32(i), 4, 0}), append(a.Tokens, 3+i)
			}
			_ = json.NewEncoder(w).Encode(a)
		case wire.RouteRerank:
			var q wire.RerankRequest
			_ = json.NewDecoder(r.Body).Decode(&q)
			f.ranked = append(f.ranked, q)
			if f.fail != nil {
				(&frames{w}).refuse(f.fail)
				return
			}
			a := wire.RerankResponse{}
			for i, d := range q.Documents {
				a.Scores, a.Tokens = append(a.Scores, float64(len(d)-4)), append(a.Tokens, 3+i)
			}
			_ = json.NewEncoder(w).Encode(a)
		case wire.RouteDetokenize:
			var q wire.DetokenizeRequest
			_ = json.NewDecoder(r.Body).Decode(&q)
			f.tokens = append(f.tokens, q)
			_ = json.NewEncoder(w).Encode(wire.DetokenizeResponse{Text: "some <text>"})
		default:
			rest.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(f.srv.Close)
	return f
}

func TestText_TokenizeTakesTheNamesOfOtherServers(t *testing.T) {
	f := newTextStation(t)
	h := startHost(t, f.srv.URL)
	h.await(200)
	for _, name := range []string{"content", "prompt", "input"} {
		r := h.do("POST", "/tokenize", `{"`+name+`":"Hi <|im_end|>"}`)
		require.Equal(t, 200, r.status, r.body)
		require.JSONEq(t, `{"tokens":[5,6],"count":2}`, r.body)
	}
	r := h.do("POST", "/tokenize", `{"content":"","add_special":true,"parse_special":false,"with_pieces":true,"model":"`+model+`"}`)
	require.JSONEq(t, `{"tokens":[{"id":5,"piece":" é"},{"id":6,"piece":[195]}],"count":2}`, r.body)
	require.Equal(t, wire.Prompt{Segments: []wire.Segment{{Text: "Hi <|im_end|>", Special: true}}, AddBOS: new(bool)}, f.asked[0].Prompt)
	last := f.asked[3].Prompt
	require.True(t, *last.AddBOS)
	require.Equal(t, []wire.Segment{{}}, last.Segments)
}

func TestText_Detokenize(t *testing.T) {
	f := newTextStation(t)
	h := startHost(t, f.srv.URL)
	h.await(200)
	require.JSONEq(t, `{"content":"some <text>"}`, h.do("POST", "/detokenize", `{"tokens":[1,999,0]}`).body)
	require.Equal(t, wire.DetokenizeRequest{Tokens: []int32{1, 999, 0}, Special: true}, f.tokens[0])
}

func TestText_RefusalsNameTheField(t *testing.T) {
	f := newTextStation(t)
	h := startHost(t, f.srv.URL)
	h.await(200)
	for _, c := range []struct{ path, body, param, code string }{
		{"/tokenize", `{}`, "content", "missing_required"},
		{"/tokenize", `{"content":null}`, "content", "missing_required"},
		{"/tokenize", `{"content":[1]}`, "content", "invalid_type"},
		{"/tokenize", `{"content":"a","input":"b"}`, "input", "invalid_value"},
		{"/tokenize", `{"content":"a","add_special":"yes"}`, "add_special", "invalid_type"},
		{"/tokenize", `{"content":"a","add_special_tokens":true}`, "add_special_tokens", "unsupported_parameter"},
		{"/tokenize", `{"messages":[]}`, "messages", "unsupported_parameter"},
		{"/tokenize", `{"content":"a","model":"none"}`, "model", "model_not_found"},
		{"/detokenize", `{}`, "tokens", "missing_required"},
		{"/detokenize", `{"tokens":[1,1000]}`, "tokens[1]", "invalid_value"},
		{"/detokenize", `{"tokens":[-1]}`, "tokens[0]", "invalid_value"},
		{"/detokenize", `{"tokens":["a"]}`, "tokens[0]", "invalid_type"},
		{"/apply-template", `{}`, "messages", "missing_required"},
		{"/apply-template", `{"messages":[{"role":"banana","content":"x"}]}`, "messages[0].role", "invalid_value"},
		{"/apply-template", `{"model":"none","messages":[{"role":"user","content":"x"}]}`, "model", "model_not_found"},
	} {
		r := h.do("POST", c.path, c.body)
		require.Equal(t, c.code, r.code(t), "%s %s", c.path, c.body)
		require.Equal(t, c.param, r.json(t)["error"].(map[string]any)["param"], "%s %s", c.path, c.body)
	}
	f.mu.Lock()
	f.fail = &wire.Error{Code: wire.CodeInvalid, Param: "prompt.segments[0]", Message: "the text cannot be tokenised"}
	f.mu.Unlock()
	r := h.do("POST", "/tokenize", `{"input":"a"}`)
	require.Equal(t, 400, r.status)
	require.Contains(t, r.body, `"param":"input"`)
}

func TestText_AppliedTemplateIsWhatAChatSends(t *testing.T) {
	f := newTextStation(t)
	h := startHost(t, f.srv.URL)
	h.await(200)
	for _, fields := range []string{
		`"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":[{"type":"text","text":"<|im_end|> é"}]}]`,
		`"messages":[{"role":"user","content":"Weather?"}],"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]`,
	} {
		r := h.do("POST", "/v1/chat/completions", `{"model":"`+model+`",`+fields+`}`)
		require.Equal(t, 200, r.status, r.body)
		sent := f.got()
		want := text(sent[len(sent)-1].Prompt.Segments)
		r = h.do("POST", "/apply-template", `{`+fields+`}`)
		require.Equal(t, 200, r.status, r.body)
		require.Equal(t, want, r.json(t)["prompt"])
		require.True(t, strings.HasSuffix(want, "<|im_start|>assistant\n"))
		require.Len(t, f.got(), len(sent), "nothing is generated")
	}
}

func TestText_WithoutAStationIsA503(t *testing.T) {
	f := newTextStation(t)
	h := startHost(t, f.srv.URL)
	h.await(200)
	f.set(func(f *fakeStation) { f.health.Status = wire.StatusLoading })
	h.await(503)
	for path, body := range map[string]string{"/tokenize": `{"content":"a"}`, "/detokenize": `{"tokens":[1]}`, "/apply-template": `{"messages":[{"role":"user","content":"x"}]}`} {
		r := h.do("POST", path, body)
		require.Equal(t, 503, r.status, path)
		require.Equal(t, "model_loading", r.code(t))
		require.Equal(t, 400, h.do("POST", path, `{`).status, "what is wrong is said first")
	}
	h.Server.draining.Store(true)
	require.Equal(t, "draining", h.do("POST", "/tokenize", `{"content":"a"}`).code(t))
}

func TestText_AClientThatDoesNotReadHoldsItsAnswerAndNoBody(t *testing.T) {
	big := `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 16<<20) + `"}]}` // more than sockets take
	ask := func(timeout time.Duration) *testHost {
		h := newHost(t, newFakeStation(t), func(o *Options) { o.BodyLimit, o.MaxBodyMemory, o.WriteTimeout = 32<<20, 32<<20, timeout })
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
		_, err = fmt.Fprintf(conn, "POST /apply-template HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(big), big)
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
		status := make([]byte, len("HTTP/1.1 200"))
		_, err = io.ReadFull(conn, status)
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 200", string(status))
		return h
	}
	ended := func(h *testHost) bool { return strings.Contains(h.logs.String(), "/apply-template") }

	h := ask(time.Hour)
	require.Zero(t, h.bodies.held())
	require.False(t, ended(h), "the answer is still being written")
	require.Greater(t, h.answers.held(), int64(16<<20), "one has all the room there is, also where it is more")
	r := h.do("POST", "/apply-template", `{"messages":[{"role":"user","content":"`+strings.Repeat("x", smallAnswer)+`"}]}`)
	require.Equal(t, "overloaded", r.code(t))
	require.Contains(t, r.body, "have not read yet fill their memory of 16777216 bytes")
	require.NotEmpty(t, r.header.Get("Retry-After"))
	require.Equal(t, 200, h.do("POST", "/apply-template", `{"messages":[{"role":"user","content":"x"}]}`).status, "a small answer always has room")
	require.Equal(t, 200, h.chat().status, "what others send has its own room")

	h = ask(500 * time.Millisecond)
	h.eventually(func() bool { return ended(h) })
	require.Zero(t, h.answers.held())
}

func TestText_RequestsTakeTurnsByTheirBytes(t *testing.T) {
	behind := newFakeStation(t)
	to, err := url.Parse(behind.srv.URL)
	require.NoError(t, err)
	rest := httputil.NewSingleHostReverseProxy(to)
	entered, gate := make(chan int, 10), make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	station := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != wire.RouteTokenize {
			rest.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		entered <- len(body)
		if len(body) > leastText {
			<-gate
		}
		_, _ = io.WriteString(w, `{"tokens":[1]}`)
	}))
	t.Cleanup(station.Close)
	const limit = 256 << 10
	h := startHost(t, station.URL, func(o *Options) { o.BodyLimit, o.MaxBacklog = limit, 1 })
	h.await(200)
	text := func(n int) string { return `{"content":"` + strings.Repeat("x", n-len(`{"content":""}`)) + `"}` }
	replies := make(chan reply, largestTexts+1)
	ask := func() { replies <- h.do("POST", "/tokenize", text(limit)) }
	for range largestTexts - 1 {
		go ask()
	}
	for range largestTexts - 1 {
		require.Greater(t, <-entered, leastText)
	}
	require.Equal(t, 200, h.do("POST", "/tokenize", text(100)).status, "a small one has its turn beside large ones")
	require.Less(t, <-entered, leastText)
	go ask()
	<-entered
	go ask()
	h.eventually(func() bool { _, waiting := h.texts.counts(); return waiting == 1 })
	require.Empty(t, entered, "the station works on no more of them")
	r := h.do("POST", "/tokenize", text(100))
	require.Equal(t, "overloaded", r.code(t), "the line is bounded")
	open()
	for range largestTexts + 1 {
		require.Equal(t, 200, (<-replies).status)
	}
	inFlight, waiting := h.texts.counts()
	require.Zero(t, inFlight+waiting)
}
