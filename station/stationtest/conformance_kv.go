package stationtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// kv tests /kv-session. Every part stores under scopes of its own, whose names
// no other run has: a cold store may remember.
func (s *suite) kv(t *testing.T) {
	if s.o.NoKV {
		s.kvOff(t)
		return
	}
	require.True(t, *s.health.KVSession, "kv_session is false: %s", s.health.KVReason)
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"contract", s.kvContract}, {"errors", s.kvErrors}, {"busy", s.kvBusy},
		{"same answer", s.kvSameAnswer}, {"partial", s.kvPartial}, {"prefix length", s.kvPrefixLength},
		{"conversation", s.kvConversation}, {"cycles", s.kvCycles},
		{"scopes", s.kvScopes}, {"delete", s.kvDelete}, {"hold", s.kvHold}, {"lookup", s.kvLookup}, {"flush", s.kvFlush},
		{"release", s.kvRelease}, {"save beside a decode", s.kvSaveBeside},
		{"coalescing", s.kvCoalescing}, {"leader goes", s.kvLeaderGoes}, {"cancelled prefill", s.kvCancelled},
		{"turns", s.kvTurns},
		{"index", s.kvIndex},
	} {
		t.Run(part.name, part.run)
		s.noSessions(t)
	}
	s.idle(t)
}

// kvOff: a station that cannot is no older station. The routes exist.
func (s *suite) kvOff(t *testing.T) {
	require.False(t, *s.health.KVSession)
	require.False(t, s.health.KVTurn)
	resp, body := s.raw.do(t, http.MethodPost, wire.RouteGenerate, `{"prompt":{"text":"a"},"max_tokens":1,"kv":{}}`)
	require.Equal(t, "kv", requireError(t, resp, body, wire.CodeUnsupported).Param)
	require.NotEmpty(t, s.health.KVReason)
	require.Nil(t, s.stats(t).KV)
	for _, verb := range []string{wire.VerbLoad, wire.VerbSave, wire.VerbDelete, wire.VerbLookup, wire.VerbFlush} {
		resp, body := s.kvRaw(t, verb, "probe", "0", "")
		requireError(t, resp, body, wire.CodeUnsupported)
	}
	resp, body = s.raw.do(t, http.MethodGet, wire.RouteKVSession, "")
	requireError(t, resp, body, wire.CodeUnsupported)
}

// kvContract is the original contract: session and length in headers, the
// answer's status says all.
func (s *suite) kvContract(t *testing.T) {
	t.Run("a save of nothing", func(t *testing.T) {
		scope, prompt := s.scope(t), s.words(t, "contract", 70)
		session := s.kvStored(t, scope, prompt, nil)
		s.kvSettle(t)
		before, sessions := s.kvStill(t), s.stats(t).Sessions
		for _, id := range []string{"probe-0b5d", session} {
			for _, body := range []string{"", "{}", `{"scope":"other","pin":true}`} {
				resp, got := s.kvRaw(t, wire.VerbSave, id, "0", body)
				require.Equal(t, 200, resp.StatusCode, got)
				var a wire.KVSaveResponse
				require.NoError(t, json.Unmarshal([]byte(got), &a))
				require.Zero(t, a.Tokens+a.Written)
				require.Zero(t, a.Bytes)
			}
		}
		require.Equal(t, before, s.kvStill(t), "nothing is left of it")
		require.Equal(t, sessions, s.stats(t).Sessions)
		s.kvEnd(t, session)
	})
	t.Run("headers alone", func(t *testing.T) {
		prompt := s.words(t, "headers", 70)
		first := s.stage(t, wire.Prompt{Tokens: prompt})
		resp, body := s.kvRaw(t, wire.VerbLoad, first.Session, "0", "")
		require.Equal(t, 200, resp.StatusCode, body)
		s.forward(t, first.Session, 0)
		resp, body = s.kvRaw(t, wire.VerbSave, first.Session, strconv.Itoa(len(prompt)), "")
		require.Equal(t, 200, resp.StatusCode, body)
		require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
		s.kvEnd(t, first.Session)

		second := s.stage(t, wire.Prompt{Tokens: prompt})
		resp, body = s.kvRaw(t, wire.VerbLoad, second.Session, "0", "")
		require.Equal(t, 200, resp.StatusCode, body)
		var a wire.KVLoadResponse
		require.NoError(t, json.Unmarshal([]byte(body), &a))
		require.Equal(t, len(prompt)-1, a.Position)
		resp, body = s.kvRaw(t, wire.VerbDelete, second.Session, "", "")
		require.Equal(t, 200, resp.StatusCode, body)
		s.requireGone(t, second.Session)
	})
	t.Run("unknown session", func(t *testing.T) {
		const unknown = "s-00000000000000000000000000000000"
		_, err := s.c.KVLoad(s.ctx(t), unknown, 0, &wire.KVLoadRequest{})
		requireCode(t, err, wire.CodeGone)
		_, err = s.c.KVSave(s.ctx(t), unknown, 1, &wire.KVSaveRequest{})
		requireCode(t, err, wire.CodeGone)
	})
	t.Run("routes", func(t *testing.T) {
		for _, path := range []string{"/nope", "/load/x", "/"} {
			resp, body := s.raw.do(t, http.MethodPost, wire.RouteKVSession+path, "{}")
			requireError(t, resp, body, wire.CodeNoRoute)
		}
		for _, verb := range []string{wire.VerbLoad, wire.VerbSave, wire.VerbDelete, wire.VerbLookup, wire.VerbFlush} {
			resp, body := s.raw.do(t, http.MethodGet, wire.RouteKVSession+"/"+verb, "")
			requireError(t, resp, body, wire.CodeMethod)
			require.Equal(t, "POST", resp.Header.Get("Allow"))
		}
		resp, body := s.raw.do(t, http.MethodPost, wire.RouteKVSession, "{}")
		requireError(t, resp, body, wire.CodeMethod)
		require.Equal(t, "GET", resp.Header.Get("Allow"))
	})
}

