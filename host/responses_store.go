package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"thoth/host/openai"
	"thoth/host/responses"
	"thoth/host/stored"
)

// responseStore keeps responses: a [stored.Store], or in tests one that fails.
type responseStore interface {
	Put(ctx context.Context, r *stored.Record) error
	Get(ctx context.Context, scope, id string) (*stored.Record, error)
	GetCharged(ctx context.Context, scope, id string, charge stored.Charge) (*stored.Record, error)
	Delete(ctx context.Context, scope, id string) error
	ChainCharged(ctx context.Context, scope, id string, most int, charge stored.Charge) ([]*stored.Record, error)
	State() stored.State
}

var _ responseStore = (*stored.Store)(nil)

const (
	storeTimeout = 10 * time.Second // of one call of the store
	storeLast    = time.Second      // the same when the server ends
	storeRetry   = 5 * time.Second  // after which one that fails may be asked again
)

// hasStore tells whether responses are stored, or would be if their store worked.
func (s *Server) hasStore() bool { return s.responses.State().State != "off" }

// mayStore refuses what a request cannot have where responses are not stored, and
// tells whether this one's is to be. Who counts tokens makes none.
func (s *Server) mayStore(req *responses.Request, counting bool) (bool, *openai.Error) {
	st := s.responses.State()
	for _, f := range []struct {
		param string
		given bool
		now   bool // it cannot wait until the store works again
		leave string
	}{
		{"previous_response_id", req.PreviousID != "", false, "send the whole conversation as input"},
		{"background", req.Background && !counting, true, "wait for the answer, or stream it"},
		{"store", req.Store != nil && *req.Store && !counting, true, "leave it out, or set it to false"},
	} {
		switch {
		case !f.given:
		case st.State == "off":
			return false, openai.NewError(openai.CodeUnsupported, f.param, "%s needs a store of responses, and there is none (%s): %s", f.param, st.Reason, f.leave)
		case f.now && !st.On():
			return false, openai.NewError(openai.CodeStore, f.param, "%s needs the store of responses, which cannot be used now (%s): %s", f.param, st.Reason, f.leave).Retry(storeRetry)
		}
	}
	switch {
	case counting:
		return false, nil
	case !req.Background:
	case s.o.MaxBackground == 0:
		return false, openai.NewError(openai.CodeUnsupported, "background", "background is true, and this server makes no responses in the background: wait for the answer, or stream it")
	case req.Store != nil && !*req.Store:
		return false, openai.NewError(openai.CodeInvalidValue, "background", "background is true and store is false: what is made in the background is stored, or nobody could ask for it")
	}
	return st.On() && (req.Store == nil || *req.Store), nil
}

// storing bounds a call of the store, which goes on when the client has gone: what
// it does must not be done by half. At the end of the server there is little time.
func (s *Server) storing(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := storeTimeout
	if s.hardStop.Err() != nil {
		limit = storeLast
	}
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}

// newRecord is what is stored of a request's response, which is still to be set.
func newRecord(ctx context.Context, q *responseRequest) *stored.Record {
	return &stored.Record{ID: q.resp.ID, Scope: scopeKey(ctx), Previous: q.req.PreviousID, Created: recordOf(ctx).arrived, Input: responses.EncodeItems(q.req.Input)}
}

// keep stores the end of a response that somebody waits for. A store that fails does
// not take the answer from its client: the response says that it is not stored.
func (s *Server) keep(ctx context.Context, q *responseRequest) func(*responses.Response) {
	return func(resp *responses.Response) {
		r := newRecord(ctx, q)
		r.Response = openai.Encode(resp)
		if err := s.put(ctx, r); err != nil {
			s.lost(r.ID, err)
			resp.Store = false
		}
	}
}

// put stores a record, also when its client has gone: what is done must not be done by
// half.
func (s *Server) put(ctx context.Context, r *stored.Record) error {
	ctx, done := s.storing(ctx)
	defer done()
	return s.responses.Put(ctx, r)
}

// lost tells of a response that could not be stored.
func (s *Server) lost(id string, err error) {
	s.metrics.lost.Inc()
	s.o.Log.Warn().Str("response", id).Err(err).Msg("a response could not be stored")
}

// found is the record of a response that a caller may see, with the response as it is
// now, and what the host needs to know of it.
func (s *Server) found(ctx context.Context, id string, h *hold) (*stored.Record, *digest, *openai.Error) {
	scope := scopeKey(ctx)
	if run := s.background.find(scope, id); run != nil {
		r := run.current()
		d, err := digestOf(r)
		if err != nil {
			return nil, nil, s.unreadable(id, err)
		}
		return r, d, nil
	}
	r, e := s.fetch(ctx, scope, id, h)
	if e != nil {
		return nil, nil, e
	}
	d, err := digestOf(r)
	if err == nil && underWay(d.Status) {
		var f fate
		switch f, err = s.fateOf(ctx, scope, id); {
		case err != nil:
		case f == deleted:
			return nil, nil, noResponse(id)
		default:
			err = d.settle(r, f)
		}
	}
	if err != nil {
		return nil, nil, s.unreadable(id, err)
	}
	return r, d, nil
}

// fetch gets a record out of the store. It counts as a body does, until h is released.
func (s *Server) fetch(ctx context.Context, scope, id string, h *hold) (*stored.Record, *openai.Error) {
	if !s.hasStore() {
		return nil, noResponse(id)
	}
	ctx, done := context.WithTimeout(ctx, storeTimeout)
	defer done()
	r, err := s.responses.GetCharged(ctx, scope, id, h.charge)
	switch {
	case errors.Is(err, stored.ErrNotFound):
		return nil, noResponse(id)
	case errors.Is(err, errBodyMemory):
		return nil, s.bodiesFull()
	case err != nil:
		return nil, s.unreadable(id, err)
	}
	return r, nil
}

// leaseField stands in a stored response beside the reference's: until when, in seconds
// since 1970, it is under way as it says.
const leaseField = "_lease"

// leased is the record of a response that is under way.
func leased(r *stored.Record, until time.Time) *stored.Record {
	now := *r
	now.Response = fmt.Appendf(slices.Clone(r.Response[:len(r.Response)-1]), ",%q:%d}", leaseField, until.Unix())
	return &now
}

// digest is what the host needs to know of a stored response: most are shown as they lie
// there, and may be large.
type digest struct {
	Status     string `json:"status"`
	Background bool   `json:"background"`
	Lease      int64  `json:"_lease"`
}

func digestOf(r *stored.Record) (*digest, error) {
	d := new(digest)
	if err := json.Unmarshal(r.Response, d); err != nil {
		return nil, fmt.Errorf("the stored response cannot be read: %w", err)
	}
	return d, nil
}

// settle makes of a record that is under way what is to be shown of it. One whose
// process says so no longer has failed.
func (d *digest) settle(r *stored.Record, f fate) error {
	resp := new(responses.Response)
	if err := json.Unmarshal(r.Response, resp); err != nil {
		return fmt.Errorf("the stored response cannot be read: %w", err)
	}
	switch {
	case f == cancelled:
		resp.Status = responses.StatusCancelled
	case d.lost():
		resp.Fail(openai.NewError(openai.CodeInternal, "", "the server that made this response ended before it was done"))
	}
	d.Status, r.Response = resp.Status, openai.Encode(resp)
	return nil
}

// lost tells that a response is under way by its record, and by that alone.
func (d *digest) lost() bool { return underWay(d.Status) && time.Now().After(time.Unix(d.Lease, 0)) }

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
