package liquid

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/stationtest"
	"thoth/station/wire"
)

// ofTurns is a fault of turns alone: the native path has the same route.
func ofTurns(f fault) fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var q wire.GenerateRequest
		if json.Unmarshal(body, &q) == nil && q.KV != nil {
			f(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	}
}

// frames changes those of a turn; it may give several for one, or none.
func frames(change func(f wire.Frame) []wire.Frame) fault {
	return ofTurns(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		for line := range bytes.Lines(rec.Body.Bytes()) {
			var f wire.Frame
			if err := json.Unmarshal(line, &f); err != nil {
				panic(err)
			}
			for _, g := range change(f) {
				_ = json.NewEncoder(w).Encode(g)
			}
		}
	})
}

// editing changes the frames of a type.
func editing(kind wire.FrameType, change func(*wire.Frame)) fault {
	return frames(func(f wire.Frame) []wire.Frame {
		if f.Type == kind {
			change(&f)
		}
		return []wire.Frame{f}
	})
}

func refusing(e *wire.Error) fault {
	return ofTurns(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(e.Status())
		_ = json.NewEncoder(w).Encode(wire.ErrorBody{Error: e})
	})
}

// asked are the turns so far.
func (g *rig) asked() (turns []wire.KVTurn) {
	g.t.Helper()
	for _, c := range g.took(wire.RouteGenerate) {
		var q wire.GenerateRequest
		require.NoError(g.t, json.Unmarshal(c.body, &q))
		if q.KV != nil {
			turns = append(turns, *q.KV)
		}
	}
	return turns
}

func TestTurn_IsOneCallThatSaysWhatIsWanted(t *testing.T) {
	g := newTurnRig(t, stationtest.Options{})
	q := ask(long("A", 100), 6)
	q.Scope, q.Group, q.TTL, q.Pin = "s", "g", 90*time.Second, true
	want := wire.KVTurn{KVLoadRequest: wire.KVLoadRequest{Scope: "s", Group: "g", Keep: true, WaitMS: new(int64(540_000))}, TTLSeconds: 90, Pin: true, Answers: true}
	g.took("")
	g.run(q)
	require.Equal(t, []wire.KVTurn{want}, g.asked())
	g.run(q)
	q.Drafts, q.StripsReasoning = true, true
	for _, path := range []string{wire.RouteEmbed, routeLoad, wire.RouteForward, wire.RouteDecodeNext, routeSave, wire.RouteKVSession + "/" + wire.VerbDelete} {
		require.Zero(t, g.counted(path), path)
	}
	g.took("")
	g.run(q)
	want.Answers, want.Unless = false, "</think>"
	require.Equal(t, []wire.KVTurn{want}, g.asked())
	require.Nil(t, q.Generate.KV, "the request is its caller's")
}

func TestTurn_ARequestWithBreakpointsIsMadeOfSingleCalls(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"points":   func(q *Request) { q.Points = []Point{{1, 20}} },
		"explicit": func(q *Request) { q.Explicit = true },
	} {
		t.Run(name, func(t *testing.T) {
			g := newTurnRig(t, stationtest.Options{})
			q := ask(long("A", 100), 6)
			want := g.fresh(q)
			change(q)
			g.took("")
			r := g.run(q)
			g.same(want, r)
			require.Equal(t, Liquid, r.outcome.Path)
			require.Equal(t, 1, g.counted(wire.RouteEmbed))
			require.Empty(t, g.asked())
			g.noSessions()
		})
	}
}

func TestTurn_AFailureBeforeTheFirstTokenTakesTheNativePath(t *testing.T) {
	q := ask(long("A", 100), 8)
	broken := &wire.Error{Code: wire.CodeEngine, Message: "broke"}
	behind := func(kind wire.FrameType) fault {
		return frames(func(f wire.Frame) []wire.Frame {
			switch f.Type {
			case kind:
				return []wire.Frame{f, {Type: wire.FrameError, Error: broken}}
			case wire.FrameRestored:
				return []wire.Frame{f}
			}
			return nil
		})
	}
	faults := map[string]struct {
		fault  fault
		reason Reason
	}{
		"engine":         {refusing(broken), ReasonLoad},
		"internal":       {refusing(&wire.Error{Code: wire.CodeInternal, Message: "a bug"}), ReasonLoad},
		"no kv":          {refusing(&wire.Error{Code: wire.CodeUnsupported, Param: "kv", Message: "off"}), ReasonLoad},
		"its scope":      {refusing(&wire.Error{Code: wire.CodeInvalid, Param: "kv.scope", Message: "long"}), ReasonLoad},
		"broken off":     {ofTurns(func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }), ReasonLoad},
		"no frame":       {frames(func(wire.Frame) []wire.Frame { return nil }), ReasonLoad},
		"evaluating":     {behind(wire.FrameRestored), ReasonForward},
		"decoding":       {behind(wire.FrameEvaluated), ReasonDecode},
		"no evaluation":  {frames(func(f wire.Frame) []wire.Frame { return drop(f, wire.FrameEvaluated) }), ReasonPosition},
		"nothing inside": {editing(wire.FrameEvaluated, func(f *wire.Frame) { f.Forward = nil }), ReasonPosition},
	}
	for name, c := range faults {
		t.Run(name, func(t *testing.T) {
			g := newTurnRig(t, stationtest.Options{})
			want := g.fresh(q)
			g.fault(wire.RouteGenerate, c.fault)
			r := g.run(q)
			g.same(want, r)
			require.Equal(t, &Outcome{Memory: Miss, Path: Native, Reason: c.reason, DiffersAt: -1}, r.outcome)
			require.True(t, g.On())
			require.Contains(t, g.logs.String(), "it takes the native path")
			g.noSessions()
		})
	}
}

