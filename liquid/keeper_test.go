package liquid

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/stationtest"
	"thoth/station/wire"
)

func saves(t *testing.T, g *rig) (prefixes []int, bodies []wire.KVSaveRequest) {
	t.Helper()
	for _, c := range g.took(routeSave) {
		n, err := strconv.Atoi(c.prefix)
		require.NoError(t, err)
		var b wire.KVSaveRequest
		require.NoError(t, json.Unmarshal(c.body, &b))
		prefixes, bodies = append(prefixes, n), append(bodies, b)
	}
	return prefixes, bodies
}

func TestKeeper_SavesThePromptAndThenTheAnswer(t *testing.T) {
	g := newRig(t, stationtest.Options{EOGEvery: -1})
	q := ask(long("A", 100), 10)
	q.Group, q.TTL, q.Pin, q.Scope = "g", 90*time.Second, true, "s"
	q.Points = []Point{{1, 20}, {1, 60}}
	r := g.run(q)
	prefixes, bodies := saves(t, g)
	n := r.done.PromptTokens
	require.Equal(t, []int{n, n + 9}, prefixes)
	require.Len(t, bodies[0].Points, 2)
	require.Less(t, bodies[0].Points[0], bodies[0].Points[1])
	want := wire.KVSaveRequest{Scope: "s", Group: "g", TTLSeconds: 90, Pin: true, Points: bodies[0].Points}
	require.Equal(t, want, bodies[0])
	want.Release = true
	require.Equal(t, want, bodies[1])
	g.noSessions()
	require.Equal(t, n-1, g.run(q).outcome.PrefixTokens, "breakpoints end nothing in implicit mode")
}

func TestKeeper_ExplicitModeKeepsUpToTheLastBreakpointOnly(t *testing.T) {
	g := newRig(t, stationtest.Options{})
	q := ask(long("A", 200), 4)
	q.Explicit = true
	r := g.run(q)
	require.Equal(t, Miss, r.outcome.Memory)
	require.False(t, r.outcome.KVSaved)
	require.Zero(t, r.outcome.SavedTokens)
	prefixes, _ := saves(t, g)
	require.Empty(t, prefixes, "nothing without a breakpoint")
	g.noSessions()
	require.Equal(t, Miss, g.run(q).outcome.Memory)

	g.took("")
	q.Points = []Point{{1, 400}, {1, 100}}
	r = g.run(q)
	require.True(t, r.outcome.KVSaved)
	prefixes, bodies := saves(t, g)
	require.Len(t, prefixes, 1, "and not the answer")
	require.Equal(t, prefixes[0], bodies[0].Points[1])
	require.Less(t, prefixes[0], r.done.PromptTokens)
	require.Equal(t, prefixes[0], r.outcome.Written)
	g.noSessions()
	hit := g.run(q)
	require.Equal(t, Hit, hit.outcome.Memory)
	require.Equal(t, prefixes[0], hit.outcome.PrefixTokens)
	g.same(r, hit)
}

// D15: an answer with reasoning is no prefix of a next turn that leaves it out.
func TestKeeper_AnAnswerThatTheNextTurnDoesNotShowIsNotKept(t *testing.T) {
	for _, strips := range []bool{true, false} {
		t.Run(fmt.Sprint("strips ", strips), func(t *testing.T) {
			g := newRig(t, stationtest.Options{EOGEvery: -1})
			g.fault(wire.RouteDecodeNext, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				rec := httptest.NewRecorder()
				next.ServeHTTP(rec, r)
				marks := []string{"so</th", "ink> yes"} // over two frames' edges
				for line := range bytes.Lines(rec.Body.Bytes()) {
					var f wire.Frame
					if err := json.Unmarshal(line, &f); err != nil {
						panic(err)
					}
					if f.Type == wire.FrameText && len(marks) > 0 {
						f.Text, marks = marks[0], marks[1:]
					}
					_ = json.NewEncoder(w).Encode(f)
				}
			})
			q := ask(long("A", 100), 200) // three full blocks
			q.StripsReasoning = strips
			r := g.run(q)
			n := r.done.PromptTokens
			require.True(t, strings.HasPrefix(r.text, "so</think> yes"))
			require.True(t, r.outcome.KVSaved, "the prompt is")
			prefixes, _ := saves(t, g)
			g.noSessions()
			prompt, err := g.client.Tokenize(t.Context(), &wire.TokenizeRequest{Prompt: q.Generate.Prompt})
			require.NoError(t, err)
			var stored *wire.KVLookupResponse
			g.eventually(func() bool {
				stored, err = g.client.KVLookup(t.Context(), &wire.KVLookupRequest{Prompt: wire.Prompt{Tokens: append(prompt.Tokens, r.tokens...)}})
				return err == nil && stored.Position >= n
			})
			if strips {
				require.Equal(t, []int{n}, prefixes)
				require.Equal(t, n, stored.Position, "and not by the session's end either")
				return
			}
			require.Equal(t, []int{n, n + 199}, prefixes)
			g.eventually(func() bool {
				stored, err = g.client.KVLookup(t.Context(), &wire.KVLookupRequest{Prompt: wire.Prompt{Tokens: append(prompt.Tokens, r.tokens...)}})
				return err == nil && stored.Position >= n+190
			})
		})
	}
}

