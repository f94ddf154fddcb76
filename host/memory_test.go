package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/liquid"
	"thoth/station/client"
	"thoth/station/wire"
)

// Tests of what a client sees of liquid memory. That the answers are right is
// proven in package liquid, against a real station.

// faultStation is a storeStation with a place in front where calls can fail.
type faultStation struct {
	*storeStation
	srv *httptest.Server

	faultsMu sync.Mutex
	faults   map[string]http.HandlerFunc
	paths    []string
}

func newFaultStation(t *testing.T) *faultStation {
	f := &faultStation{storeStation: newStoreStation(t), faults: map[string]http.HandlerFunc{}}
	f.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.faultsMu.Lock()
		fault := f.faults[r.URL.Path]
		if r.URL.Path != wire.RouteHealth && r.URL.Path != wire.RouteModel {
			f.paths = append(f.paths, strings.TrimSuffix(r.URL.Path+" "+r.Header.Get(wire.HeaderSessionID), " "))
		}
		f.faultsMu.Unlock()
		if fault != nil {
			fault(w, r)
			return
		}
		f.serve(w, r)
	}))
	t.Cleanup(f.srv.Close)
	return f
}

func (f *faultStation) fault(path string, h http.HandlerFunc) {
	f.faultsMu.Lock()
	defer f.faultsMu.Unlock()
	f.faults[path] = h
}

func (f *faultStation) took() []string {
	f.faultsMu.Lock()
	defer f.faultsMu.Unlock()
	p := f.paths
	f.paths = nil
	return p
}

func (f *faultStation) restores(l wire.KVLoadResponse) {
	f.storeStation.mu.Lock()
	defer f.storeStation.mu.Unlock()
	f.load = l
}

const (
	pathLoad   = wire.RouteKVSession + "/" + wire.VerbLoad
	pathSave   = wire.RouteKVSession + "/" + wire.VerbSave
	pathDelete = wire.RouteKVSession + "/" + wire.VerbDelete
)

func gone(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(code)
	}
}

// hangs answers nothing until its caller goes, whose end shows only once the
// body is read.
func hangs(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// newLiquidHost is a host with liquid memory on and its first measures taken.
func newLiquidHost(t *testing.T, f *faultStation, change ...func(*Options)) *testHost {
	h := startHost(t, f.srv.URL, change...)
	h.await(http.StatusOK)
	h.eventually(func() bool { return h.memory.On() && h.memory.Report(t.Context()).HeadTokens == headBytes })
	f.took()
	return h
}

// Of the fake's template and tokens.
const (
	headBytes   = len("<|im_start|>user\n")
	promptBytes = headBytes + len("Say hi<|im_end|>\n<|im_start|>assistant\n")
)

// streamed is a stream read to its end, trailers and all.
type streamed struct {
	reply
	trailer http.Header
	last    string // event with _gnosis
}

// The station's done frame waits until the client has the first event, which the
// end could otherwise catch up with.
func (h *testHost) stream(f *faultStation, fields ...string) streamed {
	h.t.Helper()
	read := make(chan struct{})
	f.fault(wire.RouteDecodeNext, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		out := &frames{w}
		out.text("Hello")
		<-read
		out.send(wire.Frame{Type: wire.FrameDone, Done: &wire.Done{Reason: wire.ReasonEOG, PromptTokens: promptBytes, CompletionTokens: 1, Position: promptBytes + 1}})
	})
	defer f.fault(wire.RouteDecodeNext, nil)
	l := h.open(fields...)
	first := l.next(h.t)
	close(read)
	b, err := io.ReadAll(l.lines)
	require.NoError(h.t, err)
	s := streamed{reply: reply{l.resp.StatusCode, l.resp.Header, first + "\n\n" + string(b)}, trailer: l.resp.Trailer}
	for e := range strings.SplitSeq(s.body, "\n\n") {
		if strings.Contains(e, `"_gnosis"`) {
			s.last = e
		}
	}
	return s
}

