package stationtest

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/client"
	"thoth/station/wire"
)

// maxContextTested is the longest context that is filled here: a real engine
// needs seconds for each thousand tokens.
const maxContextTested = 4096

func (s *suite) context(t *testing.T) {
	limit := s.health.ContextLength
	long := make([]int32, limit+1)
	word := s.tokenize(t, wire.Prompt{Text: "a", AddBOS: ptr(false)})[0]
	for i := range long {
		long[i] = word
	}
	r := s.greedy(1)
	r.Prompt = wire.Prompt{Tokens: long}
	_, err := s.c.Generate(s.ctx(t), r)
	requireCode(t, err, wire.CodeContextLength)
	_, err = s.c.Embed(s.ctx(t), &wire.EmbedRequest{Prompt: r.Prompt})
	requireCode(t, err, wire.CodeContextLength)

	e := s.stage(t, wire.Prompt{Tokens: long[:2]})
	_, err = s.c.Embed(s.ctx(t), &wire.EmbedRequest{Session: e.Session, Append: true, Prompt: wire.Prompt{Tokens: long[:limit]}})
	requireCode(t, err, wire.CodeContextLength)
	require.Equal(t, 2, s.forward(t, e.Session, 0).Position, "nothing was appended")
	s.release(t, e.Session)

	t.Run("the answer ends where the context does", func(t *testing.T) {
		if limit > maxContextTested {
			t.Skipf("a context of %d tokens takes too long to fill", limit)
		}
		for _, asked := range []int{0, 1000} {
			r.Prompt, r.MaxTokens, r.IgnoreEOG = wire.Prompt{Tokens: long[:limit-8]}, asked, true
			a := s.ask(t, r)
			require.Equal(t, wire.ReasonLength, a.done.Reason)
			require.InDelta(t, 8, len(a.tokens), 1)
		}
	})
}

// cancel ends the connections of long answers, of more requests than may run at
// once, as soon as the first answer has begun. The station must be idle long
// before those would have been complete.
func (s *suite) cancel(t *testing.T) {
	s.idle(t)
	before := s.stats(t)
	ctx, cancel := context.WithCancel(s.ctx(t))
	defer cancel()
	n := 2*s.health.Sequences + 8
	begun := make(chan struct{}, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r := s.greedy(0)
			r.Prompt.Text = fmt.Sprintf("%d. %s", i, s.o.Prompt)
			r.IgnoreEOG = true
			st, err := s.c.Generate(ctx, r)
			if err == nil {
				begun <- struct{}{}
				for err == nil {
					_, err = st.Next()
				}
				_ = st.Close()
			}
			errs[i] = err
		})
	}
	<-begun
	cancel()
	wg.Wait()
	for _, err := range errs {
		if err != io.EOF { // a fast engine may complete some
			requireCode(t, err, wire.CodeCancelled)
		}
	}
	s.eventually(t, "cancelled requests are counted", func() bool { return s.stats(t).Cancelled > before.Cancelled })
	s.idle(t)
	after := s.stats(t)
	require.Less(t, after.DecodedTokens-before.DecodedTokens, uint64(n*(s.health.ContextLength-64)), "nobody worked on to the end")

	t.Run("a cut session is gone", func(t *testing.T) {
		e := s.stage(t, wire.Prompt{Text: s.o.Prompt})
		ctx, cancel := context.WithCancel(s.ctx(t))
		st, err := s.c.DecodeNext(ctx, &wire.DecodeRequest{Session: e.Session, Sampling: &wire.Sampling{Temperature: ptr[float32](0)}, N: s.long(t), IgnoreEOG: true})
		require.NoError(t, err)
		_, err = st.Next()
		require.NoError(t, err)
		cancel()
		require.NoError(t, st.Close())
		s.eventually(t, "the session ends", func() bool { return s.gone(t, e.Session) })
		s.idle(t)
	})
}

// concurrent asks many questions at once, plain and staged, and expects the
// answers each had alone.
func (s *suite) concurrent(t *testing.T) {
	s.idle(t)
	n := s.o.Clients
	request := func(i int) *wire.GenerateRequest {
		r := s.greedy(10 + i%7)
		r.Prompt = wire.Prompt{Text: fmt.Sprintf("%d. %s", i, s.o.Prompt)}
		for range i % 5 {
			r.Prompt.Text += " " + s.o.Prompt
		}
		r.IgnoreEOG = true
		return r
	}
	want := make([][]int32, n)
	for i := range want {
		want[i] = s.ask(t, request(i)).tokens
	}
	got := make([][]int32, n)
	errs := make([]error, n)
	ctx := s.ctx(t)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i], errs[i] = s.askQuietly(ctx, request(i), i%4 == 3) })
	}
	wg.Wait()
	for i := range got {
		require.NoError(t, errs[i])
		require.Equal(t, want[i], got[i], "request %d answers beside others as it does alone", i)
	}
	s.idle(t)
}

// askQuietly is ask for goroutines of a test; staged takes the three calls of
// the staged path.
func (s *suite) askQuietly(ctx context.Context, r *wire.GenerateRequest, staged bool) ([]int32, error) {
	var st *client.Stream
	var err error
	if staged {
		e, err := s.c.Embed(ctx, &wire.EmbedRequest{Prompt: r.Prompt})
		if err != nil {
			return nil, err
		}
		if _, err = s.c.Forward(ctx, &wire.ForwardRequest{Session: e.Session}); err != nil {
			return nil, err
		}
		st, err = s.c.DecodeNext(ctx, &wire.DecodeRequest{Session: e.Session, Sampling: &r.Sampling, N: r.MaxTokens, IgnoreEOG: r.IgnoreEOG, Release: true})
		if err != nil {
			return nil, err
		}
	} else if st, err = s.c.Generate(ctx, r); err != nil {
		return nil, err
	}
	defer st.Close()
	var out []int32
	for {
		f, err := st.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, f.Tokens...)
	}
}
