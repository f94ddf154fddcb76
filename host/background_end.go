package host

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"thoth/host/openai"
	"thoth/host/responses"
	"thoth/host/stored"
)

// runEnd brings the end of a run into the store, and before its readers.
//
// Who sees the end asks for the next turn at once. So before it is seen the end is
// stored, the run no longer counts against its key, and another one may begin. Only
// where the store fails for longer than a moment it is seen before: then the answer
// is there, and the run stays until the store has it.
type runEnd struct {
	s    *Server
	run  *backgroundRun
	j    *job
	resp *responses.Response

	seen    bool
	put     bool // the store has it, and it is not put again
	stored  bool // or there is nothing more to store
	hurried bool // somebody wants it deleted, which is tried at once

	encoded *stored.Record // see record
}

const (
	triesUnseen  = 4               // to store an end before it is seen,
	unseenFor    = 5 * time.Second // and for how long: a store that hangs takes long to fail
	lastEndRetry = 30 * time.Second
)

// see stores the end and shows it. The sink calls it once, before it tells of the end; it
// is called again where that panicked.
func (e *runEnd) see(ctx context.Context) {
	if e.seen {
		return
	}
	e.seen = true
	if e.run.key != nil {
		e.run.key.leave(e.j.rec)
	}
	pauses, began := e.pauses(), time.Now()
	e.choose(ctx)
	for i := range triesUnseen {
		if e.attempt(ctx); e.stored || i == triesUnseen-1 || time.Since(began) > unseenFor || !e.pause(pauses.NextBackOff()) {
			break
		}
	}
	if e.stored {
		e.s.background.free(e.run)
	}
	e.run.shows(e.resp.Status, e.record().Response)
	close(e.run.ended)
}

// store goes on to try where that was in vain so far, until the server ends.
func (e *runEnd) store(ctx context.Context) {
	if e.stored {
		return
	}
	pauses := e.pauses()
	for e.pause(pauses.NextBackOff()) {
		if e.attempt(ctx); e.stored {
			break
		}
	}
	e.s.background.free(e.run)
}

func (e *runEnd) pauses() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = e.s.background.retry, lastEndRetry
	return b
}

// pause is false where nothing is to be tried any more.
func (e *runEnd) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	gone := e.run.gone
	if e.hurried {
		gone = nil
	}
	select {
	case <-t.C:
		return true
	case <-gone:
		e.hurried = true
		return true
	case <-e.s.hardStop.Done():
		return false
	}
}

// choose says what the end is, before anybody sees it and before it is stored: from then
// on it does not change. What another process wants after that finds this end.
func (e *runEnd) choose(ctx context.Context) {
	_ = e.s.heed(ctx, e.run) // an error: it has ended without being cancelled
	if e.run.doomed() == cancelled {
		e.resp.Status, e.resp.Error, e.resp.CompletedAt = responses.StatusCancelled, nil, nil
	}
	if err := e.s.responses.Fits(e.record()); err != nil {
		// What there is cannot be had by anybody who asks: so it is no answer.
		e.s.lost(e.run.id, err)
		e.resp.Output, e.resp.Usage, e.resp.CompletedAt, e.resp.IncompleteDetails = []responses.Item{}, nil, nil, nil
		e.resp.Fail(openai.NewError(openai.CodeInternal, "", "the answer is too long to be stored: %s", err))
		e.encoded = nil
	}
}

// record is that of the end, which is encoded once: it may be large.
func (e *runEnd) record() *stored.Record {
	if e.encoded == nil {
		r := *e.run.current()
		r.Response = openai.Encode(e.resp)
		e.encoded = &r
	}
	return e.encoded
}

// attempt stores the end, or deletes what there is where that is wanted. It is done only
// when it is also known that nobody wants that.
func (e *runEnd) attempt(ctx context.Context) {
	err := e.try(ctx)
	if err == nil {
		e.stored = true
		return
	}
	if errors.Is(err, stored.ErrFailing) { // it has told that by itself
		return
	}
	e.s.o.Log.Warn().Str("response", e.run.id).Err(err).Msg("the end of a background response could not be stored; it is tried again")
}

func (e *runEnd) try(ctx context.Context) error {
	s, run := e.s, e.run
	if run.doomed() == deleted {
		return s.erase(ctx, run.id, run.scope)
	}
	if !e.put {
		err := s.replace(ctx, e.record())
		if errors.Is(err, stored.ErrTooLarge) {
			return nil // as it began it took all the room there is: it has failed, without this reason
		}
		if err != nil {
			return err
		}
		e.put = true
	}
	err := s.heed(ctx, run) // or one that was deleted a moment ago would be back
	if run.doomed() == deleted {
		return s.erase(ctx, run.id, run.scope)
	}
	return err
}

// clear deletes what was stored of the run beside its record, whatever of it there is, and
// tells of an end that could not be stored.
func (e *runEnd) clear(ctx context.Context) {
	if !e.stored {
		e.s.lost(e.run.id, errors.New("the server ended before its end could be stored"))
		return // its lease runs out
	}
	_ = e.s.erase(ctx, e.run.id, fatesOf(e.run.scope), leasesOf(e.run.scope))
}
