package host

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/go-chi/chi/v5"

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
	_, resp, e := s.found(r.Context(), id)
	if e != nil {
		fail(w, r, e)
		return
	}
	if !q.stream || r.Method == http.MethodHead {
		if !slices.Contains(q.include, responses.IncludeLogprobs) {
			dropLogprobs(resp)
		}
		s.send(w, resp)
		return
	}
	run := s.background.find(scopeKey(r.Context()), id)
	switch {
	case !resp.Background:
		e = openai.NewError(openai.CodeInvalidValue, "stream", "stream is true, and the response %s was not made in the background: its events are not kept; leave stream out", id)
	case run == nil:
		e = openai.NewError(openai.CodeInvalidValue, "stream", "stream is true, and the events of the response %s are not held here, or no longer; leave stream out", id)
	case run.log == nil:
		e = openai.NewError(openai.CodeInvalidValue, "stream", "stream is true, and the response %s was not asked for with stream true: it has no events; leave stream out", id)
	default:
		if first := run.log.held(); q.next < first {
			e = openai.NewError(openai.CodeInvalidValue, "starting_after", "starting_after is %d, and of the events of the response %s only those from number %d on are held", q.next-1, id, first)
		}
	}
	if e != nil {
		fail(w, r, e)
		return
	}
	s.follow(w, r, run.log, q.next)
}

func dropLogprobs(resp *responses.Response) {
	for _, item := range resp.Output {
		for i := range item.Content {
			item.Content[i].Logprobs = nil
		}
	}
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
		<-run.over
		s.background.drop(id)
	}
	record, e := s.fetch(ctx, scope, id)
	switch {
	case e == nil:
	case run != nil && e.Code == openai.CodeNotFound:
		return nil // the run did it
	default:
		return e
	}
	if resp, err := s.response(record); err == nil && underWay(resp) {
		f, err := s.fateOf(ctx, scope, id)
		if err == nil && f == deleted {
			return noResponse(id)
		}
		if err == nil {
			err = s.ask(ctx, record, deleted)
		}
		if err != nil {
			return s.unreadable(id, err)
		}
	}
	ctx, done := s.storing(ctx)
	defer done()
	if err := s.responses.Delete(ctx, scope, id); err != nil && !errors.Is(err, stored.ErrNotFound) {
		return s.unreadable(id, err)
	}
	return nil
}

// cancelResponse is POST /v1/responses/{id}/cancel. One that has its end already is
// answered as it is.
func (s *Server) cancelResponse(w http.ResponseWriter, r *http.Request) {
	ctx, id := r.Context(), chi.URLParam(r, "response_id")
	if run := s.background.find(scopeKey(ctx), id); run != nil {
		run.doom(cancelled)
		select {
		case <-run.over:
		case <-ctx.Done():
			return
		}
	}
	record, resp, e := s.found(ctx, id)
	switch {
	case e != nil:
	case !resp.Background:
		e = openai.NewError(openai.CodeInvalidValue, "response_id", "the response %s was not made in the background: only those can be cancelled", id)
	case underWay(resp):
		if err := s.ask(ctx, record, cancelled); err != nil {
			e = s.unreadable(id, err)
		}
		resp.Status = responses.StatusCancelled
	}
	if e != nil {
		fail(w, r, e)
		return
	}
	s.send(w, resp)
}

// listInput is GET /v1/responses/{id}/input_items.
func (s *Server) listInput(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "response_id")
	q, e := readList(r.URL.RawQuery)
	if e != nil {
		fail(w, r, e)
		return
	}
	record, _, e := s.found(r.Context(), id)
	if e != nil {
		fail(w, r, e)
		return
	}
	var items []responses.Item
	if err := json.Unmarshal(record.Input, &items); err != nil {
		fail(w, r, s.unreadable(id, err))
		return
	}
	page, e := q.of(items)
	if e != nil {
		fail(w, r, e)
		return
	}
	s.send(w, page)
}

// getQuery is what a GET asks for.
type getQuery struct {
	include []string
	stream  bool
	next    int // number of the first event
}

func readGet(raw string) (q getQuery, e *openai.Error) {
	values, e := readQuery(raw)
	if e != nil {
		return q, e
	}
	if q.include, e = readInclude(values); e != nil {
		return q, e
	}
	if v := values.Get("stream"); v != "" {
		var err error
		if q.stream, err = strconv.ParseBool(v); err != nil {
			return q, openai.NewError(openai.CodeInvalidValue, "stream", "stream is %q: allowed are true and false", printable(v))
		}
	}
	if v := values.Get("include_obfuscation"); v != "" && v != "false" {
		return q, openai.NewError(openai.CodeUnsupported, "include_obfuscation", "include_obfuscation is %q, which is not supported: events have the length of their text", printable(v))
	}
	if v := values.Get("starting_after"); v != "" {
		after, err := strconv.ParseUint(v, 10, 31)
		if err != nil {
			return q, openai.NewError(openai.CodeInvalidValue, "starting_after", "starting_after is %q: it must be the sequence_number of an event", printable(v))
		}
		if !q.stream {
			return q, openai.NewError(openai.CodeInvalidValue, "starting_after", "starting_after needs stream=true")
		}
		q.next = int(after) + 1
	}
	return q, nil
}

func readQuery(raw string) (url.Values, *openai.Error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, openai.NewError(openai.CodeInvalidValue, "", "the query is malformed")
	}
	return values, nil
}

// readInclude reads include as clients write a list: its name again and again, with
// brackets or without.
func readInclude(values url.Values) ([]string, *openai.Error) {
	list := slices.Concat(values["include"], values["include[]"])
	for _, v := range list {
		if v != responses.IncludeLogprobs && v != responses.IncludeEncrypted {
			return nil, openai.NewError(openai.CodeUnsupported, "include", "include has %q: allowed are %s and %s", printable(v), responses.IncludeLogprobs, responses.IncludeEncrypted)
		}
	}
	return list, nil
}

// listQuery is which page of a list is asked for.
type listQuery struct {
	limit int
	after string // id of the last item of the page before
	asc   bool
}

const (
	defaultPage = 20
	mostOfPage  = 100
)

func readList(raw string) (q listQuery, e *openai.Error) {
	values, e := readQuery(raw)
	if e != nil {
		return q, e
	}
	if _, e = readInclude(values); e != nil {
		return q, e
	}
	q = listQuery{limit: defaultPage, after: values.Get("after")}
	if v := values.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > mostOfPage {
			return q, openai.NewError(openai.CodeInvalidValue, "limit", "limit is %q: it must be from 1 to %d", printable(v), mostOfPage)
		}
		q.limit = n
	}
	switch v := values.Get("order"); v {
	case "", "desc":
	case "asc":
		q.asc = true
	default:
		return q, openai.NewError(openai.CodeInvalidValue, "order", "order is %q: allowed are asc and desc", printable(v))
	}
	return q, nil
}

// of is the page of items, which come in the order they were given in.
func (q listQuery) of(items []responses.Item) (responses.Items, *openai.Error) {
	if !q.asc {
		slices.Reverse(items)
	}
	if q.after != "" {
		at := slices.IndexFunc(items, func(i responses.Item) bool { return i.ID == q.after })
		if at < 0 {
			return responses.Items{}, openai.NewError(openai.CodeInvalidValue, "after", "after is %q: it must be the id of an input item of this response", printable(q.after))
		}
		items = items[at+1:]
	}
	n := min(q.limit, len(items))
	return responses.NewItems(items[:n], n < len(items)), nil
}
