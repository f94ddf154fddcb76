package host

import (
	"context"
	"errors"
	"net/http"
	"strings"
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
	key   *apiKey   // whose limits it counts against; nil without keys
	log   *eventLog // nil where it is not streamed
	stop  context.CancelCauseFunc
	moved chan struct{} // its status is another one
	ended chan struct{} // closed when its end is seen
	over  chan struct{} // closed when nothing of it goes on
	gone  chan struct{} // closed when nothing of it is to be found

	mu struct {
		sync.Mutex
		record *stored.Record // as it is now; replaced, never changed; nil when it was forgotten
		status string
		fate   fate
	}
}

func newBackgroundRun(record *stored.Record, key *apiKey) *backgroundRun {
	r := &backgroundRun{id: record.ID, scope: record.Scope, key: key, moved: make(chan struct{}, 1), ended: make(chan struct{}), over: make(chan struct{}), gone: make(chan struct{})}
	r.mu.record = record
	return r
}

// current is the record with the response as it is now; nil when it is in the store alone.
func (r *backgroundRun) current() *stored.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.record
}

// forget lets go of the record, which is in the store.
func (r *backgroundRun) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.record = nil
}

// status is that of the response as it is now.
func (r *backgroundRun) status() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.status
}

// errRunCancelled ends a run that somebody cancelled or deleted.
var errRunCancelled = openai.NewError(openai.CodeCancelled, "", "the response was cancelled")

// doom cancels or deletes a run, as long as it has no end.
func (r *backgroundRun) doom(f fate) {
	r.mu.Lock()
	if f == deleted && r.mu.fate != deleted {
		close(r.gone)
	}
	r.mu.fate = max(r.mu.fate, f)
	r.mu.Unlock()
	r.stop(errRunCancelled)
}

func (r *backgroundRun) doomed() fate {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.fate
}

// becomes replaces the response.
func (r *backgroundRun) becomes(resp *responses.Response) { r.shows(resp.Status, openai.Encode(resp)) }

func (r *backgroundRun) shows(status string, response []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := *r.mu.record
	now.Response = response
	r.mu.record, r.mu.status = &now, status
}

// startBackground stores a response that begins and lets it run. All that can be
// wrong with the request is said before. It also gives the response as it began.
func (s *Server) startBackground(r *http.Request, in *intake, q *responseRequest) (*backgroundRun, []byte, *openai.Error) {
	run := newBackgroundRun(newRecord(r.Context(), q), callerOf(r.Context()))
	rec := recordOf(r.Context())
	own := &record{id: rec.id, key: rec.key, arrived: rec.arrived}
	var ctx context.Context
	// The request's values, its key and its id, without its end.
	ctx, run.stop = context.WithCancelCause(context.WithValue(context.WithoutCancel(r.Context()), recordKey{}, own))
	// What it holds counts until it has its place; the key's limits hold to its end.
	later := &intake{limits: in.limits, view: in.view, bypass: in.bypass, hold: &hold{budget: &s.background.bodies}}
	j, e := s.newResponse(ctx, later, q)
	if e == nil && !later.hold.take(in.hold.bytes) {
		e = openai.NewError(openai.CodeBackground, "background", "background: what the responses that wait in the background were asked with fills their memory of %d bytes", s.background.bodies.most).Retry(s.retryAfter())
	}
	if e == nil {
		e = s.background.enter(run)
	}
	if e != nil {
		later.hold.release()
		run.stop(nil)
		return nil, nil, e
	}
	if q.req.Stream {
		run.log = newEventLog(s.background.eventBytes)
	}
	q.resp.Status = responses.StatusQueued
	run.becomes(q.resp)
	first := run.current()
	err := s.renew(ctx, run) // before the record: one without a lease is that of a dead process
	if err == nil {
		err = s.put(ctx, first)
	}
	if err != nil {
		_ = s.erase(ctx, run.id, run.scope, leasesOf(run.scope))
		later.hold.release()
		run.stop(nil)
		s.background.free(run)
		s.background.putAway(run, false)
		close(run.ended)
		close(run.over)
		s.background.tasks.Done()
		return nil, nil, s.unstorable(run.id, err)
	}
	rec.detached = true
	go s.runBackground(ctx, run, j, q, later)
	return run, first.Response, nil
}

// runBackground is a run from its place in the line to its stored end.
func (s *Server) runBackground(ctx context.Context, run *backgroundRun, j *job, q *responseRequest, in *intake) {
	defer s.background.tasks.Done()
	defer run.stop(nil)
	defer close(run.over)
	alive, still := context.WithCancel(context.WithoutCancel(ctx)) // it lives until its end is stored, wanted or not
	var beating sync.WaitGroup
	beating.Go(func() { s.beat(alive, run) })
	j.placed = func() {
		q.resp.Status = responses.StatusInProgress
		run.becomes(q.resp)
		select {
		case run.moved <- struct{}{}:
		default: // it is not told yet of the last time
		}
	}
	end := &runEnd{s: s, run: run, j: j, resp: q.resp}
	see := func(*responses.Response) []byte { end.see(ctx); return end.record().Response }
	w := newRunWriter(run.log)
	var out sink
	if run.log != nil {
		out = newResponseStream(w, j, q.resp, s.o.WriteTimeout, see)
	} else {
		out = newResponseAnswer(w, j, q.resp, s.o.WriteTimeout, see)
	}
	if e := s.guarded(ctx, j, q, in, out); e != nil {
		j.rec.err = e
		out.fail(e)
	}
	in.hold.release()
	if run.log != nil {
		run.log.end()
	}
	s.finishBackground(run, j.rec)
	end.store(ctx)
	still()
	beating.Wait() // or a late beat would leave a lease behind
	end.clear(ctx)
	s.background.putAway(run, run.doomed() != deleted)
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

// beat says every so often, and when its status changes, that a run is under way, until
// ctx ends.
func (s *Server) beat(ctx context.Context, run *backgroundRun) {
	tick := time.NewTicker(s.background.beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-run.moved:
		}
		_ = s.heed(ctx, run)                                                            // an error: it is seen the next time
		if err := s.renew(ctx, run); err != nil && !errors.Is(err, stored.ErrFailing) { // it has told that by itself
			s.o.Log.Warn().Str("response", run.id).Err(err).Msg("the lease of a background response cannot be renewed")
		}
	}
}

// runWriter is what a background run's sink writes to in place of a client. What
// is no event, a whole answer or an HTTP error, goes nowhere: the run's response has
// it all.
type runWriter struct {
	header http.Header
	log    *eventLog // nil for a run that is not streamed
}

var _ http.ResponseWriter = (*runWriter)(nil)

func newRunWriter(log *eventLog) *runWriter { return &runWriter{http.Header{}, log} }

func (w *runWriter) Header() http.Header { return w.header }
func (w *runWriter) WriteHeader(int)     {}

func (w *runWriter) Write(b []byte) (int, error) {
	if w.log != nil && strings.HasPrefix(w.header.Get("Content-Type"), eventStreamType) {
		w.log.add(b)
	}
	return len(b), nil
}

// Flush and SetWriteDeadline are for http.ResponseController: nothing waits here.
func (w *runWriter) Flush()                           {}
func (w *runWriter) SetWriteDeadline(time.Time) error { return nil }
