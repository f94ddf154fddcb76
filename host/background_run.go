package host

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"thoth/host/openai"
	"thoth/host/responses"
	"thoth/host/stored"
)

// backgroundRun is a response that is made in the background.
type backgroundRun struct {
	id    string
	scope string
	log   *eventLog // nil where it is not streamed
	stop  context.CancelCauseFunc
	over  chan struct{} // closed when it has ended and its end is stored

	record stored.Record // but for its response

	mu struct {
		sync.Mutex
		response []byte // as it is now; replaced, never changed
		fate     fate
	}
}

// current is the record with the response as it is now.
func (r *backgroundRun) current() *stored.Record {
	now := r.record
	r.mu.Lock()
	defer r.mu.Unlock()
	now.Response = r.mu.response
	return &now
}

// becomes replaces the response.
func (r *backgroundRun) becomes(resp *responses.Response) {
	b := openai.Encode(resp)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.response = b
}

// startBackground stores a response that begins and lets it run. All that can be
// wrong with the request is said before.
func (s *Server) startBackground(r *http.Request, in *intake, q *responseRequest) (*backgroundRun, *openai.Error) {
	first := newRecord(r.Context(), q)
	run := &backgroundRun{id: q.resp.ID, scope: first.Scope, record: *first, over: make(chan struct{})}
	rec := recordOf(r.Context())
	own := &record{id: rec.id, key: rec.key, arrived: rec.arrived}
	var ctx context.Context
	// The request's values, its key and its id, without its end.
	ctx, run.stop = context.WithCancelCause(context.WithValue(context.WithoutCancel(r.Context()), recordKey{}, own))
	j, e := s.newResponse(ctx, in, q)
	if e == nil {
		e = s.background.enter(run)
	}
	if e != nil {
		run.stop(nil)
		return nil, e
	}
	if q.req.Stream {
		run.log = newEventLog(s.background.eventBytes)
	}
	q.resp.Status = responses.StatusQueued
	run.becomes(q.resp)
	if err := s.renew(ctx, run); err != nil {
		run.stop(nil)
		s.background.leave(run, false)
		s.background.tasks.Done()
		return nil, s.unreadable(run.id, err)
	}
	// The body counts until the run has its place; the key's limits hold to its end.
	body := *in.hold
	j.body, *in.hold = &body, hold{budget: &s.bodies}
	rec.detached = true
	go s.runBackground(ctx, run, j, q)
	return run, nil
}

// runBackground is a run from its place in the line to its stored end.
func (s *Server) runBackground(ctx context.Context, run *backgroundRun, j *job, q *responseRequest) {
	defer s.background.tasks.Done()
	defer run.stop(nil)
	alive, still := context.WithCancel(ctx)
	var beating sync.WaitGroup
	beating.Go(func() { s.beat(alive, run) })
	j.placed = func() {
		q.resp.Status = responses.StatusInProgress
		run.becomes(q.resp)
	}
	end := func(resp *responses.Response) {
		still()
		beating.Wait() // or a late beat would undo the end
		s.endBackground(ctx, run, resp)
	}
	w := newRunWriter(run.log)
	var out sink
	if run.log != nil {
		out = newResponseStream(w, j, q.resp, s.o.WriteTimeout, end)
	} else {
		out = newResponseAnswer(w, j, q.resp, s.o.WriteTimeout, end)
	}
	if e := s.guarded(ctx, j, out); e != nil {
		j.rec.err = e
		out.fail(e)
	}
	j.body.release()
	still()
	beating.Wait()
	if run.log != nil {
		run.log.end()
	}
	if key := callerOf(ctx); key != nil {
		key.leave(j.rec)
	}
	s.finishBackground(run, j.rec)
	s.background.leave(run, run.doomed() != deleted)
	close(run.over)
}

// finishBackground writes the log line of a run, and counts it.
func (s *Server) finishBackground(run *backgroundRun, rec *record) {
	s.metrics.ended(routeResponses, rec)
	e := s.o.Log.Info()
	if rec.err != nil && rec.err.Status() >= 500 {
		e = s.o.Log.Warn()
	}
	s.tell(e.Str("id", rec.id).Str("response", run.id).Dur("total_ms", time.Since(rec.arrived)), rec, "background response")
}

// guarded turns a panic into an error: there is no handler around a run.
func (s *Server) guarded(ctx context.Context, j *job, out sink) (e *openai.Error) {
	defer func() {
		if p := recover(); p != nil {
			s.o.Log.Error().Str("id", j.rec.id).Interface("panic", p).Bytes("stack", debug.Stack()).Msg("background response panicked")
			e = openai.NewError(openai.CodeInternal, "", "internal error; the log of request %s tells more", j.rec.id)
		}
	}()
	return s.run(ctx, j, out)
}

// endBackground stores the end of a run, unless somebody wants another one. Who sees
// the end in memory may go on from it: it must be stored by then.
func (s *Server) endBackground(ctx context.Context, run *backgroundRun, resp *responses.Response) {
	s.heed(ctx, run)
	if run.doomed() == cancelled {
		resp.Status, resp.Error, resp.CompletedAt = responses.StatusCancelled, nil, nil
	}
	if run.doomed() != deleted {
		record := run.record
		record.Response = openai.Encode(resp)
		if err := s.put(ctx, &record); err != nil {
			s.lost(run.id, err)
			resp.Store = false
		}
		s.heed(ctx, run) // or one that was deleted a moment ago would be back
	}
	run.becomes(resp)
	switch run.doomed() {
	case cancelled:
		s.erase(ctx, run.id, fatesOf(run.scope))
	case deleted:
		s.erase(ctx, run.id, run.scope, fatesOf(run.scope))
	}
}

// beat says every so often that a run is under way, until ctx ends.
func (s *Server) beat(ctx context.Context, run *backgroundRun) {
	tick := time.NewTicker(s.background.beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.heed(ctx, run); run.doomed() != toEnd {
			return
		}
		if err := s.renew(ctx, run); err != nil && !errors.Is(err, stored.ErrFailing) { // it has told that by itself
			s.o.Log.Warn().Str("response", run.id).Err(err).Msg("the record of a background response cannot be renewed")
		}
	}
}

// renew stores the record of a run as one that is under way.
func (s *Server) renew(ctx context.Context, run *backgroundRun) error {
	return s.put(ctx, leased(run.current(), time.Now().Add(s.background.lease)))
}
