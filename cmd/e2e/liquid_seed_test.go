//go:build e2e

package e2e

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// seedRequest is the request that has always shown whether reuse works.
const seedRequest = `{"model":"test-model","messages":[{"role":"user","content":"Write a paragraph about the ocean."}],"max_tokens":100}`

// told checks that headers, and a stream's trailers, say what _gnosis says.
func (a said) told(t *testing.T) said {
	t.Helper()
	header := func(name string) string {
		if v := a.Trailer.Get(name); v != "" {
			return v
		}
		return a.Header.Get(name)
	}
	g := a.Gnosis
	require.Equal(t, g.Path, header("X-Thoth-Path"))
	require.Equal(t, g.Memory, header("X-Thoth-Liquid-Memory"))
	require.Equal(t, strconv.FormatBool(g.Saved), header("X-Thoth-Liquid-KV-Saved"))
	require.Equal(t, strconv.Itoa(g.Prefix), header("X-Thoth-Liquid-Prefix-Tokens"))
	if g.Reason == nil {
		require.Empty(t, header("X-Thoth-Liquid-Miss-Reason"))
	} else {
		require.Equal(t, *g.Reason, header("X-Thoth-Liquid-Miss-Reason"))
	}
	return a
}

// why is the reason given for a miss, "" for none.
func (a said) why() string {
	if a.Gnosis.Reason == nil {
		return ""
	}
	return *a.Gnosis.Reason
}

func TestLiquidSeed_MissThenHit(t *testing.T) {
	s := start(t)
	ask := func() (a said) {
		r := s.do(t, http.MethodPost, chatPath, seedRequest)
		require.Equal(t, 200, r.Status, "%s", r.Body)
		require.NoError(t, a.add(r.Body))
		a.Header = r.Header
		return a.told(t)
	}
	first := ask()
	require.Equal(t, "miss", first.Gnosis.Memory)
	require.True(t, first.Gnosis.Saved)
	require.Equal(t, "no stored prefix", first.why())
	require.Equal(t, "liquid", first.Gnosis.Path)
	require.Zero(t, first.Cached)
	require.Equal(t, first.Prompt, first.Written, "all of the prompt is new")
	require.Greater(t, first.Gnosis.Stored, first.Prompt, "and the answer is kept, too")

	second := ask()
	require.Equal(t, "hit", second.Gnosis.Memory)
	require.True(t, second.Gnosis.Saved)
	require.Nil(t, second.Gnosis.Reason)
	require.Equal(t, second.Prompt-1, second.Cached)
	require.Equal(t, second.Cached, second.Gnosis.Prefix)
	require.Zero(t, second.Gnosis.Tiers.Cold)
	require.Zero(t, second.Written)
}

func TestLiquidSeed_StreamsTellItToo(t *testing.T) {
	q := obj{"messages": []obj{system(words(61, 50)), user("Tell me more.")}, "stream": true, "max_tokens": 12}
	first := shared.say(t, q).told(t)
	require.Equal(t, "miss", first.Gnosis.Memory)
	require.NotEmpty(t, first.why())
	for _, name := range []string{"X-Thoth-Path", "X-Thoth-Liquid-Memory", "X-Thoth-Liquid-Prefix-Tokens"} {
		require.NotEmpty(t, first.Header.Get(name), "known before the first byte: %s", name)
	}
	require.Equal(t, "true", first.Trailer.Get("X-Thoth-Liquid-KV-Saved"), "known at the end only")
	second := shared.restored(t, first, q).told(t)
	require.Equal(t, "hit", second.Gnosis.Memory)
	whole := shared.restored(t, first, obj{"messages": q["messages"], "max_tokens": 12}).told(t)
	require.Equal(t, second.Cached, whole.Cached)
	require.Equal(t, "hit", whole.Gnosis.Memory)

	// Without the usage event the finish event has it.
	e := shared.stream(t, q)
	last := e.JSON[len(e.JSON)-1]
	require.NotNil(t, last["choices"].([]any)[0].(obj)["finish_reason"])
	require.Equal(t, "hit", last["_gnosis"].(obj)["liquid_memory"])

	// Two choices share the prompt, and count it once.
	two := shared.chat(t, obj{"messages": q["messages"], "max_tokens": 12, "n": 2})
	details := two.JSON(t)["usage"].(obj)["prompt_tokens_details"].(obj)
	require.EqualValues(t, whole.Cached, details["cached_tokens"])
	require.Equal(t, whole.Prompt, two.Usage(t, "prompt_tokens"))
}

