package liquid

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/stationtest"
	"thoth/station/wire"
)

// choices asks for n answers, seeded, and gives them with the request's outcome.
func (g *rig) choices(ctx context.Context, q *Request, n int) ([]reply, *Outcome, error) {
	f := *q
	gen := *q.Generate
	gen.Fork = &n
	f.Generate = &gen
	s, err := g.Open(ctx, &f)
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	all := make([]reply, n)
	for {
		f, err := s.Next()
		if err == io.EOF {
			return all, s.Outcome(), nil
		}
		if err != nil {
			return nil, s.Outcome(), err
		}
		r := &all[f.Choice]
		r.text += f.Text
		r.tokens = append(r.tokens, f.Tokens...)
		if f.Done != nil {
			r.done = f.Done
		}
	}
}

// seeded is a request whose answers differ.
func seeded(text string, n int) *Request {
	q := ask(text, n)
	hot, seed := float32(0.9), uint64(40)
	q.Generate.Sampling = wire.Sampling{Temperature: &hot, Seed: &seed}
	return q
}

func (q *Request) alone(choice int) *Request {
	a, gen := *q, *q.Generate
	if gen.Sampling.Seed != nil {
		seed := *gen.Sampling.Seed + uint64(choice)
		gen.Sampling.Seed = &seed
	}
	a.Generate = &gen
	return &a
}

func TestStream_ChoicesShareOnePrefillAndAreKept(t *testing.T) {
	eachWay(t, func(t *testing.T, newRig func(*testing.T, stationtest.Options, ...func(*Options)) *rig) {
		for name, q := range map[string]*Request{"greedy": ask(long("A", 150), 30), "seeded": seeded(long("A", 150), 30)} {
			t.Run(name, func(t *testing.T) {
				g := newRig(t, stationtest.Options{EOGEvery: -1})
				const n = 5
				before := g.stats()
				g.took("")
				all, o, err := g.choices(t.Context(), q, n)
				require.NoError(t, err)
				prompt := all[0].done.PromptTokens
				require.Equal(t, uint64(prompt), g.stats().PromptTokens-before.PromptTokens)
				require.Equal(t, []any{Miss, Liquid, 0, true, prompt}, []any{o.Memory, o.Path, o.PrefixTokens, o.KVSaved, o.Written})
				g.noSessions()
				calls := map[string]int{wire.RouteGenerate: 1}
				if !g.turns {
					calls = map[string]int{wire.RouteEmbed: 1, routeLoad: 1, wire.RouteForward: 1, wire.RouteDecodeNext: 1, routeSave: n + 1} // of the prompt, and each answer
				}
				for _, route := range []string{wire.RouteGenerate, wire.RouteEmbed, routeLoad, wire.RouteForward, wire.RouteDecodeNext, routeSave} {
					require.Equal(t, calls[route], g.counted(route), route)
				}

				for i, r := range all {
					g.same(g.fresh(q.alone(i)), r)
					turn := *q.Generate
					turn.Prompt = wire.Prompt{Tokens: append(g.tokens(q), r.tokens...)}
					next := g.run(&Request{Generate: &turn})
					require.Equal(t, prompt+len(r.tokens)-1, next.outcome.PrefixTokens, "whichever answer a conversation goes on with, it is kept")
				}
				again, o, err := g.choices(t.Context(), q, n)
				require.NoError(t, err)
				require.Equal(t, []any{Hit, prompt - 1, 0}, []any{o.Memory, o.PrefixTokens, o.Written})
				for i := range all {
					g.same(all[i], again[i])
				}
				g.noSessions()
			})
		}
	})
}

func TestStream_ChoicesOnTheNativePathShareOnePrefill(t *testing.T) {
	g := newRig(t, stationtest.Options{EOGEvery: -1})
	for name, q := range map[string]*Request{"bypassed": seeded(long("A", 100), 12), "short": seeded("hi", 12)} {
		t.Run(name, func(t *testing.T) {
			q.Bypass = name == "bypassed"
			before := g.stats()
			all, o, err := g.choices(t.Context(), q, 8)
			require.NoError(t, err)
			require.Equal(t, Native, o.Path)
			require.Equal(t, uint64(all[0].done.PromptTokens), g.stats().PromptTokens-before.PromptTokens)
			for i, r := range all {
				g.same(g.run(q.alone(i)), r)
			}
		})
	}
}

func TestStream_ChoicesCountEachAndTheirPromptOnce(t *testing.T) {
	eachWay(t, func(t *testing.T, newRig func(*testing.T, stationtest.Options, ...func(*Options)) *rig) {
		g := newRig(t, stationtest.Options{EOGEvery: -1})
		q := seeded(long("A", 100), 6)
		all, _, err := g.choices(t.Context(), q, 3)
		require.NoError(t, err)
		r := g.Report(t.Context())
		require.Equal(t, uint64(3), r.Requests[Miss])
		require.Equal(t, uint64(all[0].done.PromptTokens), r.Tokens.Asked)
		require.Len(t, r.Misses, 1)
	})
}

