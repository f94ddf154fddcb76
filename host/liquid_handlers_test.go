package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

const rootAuth = "Bearer root"

// storeStation is a fake station with a store and the routes of a liquid
// request. A byte is a token. It tells an index, and notes what it is asked to
// load, keep and delete.
type storeStation struct {
	*fakeStation
	srv *httptest.Server

	mu       sync.Mutex
	index    *wire.KVIndex
	load     wire.KVLoadResponse // its session, and what is staged, apart
	refusal  *wire.Error         // of every /kv-session call, when set
	sessions map[string]int      // tokens, by id
	staged   []int32             // by the last call
	counts   []int               // of the calls that evaluated a part of it
	special  map[string]bool     // texts that are one token, where they may be
	loads    []wire.KVLoadRequest
	saves    []wire.KVSaveRequest
	deleted  []wire.KVDeleteRequest // that named more than a session
}

func newStoreStation(t *testing.T) *storeStation {
	f := &storeStation{fakeStation: newFakeStation(t), sessions: map[string]int{}, load: wire.KVLoadResponse{Reason: wire.KVNothing, DiffersAt: -1},
		index: &wire.KVIndex{BlockTokens: 64, Scopes: 2,
			Hot: wire.KVTier{State: "on", Blocks: 3}, Warm: wire.KVTier{State: "on", Blocks: 11, Bytes: 4096}, Cold: wire.KVTier{State: "off", Reason: "no store"},
			Top: []wire.KVPrefix{{Key: "ab", Scope: "s1", Group: "g", Tokens: 704, Hits: 3, TokensSaved: 2112}}}}
	yes := true
	f.health.KVSession, f.health.DecodeNext, f.model.KVCut = &yes, &yes, true
	f.srv = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.srv.Close)
	return f
}

// read decodes the body of a call.
func read[T any](f *storeStation, r *http.Request) (q T) {
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		f.t.Errorf("the host sent a body that does not decode: %v", err)
	}
	return q
}

func bytesOf(p wire.Prompt) (tokens []int32) {
	for _, s := range p.Segments {
		for _, b := range []byte(s.Text) {
			tokens = append(tokens, int32(b))
		}
	}
	return append(tokens, p.Tokens...)
}

// tokens are those of a prompt's bytes, but for the special ones.
func (f *storeStation) tokens(p wire.Prompt) (tokens []int32) {
	for _, s := range p.Segments {
		if s.Special && f.special[s.Text] {
			tokens = append(tokens, 999)
			continue
		}
		tokens = append(tokens, bytesOf(wire.Prompt{Segments: []wire.Segment{s}})...)
	}
	return append(tokens, p.Tokens...)
}

