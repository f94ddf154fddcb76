package station

import (
	"context"
	"fmt"
	"math"
	"net/http"

	"thoth/station/engine"
	"thoth/station/wire"
)

// reranks is what /health says of scores.
func (l *loop) reranks() *wire.Rerank {
	m := l.embedding()
	if !m.Scores {
		return &wire.Rerank{Reason: m.NoScores}
	}
	return &wire.Rerank{Scores: true, MaxTokens: m.MaxTokens, MaxDocuments: maxInputs}
}

// postRerank is POST /rerank: the documents' scores, by the queue that also has
// vectors made.
func (st *Station) postRerank(w http.ResponseWriter, r *http.Request) *wire.Error {
	var q wire.RerankRequest
	l, e := st.openCall(w, r, &q, &q.Later)
	if e != nil {
		return e
	}
	m := l.embedding()
	if !m.Scores {
		return &wire.Error{Code: wire.CodeUnsupported, Param: r.URL.Path, Message: r.URL.Path + " is not supported: " + m.NoScores}
	}
	texts, e := l.pairs(r.Context(), &q, m)
	if e != nil {
		return e
	}
	done, e := st.texts.make(r.Context(), l, texts)
	if e != nil {
		return e
	}
	a := wire.RerankResponse{Scores: make([]float64, len(texts)), Tokens: make([]int, len(texts)),
		QueueMS: ms(done.queued, done.started), EngineMS: milliseconds(done.engine)}
	for i, t := range texts {
		a.Tokens[i], a.Scores[i] = len(t.Tokens), float64(done.vectors[i][0])
		if math.IsNaN(a.Scores[i]) || math.IsInf(a.Scores[i], 0) {
			return &wire.Error{Code: wire.CodeEngine, Message: fmt.Sprintf("the score of documents[%d] is not finite", i)}
		}
	}
	writeJSON(w, http.StatusOK, a)
	return nil
}

// pairsAtOnce is how many pairs are made before they are judged. The first is made
// alone: a query of megabytes must not be laid out with others to be refused.
const pairsAtOnce = 32

// pairs lays out the query with each document, and refuses a pair that is too
// long: none is ever cut.
func (l *loop) pairs(ctx context.Context, q *wire.RerankRequest, m engine.Embedding) ([]engine.Text, *wire.Error) {
	switch n := len(q.Documents); {
	case q.Query == "":
		return nil, invalid("query", "query is empty")
	case n < 1 || n > maxInputs:
		return nil, invalid("documents", "documents has %d texts; 1 to %d are allowed", n, maxInputs)
	}
	for i, d := range q.Documents {
		if d == "" {
			name := fmt.Sprintf("documents[%d]", i)
			return nil, invalid(name, "%s is empty", name)
		}
	}
	eng := l.eng.(engine.Embedder)
	texts := make([]engine.Text, 0, len(q.Documents))
	for at := 1; len(texts) < len(q.Documents); at += pairsAtOnce {
		if ctx.Err() != nil {
			return nil, &wire.Error{Code: wire.CodeCancelled, Message: "the caller went away"}
		}
		pairs, err := eng.Pairs(q.Query, q.Documents[len(texts):min(at, len(q.Documents))])
		if err != nil {
			return nil, invalid("documents", "the texts cannot be tokenised: %v", err)
		}
		for i, t := range pairs {
			if len(t.Tokens) > m.MaxTokens {
				return nil, tooLong(eng, q.Query, len(texts)+i, len(t.Tokens), m.MaxTokens)
			}
		}
		texts = append(texts, pairs...)
	}
	return texts, nil
}

// tooLong says which text of a pair of n tokens is too long: the query is, when it
// leaves no room for any document.
func tooLong(eng engine.Embedder, query string, document, n, most int) *wire.Error {
	name, with := fmt.Sprintf("documents[%d]", document), "the query and what stands around both"
	if alone, err := eng.Pairs(query, []string{""}); err == nil && len(alone[0].Tokens) >= most {
		name, with, n = "query", "what stands around it and no document yet", len(alone[0].Tokens)
	}
	return &wire.Error{Code: wire.CodeContextLength, Param: name,
		Message: fmt.Sprintf("%s has %d tokens with %s; a pair may have at most %d", name, n, with, most)}
}
