package host

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"thoth/host/anthropic"
	"thoth/host/openai"
	"thoth/host/openapi"
	"thoth/host/responses"
)

// docs is the OpenAPI document, made anew when the served names change: it lists
// what model may be.
type docs struct {
	mu    sync.Mutex
	names []string
	body  []byte
}

// getOpenAPI is GET /openapi.json.
func (s *Server) getOpenAPI(w http.ResponseWriter, _ *http.Request) {
	s.docs.mu.Lock()
	names := s.station.current().names
	if s.docs.body == nil || !slices.Equal(names, s.docs.names) {
		body, err := s.document(names).Build()
		if err != nil {
			s.docs.mu.Unlock()
			panic(err) // a fault of the table; a test builds it
		}
		s.docs.names, s.docs.body = names, body
	}
	body := s.docs.body
	s.docs.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(body)
}

// Sets of errors that operations have in common.
var (
	errorsOfKeys  = []int{401}
	errorsOfAdmin = []int{401, 403}
	errorsOfBody  = []int{400, 401, 403, 404, 408, 413, 415, 429, 500, 503, 504}
)

// document is the public surface. Every route stands in it: a test compares.
func (s *Server) document(names []string) *openapi.Document {
	modelName := openapi.Schema{"type": "string", "description": "A served name; GET /v1/models lists them."}
	if len(names) > 0 {
		modelName["enum"] = names
	}
	types := s.types(modelName)
	named := []openapi.Parameter{{Name: "model", In: "path", Note: "A served name; it may hold slashes.", Schema: modelName}}
	bypass := openapi.Parameter{Name: headerBypass, In: "header", Note: "off: reuse nothing of earlier prompts and store nothing.",
		Schema: openapi.Schema{"type": "string", "enum": []string{"on", "off"}, "default": "on"}}
	probe := func(path, id, summary string, answer any, errs ...int) openapi.Operation {
		return openapi.Operation{Method: http.MethodGet, Path: path, ID: id, Tag: "server", Open: true, Summary: summary, Answer: answer, Errors: errs}
	}
	number := func(path, id, summary string, answer any, also map[string]any) openapi.Operation {
		return openapi.Operation{Method: http.MethodGet, Path: path, ID: id, Tag: "server", Summary: summary, Answer: answer, Also: also, Errors: errorsOfKeys}
	}
	ask := func(path, id, tag, summary string, body, answer any) openapi.Operation {
		return openapi.Operation{Method: http.MethodPost, Path: path, ID: id, Tag: tag, Scope: string(ScopeInference), Summary: summary,
			Body: body, Answer: answer, Headers: headersOfLimits, Errors: errorsOfBody}
	}
	chat := ask("/v1/chat/completions", "createChatCompletion", "chat", "A chat, whole or streamed", openai.ChatRequest{}, openai.Completion{})
	chat.Parameters = []openapi.Parameter{bypass}
	chat.Note = "With stream true the answer is an event stream: data lines with chat.completion.chunk objects, then [DONE]."
	chat.Also = map[string]any{"text/event-stream": eventStream}
	chat.Headers = append(slices.Clone(headersOfLimits), headerPath, headerLiquid, headerLiquidSaved, headerLiquidReason, headerLiquidTokens)

	template := ask("/apply-template", "applyTemplate", "text", "The text a chat with this body would send", templateRequest{}, openai.AppliedTemplate{})
	template.Note = "The body is that of a chat; model may be left out."

	drop := openapi.Operation{Method: http.MethodDelete, Path: "/liquid", ID: "deleteLiquid", Tag: "liquid memory", Scope: string(ScopeAdmin),
		Summary: "Delete stored prefixes", Note: "Takes exactly one of the parameters.", Answer: liquidDeleted{}, Errors: append([]int{400, 500, 503, 504}, errorsOfAdmin...)}
	for _, p := range []openapi.Parameter{
		{Name: "all", Note: "Everything.", Schema: openapi.Schema{"type": "string", "enum": []string{"true"}}},
		{Name: "key", Note: "What was stored under this prompt_cache_key.", Schema: openapi.Schema{"type": "string", "minLength": 1}},
		{Name: "scope", Note: "What one scope stored; empty is the common one.", Schema: openapi.Schema{"type": "string"}},
	} {
		p.In = "query"
		drop.Parameters = append(drop.Parameters, p)
	}

	return &openapi.Document{
		Title: "thoth", Version: version(s.o.Build), Keys: s.keys.used(),
		Note: "Chat with the model of this server, by the API of OpenAI. docs/http-api.md tells more.",
		Tags: []openapi.Tag{{Name: "chat", Note: "Ask the model."}, {Name: "completions", Note: "Text goes on."}, {Name: "messages", Note: "Ask the model, by the API of Anthropic."}, {Name: "responses", Note: "Ask the model by OpenAI's Responses API."}, {Name: "embeddings", Note: "Vectors of texts."}, {Name: "rerank", Note: "Which documents fit a query."}, {Name: "models", Note: "What is served."}, {Name: "text", Note: "Tokens and prompts."},
			{Name: "server", Note: "State and numbers."}, {Name: "liquid memory", Note: "What is stored of prompts."}},
		Operations: append([]openapi.Operation{
			chat,
			completionOperation(bypass),
			messageOperations(bypass)[0],
			messageOperations(bypass)[1],
			{Method: http.MethodGet, Path: "/v1/models", ID: "listModels", Tag: "models", Summary: "The served names", Answer: openai.ModelList{}, Errors: errorsOfKeys},
			{Method: http.MethodGet, Path: "/v1/models/{model}", ID: "getModel", Tag: "models", Summary: "One served name", Parameters: named,
				Answer: openai.Model{}, Errors: append([]int{404}, errorsOfKeys...)},
			ask(routeEmbeddings, "createEmbedding", "embeddings", "Vectors of texts", openai.EmbeddingRequest{}, openai.EmbeddingList{}),
			ask("/tokenize", "tokenize", "text", "The tokens of a text", openai.TokenizeRequest{}, openai.TokenList{}),
			ask("/detokenize", "detokenize", "text", "The text of tokens", openai.DetokenizeRequest{}, openai.Detokenized{}),
			template,
			probe("/livez", "livez", "Whether the process lives", statusAnswer{}),
			probe("/readyz", "readyz", "Whether a chat would be taken", statusAnswer{}, 503),
			probe("/health", "health", "What runs here; 200 also when it does not serve", serverInfo{}),
			number("/stats", "stats", "Numbers for people", hostStats{}, nil),
			number("/metrics", "metrics", "Numbers for Prometheus", nil, map[string]any{"text/plain": openapi.Schema{"type": "string"}}),
			number("/openapi.json", "openapi", "This document", openapi.Schema{"type": "object"}, nil),
			{Method: http.MethodGet, Path: "/liquid", ID: "getLiquid", Tag: "liquid memory", Scope: string(ScopeAdmin), Summary: "What is stored, in numbers",
				Answer: liquidReport{}, Errors: append([]int{500, 503, 504}, errorsOfAdmin...)},
			drop,
		}, slices.Concat(responseOperations(bypass), rerankOperations(ask))...),
		Types:        types,
		Forms:        forms,
		Error:        openai.Envelope{},
		Errors:       errorNotes(),
		Headers:      headerNotes,
		ErrorHeaders: map[int][]string{401: {"WWW-Authenticate"}, 429: append([]string{"Retry-After"}, headersOfLimits...), 503: {"Retry-After"}, anthropic.StatusOverloaded: {"Retry-After"}, 504: {"Retry-After"}},
	}
}

