package host

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"thoth/host/openai"
)

// The routes that need no API key, for probes.
var openRoutes = map[string]bool{"/health": true, "/livez": true, "/readyz": true}

func (s *Server) routes() http.Handler {
	r := chi.NewRouter()
	r.Use(s.observe, s.limitBody)
	if len(s.o.CORSOrigins) > 0 {
		r.Use(allowOrigins(s.o.CORSOrigins))
	}
	r.Use(s.authenticate, middleware.GetHead)

	model := r.With(s.inference)
	model.Post("/v1/chat/completions", s.chat)
	model.Post("/v1/completions", s.completions)
	model.Post(routeMessages, s.messages)
	model.Post(routeMessages+"/count_tokens", s.countTokens)
	model.Post(routeResponses, s.createResponse)
	model.Post(routeInputTokens, s.countResponse)
	model.Post(routeEmbeddings, s.embeddings)
	for _, path := range routesRerank {
		model.Post(path, s.rerank)
	}
	model.Post("/tokenize", s.tokenize)
	model.Post("/detokenize", s.detokenize)
	model.Post("/apply-template", s.applyTemplate)
	r.Get("/v1/models", s.listModels)
	r.Get("/v1/models/*", s.getModel) // a name may hold slashes

	// These ask the model for nothing: a key's limits are not in their way.
	r.With(namesResponse).Get(routeResponse, s.getResponse)
	r.With(namesResponse).Delete(routeResponse, s.deleteResponse)
	r.Post(routeResponse+"/cancel", s.cancelResponse)
	r.Get(routeResponse+"/input_items", s.listInput)

	r.Get("/health", s.health)
	r.Get("/livez", s.livez)
	r.Get("/readyz", s.readyz)
	r.Get("/stats", s.stats)
	r.Get("/metrics", s.getMetrics())
	r.Get("/openapi.json", s.getOpenAPI)

	admin := r.With(s.admins)
	admin.Get("/liquid", s.getLiquid)
	admin.Delete("/liquid", s.deleteLiquid)

	r.NotFound(func(w http.ResponseWriter, req *http.Request) {
		fail(w, req, openai.NewError(openai.CodeNotFound, "", "there is no %s here", printable(req.URL.Path)))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		notAllowed(w, req, allowed(r, req.URL.Path))
	})
	return r
}

// notAllowed is the answer to a method that a path does not have.
func notAllowed(w http.ResponseWriter, r *http.Request, allow string) {
	e := openai.NewError(openai.CodeMethod, "", "%s is not allowed on %s", printable(r.Method), printable(r.URL.Path))
	e.Allow = allow
	fail(w, r, e)
}