func TestLiquidBypass_OfOneRequest(t *testing.T) {
	q := obj{"messages": []obj{user(words(62, 90))}}
	stored := shared.kv(t).TokensWritten
	for range 2 {
		a := shared.fresh(t, q).told(t)
		require.Equal(t, "bypassed by the request", a.why())
		require.False(t, a.Gnosis.Saved)
	}
	require.Equal(t, stored, shared.kv(t).TokensWritten, "nothing was stored")
	a := shared.say(t, q, "X-Thoth-Liquid", "on")
	require.Equal(t, "miss", a.Gnosis.Memory)
	for _, bad := range []string{"maybe", "OFF ", "0", ""} {
		r := shared.do(t, http.MethodPost, chatPath, P(q), "X-Thoth-Liquid", bad)
		if bad == "OFF " { // white space around a header's value is none of it
			require.Contains(t, []int{200, 400}, r.Status)
			continue
		}
		require.Equal(t, "X-Thoth-Liquid", r.Err(t, 400)["param"], "%q", bad)
	}
}

func TestLiquidBypass_OfShortPrompts(t *testing.T) {
	s := start(t, windowModel(t, `{% for m in messages %}{{ m.content }}{% endfor %}`)...)
	for range 2 {
		a := s.say(t, obj{"messages": []obj{user("Say hi")}}).told(t)
		require.Equal(t, "bypass", a.Gnosis.Memory)
		require.Equal(t, "native", a.Gnosis.Path)
		require.Equal(t, "prompt too short to gain", a.why())
		require.False(t, a.Gnosis.Saved)
	}
	long := obj{"messages": []obj{user(words(63, 40))}}
	want := s.fresh(t, long)
	require.Equal(t, "miss", s.say(t, long).Gnosis.Memory)
	s.restored(t, want, long)
}

func TestLiquidHealth_TellsWhetherItIsOnAndWhyNot(t *testing.T) {
	health := func(s *server) obj { return s.do(t, http.MethodGet, "/health", nil).JSON(t) }
	on := health(shared)
	for _, name := range []string{"liquid_memory", "liquid_memory_env", "station_kv_session"} {
		require.Equal(t, true, on[name], name)
	}
	require.Nil(t, on["liquid_reason"])

	q := obj{"messages": []obj{user(words(64, 60))}}
	want := shared.fresh(t, q)
	for setting, c := range map[string]struct {
		env, station bool
		reason       string
	}{
		"THOTH_LIQUID_MEMORY=0":         {false, true, "THOTH_LIQUID_MEMORY"},
		"THOTH_STATION_NO_KV_SESSION=1": {true, false, "KV sessions"},
		"THOTH_KV_WARM_BYTES=0":         {true, false, "KV sessions"},
	} {
		t.Run(setting, func(t *testing.T) {
			s := start(t, setting)
			h := health(s)
			require.Equal(t, false, h["liquid_memory"], "%v", h)
			require.Equal(t, c.env, h["liquid_memory_env"])
			require.Equal(t, c.station, h["station_kv_session"])
			require.Contains(t, h["liquid_reason"], c.reason)
			for range 2 {
				a := s.say(t, q).told(t)
				require.NoError(t, want.same(a))
				require.Equal(t, "disabled", a.Gnosis.Memory)
				require.Equal(t, "native", a.Gnosis.Path)
				require.False(t, a.Gnosis.Saved)
				require.Zero(t, a.Cached)
			}
		})
	}
}

func TestLiquidControl_ExplicitModeKeepsWhatIsMarked(t *testing.T) {
	rules := words(65, 120)
	ask := func(question string, options obj, mark bool) said {
		part := text(rules)
		if mark {
			part["prompt_cache_breakpoint"] = obj{"mode": "explicit"}
		}
		q := obj{"messages": []obj{system("x"), message("user", []obj{part, text(" " + question)})}, "max_tokens": 6}
		if options != nil {
			q["prompt_cache_options"] = options
		}
		want := shared.fresh(t, q)
		a := shared.say(t, q).told(t)
		require.NoError(t, want.same(a), "no parameter of the cache changes an answer")
		return a
	}
	explicit := obj{"mode": "explicit"}
	for _, question := range []string{"one", "two"} {
		a := ask(question, explicit, false)
		require.Zero(t, a.Gnosis.Stored, "nothing is marked")
		require.Zero(t, a.Written)
	}
	first := ask("Zebra crossing?", explicit, true)
	require.True(t, first.Gnosis.Saved)
	require.Greater(t, first.Written, 110)
	require.Less(t, first.Written, first.Prompt, "the question is not kept")
	require.Equal(t, first.Written, first.Gnosis.Stored, "nor is the answer")
	second := ask("Quick question?", explicit, true)
	require.Equal(t, "hit", second.Gnosis.Memory)
	require.InDelta(t, first.Written, second.Cached, 1, "up to the mark; a space may begin both questions")
	require.LessOrEqual(t, second.Written, 1)
	third := ask("Quick question?", nil, true) // implicit: all is kept
	require.Greater(t, third.Gnosis.Stored, 5)
}

