package host

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"thoth/host/openai"
	"thoth/host/prompt"
	"thoth/host/responses"
	"thoth/host/stored"
	"thoth/station/wire"
)

// routeResponses is the place of responses, and routeResponse that of a stored one.
const (
	routeResponses   = "/v1/responses"
	routeInputTokens = routeResponses + "/input_tokens"
	routeResponse    = routeResponses + "/{response_id}"
)

// createResponse is POST /v1/responses.
func (s *Server) createResponse(w http.ResponseWriter, r *http.Request) {
	var background *backgroundRun
	s.serve(w, r, openai.WriteError, func(in *intake) (*job, sink, *openai.Error) {
		q, e := s.readResponse(r.Context(), in, false)
		if e != nil {
			return nil, nil, e
		}
		if q.req.Background {
			background, e = s.startBackground(r, in, q)
			return nil, nil, e
		}
		j, e := s.newResponse(r.Context(), in, q)
		if e != nil {
			return nil, nil, e
		}
		keep := func(*responses.Response) {}
		if q.resp.Store {
			keep = s.keep(r.Context(), q.record)
		}
		if q.req.Stream {
			return j, newResponseStream(w, j, q.resp, s.o.WriteTimeout, keep), nil
		}
		return j, newResponseAnswer(w, j, q.resp, s.o.WriteTimeout, keep), nil
	})
	switch {
	case background == nil:
	case background.log != nil:
		s.follow(w, r, background.log, 0)
	default:
		_, resp, e := s.found(r.Context(), background.id)
		if e != nil {
			fail(w, r, e)
			return
		}
		s.send(w, resp)
	}
}

// countResponse is POST /v1/responses/input_tokens: the tokens of the prompt that
// this request would make, those of earlier turns included.
func (s *Server) countResponse(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, func(ctx context.Context, in *intake) (any, *openai.Error) {
		q, e := s.readResponse(ctx, in, true)
		if e != nil {
			return nil, e
		}
		segments, _, e := render(in.view.template, q.conversation, false)
		if e != nil {
			return nil, renamed(e, responses.Param)
		}
		got, err := s.o.Station.Tokenize(ctx, &wire.TokenizeRequest{Prompt: wire.Prompt{Segments: segments}})
		if err != nil {
			return nil, s.textError(ctx, err, "input")
		}
		return responses.NewCount(len(got.Tokens)), nil
	})
}

// responseRequest is a request for a response, and what was made of it.
type responseRequest struct {
	req          *responses.Request
	start        time.Time // of its preparation
	conversation prompt.Conversation
	resp         *responses.Response
	record       *stored.Record // of the response; stored where resp.Store
}

// readResponse decodes a request and makes the conversation of its input and of the
// turns before it.
func (s *Server) readResponse(ctx context.Context, in *intake, counting bool) (*responseRequest, *openai.Error) {
	req, e := responses.Decode(in.body, in.limits, counting)
	if e != nil {
		return nil, e
	}
	model := ""
	if req.Model != nil {
		model = *req.Model
	} else if len(in.view.names) > 0 { // where it may be left out
		model = in.view.names[0]
	}
	if e = s.admits(ctx, in.view, model, req.Cache()); e != nil {
		return nil, e
	}
	stores, e := s.mayStore(req)
	if e != nil {
		return nil, e
	}
	history, e := s.history(ctx, req, in.limits)
	if e != nil {
		return nil, e
	}
	q := &responseRequest{req: req, start: time.Now()}
	if q.conversation, e = responses.Conversation(req.Instructions, history, req.Input, req.Tools); e != nil {
		return nil, e
	}
	q.conversation.Generic = in.view.dialect.Generic()
	if q.conversation.Variables, e = in.view.withWords(nil, some(req.Effort()), some(req.Verbosity())); e != nil {
		return nil, renamed(e, responses.Param)
	}
	rec := recordOf(ctx)
	q.resp = responses.New(req, responses.NewID(responses.PrefixResponse), in.view.names[0], rec.arrived)
	q.resp.Store = stores
	q.record = newRecord(scopeKey(ctx), q.resp, req, rec.arrived)
	return q, nil
}

// newResponse makes the job of a request.
func (s *Server) newResponse(ctx context.Context, in *intake, q *responseRequest) (*job, *openai.Error) {
	req := q.req
	return s.newChat(ctx, in, q.start, &task{stream: req.Stream, conversation: q.conversation, cache: req.Cache(), tools: req.Tools, choice: req.Choice,
		parallel: req.Parallel(), format: req.Format, choices: 1, generate: req.Generate, param: responses.Param})
}

// history is what was said in the turns before a request, the oldest first.
func (s *Server) history(ctx context.Context, req *responses.Request, l openai.Limits) ([]responses.Item, *openai.Error) {
	if req.PreviousID == "" {
		return nil, nil
	}
	ctx, done := context.WithTimeout(ctx, storeTimeout)
	defer done()
	chain, err := s.responses.Chain(ctx, scopeKey(ctx), req.PreviousID, l.Messages)
	var missing *stored.Missing
	switch {
	case errors.As(err, &missing):
		return nil, openai.NewError(openai.CodePrevious, "previous_response_id", "Previous response with id '%s' not found.", printable(missing.ID))
	case errors.Is(err, stored.ErrNotFound):
		return nil, openai.NewError(openai.CodePrevious, "previous_response_id", "Previous response with id '%s' not found.", printable(req.PreviousID))
	case errors.Is(err, stored.ErrTooLong), errors.Is(err, stored.ErrTooLarge):
		return nil, openai.NewError(openai.CodeInvalidValue, "previous_response_id", "previous_response_id cannot be gone on from: %s", err)
	case err != nil:
		return nil, s.unreadable(req.PreviousID, err)
	}
	var items []responses.Item
	for _, r := range chain {
		turn, e := s.turn(r)
		if e != nil {
			return nil, e
		}
		items = append(items, turn...)
		if len(items)+len(req.Input) > l.Messages {
			return nil, openai.NewError(openai.CodeInvalidValue, "previous_response_id", "previous_response_id leads to a conversation of more than %d items with its input: that is the most allowed", l.Messages)
		}
	}
	return items, nil
}

// turn is what was said in one of the turns before.
func (s *Server) turn(r *stored.Record) (items []responses.Item, e *openai.Error) {
	if err := json.Unmarshal(r.Input, &items); err != nil {
		return nil, s.unreadable(r.ID, err)
	}
	resp, err := s.response(r)
	if err != nil {
		return nil, s.unreadable(r.ID, err)
	}
	switch resp.Status {
	case responses.StatusCompleted, responses.StatusIncomplete:
		return append(items, resp.Output...), nil
	}
	return nil, openai.NewError(openai.CodeInvalidValue, "previous_response_id", "previous_response_id leads to the response %s, which is %s: only one that is completed or incomplete can be gone on from", r.ID, resp.Status)
}

// some is nil for "".
func some(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
