package station

import (
	"fmt"
	"math"
	"net/http"
	"slices"

	"thoth/station/engine"
	"thoth/station/wire"
)

// maxInputs bounds the texts of one request, as at OpenAI.
const maxInputs = 2048

// embedding says what vectors the engine gives.
func (l *loop) embedding() engine.Embedding {
	if m, ok := l.eng.(engine.Embedder); ok {
		return m.Embedding()
	}
	return engine.Embedding{Reason: "this engine gives no vectors", NoScores: "this engine gives no scores"}
}

// encoder says whether the model makes vectors and nothing else.
func (l *loop) encoder() bool { return l.embedding().Only }

// embeddings is what /health says of them.
func (l *loop) embeddings() *wire.Embeddings {
	m := l.embedding()
	return &wire.Embeddings{Pooling: m.Pooling, Reason: m.Reason, Dimensions: m.Dimensions, MaxTokens: m.MaxTokens, MaxInputs: maxInputs, Only: m.Only}
}

// generates refuses a route that an encoder cannot serve.
func (l *loop) generates(r *http.Request) *wire.Error {
	if !l.encoder() {
		return nil
	}
	only := "vectors (POST /embed with input)"
	if l.embedding().Scores {
		only = "scores (POST /rerank)"
	}
	return &wire.Error{Code: wire.CodeUnsupported, Param: r.URL.Path,
		Message: r.URL.Path + " is not supported: the model is an encoder and gives only " + only}
}

// vectors is POST /embed with texts.
func (st *Station) vectors(w http.ResponseWriter, r *http.Request, l *loop, q *wire.EmbedRequest) *wire.Error {
	m := l.embedding()
	alone := func(name string) *wire.Error {
		return invalid(name, "%s does not go with input: vectors need no session", name)
	}
	p := q.Prompt
	switch {
	case m.Pooling == "":
		return &wire.Error{Code: wire.CodeUnsupported, Param: "input", Message: "input is not supported: " + m.Reason}
	case q.Input != nil && q.InputTokens != nil:
		return invalid("input_tokens", "the texts are given once: as input or as input_tokens")
	case q.Session != "":
		return alone("session")
	case q.Append:
		return alone("append")
	case p.Text != "" || p.Segments != nil || p.Tokens != nil || p.AddBOS != nil:
		return alone("prompt")
	}
	texts, e := l.texts(q, m)
	if e != nil {
		return e
	}
	done, e := st.texts.make(r.Context(), l, texts)
	if e != nil {
		return e
	}
	a := wire.VectorsResponse{Vectors: done.vectors, Tokens: make([]int, len(texts)), Dimensions: m.Dimensions, Pooling: m.Pooling,
		QueueMS: ms(done.queued, done.started), EngineMS: milliseconds(done.engine)}
	for i, t := range texts {
		a.Tokens[i] = len(t.Tokens)
	}
	for i, v := range a.Vectors {
		if slices.ContainsFunc(v, func(x float32) bool { return math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) }) {
			return &wire.Error{Code: wire.CodeEngine, Message: fmt.Sprintf("the vector of input[%d] is not finite", i)}
		}
	}
	writeJSON(w, http.StatusOK, a)
	return nil
}

// texts makes tokens of a request's texts, with what the model wants around each,
// and refuses those that are empty or too long: none is ever cut.
func (l *loop) texts(q *wire.EmbedRequest, m engine.Embedding) ([]engine.Text, *wire.Error) {
	n, field := len(q.Input), "input"
	if q.Input == nil {
		n, field = len(q.InputTokens), "input_tokens"
	}
	if n < 1 || n > maxInputs {
		return nil, invalid(field, "%s has %d texts; 1 to %d are allowed", field, n, maxInputs)
	}
	out := make([]engine.Text, n)
	for i := range out {
		name := fmt.Sprintf("%s[%d]", field, i)
		var tokens []engine.Token
		if q.Input != nil {
			var err error
			if tokens, err = l.eng.Tokenize(q.Input[i], false); err != nil {
				return nil, invalid(name, "the text cannot be tokenised: %v", err)
			}
		} else {
			tokens = q.InputTokens[i]
			if e := l.checkTokens(name, tokens); e != nil {
				return nil, e
			}
		}
		if q.Input != nil && q.Input[i] == "" || q.Input == nil && len(tokens) == 0 {
			return nil, invalid(name, "%s is empty", name)
		}
		out[i].Tokens = around(tokens, m)
		switch n := len(out[i].Tokens); {
		case n == 0:
			return nil, invalid(name, "%s has no tokens", name)
		case n > m.MaxTokens:
			return nil, &wire.Error{Code: wire.CodeContextLength, Param: name,
				Message: fmt.Sprintf("%s has %d tokens; a text may have at most %d", name, n, m.MaxTokens)}
		}
	}
	return out, nil
}

// around puts what the model wants around a text, where it is not there yet.
func around(tokens []engine.Token, m engine.Embedding) []engine.Token {
	out := make([]engine.Token, 0, len(m.Prefix)+len(tokens)+len(m.Suffix))
	if len(tokens) < len(m.Prefix) || !slices.Equal(tokens[:len(m.Prefix)], m.Prefix) {
		out = append(out, m.Prefix...)
	}
	out = append(out, tokens...)
	if at := len(tokens) - len(m.Suffix); at < 0 || !slices.Equal(tokens[at:], m.Suffix) {
		out = append(out, m.Suffix...)
	}
	return out
}
