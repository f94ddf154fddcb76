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
	run.mu.Lock()
	status, created := run.mu.status, run.mu.record.Created
	run.mu.Unlock()
	if !underWay(status) { // its end is seen, and is still to be stored
		status = responses.StatusInProgress
	}
	return s.put(ctx, newLease(run.scope, run.id, created, status, s.background.lease))
}

func newLease(scope, id string, created time.Time, status string, lasts time.Duration) *stored.Record {
	return &stored.Record{ID: id, Scope: leasesOf(scope), Created: created, Input: []byte("[]"),
		Response: openai.Encode(lease{status, time.Now().Add(lasts).Unix()})}
}

// leaseOf is the lease of a response under way; one that is over where there is none.
func (s *Server) leaseOf(ctx context.Context, scope, id string) (l lease, err error) {
	ctx, done := s.storing(ctx)
	defer done()
	r, err := s.responses.Get(ctx, leasesOf(scope), id)
	switch {
	case errors.Is(err, stored.ErrNotFound):
		return l, nil
	case err != nil:
		return l, err
	}
	return l, json.Unmarshal(r.Response, &l)
}

func (l lease) over() bool { return time.Now().After(time.Unix(l.Until, 0)) }

// statusOf is how a response is that is under way by its record: its fate counts first,
// then what its process says. One whose process says nothing has failed; one that is
// deleted is a [stored.ErrNotFound].
func (s *Server) statusOf(ctx context.Context, scope, id string) (string, error) {
	f, err := s.fateOf(ctx, scope, id)
	switch {
	case err != nil:
		return "", err
	case f == deleted:
		return "", stored.ErrNotFound
	case f == cancelled:
		return responses.StatusCancelled, nil
	}
	l, err := s.leaseOf(ctx, scope, id)
	switch {
	case err != nil:
		return "", err
	case l.over():
		return responses.StatusFailed, nil
	}
	return l.Status, nil
}

// errUnstored says that a response has ended, and that its end is still to be stored.
var errUnstored = errors.New("its end is not stored yet")

// statusHere is statusOf for one that this process may be making.
func (s *Server) statusHere(ctx context.Context, scope, id string) (string, error) {
	if run := s.background.find(scope, id); run != nil {
		if run.isSeen() {
			return "", errUnstored
		}
		run.mu.Lock()
		defer run.mu.Unlock()
		return run.mu.status, nil
	}
	status, err := s.statusOf(ctx, scope, id)
	if errors.Is(err, stored.ErrNotFound) {
		return responses.StatusCancelled, nil
	}
	return status, err
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