// kvErrors sends what is refused: a header or a field is named, and the session
// stays as it was.
func (s *suite) kvErrors(t *testing.T) {
	prompt := s.words(t, "errors", 70)
	e := s.stage(t, wire.Prompt{Tokens: prompt})
	s.forward(t, e.Session, 40)
	for _, verb := range []string{wire.VerbLoad, wire.VerbSave} {
		lengths := []string{"", "-1", "x", "1.5", "0x10", "71", "1000000", "99999999999999999999999"}
		if verb == wire.VerbSave {
			lengths = append(lengths, "41")
		}
		for _, length := range lengths {
			t.Run(verb+" of length "+length, func(t *testing.T) {
				resp, body := s.kvRaw(t, verb, e.Session, length, "{}")
				got := requireError(t, resp, body, wire.CodeInvalid)
				require.Contains(t, got.Param+" "+got.Message, wire.HeaderPrefixLength)
			})
		}
		t.Run(verb+" without a session", func(t *testing.T) {
			resp, body := s.kvRaw(t, verb, "", "5", "{}")
			got := requireError(t, resp, body, wire.CodeInvalid)
			require.Contains(t, got.Param+" "+got.Message, wire.HeaderSessionID)
		})
	}
	long := strings.Repeat("x", 129)
	for _, k := range []struct{ verb, body, param string }{
		{wire.VerbLoad, `{"scope":5}`, "scope"},
		{wire.VerbLoad, `{"scope":"` + long + `"}`, "scope"},
		{wire.VerbLoad, `{"wait_ms":-1}`, "wait_ms"},
		{wire.VerbLoad, `{"scope"`, ""},
		{wire.VerbSave, `{"scope":"` + long + `"}`, "scope"},
		{wire.VerbSave, `{"ttl_seconds":-1}`, "ttl_seconds"},
		{wire.VerbSave, `{"points":[-1]}`, "points"},
		{wire.VerbSave, `{"pin":"yes"}`, "pin"},
		{wire.VerbDelete, `{"keys":["zz"]}`, "keys"},
		{wire.VerbDelete, `{"scope":"` + long + `"}`, "scope"},
		{wire.VerbLookup, `{"prompt":{"tokens":[99999999]}}`, "prompt.tokens"},
		{wire.VerbLookup, `{"prompt":{"text":"a"},"scope":"` + long + `"}`, "scope"},
	} {
		t.Run(k.verb+" "+k.param, func(t *testing.T) {
			resp, body := s.kvRaw(t, k.verb, e.Session, "5", k.body)
			got := requireError(t, resp, body, wire.CodeInvalid)
			require.True(t, strings.HasPrefix(got.Param, k.param), "param is %q, want %q for %s", got.Param, k.param, k.body)
		})
	}
	require.Equal(t, 70, s.forward(t, e.Session, 0).Position)
	s.kvEnd(t, e.Session)
}

