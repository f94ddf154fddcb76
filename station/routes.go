package station

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"thoth/station/wire"
)

func (st *Station) routes() http.Handler {
	r := chi.NewRouter()
	r.NotFound(func(w http.ResponseWriter, q *http.Request) {
		writeError(w, &wire.Error{Code: wire.CodeNoRoute, Message: "there is no route " + q.URL.Path})
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Allow", strings.Join(allowed(r, q.URL.Path), ", "))
		writeError(w, &wire.Error{Code: wire.CodeMethod, Message: q.Method + " is not allowed on " + q.URL.Path})
	})
	r.Get(wire.RouteHealth, st.getHealth)
	r.Get(wire.RouteModel, st.getModel)
	r.Get(wire.RouteStats, st.getStats)
	r.Method(http.MethodGet, wire.RouteMetrics, st.metrics.handler())
	r.Post(wire.RouteTokenize, st.guarded(st.postTokenize))
	r.Post(wire.RouteDetokenize, st.guarded(st.postDetokenize))
	r.Post(wire.RouteGenerate, st.guarded(st.postGenerate))
	r.Post(wire.RouteEmbed, st.guarded(st.postEmbed))
	r.Post(wire.RouteRerank, st.guarded(st.postRerank))
	r.Post(wire.RouteForward, st.guarded(st.postForward))
	r.Post(wire.RouteDecodeNext, st.guarded(st.postDecodeNext))
	if !st.opts.NoKVSession {
		st.kvRoutes(r)
	}
	return r
}

// guarded keeps the engine alive while a handler runs, and writes the error it
// returns; a handler that has written anything returns none.
func (st *Station) guarded(h func(http.ResponseWriter, *http.Request) *wire.Error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !st.gate.enter() {
			writeError(w, errDraining())
			return
		}
		defer st.gate.leave()
		if e := h(w, r); e != nil {
			writeError(w, e)
		}
	}
}

// allowed lists the methods a path answers to.
func allowed(r chi.Router, path string) []string {
	var ms []string
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		if r.Match(chi.NewRouteContext(), m, path) {
			ms = append(ms, m)
		}
	}
	slices.Sort(ms)
	return ms
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the reader may have gone; nothing is left to do
}

func writeError(w http.ResponseWriter, e *wire.Error) {
	if e.Retryable && (e.Status() == http.StatusServiceUnavailable || e.Status() == http.StatusTooManyRequests) {
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, e.Status(), wire.ErrorBody{Error: e})
}