// shown is what a header says of liquid memory.
func shown(h http.Header) map[string]string {
	m := map[string]string{}
	for k, v := range h {
		if name, ok := strings.CutPrefix(k, "X-Thoth-"); ok && len(v) > 0 {
			m[name] = strings.Join(v, "|")
		}
	}
	return m
}

func TestMemory_AWholeAnswerTellsAllInHeadersGnosisAndUsage(t *testing.T) {
	f := newFaultStation(t)
	h := newLiquidHost(t, f)
	r := h.chat()
	require.Equal(t, map[string]string{"Path": "liquid", "Liquid-Memory": "miss", "Liquid-Kv-Saved": "true", "Liquid-Miss-Reason": "no stored prefix",
		"Liquid-Prefix-Tokens": "0"}, shown(r.header))
	m := r.json(t)
	require.Equal(t, "Hello", m["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)["content"])
	require.Equal(t, map[string]any{"cached_tokens": 0., "cache_write_tokens": float64(promptBytes)}, m["usage"].(map[string]any)["prompt_tokens_details"])
	require.Equal(t, []string{"/embed", "/kv-session/load s-0", "/forward", "/decode-next", "/kv-session/save s-0", "/kv-session/save s-0"}, f.took())

	f.restores(wire.KVLoadResponse{Position: promptBytes - 1, Tiers: wire.KVTiers{Hot: 1, Warm: 2, Cold: promptBytes - 4}, DiffersAt: -1, WaitMS: 1.5, LoadMS: 2})
	r = h.chat()
	require.Equal(t, map[string]string{"Path": "liquid", "Liquid-Memory": "hit", "Liquid-Kv-Saved": "true", "Liquid-Prefix-Tokens": fmt.Sprint(promptBytes - 1)}, shown(r.header))
	m = r.json(t)
	g := m["_gnosis"].(map[string]any)
	timings := g["timings"].(map[string]any)
	require.Equal(t, 3.5, timings["load_ms"])
	delete(g, "timings")
	require.Equal(t, map[string]any{"liquid_memory": "hit", "liquid_kv_saved": true, "liquid_miss_reason": nil, "liquid_prefix_tokens": float64(promptBytes - 1),
		"liquid_tokens_by_tier": map[string]any{"hot": 1., "warm": 2., "cold": float64(promptBytes - 4)}, "liquid_saved_tokens": float64(promptBytes + 1),
		"liquid_durable": false, "path": "liquid", "station": map[string]any{"build": "b1", "backend": "cpu"}, "request_id": r.header.Get("X-Request-Id")}, g)
	require.Equal(t, float64(promptBytes-1), m["usage"].(map[string]any)["prompt_tokens_details"].(map[string]any)["cached_tokens"])
	h.eventually(func() bool { return strings.Contains(h.logs.String(), `"liquid":"hit"`) })
	require.Contains(t, h.logs.String(), fmt.Sprintf(`"path":"liquid","liquid":"hit","liquid_reason":"","prefix_tokens":%d`, promptBytes-1))
	require.Contains(t, h.get("/metrics").body, `thoth_liquid_requests_total{outcome="hit"} 1`)
}

func TestMemory_AStreamTellsWhatItKnowsFirstAndTheRestInTrailers(t *testing.T) {
	f := newFaultStation(t)
	h := newLiquidHost(t, f)
	s := h.stream(f)
	require.Equal(t, map[string]string{"Path": "liquid", "Liquid-Memory": "miss", "Liquid-Miss-Reason": "no stored prefix", "Liquid-Prefix-Tokens": "0"}, shown(s.header))
	require.Equal(t, map[string]string{"Liquid-Kv-Saved": "true"}, shown(s.trailer))
	before, rest, _ := strings.Cut(s.last, `"timings":{`)
	_, after, _ := strings.Cut(rest, "}")
	require.Regexp(t, `^data: \{"id":"chatcmpl-\w+","object":"chat.completion.chunk","created":\d+,"model":"Fake-Model-1B","system_fingerprint":"fp_\w+","choices":\[`, before)
	_, before, _ = strings.Cut(before, `"choices":`)
	require.Equal(t, fmt.Sprintf(`[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"_gnosis":{"liquid_memory":"miss","liquid_kv_saved":true,"liquid_miss_reason":"no stored prefix","liquid_prefix_tokens":0,"liquid_tokens_by_tier":{"hot":0,"warm":0,"cold":0},"liquid_saved_tokens":%d,"liquid_durable":false,"path":"liquid",`, promptBytes+1), before)
	require.Equal(t, fmt.Sprintf(`,"station":{"build":"b1","backend":"cpu"},"request_id":%q}}`, s.header.Get("X-Request-Id")), after)

	for name, fault := range map[string]http.HandlerFunc{"refused": gone(500), "gone": gone(404), "hangs": hangs} {
		t.Run(name, func(t *testing.T) {
			f := newFaultStation(t)
			h := newLiquidHost(t, f)
			f.fault(pathSave, fault)
			f.restores(wire.KVLoadResponse{Position: promptBytes - 1, Tiers: wire.KVTiers{Warm: promptBytes - 1}, DiffersAt: -1})
			s := h.stream(f, `"stream_options":{"include_usage":true}`)
			require.Equal(t, 200, s.status)
			require.Equal(t, map[string]string{"Path": "liquid", "Liquid-Memory": "hit", "Liquid-Prefix-Tokens": fmt.Sprint(promptBytes - 1)}, shown(s.header))
			require.Equal(t, map[string]string{"Liquid-Memory": "capture_failed", "Liquid-Kv-Saved": "false", "Liquid-Miss-Reason": "station kv session save failed"}, shown(s.trailer))
			require.Contains(t, s.body, `"content":"Hello"`)
			require.Contains(t, s.last, `"liquid_memory":"capture_failed","liquid_kv_saved":false,"liquid_miss_reason":"station kv session save failed"`)
			require.Contains(t, s.last, fmt.Sprintf(`"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":0}`, promptBytes-1))
			r := h.chat()
			if name != "gone" {
				require.Equal(t, "capture_failed", r.header.Get(headerLiquid))
			} else {
				require.Equal(t, map[string]string{"Path": "native", "Liquid-Memory": "disabled", "Liquid-Kv-Saved": "false", "Liquid-Miss-Reason": "liquid memory is off", "Liquid-Prefix-Tokens": "0"}, shown(r.header))
			}
		})
	}
}

func TestMemory_AStreamThatBeganWithAPingTellsAllInTrailers(t *testing.T) {
	f := newFaultStation(t)
	h := newLiquidHost(t, f, func(o *Options) { o.PingInterval = 10 * time.Millisecond })
	gate := make(chan struct{})
	f.fault(pathLoad, func(w http.ResponseWriter, r *http.Request) { <-gate; f.serve(w, r) })
	l := h.open()
	require.Equal(t, ": ping", l.next(t))
	require.Empty(t, shown(l.resp.Header))
	close(gate)
	_, err := io.ReadAll(l.lines)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"Path": "liquid", "Liquid-Memory": "miss", "Liquid-Kv-Saved": "true", "Liquid-Miss-Reason": "no stored prefix", "Liquid-Prefix-Tokens": "0"}, shown(l.resp.Trailer))
}

