package host

import (
	"bufio"
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/liquid"
	"thoth/station/wire"
)

func TestQuota_RequestsFillEvenly(t *testing.T) {
	q, now := newQuota(KeyLimits{RequestsPerMinute: 3}), time.Unix(1000, 0)
	enter := func() time.Duration {
		if e := q.enter(now); e != nil {
			require.Equal(t, 429, e.Status())
			require.Contains(t, e.Message, "requests per minute: this key may send 3")
			return e.RetryAfter
		}
		q.leave(now, 0, 0)
		return 0
	}
	for range 3 {
		require.Zero(t, enter(), "a whole minute's worth at once")
	}
	require.InDelta(t, 20, enter().Seconds(), .001)
	now = now.Add(19 * time.Second)
	require.InDelta(t, 1, enter().Seconds(), .001)
	now = now.Add(1001 * time.Millisecond)
	require.Zero(t, enter())
	require.NotZero(t, enter())
	n, left, tokens := q.used(now)
	require.Equal(t, keyCount{Requests: 4, Limited: 3}, n)
	require.Equal(t, 0, *left)
	require.Nil(t, tokens)
}

func TestQuota_TokensLeaveADebt(t *testing.T) {
	q, now := newQuota(KeyLimits{TokensPerMinute: 600}), time.Unix(1000, 0)
	require.Nil(t, q.enter(now))
	require.Nil(t, q.enter(now), "what runs has cost nothing yet")
	q.leave(now, 1000, 500) // more than the bucket holds
	q.leave(now, 0, 0)
	e := q.enter(now)
	require.Contains(t, e.Message, "tokens per minute: this key may use 600")
	require.InDelta(t, 90, e.RetryAfter.Seconds(), .2) // 900 owed, ten a second
	require.NotNil(t, q.enter(now.Add(90*time.Second)))
	require.Nil(t, q.enter(now.Add(91*time.Second)))
	n, _, _ := q.used(now)
	require.EqualValues(t, 1000, n.PromptTokens)
	require.EqualValues(t, 500, n.CompletionTokens)
}

func TestQuota_ConcurrentRequestsEndWithTheirAnswers(t *testing.T) {
	q, now := newQuota(KeyLimits{ConcurrentRequests: 2, RequestsPerMinute: 4}), time.Unix(1000, 0)
	require.Nil(t, q.enter(now))
	require.Nil(t, q.enter(now))
	e := q.enter(now)
	require.Contains(t, e.Message, "concurrent requests: this key may have 2 in flight, and 2 are")
	require.Equal(t, time.Second, e.RetryAfter)
	q.leave(now, 0, 0)
	require.Nil(t, q.enter(now), "the refused one has used nothing of the rate")
	q.leave(now, 0, 0)
	require.Nil(t, q.enter(now))
}

// limited are two keys, one with limits, and one for admins alone.
func limited(o *Options) {
	o.Keys = []Key{
		{"small", sha256.Sum256([]byte("k-small")), []KeyScope{ScopeInference}, KeyLimits{RequestsPerMinute: 2, TokensPerMinute: 100000, ConcurrentRequests: 1}},
		{"free", sha256.Sum256([]byte("k-free")), []KeyScope{ScopeInference}, KeyLimits{}},
		{"boss", sha256.Sum256([]byte("k-boss")), []KeyScope{ScopeAdmin}, KeyLimits{}},
	}
}