func (f *storeStation) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	out := &frames{w}
	if f.refusal != nil && strings.HasPrefix(r.URL.Path, wire.RouteKVSession) {
		out.refuse(f.refusal)
		return
	}
	id := r.Header.Get(wire.HeaderSessionID)
	switch r.URL.Path {
	case wire.RouteTokenize:
		answer(wire.TokenizeResponse{Tokens: f.tokens(read[wire.TokenizeRequest](f, r).Prompt)})
	case wire.RouteDetokenize:
		text := ""
		for _, token := range read[wire.DetokenizeRequest](f, r).Tokens {
			text += string(rune(token))
		}
		answer(wire.DetokenizeResponse{Text: text})
	case wire.RouteEmbed:
		tokens := bytesOf(read[wire.EmbedRequest](f, r).Prompt)
		id := fmt.Sprintf("s-%d", len(f.sessions))
		f.sessions[id], f.staged, f.counts = len(tokens), tokens, nil
		answer(wire.EmbedResponse{Session: id, Tokens: tokens, Staged: len(tokens)})
	case wire.RouteForward:
		q := read[wire.ForwardRequest](f, r)
		n := f.sessions[q.Session]
		done := &wire.ForwardResponse{Session: q.Session, Position: n, Evaluated: n - f.load.Position}
		from, to := 0, n
		if q.Count > 0 {
			for _, c := range f.counts {
				from += c
			}
			to = from + q.Count
			f.counts = append(f.counts, q.Count)
			done.Position, done.Evaluated, done.Remaining = to, q.Count, n-to
		}
		for i, token := range f.staged {
			if !q.Logprobs || i < from || i >= to {
				continue
			}
			lp := wire.TokenLogprob{ID: token, Bytes: []byte{byte(token)}}
			if i > 0 {
				lp.Logprob = -0.5
				lp.Top = []wire.TokenLogprob{{ID: 'x', Bytes: []byte("x"), Logprob: -0.25}}[:min(1, q.TopLogprobs)]
			}
			done.Logprobs = append(done.Logprobs, lp)
		}
		if !q.Stream {
			answer(done)
			return
		}
		out.send(wire.Frame{Type: wire.FrameDone, Forward: done})
	case wire.RouteDecodeNext:
		q := read[wire.DecodeRequest](f, r)
		n := f.sessions[q.Session]
		out.text("Hello")
		out.send(wire.Frame{Type: wire.FrameDone, Done: &wire.Done{Reason: wire.ReasonEOG, PromptTokens: n, CompletionTokens: 1, Position: n + 1}})
	case wire.RouteKVSession:
		answer(f.index)
	case wire.RouteStats:
		answer(wire.Stats{Steps: 7, KV: f.index})
	case wire.RouteKVSession + "/" + wire.VerbLoad:
		f.loads = append(f.loads, read[wire.KVLoadRequest](f, r))
		l := f.load
		l.Session, l.Staged = id, f.sessions[id]-l.Position
		answer(l)
	case wire.RouteKVSession + "/" + wire.VerbSave:
		length, _ := strconv.Atoi(r.Header.Get(wire.HeaderPrefixLength))
		f.saves = append(f.saves, read[wire.KVSaveRequest](f, r))
		answer(wire.KVSaveResponse{Saved: true, Tokens: length, Written: length})
	case wire.RouteKVSession + "/" + wire.VerbDelete:
		if q := read[wire.KVDeleteRequest](f, r); id == "" {
			f.deleted = append(f.deleted, q)
		}
		answer(wire.KVDeleteResponse{Blocks: 11, Bytes: 4096})
	default:
		f.fakeStation.serve(w, r)
	}
}

// deletions are the requests so far that named something.
func (f *storeStation) deletions() []wire.KVDeleteRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.deleted)
}

func (f *storeStation) refuse(e *wire.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusal = e
}

func (f *storeStation) asked() (loads []wire.KVLoadRequest, saves []wire.KVSaveRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.loads), slices.Clone(f.saves)
}

func newStoreHost(t *testing.T, f *storeStation) *testHost {
	h := startHost(t, f.srv.URL, func(o *Options) { o.AdminKeys, o.APIKeys = []string{"root"}, []string{"alice", "bob"} })
	h.await(http.StatusOK)
	return h
}

// cached sends a chat of one long message whose first part may carry a breakpoint.
func (h *testHost) cached(key, breakpoint, fields string, header ...string) reply {
	h.t.Helper()
	b := `{"model":"` + model + `","messages":[{"role":"user","content":[{"type":"text","text":"` + strings.Repeat("rules ", 20) + `"` + breakpoint + `},{"type":"text","text":"question?"}]}]` + fields + `}`
	return h.do("POST", "/v1/chat/completions", b, append(header, "Authorization", "Bearer "+key)...)
}

