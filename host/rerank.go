package host

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"thoth/host/openai"
	"thoth/station/wire"
)

// routesRerank are the names that clients of Jina, Cohere, vLLM and llama-server
// know the route by.
var routesRerank = []string{"/v1/rerank", "/v2/rerank", "/v1/reranking", "/rerank", "/reranking"}

// writesNothing tells the routes of requests whose answer is no text of the model.
func writesNothing(route string) bool {
	return route == routeEmbeddings || slices.Contains(routesRerank, route)
}

// rerank is POST /v1/rerank. As with embeddings, a request takes one place however
// many documents it has.
func (s *Server) rerank(w http.ResponseWriter, r *http.Request) {
	h := &hold{budget: &s.bodies}
	defer h.release()
	in, e := s.receive(w, r, h)
	var list *openai.RerankList
	if e == nil {
		list, e = s.rank(r.Context(), in)
	}
	if e != nil {
		fail(w, r, e)
		return
	}
	defer func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) }()
	writeSlowly(w, list, s.o.WriteTimeout)
}

func (s *Server) rank(parent context.Context, in *intake) (*openai.RerankList, *openai.Error) {
	req, e := openai.DecodeRerank(in.body, in.limits)
	if e == nil {
		e = in.view.mayRank(req)
	}
	if e != nil {
		return nil, e
	}
	var list *openai.RerankList
	e = s.inTurn(parent, in, func(ctx context.Context) *openai.Error {
		got, err := s.o.Station.Rerank(ctx, req.Wire())
		if err != nil {
			if parent.Err() != nil { // as for embeddings
				for _, text := range req.Texts {
					recordOf(parent).spent.PromptTokens += guessed(*req.Query) + guessed(text)
				}
			}
			return s.rankError(ctx, err)
		}
		list = openai.NewRerankList(req, in.view.names[0], got)
		recordOf(parent).usage = openai.Usage{PromptTokens: list.Usage.PromptTokens, TotalTokens: list.Usage.TotalTokens}
		return nil
	})
	if e != nil {
		return nil, e
	}
	return list, nil
}

// mayRank is the answer to a request that the model cannot serve, nil for one it can.
func (v *view) mayRank(req *openai.RerankRequest) *openai.Error {
	if e := v.mayAsk(req.Model); e != nil {
		return e
	}
	m := v.health.Rerank
	switch {
	case m == nil:
		return openai.NewError(openai.CodeUnsupported, "model", "the model %q cannot rank documents: its station is older than that", *req.Model)
	case !m.Scores:
		return openai.NewError(openai.CodeUnsupported, "model", "the model %q cannot rank documents: %s", *req.Model, m.Reason)
	case len(req.Texts) > m.MaxDocuments:
		return openai.NewError(openai.CodeInvalidValue, "documents", "documents has %d elements: %d are allowed", len(req.Texts), m.MaxDocuments)
	}
	return nil
}

// rankError words the station's error, whose fields have the names they have here.
func (s *Server) rankError(ctx context.Context, err error) *openai.Error {
	if ctx.Err() != nil {
		return causeOf(ctx)
	}
	e := openai.FromWire(err)
	if e.Code == openai.CodeUnavailable {
		s.station.suspect()
	}
	var we *wire.Error
	if errors.As(err, &we) && e.Status() == http.StatusBadRequest && (we.Param == "query" || strings.HasPrefix(we.Param, "documents")) {
		e.Param = &we.Param
	}
	return e
}
