package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"thoth/host/openai"
	"thoth/host/responses"
	"thoth/host/stored"
)

// How a stored response is read, and what is answered where it is not there.

// found is the record of a response that a caller may see, with the response as it is
// now, and what the host needs to know of it.
func (s *Server) found(ctx context.Context, id string, h *hold) (*stored.Record, *digest, *openai.Error) {
	scope := scopeKey(ctx)
	if run := s.background.find(scope, id); run != nil {
		if r := run.current(); r != nil {
			d, err := digestOf(r)
			if err != nil {
				return nil, nil, s.unreadable(id, err)
			}
			return r, d, nil
		}
	}
	read := func() (*stored.Record, error) {
		h.release() // of what was read before
		return s.fetch(ctx, scope, id, h.charge)
	}
	r, err := read()
	var d *digest
	if err == nil {
		r, d, err = s.upToDate(ctx, r, scope, read)
	}
	if err == nil && d.told {
		err = tellStatus(r, d.Status)
	}
	if err != nil {
		return nil, nil, s.unfound(id, err)
	}
	return r, d, nil
}

// fetch gets a record out of the store. With a charge it counts as a body does.
func (s *Server) fetch(ctx context.Context, scope, id string, charge stored.Charge) (*stored.Record, error) {
	if !s.hasStore() {
		return nil, stored.ErrNotFound
	}
	ctx, done := context.WithTimeout(ctx, storeTimeout)
	defer done()
	return s.responses.GetCharged(ctx, scope, id, charge)
}

// unfound is the answer about a response that could not be read.
func (s *Server) unfound(id string, err error) *openai.Error {
	var own *openai.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, stored.ErrNotFound):
		return noResponse(id)
	case errors.Is(err, errBodyMemory):
		return s.bodiesFull()
	}
	return s.unreadable(id, err)
}

// digest is what the host needs to know of a stored response: most are shown as they lie
// there, and may be large.
type digest struct {
	Status     string `json:"status"`
	Background bool   `json:"background"`
	told       bool   // the status is not the record's
}

func digestOf(r *stored.Record) (*digest, error) {
	d := new(digest)
	if err := json.Unmarshal(r.Response, d); err != nil {
		return nil, fmt.Errorf("the stored response cannot be read: %w", err)
	}
	return d, nil
}

// underWay tells whether a response of this status has no end yet.
func underWay(status string) bool {
	return status == responses.StatusQueued || status == responses.StatusInProgress
}

func noResponse(id string) *openai.Error {
	return openai.NewError(openai.CodeNotFound, "response_id", "Response with id '%s' not found.", printable(id))
}

// unreadable is the answer while the store cannot be used. Its reason is the
// operator's.
func (s *Server) unreadable(id string, err error) *openai.Error {
	if !errors.Is(err, stored.ErrFailing) { // it has told by itself
		s.o.Log.Warn().Str("response", id).Err(err).Msg("the store of responses cannot be used")
	}
	return openai.NewError(openai.CodeStore, "", "the store of responses cannot be used now; /health tells more").Retry(storeRetry)
}