// drop gives a frame, unless it is of the type.
func drop(f wire.Frame, kind wire.FrameType) []wire.Frame {
	if f.Type == kind {
		return nil
	}
	return []wire.Frame{f}
}

// What the native path would meet as well is not asked for twice.
func TestTurn_ARefusalOfTheRequestIsTheAnswer(t *testing.T) {
	for _, e := range []*wire.Error{
		{Code: wire.CodeOverloaded, Message: "full"}, {Code: wire.CodeDraining, Message: "ends"}, {Code: wire.CodeLoading, Message: "loads"},
		{Code: wire.CodeContextLength, Param: "prompt", Message: "long"}, {Code: wire.CodeTooLarge, Message: "large"},
		{Code: wire.CodeInvalid, Param: "sampling.top_p", Message: "top_p"}, {Code: wire.CodeUnsupported, Param: "adapters", Message: "adapters"},
	} {
		t.Run(string(e.Code)+" "+e.Param, func(t *testing.T) {
			g := newTurnRig(t, stationtest.Options{})
			g.fault(wire.RouteGenerate, refusing(e))
			g.took("")
			_, err := g.open(t.Context(), ask(long("A", 100), 8))
			var got *wire.Error
			require.ErrorAs(t, err, &got)
			require.Equal(t, []any{e.Code, e.Param}, []any{got.Code, got.Param})
			require.Equal(t, 1, g.counted(wire.RouteGenerate))
			g.noSessions()

			g.fault(wire.RouteGenerate, frames(func(f wire.Frame) []wire.Frame {
				if f.Type == wire.FrameRestored {
					return []wire.Frame{f, {Type: wire.FrameError, Error: e}}
				}
				return nil
			}))
			g.took("")
			_, err = g.open(t.Context(), ask(long("A", 100), 8))
			require.ErrorAs(t, err, &got)
			require.Equal(t, e.Code, got.Code)
			require.Equal(t, 1, g.counted(wire.RouteGenerate), "nor behind the restore")
		})
	}
}

func TestTurn_AfterTheFirstTokenAnErrorIsTheAnswers(t *testing.T) {
	g := newTurnRig(t, stationtest.Options{EOGEvery: -1})
	texts := 0
	g.fault(wire.RouteGenerate, frames(func(f wire.Frame) []wire.Frame {
		if f.Type == wire.FrameText {
			texts++
		}
		switch {
		case texts > 1 && f.Type == wire.FrameDone:
			return []wire.Frame{{Type: wire.FrameError, Error: &wire.Error{Code: wire.CodeEngine, Message: "broke"}}}
		case texts > 1:
			return nil
		}
		return []wire.Frame{f}
	}))
	g.took("")
	r, err := g.open(t.Context(), ask(long("A", 100), 8))
	require.Equal(t, wire.CodeEngine, codeOf(err))
	require.Len(t, r.tokens, 1)
	require.Equal(t, 1, g.counted(wire.RouteGenerate), "no second beginning")
}

// A station that was replaced since the last look: what it answers is used, it is
// told, and from then on it is asked by single calls.
func TestTurn_AStationThatIgnoresItIsNoticed(t *testing.T) {
	for _, progress := range []bool{false, true} {
		suspected := 0
		g := newTurnRig(t, stationtest.Options{}, func(o *Options) { o.Suspect = func() { suspected++ } })
		q := ask(long("A", 100), 8)
		q.Generate.Progress = progress
		want := g.fresh(q)
		g.fault(wire.RouteGenerate, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			var q wire.GenerateRequest
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				panic(err)
			}
			q.KV = nil
			b, _ := json.Marshal(q)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
			next.ServeHTTP(w, r)
		})
		g.took("")
		r := g.run(q)
		g.same(want, r)
		require.Equal(t, &Outcome{Memory: Miss, Path: Native, Reason: ReasonRoute, DiffersAt: -1}, r.outcome)
		require.Equal(t, 1, g.counted(wire.RouteGenerate))
		require.Equal(t, 1, suspected)
		require.Contains(t, g.logs.String(), "without liquid memory")

		r = g.run(q)
		g.same(want, r)
		require.Equal(t, Liquid, r.outcome.Path)
		require.Equal(t, 1, g.counted(wire.RouteEmbed))
		g.fault(wire.RouteGenerate, nil)
		g.look(true)
		require.True(t, g.State().StationKVTurn)
		g.noSessions()
	}
}