// kvRaw posts to a /kv-session route as the suite's client would; an empty
// session or length leaves its header out.
func (s *suite) kvRaw(t *testing.T, verb, session, length, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.raw.base+wire.RouteKVSession+"/"+verb, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set(wire.HeaderOwner, owner)
	if session != "" {
		req.Header.Set(wire.HeaderSessionID, session)
	}
	if length != "" {
		req.Header.Set(wire.HeaderPrefixLength, length)
	}
	resp, err := s.raw.http.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(b)
}

// scope is a new scope for a test.
func (s *suite) scope(t *testing.T) string {
	s.scopes++
	name := t.Name()
	return fmt.Sprintf("%s-%d-%s", s.nonce, s.scopes, name[max(0, len(name)-80):])
}

// words is a made-up text of n tokens, another for each topic from the first
// token or two on.
func (s *suite) words(t *testing.T, topic string, n int) []int32 {
	t.Helper()
	var b strings.Builder
	for i := 0; b.Len() < 8*n+64; i++ {
		fmt.Fprintf(&b, "%s, chapter %d. The river carried %d boats past the old mill. ", topic, i, i*7%10)
	}
	tokens := s.tokenize(t, wire.Prompt{Text: b.String(), AddBOS: ptr(false)})
	require.Greater(t, len(tokens), n)
	return tokens[:n]
}

// forked is a prompt's first n tokens and then others.
func (s *suite) forked(t *testing.T, prompt []int32, n, more int) []int32 {
	t.Helper()
	other := s.tokenize(t, wire.Prompt{Text: strings.Repeat("# = ", more), AddBOS: ptr(false)})[:more]
	require.NotEqual(t, prompt[min(n, len(prompt)-1)], other[0])
	return append(slices.Clone(prompt[:n]), other...)
}

// kvLoad stages a prompt in a new session and loads what is stored of it.
func (s *suite) kvLoad(t *testing.T, scope string, prompt []int32, limit int) *wire.KVLoadResponse {
	t.Helper()
	e := s.stage(t, wire.Prompt{Tokens: prompt})
	a, err := s.c.KVLoad(s.ctx(t), e.Session, limit, &wire.KVLoadRequest{Scope: scope})
	require.NoError(t, err)
	require.Equal(t, e.Session, a.Session)
	require.Equal(t, len(prompt), a.Position+a.Staged)
	require.GreaterOrEqual(t, a.Staged, 1, "a token is left to have logits of")
	require.Equal(t, a.Position, a.Tiers.Hot+a.Tiers.Warm+a.Tiers.Cold, "%+v", a.Tiers)
	require.Equal(t, a.Staged == 1, a.Reason == "", "a short load says why: %+v", a)
	require.Equal(t, a.DiffersAt >= 0, a.PromptToken != nil && a.StoredToken != nil, "%+v", a)
	require.GreaterOrEqual(t, min(a.QueueMS, a.WaitMS, a.LoadMS), 0.0)
	return a
}

// requireReason checks why a load is short. With a cold store the reason may also
// be that it was not asked: what it would cost is for the station to judge.
func (s *suite) requireReason(t *testing.T, got wire.KVReason, want ...wire.KVReason) {
	t.Helper()
	if s.kvIndexNow(t).Cold.State == "on" {
		want = append(want, wire.KVStoreSlow)
	}
	require.Contains(t, want, got)
}

// kvAnswer evaluates what a load has left and decodes n greedy tokens.
func (s *suite) kvAnswer(t *testing.T, l *wire.KVLoadResponse, n int, release bool) *answer {
	t.Helper()
	f := s.forward(t, l.Session, 0)
	require.Equal(t, []int{l.Staged, l.Position + l.Staged, 0}, []int{f.Evaluated, f.Position, f.Remaining}, "a load is where the prefill starts")
	sm := &wire.Sampling{Temperature: ptr[float32](0), Logprobs: true, TopLogprobs: 3}
	a := s.decode(t, &wire.DecodeRequest{Session: l.Session, Sampling: sm, N: n, IgnoreEOG: true, Release: release})
	require.Equal(t, f.Position, a.done.PromptTokens)
	return a
}

