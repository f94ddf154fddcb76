package host

import (
	"context"
	"net/http"
	"time"

	"thoth/host/openai"
	"thoth/host/prompt"
	"thoth/host/responses"
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
	var first []byte // the response as it began
	s.serve(w, r, openai.WriteError, func(in *intake) (*job, sink, *openai.Error) {
		q, e := s.readResponse(r.Context(), in, false)
		if e != nil {
			return nil, nil, e
		}
		if q.req.Background {
			background, first, e = s.startBackground(r, in, q)
			return nil, nil, e
		}
		if e = s.fits(r.Context(), q); e != nil {
			return nil, nil, e
		}
		j, e := s.newResponse(r.Context(), in, q)
		if e != nil {
			return nil, nil, e
		}
		keep := func(*responses.Response) []byte { return nil }
		if q.resp.Store {
			keep = s.keep(r.Context(), q)
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
		s.sendRaw(w, first)
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
		if len(q.conversation.Messages)+len(q.conversation.Tools) == 0 {
			return responses.NewCount(0), nil // templates have no form for it
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
	resp         *responses.Response // it is stored where it says so
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
	stores, e := s.mayStore(req, counting)
	if e != nil {
		return nil, e
	}
	history, e := s.recall(ctx, in, req)
	if e != nil {
		return nil, e
	}
	q := &responseRequest{req: req, start: time.Now()}
	if q.conversation, e = responses.Conversation(req.Instructions, history, req.Input, req.Tools); e != nil {
		return nil, e
	}
	if e = q.suit(in.view); e != nil {
		return nil, e
	}
	rec := recordOf(ctx)
	q.resp = responses.New(req, responses.NewID(responses.PrefixResponse), in.view.names[0], rec.arrived)
	q.resp.Store = stores
	return q, nil
}

// suit makes the conversation one for the model of a view.
func (q *responseRequest) suit(v *view) *openai.Error {
	q.conversation.Generic = v.dialect.Generic()
	words, e := v.words(some(q.req.Effort()), some(q.req.Verbosity()))
	if e != nil {
		return renamed(e, responses.Param)
	}
	q.conversation.Variables = withWords(nil, words)
	return nil
}

// newResponse makes the job of a request.
func (s *Server) newResponse(ctx context.Context, in *intake, q *responseRequest) (*job, *openai.Error) {
	req := q.req
	return s.newChat(ctx, in, q.start, &task{stream: req.Stream, conversation: q.conversation, cache: req.Cache(), tools: req.Tools, choice: req.Choice,
		parallel: req.Parallel(), format: req.Format, choices: 1, generate: req.Generate, param: responses.Param})
}

// some is nil for "".
func some(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