// eventStream is a stream, or one event of it: validators read it either way.
var eventStream = openapi.Schema{"type": []string{"string", "object"}, "properties": openapi.Schema{
	"data": openapi.Schema{"type": "string", "description": "A chat.completion.chunk object or an error as JSON, or [DONE]."}}}

// templateRequest is a chat request whose model may be left out.
type templateRequest struct{ openai.ChatRequest }

// statusAnswer answers the probes.
type statusAnswer struct {
	Status string `json:"status"`
}

// version is the build; a document must have one.
func version(build string) string {
	if build == "" {
		return "unknown"
	}
	return build
}

// errorNotes lists the codes of each status.
func errorNotes() map[int]string {
	notes := map[int]string{}
	for _, status := range []int{400, 401, 403, 404, 405, 408, 413, 415, 429, 500, 503, 504} {
		var codes []string
		for _, c := range openai.Codes(status) {
			codes = append(codes, string(c))
		}
		notes[status] = http.StatusText(status) + ": " + strings.Join(codes, ", ")
	}
	notes[anthropic.StatusOverloaded] = "Overloaded"
	return notes
}

var headersOfLimits = []string{headerLimit + "Requests", headerRemaining + "Requests", headerReset + "Requests",
	headerLimit + "Tokens", headerRemaining + "Tokens", headerReset + "Tokens"}