func TestMemory_AStreamThatBeganAsAHitSaysLaterThatThePrefixWasDropped(t *testing.T) {
	f := newFaultStation(t)
	h := newLiquidHost(t, f, func(o *Options) { o.PingInterval = 10 * time.Millisecond })
	f.restores(wire.KVLoadResponse{Position: promptBytes - 1, Tiers: wire.KVTiers{Warm: promptBytes - 1}, DiffersAt: -1})
	gate := make(chan struct{})
	f.fault(wire.RouteForward, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		out := &frames{w}
		out.send(wire.Frame{Type: wire.FrameProgress, Progress: &wire.Progress{Total: promptBytes}})
		<-gate
		out.send(wire.Frame{Type: wire.FrameDone, Forward: &wire.ForwardResponse{Session: "s-0", Position: promptBytes, Evaluated: promptBytes}})
	})
	l := h.open(`"stream_options":{"include_usage":true}`)
	require.Equal(t, ": ping", l.next(t))
	before := shown(l.resp.Header)
	close(gate)
	b, err := io.ReadAll(l.lines)
	require.NoError(t, err)
	want := map[string]string{"Path": "liquid", "Liquid-Memory": "miss", "Liquid-Kv-Saved": "true", "Liquid-Miss-Reason": "restored prefix was dropped under memory pressure", "Liquid-Prefix-Tokens": "0"}
	got := shown(l.resp.Trailer)
	for name, value := range before { // told first, and true to the end
		if got[name] == "" {
			got[name] = value
		}
	}
	require.Equal(t, want, got)
	require.Contains(t, string(b), fmt.Sprintf(`"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":%d}`, promptBytes))
	require.Empty(t, f.got(), "nothing is computed twice")
	require.Contains(t, h.get("/metrics").body, `thoth_liquid_mismatch_total 0`)
}

