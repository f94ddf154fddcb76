package stationtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/client"
	"thoth/station/wire"
)

// turn is what a turn has told, a call of /generate with kv.
type turn struct {
	restored  *wire.KVRestored
	evaluated *wire.ForwardResponse
	progress  int
	answers   []answer // by choice
}

// takeTurn reads a turn to its end.
func takeTurn(answers int, st *client.Stream, err error) (*turn, error) {
	if err != nil {
		return nil, err
	}
	defer st.Close()
	u := &turn{answers: make([]answer, answers)}
	for {
		f, err := st.Next()
		if err == io.EOF {
			return u, nil
		}
		if err != nil {
			return nil, err
		}
		a := &u.answers[f.Choice]
		switch {
		case f.Type == wire.FrameRestored && u.restored == nil && u.evaluated == nil && u.progress == 0:
			u.restored = f.Restored
		case f.Type == wire.FrameProgress && u.evaluated == nil:
			u.progress++
		case f.Type == wire.FrameEvaluated && u.restored != nil && u.evaluated == nil:
			u.evaluated = f.Forward
		case f.Type == wire.FrameText && u.evaluated != nil:
			a.text += f.Text
			a.tokens = append(a.tokens, f.Tokens...)
			a.logprobs = append(a.logprobs, f.Logprobs...)
		case f.Type == wire.FrameDone && u.evaluated != nil:
			a.done = f.Done
		default:
			return nil, fmt.Errorf("a %s frame out of its order", f.Type)
		}
	}
}

// kvTurn takes a turn and checks what holds for all.
func (s *suite) kvTurn(t *testing.T, r *wire.GenerateRequest) *turn {
	t.Helper()
	st, err := s.c.Generate(s.ctx(t), r)
	u, err := takeTurn(r.Answers(), st, err)
	require.NoError(t, err)
	x, e, n := u.restored, u.evaluated, u.restored.PromptTokens
	require.Equal(t, []int{n, n, n, 0}, []int{x.Position + x.Staged, e.Position, x.Position + e.Evaluated, e.Remaining})
	require.Equal(t, x.Position, x.Tiers.Hot+x.Tiers.Warm+x.Tiers.Cold)
	require.Equal(t, x.Staged == 1, x.Reason == "", "a short restore says why: %+v", x)
	require.Empty(t, x.Session+e.Session)
	for i := range u.answers {
		a := &u.answers[i]
		s.checkDone(t, a)
		require.Empty(t, a.done.Session)
		require.Equal(t, n, a.done.PromptTokens)
		require.Equal(t, i == 0, a.done.KVPrompt != nil, "the prompt is saved once")
	}
	return u
}

