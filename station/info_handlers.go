package station

import (
	"net/http"

	"thoth/station/wire"
)

// Handlers that only look.

func (st *Station) getHealth(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, st.health())
}

func (st *Station) getModel(w http.ResponseWriter, _ *http.Request) {
	l, e := st.serving()
	if e != nil {
		writeError(w, e)
		return
	}
	writeJSON(w, http.StatusOK, st.model(l))
}

func (st *Station) getStats(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, st.stats())
}

func (st *Station) postTokenize(w http.ResponseWriter, r *http.Request) *wire.Error {
	var q wire.TokenizeRequest
	l, e := st.open(w, r, &q)
	if e != nil {
		return e
	}
	tokens, e := l.tokenize(&q.Prompt, false)
	if e != nil {
		return e
	}
	a := wire.TokenizeResponse{Tokens: tokens}
	if a.Tokens == nil {
		a.Tokens = []int32{}
	}
	if q.Pieces {
		a.Pieces = make([][]byte, len(tokens))
		for i, t := range tokens {
			a.Pieces[i] = l.eng.Piece(t, true)
		}
	}
	writeJSON(w, http.StatusOK, a)
	return nil
}

func (st *Station) postDetokenize(w http.ResponseWriter, r *http.Request) *wire.Error {
	var q wire.DetokenizeRequest
	l, e := st.open(w, r, &q)
	if e == nil {
		e = l.checkTokens("tokens", q.Tokens)
	}
	if e != nil {
		return e
	}
	var raw []byte
	for _, t := range q.Tokens {
		raw = append(raw, l.eng.Piece(t, q.Special)...)
	}
	writeJSON(w, http.StatusOK, wire.DetokenizeResponse{Text: string(appendValid(nil, raw))})
	return nil
}

// open is the start of every POST: a serving loop and a decoded body.
func (st *Station) open(w http.ResponseWriter, r *http.Request, body any) (*loop, *wire.Error) {
	l, e := st.serving()
	if e != nil {
		return nil, e
	}
	return l, decodeBody(w, r, st.opts.MaxBodyBytes, body)
}