func TestLiquidControl_ATTLHoldsUnderPressure(t *testing.T) {
	// Room for some 17 blocks of 64 tokens, and no sequences left in the pool.
	s := start(t, "THOTH_KV_WARM_BYTES=25000000", "THOTH_CELLS=1024", "THOTH_CONTEXT_LENGTH=1024")
	q := func(seed uint64, options obj) obj {
		return obj{"messages": []obj{system(words(seed, 150)), user("Why?")}, "max_tokens": 4, "prompt_cache_options": options}
	}
	held, plain := q(700, obj{"ttl": "1h"}), q(701, obj{"mode": "implicit"})
	wantHeld, wantPlain := s.say(t, held), s.say(t, plain)
	for i := range uint64(8) {
		s.say(t, q(710+i, obj{"mode": "implicit"}))
	}
	require.Greater(t, s.restored(t, wantHeld, held).Cached, 128)
	a := s.say(t, plain)
	require.NoError(t, wantPlain.same(a))
	require.Equal(t, "miss", a.Gnosis.Memory)
	require.Equal(t, "prefix evicted", a.why())
	x := s.kv(t)
	require.Positive(t, x.Warm.Evictions)
	require.LessOrEqual(t, x.Warm.Bytes, int64(25000000))
}

// What a key's, or a salt's, requests stored shows in no other's: not in the
// answer, not in the numbers, and not in the work it saves.
func TestLiquidScope_NothingShowsInAnother(t *testing.T) {
	s := start(t, "THOTH_API_KEYS=alice-key,bob-key", storeIn(t.TempDir()))
	secret := obj{"messages": []obj{system("The code is ZEBRA-4471. " + words(69, 120)), user("Say the code.")}, "max_tokens": 12}
	with := func(salt any) obj {
		return obj{"messages": secret["messages"], "max_tokens": 12, "cache_salt": salt}
	}
	want := s.say(t, secret, key("alice-key")...)
	s.restored(t, want, secret, key("alice-key")...)
	s.written(t)

	for name, c := range map[string]struct {
		q   obj
		key string
	}{
		"another key":             {secret, "bob-key"},
		"a salt of the same key":  {with("pepper"), "alice-key"},
		"the salt of another key": {with("pepper"), "bob-key"},
		"another salt":            {with("salt"), "alice-key"},
		"a salt like a key":       {with("alice-key"), "bob-key"},
	} {
		before := s.station(t)
		a := s.say(t, c.q, key(c.key)...).told(t)
		after := s.station(t)
		require.NoError(t, want.same(a), name)
		require.Equal(t, "miss", a.Gnosis.Memory, name)
		require.Equal(t, "no stored prefix", a.why(), name)
		require.Zero(t, a.Cached, name)
		require.Equal(t, tiers{}, a.Gnosis.Tiers, name)
		require.GreaterOrEqual(t, after.PromptTokens-before.PromptTokens, uint64(a.Prompt), "%s: all is computed, so all of the time is taken", name)
		require.Equal(t, a.Prompt, a.Written, "%s: and stored anew", name)
		s.restored(t, want, c.q, key(c.key)...)
	}

	// At the same moment, too: nobody waits for another scope's prefill.
	again := obj{"messages": []obj{system("The code is LLAMA-1234. " + words(70, 200)), user("Say the code.")}, "max_tokens": 4}
	results := make(chan said, 2)
	for _, k := range []string{"alice-key", "bob-key"} {
		go func() {
			a, err := s.trySay(t.Context(), again, key(k)...)
			if err != nil {
				t.Error(err)
			}
			results <- a
		}()
	}
	one, two := <-results, <-results
	for _, a := range []said{one, two} {
		require.Less(t, a.Cached, 10, "no more than the words their own prompts began with before")
		require.GreaterOrEqual(t, a.Written, a.Prompt-10)
	}
	require.NoError(t, one.same(two))

	for _, bad := range []any{"", 5, []string{"a"}} {
		require.Equal(t, "cache_salt", s.do(t, http.MethodPost, chatPath, P(with(bad)), key("bob-key")...).Err(t, 400)["param"])
	}
}
