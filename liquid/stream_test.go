package liquid

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/stationtest"
	"thoth/station/wire"
)

func TestStream_MissThenHitAndTheAnswerIsTheSame(t *testing.T) {
	eachWay(t, func(t *testing.T, newRig func(*testing.T, stationtest.Options, ...func(*Options)) *rig) {
		g := newRig(t, stationtest.Options{})
		q := ask(long("A", 300), 20)
		want := g.fresh(q)
		n := want.done.PromptTokens
		miss := g.run(q)
		g.same(want, miss)
		o := miss.outcome
		require.Equal(t, Miss, o.Memory)
		require.Equal(t, Liquid, o.Path)
		require.Equal(t, "no stored prefix", o.MissReason())
		require.True(t, o.KVSaved)
		require.Equal(t, n, o.Written)
		evaluated := miss.done.Position
		if a := miss.done.KVAnswer; a != nil {
			evaluated = a.Tokens
		}
		require.Equal(t, evaluated, o.SavedTokens, "each token counts once")
		require.Zero(t, o.PrefixTokens)
		require.Equal(t, Miss, miss.first.Memory)
		require.False(t, miss.first.KVSaved, "not known yet")

		hit := g.run(q)
		g.same(want, hit)
		o = hit.outcome
		require.Equal(t, Hit, o.Memory)
		require.Equal(t, Hit, hit.first.Memory, "known before the first token")
		require.Empty(t, o.MissReason())
		require.Equal(t, n-1, o.PrefixTokens, "one token is evaluated, to have logits")
		require.Equal(t, n-1, hit.first.PrefixTokens)
		require.Equal(t, o.PrefixTokens, o.Tiers.Hot+o.Tiers.Warm+o.Tiers.Cold)
		require.True(t, o.KVSaved)
		require.Zero(t, o.Written, "what is stored is not written again")
		require.Positive(t, hit.done.Timings.TTFTMS)
		g.noSessions()
	})
}

// D06: the reply is reused. D23: a capped reply's last token was never evaluated
// and does not count.
func TestStream_TheNextTurnBeginsWithPromptAndAnswer(t *testing.T) {
	eachWay(t, func(t *testing.T, newRig func(*testing.T, stationtest.Options, ...func(*Options)) *rig) {
		g := newRig(t, stationtest.Options{})
		q := ask(long("A", 100), 30)
		first := g.run(q)
		next := *q
		gen := *q.Generate
		tokens, err := g.client.Tokenize(t.Context(), &wire.TokenizeRequest{Prompt: gen.Prompt})
		require.NoError(t, err)
		gen.Prompt = wire.Prompt{Tokens: append(append(tokens.Tokens, first.tokens...), tokens.Tokens[1:20]...)}
		next.Generate = &gen
		o := g.run(&next).outcome
		require.Equal(t, Hit, o.Memory)
		require.Equal(t, len(tokens.Tokens)+len(first.tokens)-1, o.PrefixTokens, "the last token was drawn and not evaluated")
		g.noSessions()
	})
}

// D10: a session or a store that is not there is a miss.
func TestStream_AFailureBeforeTheFirstTokenTakesTheNativePath(t *testing.T) {
	q := ask(long("A", 100), 8)
	routes := map[string]Reason{wire.RouteEmbed: ReasonEmbed, routeLoad: ReasonLoad, wire.RouteForward: ReasonForward, wire.RouteDecodeNext: ReasonDecode}
	for route, reason := range routes {
		for _, code := range []int{400, 404, 409, 410, 429, 500, 503} {
			t.Run(fmt.Sprint(route, code), func(t *testing.T) {
				g := newRig(t, stationtest.Options{})
				want := g.fresh(q)
				g.fault(route, status(code))
				r := g.run(q)
				g.same(want, r)
				o := r.outcome
				require.False(t, o.KVSaved && o.Path == Native)
				require.Zero(t, o.PrefixTokens)
				switch {
				case code == 404:
					require.Equal(t, &Outcome{Memory: Disabled, Path: Native, Reason: ReasonRoute, DiffersAt: -1}, o)
					require.Equal(t, OffRoute+route, g.State().Reason)
					require.Equal(t, Disabled, g.run(q).outcome.Memory, "off for all")
				case code == 410:
					require.Equal(t, &Outcome{Memory: Miss, Path: Native, Reason: ReasonLost, DiffersAt: -1}, o)
				case route == routeLoad && (code == 400 || code == 409 || code == 429 || code == 500):
					require.Equal(t, Miss, o.Memory)
					require.Equal(t, Liquid, o.Path, "it is computed in the session")
					require.Equal(t, ReasonLoad, o.Reason)
					require.True(t, o.KVSaved)
				default:
					require.Equal(t, &Outcome{Memory: Miss, Path: Native, Reason: reason, DiffersAt: -1}, o)
				}
				require.Equal(t, code != 404, g.On())
				g.noSessions()
			})
		}
	}
}

