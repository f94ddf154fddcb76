package host

import (
	"context"
	"errors"
	"time"

	"thoth/host/openai"
	"thoth/host/responses"
	"thoth/host/stored"
)

// responseStore keeps responses: a [stored.Store], or in tests one that fails.
type responseStore interface {
	Put(ctx context.Context, r *stored.Record) error
	Replace(ctx context.Context, r *stored.Record) error
	Get(ctx context.Context, scope, id string) (*stored.Record, error)
	GetCharged(ctx context.Context, scope, id string, charge stored.Charge) (*stored.Record, error)
	Delete(ctx context.Context, scope, id string) error
	ChainCharged(ctx context.Context, scope, id string, most int, charge stored.Charge) ([]*stored.Record, error)
	Fits(r *stored.Record) error
	Largest() int64
	TTL() time.Duration
	State() stored.State
}

var _ responseStore = (*stored.Store)(nil)

const (
	storeTimeout = 10 * time.Second // of one call of the store
	storeLast    = time.Second      // the same when the server ends
	storeRetry   = 5 * time.Second  // after which one that fails may be asked again
)

// Why a response could not be stored.
const (
	lostTooLarge = "too_large"
	lostNoRoom   = "no_room"
	lostFailed   = "failed"
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
func (s *Server) keep(ctx context.Context, q *responseRequest) func(*responses.Response) []byte {
	return func(resp *responses.Response) []byte {
		r := newRecord(ctx, q)
		r.Response = openai.Encode(resp)
		if err := s.put(ctx, r); err != nil {
			s.lost(r.ID, err)
			resp.Store = false
			return nil
		}
		return r.Response
	}
}

// put stores a record, also when its client has gone: what is done must not be done by
// half.
func (s *Server) put(ctx context.Context, r *stored.Record) error {
	ctx, done := s.storing(ctx)
	defer done()
	return s.responses.Put(ctx, r)
}

// replace is put in place of a record that was stored before.
func (s *Server) replace(ctx context.Context, r *stored.Record) error {
	ctx, done := s.storing(ctx)
	defer done()
	return s.responses.Replace(ctx, r)
}

// lost tells of a response that could not be stored.
func (s *Server) lost(id string, err error) {
	reason := lostFailed
	switch {
	case errors.Is(err, stored.ErrTooLarge):
		reason = lostTooLarge
	case errors.Is(err, stored.ErrNoRoom):
		reason = lostNoRoom
	}
	s.metrics.lost.WithLabelValues(reason).Inc()
	s.o.Log.Warn().Str("response", id).Str("reason", reason).Err(err).Msg("a response could not be stored")
}

// fits refuses a response whose input alone is too large to be stored, where its client
// wants it to be: for nothing else is there an error once the answer is made.
func (s *Server) fits(ctx context.Context, q *responseRequest) *openai.Error {
	if !q.resp.Store || q.req.Store == nil {
		return nil
	}
	if err := s.responses.Fits(newRecord(ctx, q)); err != nil {
		return tooLargeToStore(err)
	}
	return nil
}

func tooLargeToStore(err error) *openai.Error {
	return openai.NewError(openai.CodeTooLarge, "input", "input is too long for a response that is stored: %s (THOTH_RESPONSES_RECORD_BYTES)", err)
}

// unstorable is the answer to a request whose response must be stored, and cannot be.
func (s *Server) unstorable(id string, err error) *openai.Error {
	switch {
	case errors.Is(err, stored.ErrTooLarge):
		return tooLargeToStore(err)
	case errors.Is(err, stored.ErrNoRoom):
		return openai.NewError(openai.CodeStore, "background", "background: what is being stored at this moment fills the store of responses (THOTH_RESPONSES_BYTES)").Retry(storeRetry)
	}
	return s.unreadable(id, err)
}
