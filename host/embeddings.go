package host

import (
	"context"
	"net/http"
	"strings"
	"time"

	"thoth/host/openai"
)

const routeEmbeddings = "/v1/embeddings"

// embeddings is POST /v1/embeddings. A request takes one place however many texts
// it has: the station makes them in turns with those of others.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	h := &hold{budget: &s.bodies}
	defer h.release()
	in, e := s.receive(w, r, h)
	var list *openai.EmbeddingList
	if e == nil {
		list, e = s.embed(r.Context(), in)
	}
	if e != nil {
		fail(w, r, e)
		return
	}
	defer func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) }()
	writeSlowly(w, list, s.o.WriteTimeout)
}

// embed says all that is wrong with a request before it waits for a place.
func (s *Server) embed(parent context.Context, in *intake) (*openai.EmbeddingList, *openai.Error) {
	req, e := openai.DecodeEmbedding(in.body, in.limits)
	if e == nil {
		e = in.view.mayEmbed(req)
	}
	if e != nil {
		return nil, e
	}
	var list *openai.EmbeddingList
	e = s.inTurn(parent, in, func(ctx context.Context) *openai.Error {
		got, err := s.o.Station.Vectors(ctx, req.Wire())
		if err != nil {
			if parent.Err() != nil { // the client has gone, and the station has not told what it had made
				spent := &recordOf(parent).spent
				for _, text := range req.Texts {
					spent.PromptTokens += guessed(text)
				}
				for _, tokens := range req.Tokens {
					spent.PromptTokens += len(tokens)
				}
			}
			return s.vectorsError(ctx, err)
		}
		var e *openai.Error
		if list, e = openai.NewEmbeddingList(req, in.view.names[0], got); e == nil {
			recordOf(parent).usage = openai.Usage{PromptTokens: list.Usage.PromptTokens, TotalTokens: list.Usage.TotalTokens}
		}
		return e
	})
	if e != nil {
		return nil, e
	}
	return list, nil
}

// inTurn calls the station for a request that is read and valid, once it has a
// place, and for as long as its client, the station and the server last. It is one
// call whose answer comes at its end: PrefillTimeout bounds it.
func (s *Server) inTurn(parent context.Context, in *intake, call func(context.Context) *openai.Error) *openai.Error {
	rec := recordOf(parent)
	rec.model = in.view.names[0]
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	defer context.AfterFunc(s.hardStop, func() { cancel(context.Cause(s.hardStop)) })()
	defer s.station.bind(cancel)()

	place := s.admission.enter(1)
	if place == nil {
		return openai.NewError(openai.CodeOverloaded, "", "the server is busy: %d requests are waiting already", s.o.MaxBacklog).Retry(s.retryAfter())
	}
	defer place.leave()
	select {
	case <-place.ready:
	case <-ctx.Done():
		return causeOf(ctx)
	}
	in.hold.release()
	rec.queue = time.Since(rec.arrived)
	silence := time.AfterFunc(s.o.PrefillTimeout, func() {
		s.station.suspect()
		cancel(openai.NewError(openai.CodeTimeout, "", "the station sent nothing for %s", s.o.PrefillTimeout).Retry(5 * time.Second))
	})
	defer silence.Stop()
	return call(ctx)
}

// mayEmbed is the answer to a request that the model cannot serve, nil for one it can.
func (v *view) mayEmbed(req *openai.EmbeddingRequest) *openai.Error {
	if e := v.mayAsk(req.Model); e != nil {
		return e
	}
	m := v.health.Embeddings
	switch {
	case m == nil:
		return openai.NewError(openai.CodeUnsupported, "model", "the model %q gives no embeddings: its station is older than they are", *req.Model)
	case m.Pooling == "":
		return openai.NewError(openai.CodeUnsupported, "model", "the model %q gives no embeddings: %s", *req.Model, m.Reason)
	case req.Dimensions != nil && *req.Dimensions > openai.Int(m.Dimensions):
		return openai.NewError(openai.CodeInvalidValue, "dimensions", "dimensions is %d: this model's vectors have %d", *req.Dimensions, m.Dimensions)
	}
	return nil
}

// mayWrite is the answer to a request for text of a model that gives vectors or
// scores only.
func (v *view) mayWrite(model string) *openai.Error {
	if v.health == nil || v.health.Embeddings == nil || !v.health.Embeddings.Only {
		return nil
	}
	if r := v.health.Rerank; r != nil && r.Scores {
		return openai.NewError(openai.CodeUnsupported, "model", "the model %q ranks documents and writes no text: POST /v1/rerank", model)
	}
	return openai.NewError(openai.CodeUnsupported, "model", "the model %q makes embeddings and no text: POST /v1/embeddings", model)
}

// vectorsError words the station's error; its field for tokens is input here.
func (s *Server) vectorsError(ctx context.Context, err error) *openai.Error {
	if ctx.Err() != nil {
		return causeOf(ctx)
	}
	e := openai.FromWire(err)
	if e.Code == openai.CodeUnavailable {
		s.station.suspect()
	}
	if e.Status() == http.StatusBadRequest {
		param := "input"
		if field, _, found := strings.Cut(e.Message, "] "); found && strings.HasPrefix(field, "input") {
			e.Message = strings.Replace(e.Message, "input_tokens", "input", 1)
			param = strings.Replace(field, "input_tokens", "input", 1) + "]"
		}
		e.Param = &param
	}
	return e
}