func TestStream_ALoadSaysHowLongItWaitsAndWhatIsKept(t *testing.T) {
	g := newRig(t, stationtest.Options{})
	loads := func() (q wire.KVLoadRequest) {
		calls := g.took(routeLoad)
		require.Len(t, calls, 1)
		require.NoError(t, json.Unmarshal(calls[0].body, &q))
		return q
	}
	g.took("")
	q := ask(long("A", 100), 4)
	q.Scope, q.Group = "s", "g"
	g.run(q)
	require.Equal(t, wire.KVLoadRequest{Scope: "s", Group: "g", Keep: true, WaitMS: new(int64(540_000))}, loads())
	q.Explicit = true
	g.run(q)
	require.False(t, loads().Keep, "explicit mode keeps what is marked")
}

// D17: parallel requests on one prefix, each with an answer of its own.
func TestStream_WhoWaitsForAPrefixComputesItOnlyOnce(t *testing.T) {
	g := newRig(t, stationtest.Options{EOGEvery: -1})
	leader, follower := ask(long("A", 300)+" hello", 60), ask(long("A", 300)+" world", 4)
	want := g.fresh(follower)
	g.took("")
	pause := g.eng.Pause()
	done := make(chan error, 2)
	var led, followed reply
	go func() { var err error; led, err = g.open(t.Context(), leader); done <- err }()
	<-pause.Entered() // its prefill has begun
	arrived := make(chan struct{})
	g.fault(routeLoad, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		close(arrived)
		next.ServeHTTP(w, r)
	})
	go func() { var err error; followed, err = g.open(t.Context(), follower); done <- err }()
	<-arrived
	pause.Resume()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	g.same(want, followed)
	require.Equal(t, Miss, led.outcome.Memory)
	require.Equal(t, Hit, followed.outcome.Memory)
	require.Greater(t, followed.outcome.PrefixTokens, 290)
	require.Empty(t, g.took(wire.RouteGenerate))
}

func TestStream_ALoadThatHangsEndsSoonAfterItsWait(t *testing.T) {
	g := newRig(t, stationtest.Options{}, func(o *Options) { o.LoadWait = 20 * time.Millisecond })
	q := ask(long("A", 100), 4)
	want := g.fresh(q)
	g.fault(routeLoad, hang)
	r := g.run(q)
	g.same(want, r)
	require.Equal(t, &Outcome{Memory: Miss, Path: Native, Reason: ReasonLoad, DiffersAt: -1}, r.outcome)
	g.noSessions()
}

// D21: past the context is the same error on both paths.
func TestStream_ErrorsAreThoseOfTheNativePath(t *testing.T) {
	eachWay(t, func(t *testing.T, newRig func(*testing.T, stationtest.Options, ...func(*Options)) *rig) {
		g := newRig(t, stationtest.Options{ContextLength: 64})
		q := ask(long("A", 300), 8)
		_, err := g.open(t.Context(), q)
		require.Equal(t, wire.CodeContextLength, codeOf(err))
		bypass := *q
		bypass.Bypass = true
		_, native := g.open(t.Context(), &bypass)
		require.Equal(t, native, err)
		g.noSessions()
	})
}

func TestStream_AfterTheFirstTokenAnErrorIsTheAnswers(t *testing.T) {
	g := newRig(t, stationtest.Options{})
	g.fault(wire.RouteDecodeNext, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for _, f := range []wire.Frame{{Type: wire.FrameText, Text: "Hel", Tokens: []int32{1}}, {Type: wire.FrameError, Error: &wire.Error{Code: wire.CodeEngine, Message: "broke"}}} {
			_ = json.NewEncoder(w).Encode(f)
		}
	})
	r, err := g.open(t.Context(), ask(long("A", 100), 8))
	require.Equal(t, wire.CodeEngine, codeOf(err))
	require.Equal(t, "Hel", r.text)
	require.Len(t, g.took(wire.RouteGenerate), 0, "no second beginning")
	g.noSessions()
}

