package stationtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/client"
	"thoth/station/wire"
)

// fork proves that the answers of one prefill are what calls of their own give.
func (s *suite) fork(t *testing.T) {
	if s.health.Fork == 0 {
		t.Skip("the station does not fork")
	}
	require.GreaterOrEqual(t, s.health.Fork, 2)
	for name, sm := range s.forkSamplings() {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 2, 5, 16} {
				r := s.greedy(s.o.AnswerTokens)
				r.Sampling = sm
				want := s.apart(t, r, n)
				s.same(t, want, s.together(t, r, n))
				s.same(t, want, s.forkedSession(t, r, n, false))
				s.same(t, want, s.forkedSession(t, r, n, true))
			}
		})
	}
	t.Run("the prompt is evaluated once", func(t *testing.T) {
		s.idle(t)
		r := s.greedy(3)
		before := s.stats(t).PromptTokens
		a := s.together(t, r, 8)
		require.Equal(t, uint64(a[0].done.PromptTokens), s.stats(t).PromptTokens-before)
	})
	t.Run("more answers than sequences", func(t *testing.T) {
		n := min(s.health.Fork, s.health.Sequences+3)
		r := s.greedy(8)
		r.Sampling = wire.Sampling{Temperature: ptr[float32](0.8), Seed: ptr(uint64(3))}
		r.IgnoreEOG = true
		s.idle(t)
		want := s.apart(t, r, n)
		before := s.stats(t).PromptTokens
		s.same(t, want, s.together(t, r, n))
		require.Equal(t, uint64(want[0].done.PromptTokens), s.stats(t).PromptTokens-before, "who waits for a place costs no prefill")
	})
	t.Run("one token, and stop strings", func(t *testing.T) {
		r := s.greedy(1)
		r.Sampling = wire.Sampling{Temperature: ptr[float32](1.5), Seed: ptr(uint64(5)), Logprobs: true, TopLogprobs: 3}
		s.same(t, s.apart(t, r, 4), s.together(t, r, 4))
		s.same(t, s.apart(t, r, 4), s.forkedSession(t, r, 4, false))
		whole := s.ask(t, s.greedy(s.o.AnswerTokens)).text
		r.MaxTokens, r.Stop = s.o.AnswerTokens, []string{stopAt(whole, 5, 3), "e", " a"}
		r.IgnoreEOG = true
		s.same(t, s.apart(t, r, 6), s.together(t, r, 6))
	})
	t.Run("some at a time", func(t *testing.T) {
		r := s.greedy(12)
		r.Sampling = wire.Sampling{Temperature: ptr[float32](0.9), Seed: ptr(uint64(9))}
		want := s.apart(t, r, 7)
		for _, width := range []int{1, 3, 9} {
			r.ForkWidth = width
			s.same(t, want, s.together(t, r, 7))
			s.same(t, want, s.forkedSession(t, r, 7, false))
		}
	})
	t.Run("without a seed each has its own", func(t *testing.T) {
		r := s.greedy(s.o.AnswerTokens)
		r.Sampling, r.IgnoreEOG = wire.Sampling{Temperature: ptr[float32](1)}, true
		seeds := map[uint64]bool{}
		for _, a := range s.together(t, r, 4) {
			seeds[a.done.Seed] = true
			q := *r
			q.Sampling.Seed = &a.done.Seed
			require.Equal(t, s.ask(t, &q).tokens, a.tokens)
		}
		require.Len(t, seeds, 4)
	})
	t.Run("seeds go round", func(t *testing.T) {
		r := s.greedy(2)
		r.Sampling.Seed = ptr(^uint64(0))
		a := s.together(t, r, 2)
		require.Equal(t, []uint64{^uint64(0), 0}, []uint64{a[0].done.Seed, a[1].done.Seed})
	})
	t.Run("progress comes before all answers", func(t *testing.T) {
		r := s.greedy(3)
		r.Progress = true
		a := s.together(t, r, 3)
		require.NotEmpty(t, a[0].progress)
		require.Empty(t, a[1].progress)
	})
	t.Run("each answer's session goes on", s.forkSessions)
	t.Run("a grammar holds each", func(t *testing.T) {
		r := s.greedy(60)
		r.Sampling = wire.Sampling{Temperature: ptr[float32](1.5), Seed: ptr(uint64(1)), Grammar: `root ::= "yes, indeed" | "no, never" | "who knows"`}
		a := s.together(t, r, 6)
		for _, b := range a {
			require.Contains(t, []string{"yes, indeed", "no, never", "who knows"}, b.text)
		}
		s.same(t, s.apart(t, r, 6), a)
	})
	t.Run("refused", func(t *testing.T) {
		for _, n := range []int{0, -1, s.health.Fork + 1} {
			resp, body := s.raw.do(t, http.MethodPost, wire.RouteGenerate, fmt.Sprintf(`{"prompt":{"text":"a"},"fork":%d}`, n))
			require.Equal(t, "fork", requireError(t, resp, body, wire.CodeInvalid).Param)
		}
		resp, body := s.raw.do(t, http.MethodPost, wire.RouteGenerate, `{"prompt":{"text":"a"},"fork":2,"fork_width":-1}`)
		require.Equal(t, "fork_width", requireError(t, resp, body, wire.CodeInvalid).Param)
		e := s.stage(t, wire.Prompt{Text: s.o.Prompt})
		s.decode(t, &wire.DecodeRequest{Session: e.Session, Sampling: &wire.Sampling{}, N: 1})
		_, err := s.c.DecodeNext(s.ctx(t), &wire.DecodeRequest{Session: e.Session, N: 1, Later: wire.Later{Fork: ptr(2)}})
		require.Equal(t, "fork", requireCode(t, err, wire.CodeInvalid).Param)
		s.release(t, e.Session)
	})
	t.Run("cancelled in the middle", func(t *testing.T) {
		s.idle(t)
		sessions := s.stats(t).Sessions
		for _, staged := range []bool{false, true} {
			ctx, cancel := context.WithCancel(s.ctx(t))
			r := s.greedy(0)
			r.IgnoreEOG, r.MaxTokens = true, s.long(t)
			r.Fork = ptr(4)
			var st *client.Stream
			var err error
			if staged {
				e := s.stage(t, r.Prompt)
				st, err = s.c.DecodeNext(ctx, &wire.DecodeRequest{Session: e.Session, Sampling: &r.Sampling, N: r.MaxTokens, IgnoreEOG: true, Later: r.Later})
			} else {
				st, err = s.c.Generate(ctx, r)
			}
			require.NoError(t, err)
			_, err = st.Next()
			require.NoError(t, err)
			cancel()
			require.NoError(t, st.Close())
			s.idle(t)
			s.eventually(t, "its sessions end", func() bool { return s.stats(t).Sessions <= sessions })
		}
	})
	t.Run("beside others", s.forkLoad)
}