func TestMemory_TheNativePathHasNoTrailersAndMakesOneCall(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*faultStation)
		header []string
		want   map[string]string
	}{
		"the station cannot": {change: func(f *faultStation) { no := false; f.health.KVSession = &no },
			want: map[string]string{"Liquid-Memory": "disabled", "Liquid-Miss-Reason": "liquid memory is off"}},
		"bypassed": {change: func(*faultStation) {}, header: []string{"X-Thoth-Liquid", "off"},
			want: map[string]string{"Liquid-Memory": "bypass", "Liquid-Miss-Reason": "bypassed by the request"}},
		"a short prompt": {change: func(f *faultStation) { f.model.ChatTemplate = `{{ messages[0].content }}` },
			want: map[string]string{"Liquid-Memory": "bypass", "Liquid-Miss-Reason": "prompt too short to gain"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaultStation(t)
			c.change(f)
			h := startHost(t, f.srv.URL)
			h.await(200)
			if h.memory.On() {
				measured := 0 // the head, of two prompts
				h.eventually(func() bool { measured += len(f.took()); return measured == 2 })
			}
			c.want["Path"], c.want["Liquid-Kv-Saved"], c.want["Liquid-Prefix-Tokens"] = "native", "false", "0"
			for _, stream := range []string{`"stream":true`, `"stream":false`} {
				h.eventually(func() bool { return len(f.took()) == 0 })
				r := h.do("POST", "/v1/chat/completions", body(stream), c.header...)
				require.Equal(t, 200, r.status)
				require.Equal(t, c.want, shown(r.header))
				require.Empty(t, r.header.Get("Trailer"))
				require.Equal(t, []string{"/generate"}, f.took())
			}
		})
	}
}

func TestMemory_TheBypassHeaderIsOnOrOff(t *testing.T) {
	f := newFaultStation(t)
	h := newLiquidHost(t, f)
	chat := "/v1/chat/completions"
	require.Equal(t, "liquid", h.do("POST", chat, body(), "X-Thoth-Liquid", "on").header.Get(headerPath))
	for _, bad := range []string{"", "0", "OFF", "off, off"} {
		r := h.do("POST", chat, body(), "X-Thoth-Liquid", bad)
		require.Equal(t, 400, r.status, bad)
		require.Equal(t, "invalid_value", r.code(t))
		require.Contains(t, r.body, "X-Thoth-Liquid")
		require.Contains(t, r.body, "on and off")
	}
}

func TestMemory_EachChoiceIsASessionAndThePromptCountsOnce(t *testing.T) {
	f := newFaultStation(t)
	h := newLiquidHost(t, f)
	r := h.chat(`"n":3`)
	require.Equal(t, 200, r.status)
	m := r.json(t)
	require.Len(t, m["choices"], 3)
	usage := m["usage"].(map[string]any)
	require.Equal(t, float64(promptBytes), usage["prompt_tokens"])
	require.Equal(t, 3., usage["completion_tokens"])
	require.Equal(t, "miss", r.header.Get(headerLiquid))
	embeds := 0
	for _, p := range f.took() {
		if p == "/embed" {
			embeds++
		}
	}
	require.Equal(t, 3, embeds)
}

