package host

import (
	"context"
	"net/http"
	"slices"
	"strings"

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

// rerank is POST /v1/rerank.
func (s *Server) rerank(w http.ResponseWriter, r *http.Request) { s.answerOnce(w, r, s.rank) }

func (s *Server) rank(parent context.Context, in *intake) (any, *openai.Error) {
	req, e := openai.DecodeRerank(in.body, in.limits)
	if e == nil {
		e = in.view.mayRank(req)
	}
	if e != nil {
		return nil, e
	}
	var list *openai.RerankList
	e = s.inTurn(parent, in, func(ctx context.Context) *openai.Error {
		if e := s.roomFor(req.AnswerBytes()); e != nil {
			return e
		}
		got, err := s.o.Station.Rerank(ctx, req.Wire())
		if err != nil {
			if parent.Err() != nil { // as for embeddings
				for _, text := range req.Texts {
					recordOf(parent).spent.PromptTokens += guessed(*req.Query) + guessed(text)
				}
			}
			return s.callError(ctx, err, pairNamed)
		}
		list = openai.NewRerankList(req, in.view.names[0], got)
		recordOf(parent).usage = openai.Usage{PromptTokens: list.Usage.PromptTokens, TotalTokens: list.Usage.TotalTokens}
		return nil
	})
	return list, e
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

// pairNamed is the name of what the station says is wrong, which it has here, too.
func pairNamed(we *wire.Error, e *openai.Error) string {
	if we.Param == "query" || strings.HasPrefix(we.Param, "documents") {
		return we.Param
	}
	return ""
}