func TestKeys_LimitsAnswer429WithHeaders(t *testing.T) {
	h := newHost(t, newFakeStation(t), limited)
	chat := func(key string) reply {
		return h.do("POST", "/v1/chat/completions", body(), "Authorization", "Bearer "+key)
	}
	r := chat("k-small")
	require.Equal(t, 200, r.status, r.body)
	require.Equal(t, "2", r.header.Get("x-ratelimit-limit-requests"))
	require.Equal(t, "1", r.header.Get("x-ratelimit-remaining-requests"))
	reset, err := time.ParseDuration(r.header.Get("x-ratelimit-reset-requests"))
	require.NoError(t, err)
	require.InDelta(t, 30, reset.Seconds(), 1)
	require.Equal(t, "100000", r.header.Get("x-ratelimit-limit-tokens"))
	require.Equal(t, "100000", r.header.Get("x-ratelimit-remaining-tokens"))
	require.Equal(t, 400, h.do("POST", "/v1/chat/completions", `{}`, "X-Api-Key", "k-small").status, "a wrong request counts, too")
	r = chat("k-small")
	require.Equal(t, 429, r.status)
	require.Equal(t, "rate_limit_exceeded", r.code(t))
	require.Contains(t, r.body, "requests per minute: this key may send 2")
	require.Regexp(t, `^(29|30)$`, r.header.Get("Retry-After"))
	require.Equal(t, "0", r.header.Get("x-ratelimit-remaining-requests"))

	require.Equal(t, 200, h.get("/v1/models", "Authorization", "Bearer k-small").status, "what asks no model is free")
	for range 5 {
		r = chat("k-free")
		require.Equal(t, 200, r.status)
		require.Empty(t, r.header.Get("x-ratelimit-limit-requests"))
	}
	r = chat("k-boss")
	require.Equal(t, 403, r.status)
	require.Contains(t, r.body, "needs a key with the scope inference")
	h.eventually(func() bool { return strings.Contains(h.logs.String(), `"key":"small"`) })
	require.NotContains(t, h.logs.String(), "k-small")
}

