package host

import (
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"

	"thoth/host/openai"
)

const modelOwner = "thoth"

// listModels is GET /v1/models, from memory. Before the station has told its
// model only the names of the setting are known.
func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) {
	v := s.station.current()
	list := openai.ModelList{Object: "list", Data: []openai.Model{}}
	for _, n := range v.names {
		list.Data = append(list.Data, s.model(v, n))
	}
	writeJSON(w, http.StatusOK, list)
}

// getModel is GET /v1/models/{id}; the id may hold slashes, escaped or not.
func (s *Server) getModel(w http.ResponseWriter, r *http.Request) {
	v := s.station.current()
	id := chi.URLParam(r, "*")
	if plain, err := url.PathUnescape(id); err == nil {
		id = plain
	}
	if !v.serves(id) {
		fail(w, r, v.notFound(id))
		return
	}
	writeJSON(w, http.StatusOK, s.model(v, id))
}

func (s *Server) model(v *view, name string) openai.Model {
	created := s.started
	if !v.loaded.IsZero() {
		created = v.loaded
	}
	return openai.Model{ID: name, Object: "model", Created: created.Truncate(time.Second).Unix(), OwnedBy: modelOwner}
}
