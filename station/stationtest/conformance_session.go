package stationtest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/client"
	"thoth/station/wire"
)

// stage makes a session of a prompt.
func (s *suite) stage(t *testing.T, p wire.Prompt) *wire.EmbedResponse {
	t.Helper()
	r, err := s.c.Embed(s.ctx(t), &wire.EmbedRequest{Prompt: p})
	require.NoError(t, err)
	require.NotEmpty(t, r.Session)
	return r
}

func (s *suite) forward(t *testing.T, session string, count int) *wire.ForwardResponse {
	t.Helper()
	r, err := s.c.Forward(s.ctx(t), &wire.ForwardRequest{Session: session, Count: count})
	require.NoError(t, err)
	require.Equal(t, session, r.Session)
	return r
}

func (s *suite) decode(t *testing.T, r *wire.DecodeRequest) *answer {
	t.Helper()
	st, err := s.c.DecodeNext(s.ctx(t), r)
	a := s.read(t, st, err)
	s.checkDone(t, a)
	require.Equal(t, r.Session, a.done.Session)
	return a
}

// release ends a session.
func (s *suite) release(t *testing.T, session string) {
	t.Helper()
	s.decode(t, &wire.DecodeRequest{Session: session, N: 1, Release: true})
}

// staged proves that the staged path gives what /generate gives, however it is
// cut in pieces.
func (s *suite) staged(t *testing.T) {
	n := s.o.AnswerTokens
	prompt := s.tokenize(t, wire.Prompt{Text: s.o.Prompt})
	samplings := map[string]wire.Sampling{
		"greedy": {Temperature: ptr[float32](0)},
		"seeded": {Temperature: ptr[float32](0.8), TopP: ptr[float32](0.95), Seed: ptr(uint64(11)), RepeatPenalty: ptr[float32](1.2), PresencePenalty: ptr[float32](0.5)},
	}
	for name, sm := range samplings {
		t.Run(name, func(t *testing.T) {
			r := s.greedy(n)
			r.Sampling, r.IgnoreEOG = sm, true
			want := s.ask(t, r).tokens

			t.Run("in one piece", func(t *testing.T) {
				e := s.stage(t, wire.Prompt{Text: s.o.Prompt})
				require.Equal(t, prompt, e.Tokens)
				require.Equal(t, 0, e.Position)
				require.Equal(t, len(prompt), e.Staged)
				f := s.forward(t, e.Session, 0)
				require.Equal(t, len(prompt), f.Position)
				require.Equal(t, len(prompt), f.Evaluated)
				require.Zero(t, f.Remaining)
				a := s.decode(t, &wire.DecodeRequest{Session: e.Session, Sampling: &sm, N: n, IgnoreEOG: true, Release: true})
				require.Equal(t, want, a.tokens)
				require.Equal(t, len(prompt), a.done.PromptTokens)
			})
			t.Run("without forward", func(t *testing.T) {
				e := s.stage(t, wire.Prompt{Tokens: prompt})
				a := s.decode(t, &wire.DecodeRequest{Session: e.Session, Sampling: &sm, N: n, IgnoreEOG: true, Release: true})
				require.Equal(t, want, a.tokens)
			})
			t.Run("in many pieces", func(t *testing.T) {
				e := s.stage(t, wire.Prompt{Tokens: prompt[:2]})
				require.Equal(t, 1, s.forward(t, e.Session, 1).Remaining)
				more, err := s.c.Embed(s.ctx(t), &wire.EmbedRequest{Session: e.Session, Append: true, Prompt: wire.Prompt{Tokens: prompt[2:]}})
				require.NoError(t, err)
				require.Equal(t, prompt[2:], more.Tokens)
				require.Equal(t, 1, more.Position)
				require.Equal(t, len(prompt)-1, more.Staged)
				f := s.forward(t, e.Session, 2)
				require.Equal(t, []int{3, 2, len(prompt) - 3}, []int{f.Position, f.Evaluated, f.Remaining})
				f = s.forward(t, e.Session, 0)
				require.Equal(t, []int{len(prompt), 0}, []int{f.Position, f.Remaining})
				require.Zero(t, s.forward(t, e.Session, 0).Evaluated, "nothing is left")

				var got []int32
				q := &wire.DecodeRequest{Session: e.Session, Sampling: &sm, N: 5, IgnoreEOG: true}
				for len(got) < n {
					q.N = min(q.N, n-len(got))
					q.Release = len(got)+q.N == n
					a := s.decode(t, q)
					require.Equal(t, len(prompt)+len(got), a.done.PromptTokens)
					got = append(got, a.tokens...)
					q.Sampling = nil
				}
				require.Equal(t, want, got)
			})
			t.Run("in pieces whose last token is left", func(t *testing.T) {
				e := s.stage(t, wire.Prompt{Tokens: prompt})
				s.forward(t, e.Session, 0)
				var got []int32
				q := &wire.DecodeRequest{Session: e.Session, Sampling: &sm, IgnoreEOG: true, LeaveLast: true}
				for len(got) < n {
					q.N = min(5, n-len(got))
					a := s.decode(t, q)
					got = append(got, a.tokens...)
					require.Equal(t, len(prompt)+len(got)-1, a.done.Position, "and is not counted")
					q.Sampling = nil
				}
				require.Equal(t, want, got)
				f := s.forward(t, e.Session, 0)
				require.Equal(t, []int{len(prompt) + n, 1, 0}, []int{f.Position, f.Evaluated, f.Remaining})
				s.release(t, e.Session)
			})
			t.Run("token by token", func(t *testing.T) {
				e := s.stage(t, wire.Prompt{Tokens: prompt})
				var got []int32
				q := &wire.DecodeRequest{Session: e.Session, Sampling: &sm, N: 1, IgnoreEOG: true}
				for range n {
					got = append(got, s.decode(t, q).tokens...)
					q.Sampling = nil
				}
				require.Equal(t, want, got)
				s.release(t, e.Session)
			})
		})
	}

	t.Run("a second turn", func(t *testing.T) {
		first := s.ask(t, s.greedy(5)).tokens
		turn := s.tokenize(t, wire.Prompt{Text: " And lakes?", AddBOS: ptr(false)})
		r := s.greedy(10)
		r.Prompt = wire.Prompt{Tokens: append(append(append([]int32(nil), prompt...), first...), turn...)}
		want := s.ask(t, r).tokens

		e := s.stage(t, wire.Prompt{Text: s.o.Prompt})
		sm := &wire.Sampling{Temperature: ptr[float32](0)}
		require.Equal(t, first, s.decode(t, &wire.DecodeRequest{Session: e.Session, Sampling: sm, N: 5}).tokens)
		more, err := s.c.Embed(s.ctx(t), &wire.EmbedRequest{Session: e.Session, Append: true, Prompt: wire.Prompt{Text: " And lakes?"}})
		require.NoError(t, err)
		require.Equal(t, turn, more.Tokens, "no begin-of-sequence token in the middle")
		require.Equal(t, len(prompt)+5, more.Position, "the last sampled token is evaluated too")
		require.Equal(t, want, s.decode(t, &wire.DecodeRequest{Session: e.Session, Sampling: sm, N: 10, Release: true}).tokens)
	})
	t.Run("stop strings and ends", func(t *testing.T) {
		a := s.ask(t, s.greedy(s.o.AnswerTokens))
		stop := stopAt(a.text, 6, 4)
		r := s.greedy(s.o.AnswerTokens)
		r.Stop = []string{stop}
		want := s.ask(t, r)
		e := s.stage(t, wire.Prompt{Text: s.o.Prompt})
		b := s.decode(t, &wire.DecodeRequest{Session: e.Session, Sampling: &wire.Sampling{Temperature: ptr[float32](0)}, Stop: r.Stop, N: s.o.AnswerTokens, Release: true})
		require.Equal(t, want.text, b.text)
		require.Equal(t, want.done.StopString, b.done.StopString)

		e = s.stage(t, *s.o.Ends)
		b = s.decode(t, &wire.DecodeRequest{Session: e.Session, Sampling: &wire.Sampling{Temperature: ptr[float32](0)}, N: 256, Release: true})
		require.Equal(t, wire.ReasonEOG, b.done.Reason)
	})
	t.Run("streamed forward", func(t *testing.T) {
		e := s.stage(t, wire.Prompt{Text: s.o.Prompt})
		st, err := s.c.ForwardStream(s.ctx(t), &wire.ForwardRequest{Session: e.Session})
		a := s.read(t, st, err)
		require.NotNil(t, a.forward)
		require.Equal(t, len(prompt), a.forward.Position)
		require.NotEmpty(t, a.progress)
		s.release(t, e.Session)
	})
	t.Run("log-probabilities of evaluated tokens", s.forwardLogprobs)
}