func (s *suite) forkSamplings() map[string]wire.Sampling {
	return map[string]wire.Sampling{
		"greedy": {Temperature: ptr[float32](0)},
		"seeded": {Temperature: ptr[float32](0.9), TopP: ptr[float32](0.95), Seed: ptr(uint64(11)), RepeatPenalty: ptr[float32](1.1),
			PresencePenalty: ptr[float32](0.5), Logprobs: true, TopLogprobs: 2},
	}
}

// apart asks for the answers of a fork one by one.
func (s *suite) apart(t *testing.T, r *wire.GenerateRequest, n int) []*answer {
	t.Helper()
	all := make([]*answer, n)
	for i := range all {
		q := *r
		if r.Sampling.Seed != nil {
			q.Sampling.Seed = ptr(*r.Sampling.Seed + uint64(i))
		}
		all[i] = s.ask(t, &q)
	}
	return all
}

func (s *suite) together(t *testing.T, r *wire.GenerateRequest, n int) []*answer {
	t.Helper()
	q := *r
	q.Fork = &n
	st, err := s.c.Generate(s.ctx(t), &q)
	all, err := readFork(st, err, n)
	require.NoError(t, err)
	for _, a := range all {
		s.checkDone(t, a)
		require.Empty(t, a.done.Session)
	}
	return all
}

