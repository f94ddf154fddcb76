package stationtest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// streaming decodes greedily in the session that open makes of a prompt, calls
// try once the stream has begun, and gives the answer. An engine may be done
// before try is: then all of it is done again with a longer answer, so that the
// last call of try was beside a running decode for sure.
func (s *suite) streaming(t *testing.T, prompt []int32, open func() string, try func(session string)) *answer {
	t.Helper()
	var got *answer
	room := s.health.ContextLength - len(prompt) - 16
	n := min(64, room)
	s.eventually(t, "a call is answered beside a decode", func() bool {
		session := open()
		st, err := s.c.DecodeNext(s.ctx(t), &wire.DecodeRequest{Session: session, Sampling: &wire.Sampling{Temperature: ptr[float32](0)}, N: n, IgnoreEOG: true})
		require.NoError(t, err)
		first, err := st.Next()
		require.NoError(t, err)
		try(session)
		busy := s.isBusy(t, session)
		a := &answer{tokens: first.Tokens}
		if first.Type == wire.FrameDone {
			require.NoError(t, st.Close())
		} else {
			rest := s.read(t, st, nil)
			a.tokens = append(slices.Clone(a.tokens), rest.tokens...)
			a.done = rest.done
		}
		s.kvEnd(t, session)
		n, got = min(2*n, room), a
		return busy
	})
	return got
}

// isBusy says whether another call holds the session; if none does, a token is
// sampled.
func (s *suite) isBusy(t *testing.T, session string) bool {
	t.Helper()
	st, err := s.c.DecodeNext(s.ctx(t), &wire.DecodeRequest{Session: session, N: 1})
	if err == nil {
		s.read(t, st, nil)
		return false
	}
	requireCode(t, err, wire.CodeBusy)
	return true
}

func (s *suite) kvBusy(t *testing.T) {
	scope, prompt := s.scope(t), s.words(t, "busy", 70)
	var err error
	s.streaming(t, prompt, func() string {
		l := s.kvLoad(t, scope, prompt, 0)
		s.forward(t, l.Session, 0)
		return l.Session
	}, func(session string) {
		_, err = s.c.KVLoad(s.ctx(t), session, 0, &wire.KVLoadRequest{Scope: scope})
	})
	requireCode(t, err, wire.CodeBusy)
}

// kvSaveBeside: the prompt is saved while its answer streams, and the stream
// does not notice.
func (s *suite) kvSaveBeside(t *testing.T) {
	var scope string
	prompt := s.words(t, "beside", 130)
	a := s.streaming(t, prompt, func() string {
		scope = s.scope(t)
		l := s.kvLoad(t, scope, prompt, 0)
		s.forward(t, l.Session, 0)
		return l.Session
	}, func(session string) {
		require.Equal(t, len(prompt), s.kvSave(t, session, len(prompt), &wire.KVSaveRequest{Scope: scope}).Written)
	})
	n := min(40, len(a.tokens))
	want := s.kvFresh(t, prompt, n)
	require.Equal(t, want.tokens, a.tokens[:n])
	l := s.kvLoad(t, scope, prompt, 0)
	require.Equal(t, len(prompt)-1, l.Position)
	s.sameAnswer(t, want, s.kvAnswer(t, l, n, true))
}

// kvRelease: a save can end its session.
func (s *suite) kvRelease(t *testing.T) {
	scope, prompt := s.scope(t), s.words(t, "release", 70)
	before := s.stats(t).Sessions
	session := s.kvStored(t, scope, prompt, &wire.KVSaveRequest{Release: true})
	require.Equal(t, before, s.stats(t).Sessions)
	s.requireGone(t, session)
	_, err := s.c.KVSave(s.ctx(t), session, 1, &wire.KVSaveRequest{Scope: scope})
	requireCode(t, err, wire.CodeGone)
	require.Equal(t, len(prompt)-1, s.kvPosition(t, scope, prompt))
}

// sharing is what one of many requests with one prefix came to.
type sharing struct {
	position  int
	evaluated int
	tokens    []int32
	err       error
}

// share is a whole liquid request, for goroutines of a test.
func (s *suite) share(ctx context.Context, scope string, prompt []int32, n int) sharing {
	e, err := s.c.Embed(ctx, &wire.EmbedRequest{Prompt: wire.Prompt{Tokens: prompt}})
	if err != nil {
		return sharing{err: err}
	}
	return s.shareStaged(ctx, e.Session, scope, prompt, n)
}

// shareStaged is the rest of share, from the load on. The session of one that is cut may
// live on.
func (s *suite) shareStaged(ctx context.Context, session, scope string, prompt []int32, n int) (r sharing) {
	l, err := s.c.KVLoad(ctx, session, 0, &wire.KVLoadRequest{Scope: scope})
	if err != nil {
		return sharing{err: err}
	}
	f, err := s.c.Forward(ctx, &wire.ForwardRequest{Session: session})
	if err != nil {
		return sharing{err: err}
	}
	if _, err = s.c.KVSave(ctx, session, len(prompt), &wire.KVSaveRequest{Scope: scope}); err != nil {
		return sharing{err: err}
	}
	st, err := s.c.DecodeNext(ctx, &wire.DecodeRequest{Session: session, Sampling: &wire.Sampling{Temperature: ptr[float32](0)}, N: n, IgnoreEOG: true, Release: true})
	if err != nil {
		return sharing{err: err}
	}
	defer st.Close()
	r = sharing{position: l.Position, evaluated: f.Evaluated}
	for {
		f, err := st.Next()
		if err == io.EOF {
			return r
		}
		if err != nil {
			return sharing{err: err}
		}
		r.tokens = append(r.tokens, f.Tokens...)
	}
}