func TestStream_ASaveThatFailsIsToldAndCostsNothing(t *testing.T) {
	q := ask(long("A", 100), 8)
	for name, f := range map[string]fault{
		"404": status(404), "500": status(500), "410": status(410), "hangs": hang,
		"refused": edit(func(a *wire.KVSaveResponse) { *a = wire.KVSaveResponse{Reason: "the store is full"} }),
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, stationtest.Options{}, func(o *Options) { o.SaveWait, o.CloseWait = 20*time.Millisecond, time.Millisecond })
			want := g.fresh(q)
			g.fault(routeSave, f)
			r := g.run(q)
			g.same(want, r)
			require.Equal(t, Miss, r.first.Memory)
			require.Equal(t, CaptureFailed, r.outcome.Memory)
			require.Equal(t, "station kv session save failed", r.outcome.MissReason())
			require.Equal(t, Liquid, r.outcome.Path)
			require.False(t, r.outcome.KVSaved)
			require.False(t, r.outcome.Durable)
			require.Zero(t, r.outcome.Written)
			require.Equal(t, name != "404", g.On())
			if name != "hangs" {
				g.noSessions()
			}
			g.fault(routeSave, nil)
			g.look(false)
			require.True(t, g.On(), "the route is there again")
			saved := false
			for range 50 { // a busy machine may not save within the short waits above
				if saved = g.run(q).outcome.KVSaved; saved {
					break
				}
			}
			require.True(t, saved)
		})
	}
}

func TestStream_ASaveThatFailsBesideAHitIsTold(t *testing.T) {
	g := newRig(t, stationtest.Options{})
	q := ask(long("A", 100), 8)
	g.run(q)
	g.fault(routeSave, status(500))
	r := g.run(q)
	require.Equal(t, Hit, r.first.Memory)
	require.Equal(t, CaptureFailed, r.outcome.Memory)
	require.Positive(t, r.outcome.PrefixTokens)
	g.noSessions()
}

func TestStream_TokensDoNotWaitForASaveThatHangs(t *testing.T) {
	g := newRig(t, stationtest.Options{}, func(o *Options) { o.SaveWait, o.CloseWait = time.Hour, time.Millisecond })
	g.fault(routeSave, hang)
	ctx, cancel := context.WithCancel(t.Context())
	s, err := g.Open(ctx, ask(long("A", 100), 8))
	require.NoError(t, err)
	defer s.Close()
	tokens := 0
	for tokens < 8 { // all of them, while the save hangs
		f, err := s.Next()
		require.NoError(t, err)
		tokens += len(f.Tokens)
	}
	g.eventually(func() bool { return len(g.took(routeSave)) == 1 })
	cancel() // or the end would wait for an hour
	_, _ = s.Next()
}

func TestStream_ThePromptIsSavedBesideTheAnswer(t *testing.T) {
	g := newRig(t, stationtest.Options{})
	saved := make(chan struct{}, 2)
	g.fault(routeSave, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(w, r)
		saved <- struct{}{}
	})
	g.fault(wire.RouteDecodeNext, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		first, rest, _ := bytes.Cut(rec.Body.Bytes(), []byte("\n"))
		_, _ = w.Write(append(first, '\n'))
		_ = http.NewResponseController(w).Flush()
		<-saved // the answer goes on once the prompt is kept
		_, _ = w.Write(rest)
	})
	r := g.run(ask(long("A", 100), 8))
	require.Equal(t, Miss, r.outcome.Memory)
	require.Equal(t, r.done.PromptTokens, r.outcome.Written)
	g.noSessions()
}

func TestStream_AnAnswersSaveThatIsLateIsNotWaitedFor(t *testing.T) {
	g := newRig(t, stationtest.Options{}, func(o *Options) { o.SaveWait = time.Hour })
	late := make(chan struct{})
	g.fault(routeSave, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		if bytes.Contains(b, []byte(`"release":true`)) {
			<-late
		}
		next.ServeHTTP(w, r)
	})
	r := g.run(ask(long("A", 100), 8))
	n := r.done.PromptTokens
	require.Equal(t, Miss, r.outcome.Memory)
	require.True(t, r.outcome.KVSaved, "the prompt is")
	require.Equal(t, n, r.outcome.SavedTokens)
	close(late)
	g.noSessions()
	g.eventually(func() bool { return g.Report(t.Context()).Tokens.Written == uint64(r.done.Position) })
}