// forwardLogprobs compares what /forward says of an answer's tokens with what
// /generate said when it sampled them.
func (s *suite) forwardLogprobs(t *testing.T) {
	prompt := s.tokenize(t, wire.Prompt{Text: s.o.Prompt})
	r := s.greedy(s.o.AnswerTokens)
	r.Sampling.Logprobs, r.Sampling.TopLogprobs = true, 3
	want := s.ask(t, r)
	all := append(append([]int32(nil), prompt...), want.tokens...)

	for _, counts := range [][]int{{0}, {1, 2, len(prompt) - 3, 0}} {
		e := s.stage(t, wire.Prompt{Tokens: all})
		var got []wire.TokenLogprob
		for _, n := range counts {
			f, err := s.c.Forward(s.ctx(t), &wire.ForwardRequest{Session: e.Session, Count: n, Logprobs: true, TopLogprobs: 3})
			require.NoError(t, err)
			require.Len(t, f.Logprobs, f.Evaluated)
			got = append(got, f.Logprobs...)
		}
		require.Len(t, got, len(all))
		require.Zero(t, got[0].Logprob)
		require.Empty(t, got[0].Top, "nothing is before the first token")
		for i, lp := range got {
			require.Equal(t, all[i], lp.ID)
			require.LessOrEqual(t, lp.Logprob, float32(0))
			if i > 0 {
				require.Len(t, lp.Top, 3, "token %d", i)
			}
		}
		for i, lp := range got[len(prompt):] {
			require.Equal(t, want.logprobs[i].Top[0].ID, lp.Top[0].ID, "token %d", i)
			require.LessOrEqual(t, math.Abs(float64(want.logprobs[i].Logprob-lp.Logprob)), s.o.Tolerance, "token %d", i)
		}
		s.release(t, e.Session)
	}
}