func TestStream_FailedCallsOfAForkTakeTheNativePath(t *testing.T) {
	for _, route := range []string{wire.RouteEmbed, routeLoad, wire.RouteForward, wire.RouteDecodeNext} {
		t.Run(route, func(t *testing.T) {
			g := newRig(t, stationtest.Options{EOGEvery: -1})
			q := seeded(long("A", 100), 10)
			g.fault(route, status(500))
			all, _, err := g.choices(t.Context(), q, 4)
			require.NoError(t, err)
			for i, r := range all {
				g.same(g.fresh(q.alone(i)), r)
			}
			g.fault(route, nil)
			g.noSessions()
		})
	}
}

// A session that a client was told of in the moment it left ends by its lease.
func TestStream_AForkLeftMidwayLeavesNoSession(t *testing.T) {
	for _, turns := range []bool{false, true} {
		g := newRigOf(t, stationtest.Options{EOGEvery: -1}, station.Options{SessionLease: time.Second}, turns)
		for frames := range 40 {
			ctx, cancel := context.WithCancel(t.Context())
			q := seeded(long(fmt.Sprint(frames, "A"), 100), 4+frames%9)
			n := 4
			q.Generate.Fork = &n
			s, err := g.Open(ctx, q)
			require.NoError(t, err)
			for range frames {
				if _, err := s.Next(); err != nil {
					require.ErrorIs(t, err, io.EOF)
					break
				}
			}
			cancel()
			require.NoError(t, s.Close())
		}
		g.noSessions()
	}
}

// What is stored of them is what one answer would leave: the prompt.
func TestStream_AForkThatIsLeftIsNotKept(t *testing.T) {
	for _, turns := range []bool{false, true} {
		for _, n := range []int{1, 8} {
			g := newRigOf(t, stationtest.Options{EOGEvery: -1, Cells: 1 << 15, ContextLength: 1 << 12}, station.Options{SessionLease: time.Second}, turns) // of answers that had ended
			q := seeded(long("A", 150), 3000)                                                                                                              // so long that none ends before its reader has left
			q.Generate.Fork = &n
			ctx, cancel := context.WithCancel(t.Context())
			s, err := g.Open(ctx, q)
			require.NoError(t, err)
			for tokens := 0; tokens < n*200; { // each has several blocks of its own
				f, err := s.Next()
				require.NoError(t, err)
				tokens += len(f.Tokens)
			}
			prompt := uint64(len(g.tokens(q)))
			g.eventually(func() bool { return g.written() == prompt })
			cancel()
			require.NoError(t, s.Close())
			g.noSessions()
			require.Equal(t, prompt, g.written())
		}
	}
}

func TestStream_OfDraftsThePromptAloneIsKept(t *testing.T) {
	eachWay(t, func(t *testing.T, newRig func(*testing.T, stationtest.Options, ...func(*Options)) *rig) {
		g := newRig(t, stationtest.Options{EOGEvery: -1})
		q := seeded(long("A", 150), 100)
		q.Drafts = true
		all, o, err := g.choices(t.Context(), q, 3)
		require.NoError(t, err)
		g.noSessions()
		prompt := all[0].done.PromptTokens
		require.Equal(t, []any{Miss, true, prompt}, []any{o.Memory, o.KVSaved, o.SavedTokens})
		require.Equal(t, uint64(prompt), g.written())
	})
}

// written is what the station has stored.
func (g *rig) written() uint64 {
	g.t.Helper()
	x, err := g.client.KVIndex(g.t.Context())
	require.NoError(g.t, err)
	return x.TokensWritten
}

func TestStream_AnswersThatReasonAreNotKept(t *testing.T) {
	say := func(text string) *Request {
		q := ask(long("A", 60), 400)
		q.StripsReasoning = true
		q.Generate.IgnoreEOG = false
		q.Generate.Prompt.Segments[1].Text += "say:" + text
		q.Generate.Prompt.Segments = append(q.Generate.Prompt.Segments, wire.Segment{Text: "<|im_end|>", Special: true})
		return q
	}
	eachWay(t, func(t *testing.T, newRig func(*testing.T, stationtest.Options, ...func(*Options)) *rig) {
		g := newRig(t, stationtest.Options{})
		all, _, err := g.choices(t.Context(), say("<think>"+strings.Repeat("abcdefgh", 20)+"</think>b"), 3)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(all[2].text, "<think>"), all[2].text)
		g.noSessions()
		prompt := g.written()
		require.Equal(t, uint64(all[0].done.PromptTokens), prompt, "the prompt alone")
		_, o, err := g.choices(t.Context(), say("plain"), 3)
		require.NoError(t, err)
		g.noSessions()
		require.Greater(t, g.written(), prompt+uint64(o.Written), "the answers, too")
	})
}

func (g *rig) stats() *wire.Stats {
	g.t.Helper()
	s, err := g.client.Stats(g.t.Context())
	require.NoError(g.t, err)
	return s
}

// counted is the number of calls of a path so far.
func (g *rig) counted(path string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.calls {
		if c.path == path {
			n++
		}
	}
	return n
}

// tokens are those of a request's prompt.
func (g *rig) tokens(q *Request) []int32 {
	g.t.Helper()
	r, err := g.client.Tokenize(g.t.Context(), &wire.TokenizeRequest{Prompt: q.Generate.Prompt})
	require.NoError(g.t, err)
	return r.Tokens
}