// kvTurns: one call does what six do, and leaves no session.
func (s *suite) kvTurns(t *testing.T) {
	require.True(t, s.health.KVTurn)
	const length = 12
	ask := func(scope string, prompt []int32, answers int) *wire.GenerateRequest {
		r := s.greedy(length)
		r.Prompt, r.IgnoreEOG = wire.Prompt{Tokens: prompt}, true
		r.Sampling = wire.Sampling{Temperature: ptr[float32](0.8), Seed: ptr(uint64(11)), Logprobs: true, TopLogprobs: 3}
		r.KV = &wire.KVTurn{KVLoadRequest: wire.KVLoadRequest{Scope: scope}, Answers: true}
		if answers > 1 {
			r.Fork = &answers
		}
		return r
	}
	apart := func(t *testing.T, r *wire.GenerateRequest) []*answer {
		n := *r
		n.KV, n.Fork = nil, nil
		return s.apart(t, &n, r.Answers())
	}
	same := func(t *testing.T, want []*answer, got *turn) {
		t.Helper()
		for i := range want {
			s.sameAnswer(t, want[i], &got.answers[i])
		}
	}
	before := s.stats(t).Sessions
	counts := []int{1}
	if s.health.Fork >= 3 {
		counts = append(counts, 3)
	}
	for _, answers := range counts {
		t.Run(fmt.Sprintf("a conversation, %d answers", answers), func(t *testing.T) {
			scope, prompt := s.scope(t), s.words(t, "turn", 130)
			r := ask(scope, prompt, answers)
			want := apart(t, r)
			first := s.kvTurn(t, r)
			same(t, want, first)
			require.Zero(t, first.restored.Position)
			require.Equal(t, len(prompt), first.answers[0].done.KVPrompt.Written)
			for _, settled := range []bool{false, true} {
				if settled {
					s.kvSettle(t)
				}
				again := s.kvTurn(t, r)
				same(t, want, again)
				require.Equal(t, len(prompt)-1, again.restored.Position)
			}
			seen := map[string]bool{}
			for _, a := range first.answers {
				require.Equal(t, len(prompt)+length-1, a.done.KVAnswer.Tokens, "all but the token sampled last")
				if seen[fmt.Sprint(a.tokens)] {
					continue // two answers may be one: it is gone on with already
				}
				seen[fmt.Sprint(a.tokens)] = true
				next := ask(scope, s.forked(t, append(slices.Clone(prompt), a.tokens...), len(prompt)+length, 9), 1)
				want := apart(t, next)
				got := s.kvTurn(t, next)
				require.Equal(t, len(prompt)+length-1, got.restored.Position)
				same(t, want, got)
			}
		})
	}
	t.Run("only what is asked for is saved", func(t *testing.T) {
		scope, prompt := s.scope(t), s.words(t, "only", 70)
		r := ask(scope, prompt, 1)
		whole := s.kvTurn(t, r)
		for _, k := range []struct {
			answers bool
			unless  string
			saved   bool
		}{{false, "", false}, {true, withoutCut(whole.answers[0].text)[:3], false}, {true, "\x01none", true}} {
			r := ask(s.scope(t), prompt, 1)
			r.KV.Answers, r.KV.Unless = k.answers, k.unless
			require.Equal(t, k.saved, s.kvTurn(t, r).answers[0].done.KVAnswer != nil)
			length := len(prompt)
			if k.saved {
				length += len(whole.answers[0].tokens) - 1
			}
			require.Equal(t, length, s.kvPosition(t, r.KV.Scope, append(append(slices.Clone(prompt), whole.answers[0].tokens...), prompt[:2]...)))
		}
		r = ask(s.scope(t), prompt, 1)
		r.MaxTokens, r.Progress = 1, true
		one := s.kvTurn(t, r)
		require.Nil(t, one.answers[0].done.KVAnswer, "of one token nothing is evaluated")
		require.Positive(t, one.progress)
	})
	t.Run("many at once compute their prefix once", func(t *testing.T) {
		scope, n := s.scope(t), s.o.Clients
		prefix := s.words(t, "turns together", min(320, s.health.ContextLength/2))
		const own, slack = 6, 16
		got, errs := make([]*turn, n), make([]error, n)
		ctx := s.ctx(t)
		var wg sync.WaitGroup
		for i := range got {
			r := ask(scope, append(slices.Clone(prefix), s.words(t, fmt.Sprintf("%d", i), own)...), 1)
			wg.Go(func() {
				st, err := s.c.Generate(ctx, r)
				got[i], errs[i] = takeTurn(1, st, err)
			})
		}
		wg.Wait()
		evaluated := 0
		for i := range got {
			require.NoError(t, errs[i])
			evaluated += got[i].evaluated.Evaluated
		}
		require.LessOrEqual(t, evaluated, len(prefix)+n*(own+slack))
	})
	t.Run("cut", func(t *testing.T) {
		scope, prompt := s.scope(t), s.words(t, "a turn that is cut", min(700, s.health.ContextLength*3/4))
		for _, until := range []wire.FrameType{wire.FrameRestored, wire.FrameEvaluated, wire.FrameText} {
			ctx, cancel := context.WithCancel(s.ctx(t))
			r := ask(scope, prompt, 1)
			r.MaxTokens = 0
			st, err := s.c.Generate(ctx, r)
			require.NoError(t, err)
			for {
				f, err := st.Next()
				require.NoError(t, err)
				if f.Type == until {
					break
				}
			}
			cancel()
			require.NoError(t, st.Close())
			s.idle(t)
		}
	})
	t.Run("refused", func(t *testing.T) {
		for _, k := range []struct{ kv, param string }{
			{`{"scope":"` + strings.Repeat("x", 129) + `"}`, "kv.scope"}, {`{"group":"` + strings.Repeat("x", 65) + `"}`, "kv.group"},
			{`{"wait_ms":-1}`, "kv.wait_ms"}, {`{"ttl_seconds":-1}`, "kv.ttl_seconds"}, {`{"unless":"` + strings.Repeat("x", 65) + `"}`, "kv.unless"}, {`{"pin":1}`, "kv.pin"},
		} {
			resp, body := s.raw.do(t, http.MethodPost, wire.RouteGenerate, `{"prompt":{"text":"a"},"max_tokens":1,"kv":`+k.kv+`}`)
			require.Equal(t, k.param, requireError(t, resp, body, wire.CodeInvalid).Param)
		}
	})
	require.Equal(t, before, s.stats(t).Sessions)
}