func TestKeys_ConcurrencyIsGivenBackWhenTheClientGoes(t *testing.T) {
	f := newFakeStation(t)
	f.does(forever)
	h := newHost(t, f, func(o *Options) {
		limited(o)
		o.Keys[0].Limits.RequestsPerMinute = 0
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", h.base+"/v1/chat/completions", strings.NewReader(body(`"stream":true`)))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer k-small")
	resp, err := h.http.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	r := h.do("POST", "/v1/chat/completions", body(), "Authorization", "Bearer k-small")
	require.Equal(t, 429, r.status)
	require.Contains(t, r.body, "concurrent requests: this key may have 1 in flight, and 1 are")
	require.Equal(t, "1", r.header.Get("Retry-After"))
	_, err = io.ReadFull(resp.Body, make([]byte, 4000)) // some tokens
	require.NoError(t, err)
	cancel()
	f.does(hello)
	h.eventually(func() bool {
		return h.do("POST", "/v1/chat/completions", body(), "Authorization", "Bearer k-small").status == 200
	})
	h.eventually(func() bool {
		k := h.get("/stats", "Authorization", "Bearer k-small").json(t)["keys"].([]any)[0].(map[string]any)
		return k["in_flight"] == 0. && k["completion_tokens"].(float64) > 5 // those of the answer that was broken off, and 2
	})
}

// start sends a request that its client leaves by the function it gives.
func (h *testHost) start(path, body string) (answered chan *http.Response, leave func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", h.base+path, strings.NewReader(body))
	require.NoError(h.t, err)
	req.Header.Set("Authorization", "Bearer k-free")
	answered = make(chan *http.Response, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if resp, err := h.http.Do(req); err == nil {
			answered <- resp
		}
	}()
	return answered, func() { cancel(); <-ended }
}

// charged is what the key of start has paid for prompts, once it has.
func (h *testHost) charged() (tokens float64) {
	h.t.Helper()
	h.eventually(func() bool {
		k := h.get("/stats", "Authorization", "Bearer k-free").json(h.t)["keys"].([]any)[0].(map[string]any)
		tokens = k["prompt_tokens"].(float64)
		return k["in_flight"] == 0. && tokens > 0
	})
	return tokens
}

func TestKeys_EveryPromptOfARequestBrokenOffIsPaidFor(t *testing.T) {
	f := newFakeStation(t)
	f.does(func(ctx context.Context, q *wire.GenerateRequest, out *frames) {
		if q.Prompt.Segments[0].Text == "told" {
			out.send(wire.Frame{Type: wire.FrameProgress, Progress: &wire.Progress{Position: 60, Total: 100}})
		}
		out.text(q.Prompt.Segments[0].Text)
		<-ctx.Done()
	})
	h := newHost(t, f, limited)
	answered, leave := h.start("/v1/completions", `{"model":"`+model+`","prompt":["told","`+strings.Repeat("a", 40)+`"],"n":2,"stream":true}`)
	resp := <-answered
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for texts := 0; texts < 4; {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		if strings.HasPrefix(line, "data: ") {
			texts++
		}
	}
	leave()
	require.Equal(t, 100.+40/4, h.charged())
}

func TestJob_APromptIsChargedAsFarAsItWasRead(t *testing.T) {
	j := &job{rec: new(record), prompts: 2, calls: make([]liquid.Request, 4)}
	spent := func(want int) { t.Helper(); require.Equal(t, want, j.rec.spent.PromptTokens) }
	j.progress(0, &wire.Progress{Position: 30, Total: 100})
	j.progress(1, &wire.Progress{Position: 20, Total: 100})
	spent(30)
	j.progress(2, &wire.Progress{Position: 5, Total: 50})
	spent(35)
	j.begun(3)
	spent(80)
	j.charge(2, 51) // by its done frame
	spent(81)

	told := &wire.GenerateRequest{Prompt: wire.Prompt{Segments: []wire.Segment{{Text: "abcde"}, {Text: "f"}}}}
	j = &job{rec: new(record), prompts: 2, calls: []liquid.Request{{Generate: told}, {Generate: told}}}
	j.begun(1)
	spent(0)
	j.brokenOff()
	spent(2) // the one that was answered
}

func TestKeys_EmbeddingsBrokenOffArePaidFor(t *testing.T) {
	for input, want := range map[string]float64{`["` + strings.Repeat("a", 40) + `","abcdef"]`: 12, `[[1,2,3],[4]]`: 4} {
		f := newFaultStation(t)
		asked := make(chan struct{})
		f.fault(wire.RouteEmbed, func(w http.ResponseWriter, r *http.Request) { close(asked); hangs(w, r) })
		h := startHost(t, f.srv.URL, limited, func(o *Options) { o.LiquidMemory = false })
		h.await(200)
		_, leave := h.start("/v1/embeddings", `{"model":"`+model+`","input":`+input+`}`)
		<-asked
		leave()
		require.Equal(t, want, h.charged(), input)
	}
}

func TestKeys_NumbersAreTheCallersOwnAndAllForAdmins(t *testing.T) {
	f := newFakeStation(t)
	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.text("Hi")
		out.done(wire.ReasonEOG, 1)
	})
	h := newHost(t, f, limited)
	auth := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	for _, key := range []string{"k-small", "k-free", "k-free"} {
		require.Equal(t, 200, h.do("POST", "/v1/chat/completions", body(), auth(key)...).status)
	}
	names := func(key string) (names []string) {
		for _, k := range h.get("/stats", auth(key)...).json(t)["keys"].([]any) {
			names = append(names, k.(map[string]any)["name"].(string))
		}
		return names
	}
	require.Equal(t, []string{"small"}, names("k-small"))
	require.Equal(t, []string{"free"}, names("k-free"))
	require.Equal(t, []string{"small", "free", "boss"}, names("k-boss"))
	h.eventually(func() bool {
		k := h.get("/stats", auth("k-small")...).json(t)["keys"].([]any)[0].(map[string]any)
		return k["requests"] == 1. && k["prompt_tokens"] == 9. && k["completion_tokens"] == 1. && k["in_flight"] == 0.
	})
	for _, key := range []string{"k-small", "k-free"} {
		require.NotContains(t, h.get("/metrics", auth(key)...).body, "thoth_key_")
	}
	all := h.get("/metrics", auth("k-boss")...).body
	require.Contains(t, all, `thoth_key_requests_total{key="free"} 2`)
	require.Contains(t, all, `thoth_key_tokens_total{key="small",kind="prompt"} 9`)
	require.NotContains(t, all, "k-free")
	require.NotContains(t, newHost(t, f).get("/stats").body, `"keys"`)
}