func TestLiquid_CacheParametersReachTheStation(t *testing.T) {
	f := newStoreStation(t)
	h := newStoreHost(t, f)
	const mark = `,"prompt_cache_breakpoint":{"mode":"explicit"}`
	point := len("<|im_start|>user\n") + len("rules ")*20
	whole := point + len("question?<|im_end|>\n<|im_start|>assistant\n")
	for _, c := range []struct {
		breakpoint, fields string
		want               wire.KVSaveRequest // of the prompt; Scope apart
		written            float64
	}{
		{"", "", wire.KVSaveRequest{}, float64(whole)},
		{"", `,"prompt_cache_key":"team","prompt_cache_options":{"ttl":"30m"}`, wire.KVSaveRequest{Group: "team", TTLSeconds: 1800}, float64(whole)},
		{"", `,"prompt_cache_retention":"24h"`, wire.KVSaveRequest{TTLSeconds: 86400}, float64(whole)},
		{mark, `,"prompt_cache_options":{"ttl":"1h"}`, wire.KVSaveRequest{TTLSeconds: 3600, Points: []int{point}}, float64(whole)},
		{mark, `,"prompt_cache_options":{"mode":"explicit","pin":true}`, wire.KVSaveRequest{Pin: true, Points: []int{point}}, float64(point)},
	} {
		_, before := f.asked()
		r := h.cached("root", c.breakpoint, c.fields)
		require.Equal(t, 200, r.status, r.body)
		require.Equal(t, "miss", r.header.Get("X-Thoth-Liquid-Memory"), r.body)
		require.Equal(t, c.written, r.json(t)["usage"].(map[string]any)["prompt_tokens_details"].(map[string]any)["cache_write_tokens"], c.fields)
		_, after := f.asked()
		require.Greater(t, len(after), len(before))
		got := after[len(before)]
		require.NotEmpty(t, got.Scope)
		got.Scope = ""
		require.Equal(t, c.want, got, c.fields)
	}

	_, before := f.asked()
	r := h.cached("root", "", `,"prompt_cache_options":{"mode":"explicit"}`)
	require.Equal(t, 200, r.status)
	_, after := f.asked()
	require.Len(t, after, len(before), "explicit without a breakpoint keeps nothing")

	r = h.cached("alice", mark, `,"prompt_cache_options":{"pin":true}`)
	require.Equal(t, 403, r.status)
	require.Equal(t, "insufficient_permissions", r.code(t))
	_, again := f.asked()
	require.Len(t, again, len(after), "an inference key pins nothing")
}

// D01: another key, or another salt, is another store.
func TestLiquid_ScopesFollowKeyAndSalt(t *testing.T) {
	f := newStoreStation(t)
	h := newStoreHost(t, f)
	scope := func(key, fields string) string {
		t.Helper()
		before, _ := f.asked()
		require.Equal(t, 200, h.cached(key, "", fields).status)
		after, _ := f.asked()
		require.Len(t, after, len(before)+1)
		return after[len(before)].Scope
	}
	seen := map[string]string{}
	for name, got := range map[string]string{"alice": scope("alice", ""), "bob": scope("bob", ""), "alice, a": scope("alice", `,"cache_salt":"a"`),
		"alice, b": scope("alice", `,"cache_salt":"b"`), "bob, a": scope("bob", `,"cache_salt":"a"`)} {
		require.Empty(t, seen[got], name)
		require.LessOrEqual(t, len(got), 128)
		seen[got] = name
	}
	require.Equal(t, "alice, a", seen[scope("alice", `,"cache_salt":"a","prompt_cache_key":"k"`)], "a label separates nothing")
}

func TestLiquid_GetTellsWhatIsStoredAndWhyItMissed(t *testing.T) {
	f := newStoreStation(t)
	h := newStoreHost(t, f)
	first, stored := int32('q'), int32('z')
	f.mu.Lock()
	f.load = wire.KVLoadResponse{Reason: wire.KVDiffers, DiffersAt: 2, PromptToken: &first, StoredToken: &stored}
	f.mu.Unlock()
	require.Equal(t, 200, h.cached("alice", "", "", "X-Request-Id", "the-miss").status)
	require.Equal(t, 200, h.cached("alice", "", "", "X-Thoth-Liquid", "off").status)

	var got map[string]any
	h.eventually(func() bool { // a choice is counted as its stream closes
		got = h.get("/liquid", "Authorization", rootAuth).json(t)
		n := got["requests"].(map[string]any)
		return n["miss"] == 1. && n["bypass"] == 1.
	})
	require.Equal(t, true, got["liquid_memory"])
	require.Equal(t, true, got["liquid_memory_env"])
	require.Equal(t, true, got["station_kv_session"])
	require.Equal(t, []any{}, got["warm_prompts"])
	require.Len(t, got["last_misses"], 1)
	miss := got["last_misses"].([]any)[0].(map[string]any)
	require.Equal(t, "the-miss", miss["request_id"])
	require.Equal(t, "miss", miss["liquid_memory"])
	require.Equal(t, "prompt differs from what is stored", miss["reason"])
	require.Equal(t, 2., miss["differs_at"])
	require.Equal(t, "q", miss["prompt"])
	require.Equal(t, "z", miss["stored"])

	index := got["index"].(map[string]any)
	require.Equal(t, 64., index["block_tokens"])
	require.Equal(t, 4096., index["warm"].(map[string]any)["bytes"])
	require.Equal(t, "off", index["cold"].(map[string]any)["state"])
	top := index["top"].([]any)[0].(map[string]any)
	require.Equal(t, 2112., top["tokens_saved"])
	r := h.do("DELETE", "/liquid?scope="+top["scope"].(string), "", "Authorization", rootAuth)
	require.Equal(t, 200, r.status)
	require.Equal(t, "s1", *f.deletions()[0].Scope, "a scope as shown is one to delete")
}

