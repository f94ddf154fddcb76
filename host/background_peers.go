package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"thoth/host/openai"
	"thoth/host/responses"
	"thoth/host/stored"
)

// What processes with one store tell each other of a run lies there beside its record,
// under the same id: a *lease*, by which its own process says that it lives, and a *fate*,
// by which another says what is wanted to become of it. What two processes write in turn is
// lost; so each of the three has one writer.
//
// Who leaves a fate waits until the run's process has done it, or lives no more: until the
// lease is gone or over. From then on the record is not written again, and what it says, or
// that it is not there, holds. Leases and fates that nobody deleted end by themselves, in
// linger.

// linger is how long a lease or a fate stays at most: longer than a process may sleep that
// finds, when it wakes, that its run was deleted.
const linger = time.Hour

// beside is a record of what is told about a response.
func (s *Server) beside(scope, id string, what any) *stored.Record {
	return &stored.Record{ID: id, Scope: scope, Created: time.Now().Add(linger - max(s.responses.TTL(), linger)), Input: []byte("[]"), Response: openai.Encode(what)}
}

// told reads what is told about a response; false where nothing is.
func (s *Server) told(ctx context.Context, scope, id string, what any) (bool, error) {
	ctx, done := s.storing(ctx)
	defer done()
	r, err := s.responses.Get(ctx, scope, id)
	switch {
	case errors.Is(err, stored.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, json.Unmarshal(r.Response, what)
}

// lease is what the process of a run says of it at each beat, beside its record: that has
// the whole input, and is written twice.
type lease struct {
	Status string `json:"status"`
	Until  int64  `json:"until"` // when it is over, in seconds since 1970
}

// leasesOf is where the leases of a scope's runs are stored: no caller's scope is it.
func leasesOf(scope string) string { return scope + "\x00leases" }

// renew says that a run is under way, and how it is.
func (s *Server) renew(ctx context.Context, run *backgroundRun) error {
	status := run.status()
	if !underWay(status) { // its end is seen, and is still to be stored
		status = responses.StatusInProgress
	}
	return s.put(ctx, s.newLease(run.scope, run.id, status, s.background.lease))
}

func (s *Server) newLease(scope, id, status string, lasts time.Duration) *stored.Record {
	return s.beside(leasesOf(scope), id, lease{status, time.Now().Add(lasts).Unix()})
}

// leaseOf is the lease of a response under way; one that is over where there is none.
func (s *Server) leaseOf(ctx context.Context, scope, id string) (l lease, err error) {
	_, err = s.told(ctx, leasesOf(scope), id, &l)
	return l, err
}

func (l lease) over() bool { return time.Now().After(time.Unix(l.Until, 0)) }

// gone: its process deleted it, and is done with the run.
func (l lease) gone() bool { return l == lease{} }

// fate is what somebody wants to become of a run. Its process looks for it at each beat,
// before it stores the end and after.
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

// heed looks what another process wants to become of a run. At the end of the server
// there is no time for it.
func (s *Server) heed(ctx context.Context, run *backgroundRun) error {
	if s.hardStop.Err() != nil {
		return nil
	}
	var word string
	_, err := s.told(ctx, fatesOf(run.scope), run.id, &word)
	for f, w := range fateWords {
		if w == word {
			run.doom(f)
		}
	}
	return err
}

// ask leaves a fate to a run of another process, and waits until that has done it, or
// lives no more. What it leaves is not needed any more where the process is done.
func (s *Server) ask(ctx context.Context, scope, id string, f fate) *openai.Error {
	if err := s.put(ctx, s.beside(fatesOf(scope), id, fateWords[f])); err != nil {
		return s.unreadable(id, err)
	}
	look := time.NewTicker(max(s.background.beat/beatLooks, time.Millisecond))
	defer look.Stop()
	for began := time.Now(); ; {
		l, err := s.leaseOf(ctx, scope, id)
		switch {
		case err != nil:
			return s.unreadable(id, err)
		case l.gone():
			_ = s.erase(ctx, id, fatesOf(scope))
			return nil
		case l.over(): // it died, or sleeps and finds the fate when it wakes
			return nil
		case time.Since(began) > s.background.lease:
			return s.unreadable(id, errUnstored)
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return causeOf(ctx)
		case <-s.hardStop.Done():
			return causeOf(s.hardStop)
		}
	}
}

// beatLooks is how often in a beat it is looked whether a run's process has done what it
// was asked.
const beatLooks = 20

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

// errUnstored says that a response has ended, and that its end is still to be stored.
var errUnstored = errors.New("its end is not stored yet")

// upToDate is a record as it is now, and its status: one that is under way by itself is how
// its process says, and has failed where that says nothing. Between two looks it may have
// got its end, and its lease have gone: then it is read again.
func (s *Server) upToDate(ctx context.Context, r *stored.Record, scope string, read func() (*stored.Record, error)) (*stored.Record, *digest, error) {
	d, err := digestOf(r)
	if err != nil || !underWay(d.Status) {
		return r, d, err
	}
	run := s.background.find(scope, r.ID)
	if run != nil {
		if status := run.status(); underWay(status) {
			d.Status, d.told = status, true
			return r, d, nil
		}
	} else {
		l, err := s.leaseOf(ctx, scope, r.ID)
		if err != nil {
			return nil, nil, err
		}
		if !l.over() {
			d.Status, d.told = l.Status, true
			return r, d, nil
		}
	}
	if r, err = read(); err != nil {
		return nil, nil, err
	}
	if d, err = digestOf(r); err != nil || !underWay(d.Status) {
		return r, d, err
	}
	if run != nil {
		return nil, nil, errUnstored
	}
	d.Status, d.told = responses.StatusFailed, true
	return r, d, nil
}

// tellStatus makes of a record that is under way what is to be shown of it.
func tellStatus(r *stored.Record, status string) error {
	resp := new(responses.Response)
	if err := json.Unmarshal(r.Response, resp); err != nil {
		return fmt.Errorf("the stored response cannot be read: %w", err)
	}
	if resp.Status = status; status == responses.StatusFailed {
		resp.Fail(openai.NewError(openai.CodeInternal, "", "the server that made this response ended before it was done"))
	}
	r.Response = openai.Encode(resp)
	return nil
}