func TestMemory_OfAnswersThatAreThrownAwayThePromptAloneIsKept(t *testing.T) {
	for bestOf, kept := range map[int]int{2: 2, 3: 0} {
		f := newFaultStation(t)
		h := newLiquidHost(t, f)
		r := h.do("POST", "/v1/completions", `{"model":"`+model+`","prompt":"`+strings.Repeat("word ", 30)+`","n":2,"best_of":`+fmt.Sprint(bestOf)+`}`)
		require.Equal(t, 200, r.status, r.body)
		saved, deleted := 0, 0
		h.eventually(func() bool {
			_, saves := f.asked()
			saved = len(saves)
			for _, p := range f.took() {
				if strings.HasPrefix(p, pathDelete) {
					deleted++
				}
			}
			return saved+deleted == 2*bestOf // a prompt and the end of a session for each
		})
		require.Equal(t, []int{bestOf + kept, bestOf - kept}, []int{saved, deleted})
	}
}

func TestMemory_A404InServiceTurnsItOffForAllAndItHeals(t *testing.T) {
	for _, path := range []string{wire.RouteEmbed, pathLoad, wire.RouteForward, wire.RouteDecodeNext, pathSave} {
		t.Run(path, func(t *testing.T) {
			f := newFaultStation(t)
			h := newLiquidHost(t, f)
			f.fault(path, gone(404))
			r := h.chat()
			require.Equal(t, 200, r.status)
			if path == pathSave {
				require.Equal(t, "capture_failed", r.header.Get(headerLiquid))
			} else {
				require.Equal(t, map[string]string{"Path": "native", "Liquid-Memory": "disabled", "Liquid-Kv-Saved": "false", "Liquid-Miss-Reason": "station lacks a liquid route", "Liquid-Prefix-Tokens": "0"}, shown(r.header))
				require.Contains(t, r.body, "Hello there")
			}
			m := h.get("/health").json(t)
			require.Equal(t, false, m["liquid_memory"], "at once")
			require.Equal(t, "the station answered 404 in service to "+path, m["liquid_reason"])
			looks := func() int { f.fakeStation.mu.Lock(); defer f.fakeStation.mu.Unlock(); return f.looks }
			before := looks()
			h.eventually(func() bool { return looks() > before+3 })
			require.False(t, h.memory.On(), "the station promises it in /health, and does not serve it")
			require.Equal(t, "disabled", h.chat().header.Get(headerLiquid))
			f.fault(path, nil)
			h.eventually(h.memory.On)
			require.Equal(t, true, h.get("/health").json(t)["liquid_memory"])
			require.Equal(t, "miss", h.chat().header.Get(headerLiquid))
		})
	}
}

func TestMemory_AStaleStationIsServedAndItsReplacementTakenUp(t *testing.T) {
	f := newFaultStation(t)
	f.health.KVSession, f.health.DecodeNext = nil, nil
	f.fault(pathSave, gone(404))
	h := startHost(t, f.srv.URL)
	h.await(200)
	r := h.chat()
	require.Equal(t, 200, r.status)
	require.Equal(t, "disabled", r.header.Get(headerLiquid))
	m := h.get("/health").json(t)
	require.Equal(t, false, m["station_kv_session"])
	require.Equal(t, false, m["liquid_memory"])
	f.fault(pathSave, nil) // a capable one, so soon that no look failed
	h.eventually(h.memory.On)
	require.Equal(t, "miss", h.chat().header.Get(headerLiquid))
	require.Equal(t, true, h.get("/health").json(t)["station_kv_session"])
}