// D01: nor do the numbers tell of others.
func TestLiquid_OnlyAdminsSeeInNumbersWhatOthersStore(t *testing.T) {
	keyed := func(o *Options) { o.APIKeys = []string{"alice", "bob"} }
	both := func(o *Options) { keyed(o); o.AdminKeys = []string{"root"} }
	for _, c := range []struct {
		name   string
		change []func(*Options)
		asks   string
		shown  bool // what is stored
		sums   bool // over all keys
	}{
		{"an admin", []func(*Options){both}, "root", true, true},
		{"another key", []func(*Options){both}, "bob", false, false},
		{"keys without an admin", []func(*Options){keyed}, "bob", false, false},
		{"no keys", nil, "", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newStoreStation(t)
			h := startHost(t, f.srv.URL, c.change...)
			h.await(http.StatusOK)
			r := h.cached("alice", "", `,"prompt_cache_key":"team-of-alice"`)
			require.Equal(t, 200, r.status, r.body)
			r = h.get("/stats", "Authorization", "Bearer "+c.asks)
			require.Equal(t, 200, r.status, r.body)
			host := r.json(t)["host"].(map[string]any)
			require.Contains(t, host, "in_flight")
			numbers, _ := r.json(t)["station"].(map[string]any)
			if c.sums {
				require.Equal(t, 7., numbers["steps"])
				require.IsType(t, 0., host["prompt_tokens"])
			} else {
				require.Nil(t, numbers)
				require.NotContains(t, r.body, "station_error")
			}
			for _, name := range []string{"chats", "prompt_tokens", "completion_tokens"} {
				require.Equal(t, c.sums, host[name] != nil, name)
			}
			if c.shown {
				require.Equal(t, 11., numbers["kv"].(map[string]any)["warm"].(map[string]any)["blocks"])
			} else {
				require.NotContains(t, numbers, "kv")
			}
			_, saves := f.asked()
			for _, path := range []string{"/health", "/metrics"} { // sums, of nobody in particular
				page := h.get(path, "Authorization", "Bearer "+c.asks).body
				require.NotContains(t, page, "team-of-alice")
				if scope := saves[0].Scope; scope != "" {
					require.NotContains(t, page, scope)
				}
			}
			h.eventually(func() bool { return strings.Contains(h.logs.String(), "/v1/chat/completions") }) // it is counted
			page := h.get("/metrics", "Authorization", "Bearer "+c.asks).body
			require.Contains(t, page, "thoth_http_requests_total{")
			for _, name := range []string{"thoth_tokens_total{", "thoth_liquid_requests_total{", "thoth_liquid_tokens_total{"} {
				require.Equal(t, c.sums, strings.Contains(page, name), name)
			}
			labels := regexp.MustCompile(`(?m)^thoth_liquid_\w+\{(\w+)=`)
			for _, m := range labels.FindAllStringSubmatch(page, -1) {
				require.Contains(t, []string{"outcome", "reason", "kind", "le"}, m[1])
			}
		})
	}
}