func TestTurn_WhatACutTurnHasStoredCounts(t *testing.T) {
	g := newTurnRig(t, stationtest.Options{EOGEvery: -1})
	q := seeded(long("A", 100), 0)
	n := 2
	q.Generate.Fork, q.Generate.MaxTokens = &n, 300
	g.fault(wire.RouteGenerate, ofTurns(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		for line := range bytes.Lines(rec.Body.Bytes()) {
			_, _ = w.Write(line)
			var f wire.Frame
			if json.Unmarshal(line, &f) == nil && f.Type == wire.FrameDone {
				break // the other one's end never comes
			}
		}
		_ = http.NewResponseController(w).Flush()
		hang(w, r, next)
	}))
	s, err := g.Open(t.Context(), q)
	require.NoError(t, err)
	for ended := false; !ended; {
		f, err := s.Next()
		require.NoError(t, err)
		ended = f.Type == wire.FrameDone
	}
	require.NoError(t, s.Close())
	require.GreaterOrEqual(t, g.Report(t.Context()).Tokens.Written, uint64(len(g.tokens(q))))
}

func TestTurn_AStationThatContradictsItselfIsNotTrusted(t *testing.T) {
	restored := func(change func(*wire.KVRestored)) fault {
		return editing(wire.FrameRestored, func(f *wire.Frame) { change(f.Restored) })
	}
	for name, f := range map[string]fault{
		"more than it restored": restored(func(a *wire.KVRestored) { a.Position++; a.Tiers.Hot++; a.PromptTokens++ }),
		"less than it restored": restored(func(a *wire.KVRestored) { a.Position, a.Tiers = 0, wire.KVTiers{} }),
		"all of the prompt":     restored(func(a *wire.KVRestored) { a.Position++; a.Tiers.Hot++ }),
		"another length":        restored(func(a *wire.KVRestored) { a.Position -= 10; a.Tiers = wire.KVTiers{Warm: a.Position} }),
		"tiers that do not sum": restored(func(a *wire.KVRestored) { a.Tiers.Cold++ }),
		"not all evaluated":     editing(wire.FrameEvaluated, func(f *wire.Frame) { f.Forward.Remaining = 1 }),
	} {
		t.Run(name, func(t *testing.T) {
			newTurnRig(t, stationtest.Options{}).distrusts(wire.RouteGenerate, f)
		})
	}
}

func TestTurn_APrefixThatTheStationHadToDropIsAPlainMiss(t *testing.T) {
	g := newTurnRig(t, stationtest.Options{})
	q := ask(long("A", 200), 8)
	want := g.fresh(q)
	n := want.done.PromptTokens
	g.fault(wire.RouteGenerate, editing(wire.FrameRestored, func(f *wire.Frame) {
		f.Restored.Position, f.Restored.Staged, f.Restored.Tiers = n-1, 1, wire.KVTiers{Warm: n - 1}
	}))
	r := g.run(q)
	g.same(want, r)
	require.Equal(t, []any{Miss, Liquid, ReasonDropped, 0}, []any{r.first.Memory, r.first.Path, r.first.Reason, r.first.PrefixTokens}, "told at the first token")
	require.True(t, r.outcome.KVSaved)
	require.Equal(t, n, r.outcome.Written)
	require.Zero(t, g.Report(t.Context()).Mismatches)
	g.noSessions()
}