// forkedSession takes the staged path; first evaluates the prompt by /forward.
func (s *suite) forkedSession(t *testing.T, r *wire.GenerateRequest, n int, first bool) []*answer {
	t.Helper()
	e := s.stage(t, r.Prompt)
	if first {
		s.forward(t, e.Session, 0)
	}
	st, err := s.c.DecodeNext(s.ctx(t), &wire.DecodeRequest{Session: e.Session, Sampling: &r.Sampling, N: r.MaxTokens, Stop: r.Stop, IgnoreEOG: r.IgnoreEOG,
		LeaveLast: n%2 == 0, Later: wire.Later{Fork: &n, ForkWidth: r.ForkWidth}})
	all, err := readFork(st, err, n)
	require.NoError(t, err)
	seen := map[string]bool{}
	for i, a := range all {
		s.checkDone(t, a)
		require.NotEmpty(t, a.done.Session)
		require.Equal(t, i == 0, a.done.Session == e.Session)
		require.False(t, seen[a.done.Session])
		seen[a.done.Session] = true
		require.GreaterOrEqual(t, a.done.Position, a.done.PromptTokens)
		s.end(t, a.done.Session)
	}
	return all
}

// end ends a session; a station that saves none has it released by a call.
func (s *suite) end(t *testing.T, session string) {
	t.Helper()
	if s.o.NoKV {
		s.release(t, session)
		return
	}
	_, err := s.c.KVDelete(s.ctx(t), session, &wire.KVDeleteRequest{})
	require.NoError(t, err)
}

// same compares what does not depend on the time.
func (s *suite) same(t *testing.T, want, got []*answer) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		w, g := want[i], got[i]
		require.Equal(t, w.tokens, g.tokens, "answer %d", i)
		require.Equal(t, w.text, g.text, "answer %d", i)
		require.Equal(t, w.logprobs, g.logprobs, "answer %d", i)
		require.Equal(t, []any{w.done.Reason, w.done.StopString, w.done.PromptTokens, w.done.CompletionTokens},
			[]any{g.done.Reason, g.done.StopString, g.done.PromptTokens, g.done.CompletionTokens}, "answer %d", i)
	}
}

// readFork takes the stream of n answers apart.
func readFork(st *client.Stream, err error, n int) ([]*answer, error) {
	if err != nil {
		return nil, err
	}
	defer st.Close()
	all := make([]*answer, n)
	for i := range all {
		all[i] = &answer{}
	}
	for {
		f, err := st.Next()
		switch {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, err
		case f.Choice < 0 || f.Choice >= n:
			return nil, fmt.Errorf("a frame of answer %d of %d", f.Choice, n)
		}
		a := all[f.Choice]
		switch {
		case a.done != nil:
			return nil, fmt.Errorf("a frame of answer %d after its end", f.Choice)
		case f.Progress != nil && len(all[0].tokens) > 0:
			return nil, fmt.Errorf("progress after a token")
		case f.Progress != nil:
			a.progress = append(a.progress, *f.Progress)
		}
		a.text += f.Text
		a.tokens = append(a.tokens, f.Tokens...)
		a.logprobs = append(a.logprobs, f.Logprobs...)
		a.done = f.Done
	}
}