var headerNotes = map[string]openapi.Schema{
	headerLimit + "Requests":     {"type": "integer", "description": "Requests per minute of this key; only where it has a limit."},
	headerRemaining + "Requests": {"type": "integer", "minimum": 0, "description": "Requests that are left."},
	headerReset + "Requests":     {"type": "string", "description": "Time until all are there again, such as 1m30s."},
	headerLimit + "Tokens":       {"type": "integer", "description": "Tokens per minute of this key; only where it has a limit."},
	headerRemaining + "Tokens":   {"type": "integer", "minimum": 0, "description": "Tokens that are left."},
	headerReset + "Tokens":       {"type": "string", "description": "Time until all are there again."},
	"Retry-After":                {"type": "integer", "minimum": 0, "description": "Seconds after which to try again."},
	"WWW-Authenticate":           {"type": "string"},
	headerPath:                   {"type": "string", "enum": []string{"liquid", "native"}},
	headerLiquid:                 {"type": "string", "enum": []string{"hit", "miss", "capture_failed", "disabled", "bypass"}},
	headerLiquidSaved:            {"type": "string", "enum": []string{"true", "false"}},
	headerLiquidReason:           {"type": "string"},
	headerLiquidTokens:           {"type": "integer", "minimum": 0},
}

// forms are the types that read or write themselves.
var forms = map[reflect.Type]openapi.Schema{
	reflect.TypeFor[openai.EmbeddingVector](): {"anyOf": []openapi.Schema{{"type": "array", "items": openapi.Schema{"type": "number"}}, {"type": "string", "contentEncoding": "base64"}}},
	reflect.TypeFor[responses.Item]():         outputItem,
	reflect.TypeFor[openai.Int]():             {"type": "integer"},
	reflect.TypeFor[openai.Stop]():            {"anyOf": []openapi.Schema{{"type": "string", "minLength": 1}, {"type": "array", "items": openapi.Schema{"type": "string", "minLength": 1}}, {"type": "null"}}},
	reflect.TypeFor[openai.Arguments]():       {"type": "string", "description": "A JSON object as text.", "examples": []string{"{}"}},
	reflect.TypeFor[openai.Content]():         content,
	reflect.TypeFor[openai.Prompts]():         {},
	reflect.TypeFor[openai.Token](): {"anyOf": []openapi.Schema{{"type": "integer"}, {"type": "object", "required": []string{"id", "piece"}, "properties": openapi.Schema{
		"id": openapi.Schema{"type": "integer"}, "piece": openapi.Schema{"anyOf": []openapi.Schema{{"type": "string"}, {"type": "array", "items": openapi.Schema{"type": "integer", "minimum": 0, "maximum": 255}}}}}}}},
}