// Whoever gathers what is there before he sends it must send the last text before
// the end, which waits for the saves.
func TestStream_WhatTheEndMayHoldUpIsNotThereYet(t *testing.T) {
	for _, n := range []int{1, 3} {
		g := newRig(t, stationtest.Options{EOGEvery: -1})
		g.fault(wire.RouteDecodeNext, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			_, _ = w.Write(rec.Body.Bytes()) // all of it at once
		})
		q := seeded(long("A", 100), 8)
		q.Generate.Fork = &n
		s, err := g.Open(t.Context(), q)
		require.NoError(t, err)
		texts, together := 0, 0
		for left := n; left > 0; {
			f, err := s.Next()
			require.NoError(t, err)
			if f.Type == wire.FrameProgress {
				continue
			}
			if f.Type == wire.FrameText {
				texts++
			} else {
				left--
			}
			if s.More() {
				together++
				require.True(t, s.More(), "it stays")
			}
		}
		require.Equal(t, 8*n, texts, "none is lost to a look ahead")
		require.Equal(t, 8*n+n-2, together, "all but the last done frame and what is before it")
		require.NoError(t, s.Close())
		g.noSessions()
	}
}

func TestStream_AfterTheEndOfAnAnswerNoOtherPathIsTaken(t *testing.T) {
	g := newRig(t, stationtest.Options{EOGEvery: -1})
	g.fault(wire.RouteDecodeNext, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.WriteString(w, `{"type":"done","choice":1,"done":{"reason":"eog"}}`+"\n"+`{"type":"error","error":{"code":"engine","message":"stumbled"}}`+"\n")
	})
	n, q := 2, seeded(long("A", 100), 6)
	q.Generate.Fork = &n
	_, _, err := g.choices(t.Context(), q, n)
	require.ErrorContains(t, err, "stumbled")
	require.Zero(t, g.counted(wire.RouteGenerate))
	g.noSessions()
}

// D07: what is told as restored is what was.
func TestStream_AStationThatContradictsItselfIsNotTrusted(t *testing.T) {
	for name, c := range map[string]struct {
		route string
		fault fault
	}{
		"more than it restored": {routeLoad, edit(func(a *wire.KVLoadResponse) { a.Position++; a.Tiers.Hot++ })},
		"less than it restored": {routeLoad, edit(func(a *wire.KVLoadResponse) { a.Position, a.Tiers = 0, wire.KVTiers{} })},
		"all of the prompt":     {routeLoad, edit(func(a *wire.KVLoadResponse) { a.Position += 1000; a.Tiers.Hot += 1000 })},
		"another length":        {routeLoad, edit(func(a *wire.KVLoadResponse) { a.Position -= 10; a.Tiers = wire.KVTiers{Warm: a.Position} })},
		"tiers that do not sum": {routeLoad, edit(func(a *wire.KVLoadResponse) { a.Tiers.Cold++ })},
	} {
		t.Run(name, func(t *testing.T) {
			newRig(t, stationtest.Options{}).distrusts(c.route, c.fault)
		})
	}
}

// D07: a prefix that was computed after all is not told as restored.
func TestStream_APrefixThatTheStationHadToDropIsAPlainMiss(t *testing.T) {
	q := ask(long("A", 200), 8)
	g := newRig(t, stationtest.Options{})
	want := g.fresh(q)
	n := want.done.PromptTokens
	// The load says that it restored, and the session has nothing when /forward comes.
	g.fault(routeLoad, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_ = json.NewEncoder(w).Encode(wire.KVLoadResponse{Session: r.Header.Get(wire.HeaderSessionID), Position: n - 1, Staged: 1, Tiers: wire.KVTiers{Warm: n - 1}, DiffersAt: -1, LoadMS: 2})
	})
	g.took("")
	r := g.run(q)
	g.same(want, r)
	require.Empty(t, g.took(wire.RouteGenerate), "what was computed is used")
	o := r.first
	require.Equal(t, Miss, o.Memory, "told at the first token already")
	require.Equal(t, Liquid, o.Path)
	require.Equal(t, "restored prefix was dropped under memory pressure", o.MissReason())
	require.Zero(t, o.PrefixTokens)
	require.Zero(t, o.Tiers)
	require.True(t, r.outcome.KVSaved)
	require.Equal(t, n, r.outcome.Written)
	report := g.Report(t.Context())
	require.Zero(t, report.Mismatches)
	require.EqualValues(t, 1, report.Reasons[ReasonDropped])
	require.Zero(t, report.Tokens.Warm, "nothing was gained")
	require.NotContains(t, g.logs.String(), `"level":"error"`)
	g.noSessions()
}