// D20: a client's name is a label, whatever is in it.
func TestLiquid_DeleteNamesExactlyOneThing(t *testing.T) {
	f := newStoreStation(t)
	h := newStoreHost(t, f)
	scope, common := "a1b2", ""
	for _, c := range []struct {
		query string
		want  wire.KVDeleteRequest
	}{
		{"all=true", wire.KVDeleteRequest{All: true}},
		{"key=support%3Av2", wire.KVDeleteRequest{Group: "support:v2"}},
		{"key=..%2F..%2Fetc%00", wire.KVDeleteRequest{Group: "../../etc\x00"}},
		{"scope=a1b2", wire.KVDeleteRequest{Scope: &scope}},
		{"scope=", wire.KVDeleteRequest{Scope: &common}},
	} {
		before := len(f.deletions())
		r := h.do("DELETE", "/liquid?"+c.query, "", "Authorization", rootAuth)
		require.Equal(t, 200, r.status, r.body)
		require.Equal(t, map[string]any{"blocks": 11., "bytes": 4096.}, r.json(t))
		require.Equal(t, []wire.KVDeleteRequest{c.want}, f.deletions()[before:])
	}
	before := len(f.deletions())
	for query, says := range map[string]string{
		"":                     "0 parameters were given",
		"all=true&key=x":       "2 parameters were given",
		"key=x&scope=y":        "2 parameters were given",
		"all=true&all=true":    "2 parameters were given",
		"all":                  "only true is allowed",
		"all=false":            "only true is allowed",
		"all=1":                "only true is allowed",
		"key=":                 "key is empty",
		"group=x":              "group is not known",
		"scope=x&dry_run=true": "dry_run is not known",
		"All=true":             "All is not known",
		"key=%zz":              "malformed",
	} {
		r := h.do("DELETE", "/liquid?"+query, "", "Authorization", rootAuth)
		require.Equal(t, 400, r.status, "%s: %s", query, r.body)
		require.Equal(t, "invalid_value", r.code(t))
		require.Contains(t, r.body, says, query)
		for _, name := range []string{"all=true", "key=PROMPT_CACHE_KEY", "scope=SCOPE"} {
			require.Contains(t, r.body, name, query)
		}
	}
	require.Len(t, f.deletions(), before, "nothing is deleted by a request that is refused")
}

func TestLiquid_OtherMethodsAreRefused(t *testing.T) {
	h := newStoreHost(t, newStoreStation(t))
	r := h.do("POST", "/liquid", "{}", "Authorization", rootAuth)
	require.Equal(t, 405, r.status)
	require.Equal(t, "GET, HEAD, DELETE", r.header.Get("Allow"))
	require.Equal(t, 200, h.do("HEAD", "/liquid", "", "Authorization", rootAuth).status)
}

func TestLiquid_AStationThatIsAwayIsSaid(t *testing.T) {
	f := newStoreStation(t)
	h := newStoreHost(t, f)
	for _, c := range []struct {
		refusal *wire.Error
		code    string
	}{
		{&wire.Error{Code: wire.CodeLoading, Message: "loading"}, "model_loading"},
		{&wire.Error{Code: wire.CodeDraining, Message: "draining"}, "station_unavailable"},
	} {
		f.refuse(c.refusal)
		for _, method := range []string{"GET", "DELETE"} {
			r := h.do(method, "/liquid?all=true", "", "Authorization", rootAuth)
			require.Equal(t, 503, r.status, r.body)
			require.Equal(t, c.code, r.code(t))
			require.NotEmpty(t, r.header.Get("Retry-After"))
		}
	}
	f.srv.CloseClientConnections()
	f.srv.Close()
	for _, method := range []string{"GET", "DELETE"} {
		r := h.do(method, "/liquid?all=true", "", "Authorization", rootAuth)
		require.Equal(t, 503, r.status, r.body)
		require.Equal(t, "station_unavailable", r.code(t))
	}
}

func TestLiquid_AStationWithoutAStore(t *testing.T) {
	h := newHost(t, newFakeStation(t), func(o *Options) { o.AdminKeys = []string{"root"} })
	r := h.get("/liquid", "Authorization", rootAuth)
	require.Equal(t, 200, r.status, r.body)
	require.Nil(t, r.json(t)["index"])
	require.Equal(t, false, r.json(t)["liquid_memory"])
	require.NotEmpty(t, r.json(t)["liquid_reason"])
	r = h.do("DELETE", "/liquid?all=true", "", "Authorization", rootAuth)
	require.Equal(t, 503, r.status)
	require.Contains(t, r.body, "stores no prefixes")
}
