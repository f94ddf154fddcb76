package host

import (
	"context"
	"net/http"
	"strings"

	"thoth/host/openai"
	"thoth/station/wire"
)

const routeEmbeddings = "/v1/embeddings"

// embeddings is POST /v1/embeddings.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) { s.answerOnce(w, r, s.embed) }

// embed says all that is wrong with a request before it waits for a place.
func (s *Server) embed(parent context.Context, in *intake) (any, *openai.Error) {
	req, e := openai.DecodeEmbedding(in.body, in.limits)
	if e == nil {
		e = in.view.mayEmbed(req)
	}
	if e != nil {
		return nil, e
	}
	var list *openai.EmbeddingList
	e = s.inTurn(parent, in, func(ctx context.Context) *openai.Error {
		if e := s.roomFor(req.AnswerBytes(in.view.health.Embeddings.Dimensions)); e != nil {
			return e
		}
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
			return s.callError(ctx, err, inputNamed)
		}
		var e *openai.Error
		if list, e = openai.NewEmbeddingList(req, in.view.names[0], got); e == nil {
			recordOf(parent).usage = openai.Usage{PromptTokens: list.Usage.PromptTokens, TotalTokens: list.Usage.TotalTokens}
		}
		return e
	})
	return list, e
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

// inputNamed is the name of what the station says is wrong; its field for tokens is
// input here.
func inputNamed(_ *wire.Error, e *openai.Error) string {
	field, _, found := strings.Cut(e.Message, "] ")
	if !found || !strings.HasPrefix(field, "input") {
		return "input"
	}
	e.Message = strings.Replace(e.Message, "input_tokens", "input", 1)
	return strings.Replace(field, "input_tokens", "input", 1) + "]"
}