// kvFresh is the answer without any reuse.
func (s *suite) kvFresh(t *testing.T, prompt []int32, n int) *answer {
	t.Helper()
	r := s.greedy(n)
	r.Prompt, r.IgnoreEOG = wire.Prompt{Tokens: prompt}, true
	r.Sampling.Logprobs, r.Sampling.TopLogprobs = true, 3
	return s.ask(t, r)
}

// sameAnswer compares token for token, and each log-probability.
func (s *suite) sameAnswer(t *testing.T, want, got *answer) {
	t.Helper()
	require.Equal(t, want.tokens, got.tokens)
	require.Equal(t, want.text, got.text)
	require.Len(t, got.logprobs, len(want.logprobs))
	for i, lp := range got.logprobs {
		require.LessOrEqual(t, math.Abs(float64(want.logprobs[i].Logprob-lp.Logprob)), s.o.Tolerance, "token %d", i)
		require.Equal(t, want.logprobs[i].Top[0].ID, lp.Top[0].ID, "token %d", i)
	}
}

// kvStored evaluates a prompt in a new session and saves all of it. The session
// lives on unless q releases it.
func (s *suite) kvStored(t *testing.T, scope string, prompt []int32, q *wire.KVSaveRequest) string {
	t.Helper()
	if q == nil {
		q = &wire.KVSaveRequest{}
	}
	q.Scope = scope
	l := s.kvLoad(t, scope, prompt, 0)
	s.forward(t, l.Session, 0)
	s.kvSave(t, l.Session, len(prompt), q)
	return l.Session
}

func (s *suite) kvSave(t *testing.T, session string, n int, q *wire.KVSaveRequest) *wire.KVSaveResponse {
	t.Helper()
	a, err := s.c.KVSave(s.ctx(t), session, n, q)
	require.NoError(t, err)
	require.True(t, a.Saved, a.Reason)
	require.Equal(t, n, a.Tokens)
	require.LessOrEqual(t, a.Written, a.Tokens)
	require.GreaterOrEqual(t, a.Bytes, int64(a.Written)*int64(s.model.KVBytesToken))
	return a
}

// kvEnd ends a session.
func (s *suite) kvEnd(t *testing.T, session string) {
	t.Helper()
	a, err := s.c.KVDelete(s.ctx(t), session, &wire.KVDeleteRequest{})
	require.NoError(t, err)
	require.True(t, a.Session)
	require.Zero(t, a.Blocks, "what is stored stays")
}

// kvEnded waits for the end of a session whose call may have been cut, and ends
// it if it was complete before.
func (s *suite) kvEnded(t *testing.T, session string) {
	t.Helper()
	s.eventually(t, "the session ends", func() bool {
		_, err := s.c.KVDelete(s.ctx(t), session, &wire.KVDeleteRequest{})
		return err == nil || isCode(err, wire.CodeGone)
	})
}

func (s *suite) kvIndexNow(t *testing.T) *wire.KVIndex {
	t.Helper()
	x, err := s.c.KVIndex(s.ctx(t))
	require.NoError(t, err)
	return x
}

// kvSettle ends when everything captured is copied, and written down if it can
// be, and the index shows it: it is published after the answer of a call, but
// before the next call begins.
func (s *suite) kvSettle(t *testing.T) {
	t.Helper()
	for range 2 {
		_, err := s.c.KVFlush(s.ctx(t))
		require.NoError(t, err)
	}
	require.Zero(t, s.kvIndexNow(t).Pending)
}

// kvStill is the index without what moves by itself.
func (s *suite) kvStill(t *testing.T) *wire.KVIndex {
	t.Helper()
	x := s.kvIndexNow(t)
	x.Cold.FreeBytes = 0
	return x
}

// requireShape checks that two JSON objects have the same keys, all the way down.
func requireShape(t *testing.T, path string, want, got any) {
	t.Helper()
	w, ok := want.(map[string]any)
	if !ok {
		require.IsType(t, want, got, path)
		return
	}
	g, ok := got.(map[string]any)
	require.True(t, ok, path)
	require.ElementsMatch(t, slices.Collect(maps.Keys(w)), slices.Collect(maps.Keys(g)), path)
	for k := range w {
		requireShape(t, path+"."+k, w[k], g[k])
	}
}
