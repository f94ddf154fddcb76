package host

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"

	"thoth/host/openai"
	"thoth/host/responses"
	"thoth/host/stored"
)

// What a client may do with a response that is stored, or on its way in the
// background. It sees those of its own key; another's is like one that never was.

// namesResponse keeps the one name in the place of ids that is none from being one.
func namesResponse(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == routeInputTokens {
			notAllowed(w, r, http.MethodPost)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// getResponse is GET /v1/responses/{id}: the response as it is now, or with
// stream=true its events from the beginning, or after one of them.
func (s *Server) getResponse(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "response_id")
	q, e := readGet(r.URL.RawQuery)
	if e != nil {
		fail(w, r, e)
		return
	}
	h := &hold{budget: &s.bodies}
	defer h.release()
	record, d, e := s.found(r.Context(), id, h)
	if e != nil {
		fail(w, r, e)
		return
	}
	if !q.stream || r.Method == http.MethodHead {
		s.show(w, r, record, q.include, h)
		return
	}
	run := s.background.find(scopeKey(r.Context()), id)
	switch {
	case !d.Background:
		e = openai.NewError(openai.CodeInvalidValue, "stream", "stream is true, and the response %s was not made in the background: its events are not kept; leave stream out", id)
	case run == nil:
		e = openai.NewError(openai.CodeInvalidValue, "stream", "stream is true, and the events of the response %s are not held here: it was not asked for with stream true, another server makes it, or they are no longer held; leave stream out", id)
	case run.log == nil:
		e = openai.NewError(openai.CodeInvalidValue, "stream", "stream is true, and the response %s was not asked for with stream true: it has no events; leave stream out", id)
	default:
		switch first := run.log.held(); {
		case q.next >= first:
		case q.next == 0:
			e = openai.NewError(openai.CodeInvalidValue, "stream", "stream is true without starting_after, and of the events of the response %s only those from number %d on are held: give starting_after, or leave stream out", id, first)
		default:
			e = openai.NewError(openai.CodeInvalidValue, "starting_after", "starting_after is %d, and of the events of the response %s only those from number %d on are held", q.next-1, id, first)
		}
	}
	if e != nil {
		fail(w, r, e)
		return
	}
	s.follow(w, r, run.log, q.next)
}

// show sends a stored response as it lies there, but for log-probabilities that were not
// asked for. It counts as a body does until its client has it.
func (s *Server) show(w http.ResponseWriter, r *http.Request, record *stored.Record, include []string, h *hold) {
	raw := record.Response
	if !slices.Contains(include, responses.IncludeLogprobs) && bytes.Contains(raw, []byte(`"logprobs":[{`)) {
		if !h.take(int64(len(raw))) {
			fail(w, r, s.bodiesFull())
			return
		}
		resp := new(responses.Response) // they are not read
		if err := json.Unmarshal(raw, resp); err != nil {
			fail(w, r, s.unreadable(record.ID, err))
			return
		}
		raw = openai.Encode(resp)
	}
	s.sendRaw(w, raw)
}

// deleteResponse is DELETE /v1/responses/{id}; one that is on its way is cancelled.
func (s *Server) deleteResponse(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "response_id")
	if e := s.deleteStored(r.Context(), id); e != nil {
		fail(w, r, e)
		return
	}
	writeJSON(w, http.StatusOK, responses.NewDeleted(id))
}

// deleteStored deletes a response, wherever it is made.
func (s *Server) deleteStored(ctx context.Context, id string) *openai.Error {
	scope := scopeKey(ctx)
	run := s.background.find(scope, id)
	if run != nil {
		run.doom(deleted)
		select {
		case <-run.over:
		case <-time.After(storeTimeout): // it is deleted as soon as the store can be used
			return s.unreadable(id, errUnstored)
		case <-ctx.Done():
			return causeOf(ctx)
		}
		s.background.drop(id)
	}
	goesOn, err := s.storedUnderWay(ctx, scope, id)
	switch {
	case err == nil:
	case run != nil && errors.Is(err, stored.ErrNotFound):
		return nil // the run did it
	default:
		return s.unfound(id, err)
	}
	if goesOn { // also where its lease is over: its process may sleep
		if e := s.ask(ctx, scope, id, deleted); e != nil {
			return e
		}
		_ = s.erase(ctx, id, leasesOf(scope)) // of a process that died; one that lives deletes its own
	}
	ctx, done := s.storing(ctx)
	defer done()
	if err := s.responses.Delete(ctx, scope, id); err != nil && !errors.Is(err, stored.ErrNotFound) {
		return s.unreadable(id, err)
	}
	return nil
}

// deletionReads is how many records are read at once to delete them. They are not charged
// to the memory for bodies, since what makes room must not fail for want of it, and may
// be large: the others wait for their turn.
const deletionReads = 2

// storedUnderWay tells of a record that is to be deleted whether its response has no end
// yet. One that cannot be understood has none to wait for.
func (s *Server) storedUnderWay(ctx context.Context, scope, id string) (bool, error) {
	turn := s.deletions.join(1)
	defer turn.leave()
	select {
	case <-turn.ready:
	case <-ctx.Done():
		return false, causeOf(ctx)
	case <-s.hardStop.Done():
		return false, causeOf(s.hardStop)
	}
	record, err := s.fetch(ctx, scope, id, nil)
	if err != nil {
		return false, err
	}
	d, err := digestOf(record)
	return err == nil && underWay(d.Status), nil
}

// cancelResponse is POST /v1/responses/{id}/cancel. One that has its end already is
// answered as it is.
func (s *Server) cancelResponse(w http.ResponseWriter, r *http.Request) {
	ctx, id := r.Context(), chi.URLParam(r, "response_id")
	scope := scopeKey(ctx)
	if run := s.background.find(scope, id); run != nil && underWay(run.status()) {
		run.doom(cancelled)
		select {
		case <-run.ended:
		case <-run.over:
		case <-ctx.Done():
			return
		}
	}
	h := &hold{budget: &s.bodies}
	defer h.release()
	record, d, e := s.found(ctx, id, h)
	switch {
	case e != nil:
	case !d.Background:
		e = openai.NewError(openai.CodeInvalidValue, "response_id", "the response %s was not made in the background: only those can be cancelled", id)
	case underWay(d.Status):
		record = nil // it may be large, and this takes a while
		h.release()
		if e = s.ask(ctx, scope, id, cancelled); e == nil {
			record, _, e = s.found(ctx, id, h)
		}
	}
	if e != nil {
		fail(w, r, e)
		return
	}
	s.show(w, r, record, nil, h)
}

// listInput is GET /v1/responses/{id}/input_items.
func (s *Server) listInput(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "response_id")
	q, e := readList(r.URL.RawQuery)
	if e != nil {
		fail(w, r, e)
		return
	}
	h := &hold{budget: &s.bodies}
	defer h.release()
	record, _, e := s.found(r.Context(), id, h)
	if e != nil {
		fail(w, r, e)
		return
	}
	items, err := responses.SplitItems(record.Input)
	if err != nil {
		fail(w, r, s.unreadable(id, err))
		return
	}
	items, more, e := q.of(items)
	if e == nil && !h.take(responses.PageBytes(items)) {
		e = s.bodiesFull()
	}
	if e != nil {
		fail(w, r, e)
		return
	}
	s.sendRaw(w, responses.EncodePage(items, more))
}