func TestStream_AClientThatGoesAwayLeavesNothing(t *testing.T) {
	for _, route := range []string{wire.RouteEmbed, routeLoad, wire.RouteForward, wire.RouteDecodeNext} {
		t.Run(route, func(t *testing.T) {
			g := newRig(t, stationtest.Options{})
			arrived := make(chan struct{}, 1)
			g.fault(route, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				arrived <- struct{}{}
				hang(w, r, next)
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { _, err := g.open(ctx, ask(long("A", 100), 8)); ended <- err }()
			<-arrived
			cancel()
			require.Equal(t, wire.CodeCancelled, codeOf(<-ended))
			g.noSessions()
			require.Empty(t, g.took(wire.RouteGenerate))
		})
	}
	t.Run("while tokens come", func(t *testing.T) {
		g := newRig(t, stationtest.Options{EOGEvery: -1})
		ctx, cancel := context.WithCancel(t.Context())
		s, err := g.Open(ctx, ask(long("A", 100), 0))
		require.NoError(t, err)
		for tokens := 0; tokens < 3; {
			f, err := s.Next()
			require.NoError(t, err)
			tokens += len(f.Tokens)
		}
		cancel()
		require.NoError(t, s.Close())
		g.noSessions()
	})
}

func TestStream_NothingToGainTakesTheNativePath(t *testing.T) {
	g := newRig(t, stationtest.Options{})
	g.took("")
	r := g.run(ask("hello", 3))
	require.Equal(t, &Outcome{Memory: Bypass, Path: Native, Reason: ReasonShort, DiffersAt: -1}, r.outcome)
	require.Equal(t, "prompt too short to gain", r.outcome.MissReason())
	require.Empty(t, g.took(wire.RouteEmbed))

	off := newRig(t, stationtest.Options{})
	off.gate.off(routeLoad)
	off.took("")
	r = off.run(ask(long("A", 100), 3))
	require.Equal(t, &Outcome{Memory: Disabled, Path: Native, Reason: ReasonOff, DiffersAt: -1}, r.outcome)
	require.Empty(t, off.took(wire.RouteEmbed))
}

// D01: what one scope stored no other gets.
func TestStream_ScopesDoNotSee(t *testing.T) {
	eachWay(t, func(t *testing.T, newRig func(*testing.T, stationtest.Options, ...func(*Options)) *rig) {
		g := newRig(t, stationtest.Options{})
		a, b := ask(long("A", 200), 4), ask(long("A", 200), 4)
		a.Scope, b.Scope = Scope("alice", ""), Scope("bob", "")
		g.run(a)
		r := g.run(b)
		require.Equal(t, Miss, r.outcome.Memory)
		require.Zero(t, r.outcome.PrefixTokens)
		require.Equal(t, Hit, g.run(a).outcome.Memory)
		require.Equal(t, Hit, g.run(b).outcome.Memory)
	})
}

// The native path meets a station that went: the prompt may be why.
func TestStream_ARefusalAfterALostCallIsNoPlainOne(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		e := &wire.Error{Code: wire.CodeLoading, Message: "loading"}
		w.WriteHeader(e.Status())
		_ = json.NewEncoder(w).Encode(wire.ErrorBody{Error: e})
	}
	for name, c := range map[string]struct {
		first fault
		taken bool
	}{
		"taken":   {func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }, true},
		"refused": {refuse, false},
	} {
		for _, route := range []string{wire.RouteEmbed, wire.RouteForward} {
			t.Run(name+" "+route, func(t *testing.T) {
				g := newRig(t, stationtest.Options{})
				g.fault(route, c.first)
				g.fault(wire.RouteGenerate, refuse)
				s, err := g.Open(t.Context(), ask(long("A", 100), 8))
				if err == nil {
					defer s.Close()
					_, err = s.Next()
				}
				var e *wire.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, wire.CodeLoading, e.Code)
				require.Equal(t, c.taken, e.Taken)
			})
		}
	}
}