// kvCoalescing: many requests with one prefix that nobody has seen compute it
// once.
func (s *suite) kvCoalescing(t *testing.T) {
	scope, n := s.scope(t), s.o.Clients
	prefix := s.words(t, "together", min(320, s.health.ContextLength/2))
	const own, answer = 6, 8
	const slack = 16 // a station need not wait for so few tokens
	prompts := make([][]int32, n)
	for i := range prompts {
		prompts[i] = append(slices.Clone(prefix), s.words(t, fmt.Sprintf("%d", i), own)...)
	}
	got := make([]sharing, n)
	ctx := s.ctx(t)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = s.share(ctx, scope, prompts[i], answer) })
	}
	wg.Wait()
	evaluated := 0
	for i, r := range got {
		require.NoError(t, r.err)
		require.Equal(t, len(prompts[i]), r.position+r.evaluated)
		evaluated += r.evaluated
	}
	require.LessOrEqual(t, evaluated, len(prefix)+n*(own+slack), "the prefix once, and each its own rest")
	for _, i := range []int{0, n / 2, n - 1} {
		require.Equal(t, s.kvFresh(t, prompts[i], answer).tokens, got[i].tokens, "request %d answers beside others as it does alone", i)
	}
	s.idle(t)

	s.kvSettle(t)
	before := s.kvIndexNow(t)
	s.eventually(t, "a load waits for another's prefill, and is counted", func() bool {
		scope := s.scope(t)
		leader := s.kvLoad(t, scope, prefix, 0).Session
		var follower sharing
		var wg sync.WaitGroup
		wg.Go(func() { follower = s.share(ctx, scope, prefix, 1) })
		s.forward(t, leader, 0)
		wg.Wait()
		require.NoError(t, follower.err)
		s.kvEnd(t, leader)
		s.kvSettle(t)
		return s.kvIndexNow(t).Coalesced > before.Coalesced
	})
}

// kvLeaderGoes: when the request whose prefill the others wait for ends, or never
// comes to it, they go on by themselves.
func (s *suite) kvLeaderGoes(t *testing.T) {
	prefix := s.words(t, "leader", min(320, s.health.ContextLength/2))
	want := s.kvFresh(t, prefix, 4)
	// follow starts four requests like the leader's, and ends the leader.
	follow := func(t *testing.T, scope, leader string, end func()) {
		got := make([]sharing, 4)
		ctx := s.ctx(t)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i] = s.share(ctx, scope, prefix, 4) })
		}
		end()
		wg.Wait()
		for _, r := range got {
			require.NoError(t, r.err)
			require.Equal(t, want.tokens, r.tokens)
		}
		s.kvEnded(t, leader)
		s.idle(t)
	}
	t.Run("in its prefill", func(t *testing.T) {
		scope := s.scope(t)
		ctx, cancel := context.WithCancel(s.ctx(t))
		defer cancel()
		leader := s.kvLoad(t, scope, prefix, 0).Session
		st, err := s.c.ForwardStream(ctx, &wire.ForwardRequest{Session: leader})
		require.NoError(t, err)
		defer st.Close()
		_, err = st.Next()
		require.NoError(t, err)
		follow(t, scope, leader, cancel)
	})
	t.Run("before it", func(t *testing.T) {
		scope := s.scope(t)
		leader := s.kvLoad(t, scope, prefix, 0).Session
		follow(t, scope, leader, func() { s.kvEnd(t, leader) })
	})
	t.Run("never begins", func(t *testing.T) {
		scope := s.scope(t)
		follow(t, scope, s.kvLoad(t, scope, prefix, 0).Session, func() {})
	})
	t.Run("a waiting one goes", func(t *testing.T) {
		scope := s.scope(t)
		leader := s.kvLoad(t, scope, prefix, 0).Session
		ctx, cancel := context.WithCancel(s.ctx(t))
		one := s.stage(t, wire.Prompt{Tokens: prefix}).Session
		var waiting sync.WaitGroup
		waiting.Go(func() { s.shareStaged(ctx, one, scope, prefix, 4) }) // answered or cancelled, but not left hanging
		follow(t, scope, leader, func() { cancel(); waiting.Wait() })
		s.kvEnded(t, one)
	})
}

// kvCancelled: a prefill whose caller goes away keeps the blocks it finished,
// where its load asked for that.
func (s *suite) kvCancelled(t *testing.T) {
	scope, prompt := s.scope(t), s.words(t, "cancelled", min(1000, s.health.ContextLength*3/4))
	e := s.stage(t, wire.Prompt{Tokens: prompt})
	_, err := s.c.KVLoad(s.ctx(t), e.Session, 0, &wire.KVLoadRequest{Scope: scope, Keep: true})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(s.ctx(t))
	defer cancel()
	st, err := s.c.ForwardStream(ctx, &wire.ForwardRequest{Session: e.Session})
	require.NoError(t, err)
	position, done := 0, false
	for position < 64 && !done {
		f, err := st.Next()
		require.NoError(t, err)
		if done = f.Type == wire.FrameDone; done {
			position = f.Forward.Position
		} else {
			position = f.Progress.Position
		}
	}
	cancel()
	require.NoError(t, st.Close())
	s.kvEnded(t, e.Session)
	s.idle(t)
	kept := position / 64 * 64
	s.eventually(t, "what was finished is stored", func() bool {
		a, err := s.c.KVLookup(s.ctx(t), &wire.KVLookupRequest{Prompt: wire.Prompt{Tokens: prompt}, Scope: scope})
		require.NoError(t, err)
		return a.Position >= kept
	})
	want := s.kvFresh(t, prompt, 4)
	l := s.kvLoad(t, scope, prompt, 0)
	require.GreaterOrEqual(t, l.Position, min(kept, len(prompt)-1))
	s.sameAnswer(t, want, s.kvAnswer(t, l, 4, true))
}