// D10: a session that is gone is a miss.
func TestMemory_AnyFailureBeforeTheFirstTokenIsNoErrorOfTheRequest(t *testing.T) {
	f := newFaultStation(t)
	h := newLiquidHost(t, f)
	for path, reason := range map[string]string{wire.RouteEmbed: "station refused the session", pathLoad: "station session lost",
		wire.RouteForward: "station could not evaluate the session", wire.RouteDecodeNext: "station could not decode the session"} {
		code := 500
		if path == pathLoad {
			code = 410
		}
		f.fault(path, gone(code))
		for _, stream := range []string{`"stream":true`, `"stream":false`} {
			r := h.chat(stream)
			require.Equal(t, 200, r.status)
			require.Contains(t, r.body, "Hello")
			require.Equal(t, map[string]string{"Path": "native", "Liquid-Memory": "miss", "Liquid-Kv-Saved": "false", "Liquid-Miss-Reason": reason, "Liquid-Prefix-Tokens": "0"}, shown(r.header))
		}
		f.fault(path, nil)
	}
}

func TestMemory_AClientThatGoesAwayHasItsSessionDeleted(t *testing.T) {
	f := newFaultStation(t)
	h := newLiquidHost(t, f)
	began := make(chan struct{}, 1)
	f.fault(wire.RouteDecodeNext, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		(&frames{w}).text("Hello")
		began <- struct{}{}
		<-r.Context().Done()
	})
	l := h.open()
	<-began
	l.next(t)
	l.close()
	h.eventually(func() bool {
		for _, p := range f.took() {
			if p == pathDelete+" s-0" {
				return true
			}
		}
		return false
	})
	h.eventually(func() bool { a, b := h.admission.counts(); return a+b == 0 })
}

func TestMemory_WarmPromptsAreCheckedAtStartAndStored(t *testing.T) {
	f := newFaultStation(t)
	c, err := client.New(f.srv.URL, client.Options{})
	require.NoError(t, err)
	warm := func(messages, key string) []liquid.WarmPrompt {
		return []liquid.WarmPrompt{{Name: "w", Messages: json.RawMessage(messages), KeySHA256: key}}
	}
	_, err = New(Options{Station: c, LiquidWarm: warm(`[{"role":"wizard","content":"x"}]`, "")})
	require.ErrorContains(t, err, `the warm prompt "w": messages[0].role`)
	_, err = New(Options{Station: c, APIKeys: []string{"k"}, LiquidWarm: warm(`[{"role":"system","content":"x"}]`, strings.Repeat("a", 64))})
	require.ErrorContains(t, err, "key_sha256")

	h := newLiquidHost(t, f, func(o *Options) { o.LiquidWarm = warm(`[{"role":"system","content":"Be kind."}]`, "") })
	h.eventually(func() bool { return h.memory.Report(t.Context()).Warm[0].State == "stored" })
	_, saves := f.asked()
	require.Equal(t, wire.KVSaveRequest{Name: "w", Release: true}, saves[0])
}

// D15: see also package liquid, which does not keep such an answer.
func TestMemory_ReasoningThatTheTemplateStripsIsKnown(t *testing.T) {
	f := newFaultStation(t)
	h := newLiquidHost(t, f)
	require.False(t, h.station.current().stripsReasoning)
	g := newFaultStation(t)
	g.model.ChatTemplate = `{% for m in messages %}[{{ m.role }}]{{ m.content.split('</think>')[-1] }}{% endfor %}`
	h = startHost(t, g.srv.URL)
	h.await(200)
	require.True(t, h.station.current().stripsReasoning)
}

func TestMemory_NothingIsLeftWhenTheServerEndsMidway(t *testing.T) {
	f := newFaultStation(t)
	h := newLiquidHost(t, f)
	f.fault(pathLoad, hangs)
	whole := make(chan reply, 1)
	go func() { whole <- h.chat() }()
	h.eventually(func() bool { a, _ := h.admission.counts(); return a == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.Drain(ctx)
	require.Equal(t, 503, (<-whole).status)
}