// forkSessions goes on with each answer of a fork, also while others are at work.
func (s *suite) forkSessions(t *testing.T) {
	prompt := s.tokenize(t, wire.Prompt{Text: s.o.Prompt})
	turn := s.tokenize(t, wire.Prompt{Text: " And lakes?", AddBOS: ptr(false)})
	sm := wire.Sampling{Temperature: ptr[float32](0.9), Seed: ptr(uint64(21))}
	e := s.stage(t, wire.Prompt{Text: s.o.Prompt})
	st, err := s.c.DecodeNext(s.ctx(t), &wire.DecodeRequest{Session: e.Session, Sampling: &sm, N: 6, IgnoreEOG: true, Later: wire.Later{Fork: ptr(3)}})
	all, err := readFork(st, err, 3)
	require.NoError(t, err)
	cold := wire.Sampling{Temperature: ptr[float32](0)}
	for i, a := range all {
		r := s.greedy(8)
		r.IgnoreEOG = true
		r.Prompt = wire.Prompt{Tokens: append(append(append([]int32(nil), prompt...), a.tokens...), turn...)}
		want := s.apart(t, r, 1)[0].tokens
		more, err := s.c.Embed(s.ctx(t), &wire.EmbedRequest{Session: a.done.Session, Append: true, Prompt: wire.Prompt{Text: " And lakes?"}})
		require.NoError(t, err)
		require.Equal(t, len(prompt)+6, more.Position, "answer %d", i)
		st, err := s.c.DecodeNext(s.ctx(t), &wire.DecodeRequest{Session: a.done.Session, Sampling: &cold, N: 8, IgnoreEOG: true, Release: true, Later: wire.Later{Fork: ptr(2)}})
		next, err := readFork(st, err, 2)
		require.NoError(t, err)
		require.Equal(t, want, next[0].tokens, "answer %d", i)
		require.Equal(t, want, next[1].tokens, "answer %d", i)
	}
}

// forkLoad has forks answer beside other requests, some of which are left midway.
func (s *suite) forkLoad(t *testing.T) {
	request := func(i int) *wire.GenerateRequest {
		r := s.greedy(12 + i%9)
		r.Prompt = wire.Prompt{Text: fmt.Sprintf("%d. %s %s", i, s.o.Prompt, strings.Repeat(" "+s.o.Prompt, i%4))}
		r.Sampling = wire.Sampling{Temperature: ptr[float32](0.8), Seed: ptr(uint64(100 * i))}
		if i%3 == 0 {
			r.Sampling.Temperature = ptr[float32](0)
		}
		r.IgnoreEOG = true
		return r
	}
	const forks = 4
	want := make([][]*answer, forks)
	for i := range want {
		want[i] = s.apart(t, request(i), 3+i)
	}
	ctx, stop := context.WithCancel(s.ctx(t))
	defer stop()
	var others, asked sync.WaitGroup
	for w := range 8 {
		others.Go(func() { s.disturb(ctx, w, request) })
	}
	got := make([][]*answer, forks)
	errs := make([]error, forks)
	for i := range got {
		asked.Go(func() {
			r := request(i)
			n := len(want[i])
			r.Fork = &n
			st, err := s.c.Generate(ctx, r)
			got[i], errs[i] = readFork(st, err, n)
		})
	}
	asked.Wait()
	stop()
	others.Wait()
	for i := range got {
		require.NoError(t, errs[i])
		s.same(t, want[i], got[i])
	}
	s.idle(t)
}

// disturb asks, and leaves every other answer after a few frames.
func (s *suite) disturb(ctx context.Context, worker int, request func(int) *wire.GenerateRequest) {
	for i := worker; ctx.Err() == nil; i += 8 {
		r := request(i)
		if i%3 == 1 {
			r.Fork = ptr(1 + i%5)
		}
		st, err := s.c.Generate(ctx, r)
		if err != nil {
			continue
		}
		for frames := 0; i%2 == 0 || frames < i%7; frames++ {
			if _, err := st.Next(); err != nil {
				break
			}
		}
		_ = st.Close()
	}
}
