package host

import (
	"context"
	"errors"

	"thoth/host/openai"
	"thoth/host/responses"
	"thoth/host/stored"
)

// fate is what somebody wants to become of a run.
//
// Where that is another process, it leaves the fate in the store, under the response's
// id beside its record: what two processes write in turn is lost. The run's process looks
// for it at each beat, before it stores the end and after; whoever else reads the record
// until then looks for it, too.
type fate int

const (
	toEnd     fate = iota
	cancelled      // its end is that
	deleted        // nothing of it is to be found
)

// fatesOf is where the fates of a scope's runs are stored: no caller's scope is it.
func fatesOf(scope string) string { return scope + "\x00fates" }

// words of the fates as they are stored.
var fateWords = map[fate]string{cancelled: responses.StatusCancelled, deleted: "deleted"}

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

// heed looks what another process wants to become of a run. At the end of the server
// there is no time for it.
func (s *Server) heed(ctx context.Context, run *backgroundRun) error {
	if s.hardStop.Err() != nil {
		return nil
	}
	f, err := s.fateOf(ctx, run.scope, run.id)
	if f != toEnd {
		run.doom(f)
	}
	return err
}

// fateOf is what somebody wants to become of a response under way.
func (s *Server) fateOf(ctx context.Context, scope, id string) (fate, error) {
	ctx, done := s.storing(ctx)
	defer done()
	r, err := s.responses.Get(ctx, fatesOf(scope), id)
	switch {
	case errors.Is(err, stored.ErrNotFound):
		return toEnd, nil
	case err != nil:
		return toEnd, err
	}
	for f, word := range fateWords {
		if string(r.Response) == string(openai.Encode(word)) {
			return f, nil
		}
	}
	return toEnd, nil
}

// ask leaves a fate to a run of another process.
func (s *Server) ask(ctx context.Context, r *stored.Record, f fate) error {
	return s.put(ctx, &stored.Record{ID: r.ID, Scope: fatesOf(r.Scope), Created: r.Created, Input: []byte("[]"), Response: openai.Encode(fateWords[f])})
}

// erase deletes what the scopes have stored under an id, and gives the last error, which
// is told.
func (s *Server) erase(ctx context.Context, id string, scopes ...string) (last error) {
	ctx, done := s.storing(ctx)
	defer done()
	for _, scope := range scopes {
		if err := s.responses.Delete(ctx, scope, id); err != nil && !errors.Is(err, stored.ErrNotFound) {
			s.o.Log.Warn().Str("response", id).Err(err).Msg("what is stored of a background response could not be deleted")
			last = err
		}
	}
	return last
}