func (s *suite) sessions(t *testing.T) {
	t.Run("release ends it", func(t *testing.T) {
		e := s.stage(t, wire.Prompt{Text: s.o.Prompt})
		before := s.stats(t).Sessions
		s.release(t, e.Session)
		require.Equal(t, before-1, s.stats(t).Sessions)
		s.requireGone(t, e.Session)
	})
	t.Run("unknown is gone", func(t *testing.T) { s.requireGone(t, "s-00000000000000000000000000000000") })
	t.Run("another owner's is gone", func(t *testing.T) {
		base := s.raw.base
		if base == "http://station" {
			t.Skip("a socket has one client here")
		}
		e := s.stage(t, wire.Prompt{Text: s.o.Prompt})
		c, err := client.New(base, client.Options{Owner: "somebody else"})
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Forward(s.ctx(t), &wire.ForwardRequest{Session: e.Session})
		requireCode(t, err, wire.CodeGone)
		s.release(t, e.Session)
	})
	t.Run("busy", func(t *testing.T) {
		// A long call on the session, and others while it runs. Should the long
		// one be over before, it is tried again.
		s.eventually(t, "a second call on a busy session is refused", func() bool {
			e := s.stage(t, wire.Prompt{Text: s.o.Prompt})
			st, err := s.c.DecodeNext(s.ctx(t), &wire.DecodeRequest{Session: e.Session, Sampling: &wire.Sampling{Temperature: ptr[float32](0)}, N: s.long(t), IgnoreEOG: true})
			require.NoError(t, err)
			_, err = st.Next()
			require.NoError(t, err)
			_, second := s.c.DecodeNext(s.ctx(t), &wire.DecodeRequest{Session: e.Session, N: 1})
			_, third := s.c.Embed(s.ctx(t), &wire.EmbedRequest{Session: e.Session, Append: true, Prompt: wire.Prompt{Text: "x"}})
			require.NoError(t, st.Close())
			s.eventually(t, "the session whose call was cut ends", func() bool { return s.gone(t, e.Session) })
			if second == nil || third == nil {
				return false
			}
			return isCode(second, wire.CodeBusy) && isCode(third, wire.CodeBusy)
		})
	})
	t.Run("a refused call keeps it", func(t *testing.T) {
		e := s.stage(t, wire.Prompt{Text: s.o.Prompt})
		_, err := s.c.Forward(s.ctx(t), &wire.ForwardRequest{Session: e.Session, Count: -1})
		requireCode(t, err, wire.CodeInvalid)
		_, err = s.c.DecodeNext(s.ctx(t), &wire.DecodeRequest{Session: e.Session, N: 1, Sampling: &wire.Sampling{Temperature: ptr[float32](9)}})
		requireCode(t, err, wire.CodeInvalid)
		s.release(t, e.Session)
	})
}

// requireGone checks that each staged route answers 410 to a session.
func (s *suite) requireGone(t *testing.T, session string) {
	t.Helper()
	_, err := s.c.Forward(s.ctx(t), &wire.ForwardRequest{Session: session})
	requireCode(t, err, wire.CodeGone)
	_, err = s.c.DecodeNext(s.ctx(t), &wire.DecodeRequest{Session: session, N: 1})
	requireCode(t, err, wire.CodeGone)
	_, err = s.c.Embed(s.ctx(t), &wire.EmbedRequest{Session: session, Append: true, Prompt: wire.Prompt{Text: "x"}})
	requireCode(t, err, wire.CodeGone)
}

// long is an answer's length that leaves a session some room, so that it can be
// released by a call if it was complete.
func (s *suite) long(t *testing.T) int {
	t.Helper()
	return s.health.ContextLength - len(s.tokenize(t, wire.Prompt{Text: s.o.Prompt})) - 16
}

// gone says whether a session has ended; one that completed its call before it
// could be cut is released.
func (s *suite) gone(t *testing.T, session string) bool {
	t.Helper()
	st, err := s.c.DecodeNext(s.ctx(t), &wire.DecodeRequest{Session: session, N: 1, Release: true})
	if err == nil {
		s.read(t, st, nil)
		return true
	}
	if isCode(err, wire.CodeBusy) {
		return false
	}
	requireCode(t, err, wire.CodeGone)
	return true
}