func TestTurn_ASaveThatFailsIsToldAndCostsNothing(t *testing.T) {
	q := ask(long("A", 100), 8)
	for name, change := range map[string]func(*wire.Done){
		"the prompt's": func(d *wire.Done) { d.KVPrompt = &wire.KVSaveResponse{Reason: "the store is full"} },
		"the answer's": func(d *wire.Done) { d.KVAnswer = &wire.KVSaveResponse{Reason: "the store is full"} },
		"untold":       func(d *wire.Done) { d.KVPrompt, d.KVAnswer = nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			g := newTurnRig(t, stationtest.Options{EOGEvery: -1})
			want := g.fresh(q)
			g.fault(wire.RouteGenerate, editing(wire.FrameDone, func(f *wire.Frame) { change(f.Done) }))
			r := g.run(q)
			g.same(want, r)
			require.Equal(t, Miss, r.first.Memory)
			require.Equal(t, []any{CaptureFailed, Liquid, false, false}, []any{r.outcome.Memory, r.outcome.Path, r.outcome.KVSaved, r.outcome.Durable})
			require.Equal(t, "station kv session save failed", r.outcome.MissReason())
			g.fault(wire.RouteGenerate, nil)
			require.True(t, g.run(q).outcome.KVSaved)
			require.Equal(t, name != "untold", bytes.Contains([]byte(g.logs.String()), []byte("the store is full")))
			g.noSessions()
		})
	}
}

// Nothing is durable that is not all durable.
func TestTurn_DurableIsWhatIsDurableAsAWhole(t *testing.T) {
	for i, both := range [][2]bool{{true, true}, {true, false}, {false, true}, {false, false}} {
		g := newTurnRig(t, stationtest.Options{EOGEvery: -1})
		g.fault(wire.RouteGenerate, editing(wire.FrameDone, func(f *wire.Frame) {
			f.Done.KVPrompt.Durable, f.Done.KVAnswer.Durable = both[0], both[1]
		}))
		require.Equal(t, i == 0, g.run(ask(long("A", 100), 8)).outcome.Durable, both)
	}
}

func TestTurn_AStationThatRestoresForTooLongIsNotWaitedFor(t *testing.T) {
	g := newTurnRig(t, stationtest.Options{}, func(o *Options) { o.LoadWait = 20 * time.Millisecond })
	q := ask(long("A", 100), 4)
	want := g.fresh(q)
	g.fault(wire.RouteGenerate, ofTurns(hang))
	r := g.run(q)
	g.same(want, r)
	require.Equal(t, &Outcome{Memory: Miss, Path: Native, Reason: ReasonLoad, DiffersAt: -1}, r.outcome)
	g.noSessions()
}

func TestTurn_AClientThatGoesAwayLeavesNothing(t *testing.T) {
	t.Run("before anything is told", func(t *testing.T) {
		g := newTurnRig(t, stationtest.Options{EOGEvery: -1})
		ctx, cancel := context.WithCancel(t.Context())
		g.fault(wire.RouteGenerate, ofTurns(func(w http.ResponseWriter, r *http.Request, next http.Handler) { cancel(); hang(w, r, next) }))
		_, err := g.open(ctx, ask(long("A", 100), 0))
		require.Equal(t, wire.CodeCancelled, codeOf(err))
		require.Equal(t, 1, g.counted(wire.RouteGenerate), "nobody is there for another path")
		g.noSessions()
	})
	for name, texts := range map[string]int{"behind the restore": 0, "while tokens come": 1} {
		t.Run(name, func(t *testing.T) {
			g := newTurnRig(t, stationtest.Options{EOGEvery: -1})
			ctx, cancel := context.WithCancel(t.Context())
			s, err := g.Open(ctx, ask(long("A", 100), 0))
			require.NoError(t, err)
			for got := 0; got < texts; {
				f, err := s.Next()
				require.NoError(t, err)
				if f.Type == wire.FrameText {
					got++
				}
			}
			cancel()
			require.NoError(t, s.Close())
			g.noSessions()
		})
	}
}

// What is here already is told to be here, the end included.
func TestTurn_NothingIsWaitedForAtTheEnd(t *testing.T) {
	for _, n := range []int{1, 3} {
		g := newTurnRig(t, stationtest.Options{EOGEvery: -1})
		g.fault(wire.RouteGenerate, frames(func(f wire.Frame) []wire.Frame { return drop(f, wire.FrameProgress) })) // all of it at once
		q := seeded(long("A", 100), 8)
		q.Generate.Fork = &n
		s, err := g.Open(t.Context(), q)
		require.NoError(t, err)
		got, together := 0, 0
		for {
			_, err := s.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if got++; s.More() {
				together++
				require.True(t, s.More(), "it stays")
			}
		}
		require.Equal(t, 9*n, got)
		require.Equal(t, got-1, together, "all but the last")
		require.NoError(t, s.Close())
		g.noSessions()
	}
}

// A session is not needed, so none can be missing.
func TestTurn_NeedsNoSession(t *testing.T) {
	g := newRigOf(t, stationtest.Options{}, station.Options{MaxSessions: 1}, true)
	_, err := g.client.Embed(t.Context(), &wire.EmbedRequest{Prompt: wire.Prompt{Text: "the one"}})
	require.NoError(t, err)
	require.Equal(t, Liquid, g.run(ask(long("A", 100), 8)).outcome.Path)
}
