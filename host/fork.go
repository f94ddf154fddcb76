package host

import (
	"context"
	"errors"
	"io"
	"sync"

	"thoth/liquid"
	"thoth/station/wire"
)

// The choices of one prompt are answers of one station call, which evaluates the
// prompt once: a fork. A station that does not fork, because it is older, gets a
// call for each.

// group is choices in a row that one station call answers; width is how many of
// them go on at once.
type group struct{ first, n, width int }

// groups are those of n choices of one prompt.
func (s *Server) groups(j *job, first, n int) []group {
	if j.calls[first].Generate == nil { // before has ended them
		return nil
	}
	most := n
	if n > 1 {
		most = s.forks(j.view, n)
	}
	var all []group
	for i := 0; i < n; i += most {
		k := min(most, n-i)
		all = append(all, group{first + i, k, min(k, j.place.weight)})
	}
	return all
}

// forks is how many of n choices one call of the station may answer.
func (s *Server) forks(v *view, n int) int {
	if most := v.health.Fork; most > 1 {
		return most
	}
	s.unforked(n)
	return 1
}

// unforked counts choices that have a prefill each, and says so once for a station.
func (s *Server) unforked(choices int) {
	s.metrics.unforked.Add(float64(choices))
	if !s.toldUnforked.Swap(true) {
		s.o.Log.Warn().Msg("the station does not share a prompt between choices: with n above 1 it is asked once for each")
	}
}

// callAll has the station answer a group. Each choice ends with an error event or
// a done frame, unless ctx ended.
func (s *Server) callAll(ctx context.Context, j *job, g group, f *feed) {
	q := &j.calls[g.first]
	if g.n == 1 {
		q.Generate.Progress = true // a sign of life during a long prefill
		f.fail(g.first, s.call(ctx, q, g, f))
		return
	}
	fork, generate := *q, *q.Generate
	fork.Generate = &generate
	generate.Progress, generate.Fork = true, &g.n
	if g.width < g.n {
		generate.ForkWidth = g.width
	}
	err := s.call(ctx, &fork, g, f)
	if err == nil {
		s.toldUnforked.Store(false)
		return
	}
	var we *wire.Error
	if !errors.As(err, &we) || we.Code != wire.CodeUnsupported || we.Param != "fork" {
		f.fail(g.first, err)
		return
	}
	s.unforked(g.n)
	slots := newSlots(g.width)
	var calls sync.WaitGroup
	defer calls.Wait()
	for i := g.first; i < g.first+g.n && slots.take(ctx, 1); i++ {
		calls.Go(func() {
			defer slots.give(1)
			s.callAll(ctx, j, group{i, 1, 1}, f)
		})
	}
}

// call hands over what the station answers to a group.
func (s *Server) call(ctx context.Context, q *liquid.Request, g group, f *feed) error {
	stream, err := s.memory.Open(ctx, q)
	if err != nil {
		return err
	}
	defer f.close(stream)
	for {
		frame, err := stream.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case !f.take(event{choice: g.first + frame.Choice, frame: frame, outcome: stream.Outcome(), group: g, more: stream.More()}):
			return nil
		}
	}
}

// slots are the places of a job for its choices.
type slots struct {
	taking sync.Mutex // in order, and never some of what two want
	taken  chan struct{}
}

func newSlots(n int) *slots { return &slots{taken: make(chan struct{}, n)} }

// take waits for n of them, at most all, and reports false when ctx ended first.
func (s *slots) take(ctx context.Context, n int) bool {
	s.taking.Lock()
	defer s.taking.Unlock()
	for i := range n {
		select {
		case s.taken <- struct{}{}:
		case <-ctx.Done():
			s.give(i)
			return false
		}
	}
	return true
}

func (s *slots) give(n int) {
	for range n {
		<-s.taken
	}
}
