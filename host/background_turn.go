package host

import (
	"context"
	"runtime/debug"
	"slices"
	"time"

	"thoth/host/openai"
)

// A run was answered with queued: from then on it is not refused because the station
// restarts, and its prompt is not sent to a model that it was not made for.

// guarded turns a panic into an error: there is no handler around a run.
func (s *Server) guarded(ctx context.Context, j *job, q *responseRequest, in *intake, out sink) (e *openai.Error) {
	defer func() {
		if p := recover(); p != nil {
			s.o.Log.Error().Str("id", j.rec.id).Interface("panic", p).Bytes("stack", debug.Stack()).Msg("background response panicked")
			e = openai.NewError(openai.CodeInternal, "", "internal error; the log of request %s tells more", j.rec.id)
		}
	}()
	for tries, lost := 1, 0; ; tries++ {
		j.taken = false
		e = s.tryInTurn(ctx, j, q, in, out)
		if j.taken {
			lost++
		}
		if tries == mostTries || lost == mostLost || e == nil || (e.Code != openai.CodeUnavailable && e.Code != openai.CodeLoading) || !j.untouched() {
			return e
		}
	}
}

// A run may meet a station that went a moment ago, and is not the one that the host last
// saw: each time it waits for the next. Where the station had taken it before it went, the
// run itself may be what ends stations, and others lose their answers with each.
const (
	mostTries = 3 // of a run
	mostLost  = 2 // of them with a station that had taken it
)

// tryInTurn runs the job when its turn has come and there is a station for it.
func (s *Server) tryInTurn(ctx context.Context, j *job, q *responseRequest, in *intake, out sink) *openai.Error {
	turn, e := s.awaitTurn(ctx)
	if e != nil {
		return e
	}
	defer turn.leave()
	if e = s.awaitStation(ctx); e != nil {
		return e
	}
	if e = s.madeAnew(ctx, j, q, in); e != nil {
		return e
	}
	j.counted, j.parted = true, turn.leave
	return s.run(ctx, j, out)
}

// awaitTurn waits until a run may ask for a place: they may not have all of them.
func (s *Server) awaitTurn(ctx context.Context) (*ticket, *openai.Error) {
	turn := s.background.line.enter(1) // there is room for all that may be under way
	if e := s.awaits(ctx, turn.ready); e != nil {
		turn.leave()
		return nil, e
	}
	return turn, nil
}

// awaitStation waits until the station serves: while it restarts, one run after the other
// would fail within a moment.
func (s *Server) awaitStation(ctx context.Context) *openai.Error {
	for {
		ok, seen := s.station.ready()
		if ok {
			return nil
		}
		if e := s.awaits(ctx, seen); e != nil {
			return e
		}
	}
}

// awaits waits for what a run needs, and no longer than the run or the server lasts.
func (s *Server) awaits(ctx context.Context, need <-chan struct{}) *openai.Error {
	select {
	case <-need:
		return nil
	case <-ctx.Done():
		return causeOf(ctx)
	case <-s.hardStop.Done():
		return causeOf(s.hardStop)
	}
}

// untouched tells whether nothing was computed for the job.
func (j *job) untouched() bool {
	return !slices.ContainsFunc(j.charged, func(c charged) bool { return c.begun || c.tokens > 0 })
}

// madeAnew makes the job again where it was tried, or the model is not the one it was made
// for: another has other special tokens, another template and another way to write calls.
func (s *Server) madeAnew(ctx context.Context, j *job, q *responseRequest, in *intake) *openai.Error {
	v := s.station.current()
	if j.place == nil && v.fingerprint == j.view.fingerprint && v.template == j.view.template {
		return nil
	}
	model := q.resp.Model
	if q.req.Model != nil {
		model = *q.req.Model
	}
	if e := s.admits(ctx, v, model, q.req.Cache()); e != nil {
		return e
	}
	if e := q.suit(v); e != nil {
		return e
	}
	q.start = time.Now()
	in.view = v
	again, e := s.newResponse(ctx, in, q)
	if e != nil {
		return e
	}
	again.placed = j.placed
	*j = *again // the sink has it already
	return nil
}
