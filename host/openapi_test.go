package host

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"thoth/host/openai"
	"thoth/station/wire"
)

// readDocument loads what the server says of itself, and checks it.
func readDocument(t *testing.T, h *testHost, header ...string) *openapi3.T {
	t.Helper()
	r := h.get("/openapi.json", header...)
	require.Equal(t, 200, r.status, r.body)
	doc, err := openapi3.NewLoader().LoadFromData([]byte(r.body))
	require.NoError(t, err)
	require.NoError(t, doc.Validate(context.Background(), openapi3.EnableExamplesValidation()))
	return doc
}

func TestOpenAPI_IsValidAndSaysWhatIsServed(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.Aliases = []string{"an-alias"}; o.Limits = openai.Limits{Stops: 3, Choices: 5} })
	doc := readDocument(t, h)
	require.Equal(t, "3.1.0", doc.OpenAPI)
	require.Equal(t, "test", doc.Info.Version)
	require.Nil(t, doc.Components.SecuritySchemes, "no key is asked for")
	chat := doc.Components.Schemas["ChatRequest"].Value
	require.Equal(t, []string{"messages", "model"}, chat.Required)
	require.Equal(t, []any{model, "an-alias"}, chat.Properties["model"].Value.Enum)
	require.Equal(t, 5., *chat.Properties["n"].Value.Max, "limits are those of the settings")
	require.NotContains(t, chat.Properties, "functions", "what is refused is not offered")

	keyed := readDocument(t, newHost(t, f, limited), "Authorization", "Bearer k-free")
	require.Len(t, keyed.Components.SecuritySchemes, 2)
	require.Nil(t, keyed.Paths.Find("/livez").Get.Security)
	require.NotNil(t, keyed.Paths.Find("/stats").Get.Security)
}

func TestOpenAPI_FollowsTheServedNames(t *testing.T) {
	f := newFakeStation(t)
	f.health.Status = wire.StatusLoading
	h := startHost(t, f.srv.URL)
	require.Empty(t, readDocument(t, h).Components.Schemas["ChatRequest"].Value.Properties["model"].Value.Enum, "no name is known yet")
	f.set(func(f *fakeStation) { f.health.Status = wire.StatusOK })
	h.await(200)
	require.NotEmpty(t, readDocument(t, h).Components.Schemas["ChatRequest"].Value.Properties["model"].Value.Enum)
}

func TestOpenAPI_HasExactlyTheRoutes(t *testing.T) {
	h := newHost(t, newFakeStation(t))
	var routes, documented []string
	require.NoError(t, chi.Walk(h.Server.http.Handler.(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		routes = append(routes, method+" "+strings.Replace(route, "/*", "/{model}", 1))
		return nil
	}))
	for path, item := range readDocument(t, h).Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	require.ElementsMatch(t, routes, documented, "give every route its place in Server.document")
}

// answersOf asks for something of each operation, good and bad.
var answersOf = []struct{ method, path, body string }{
	{"GET", "/v1/models", ""}, {"GET", "/v1/models/" + model, ""}, {"GET", "/v1/models/none", ""},
	{"GET", "/health", ""}, {"GET", "/livez", ""}, {"GET", "/readyz", ""}, {"GET", "/stats", ""}, {"GET", "/metrics", ""},
	{"GET", "/openapi.json", ""}, {"GET", "/liquid", ""}, {"DELETE", "/liquid", ""}, {"DELETE", "/liquid?all=true", ""},
	{"POST", "/v1/chat/completions", body()}, {"POST", "/v1/chat/completions", body(`"n":2,"logprobs":true,"top_logprobs":1`)},
	{"POST", "/v1/chat/completions", body(`"stream":true`)}, {"POST", "/v1/chat/completions", "{}"},
	{"POST", "/v1/completions", `{"model":"` + model + `","prompt":"a","logprobs":1}`}, {"POST", "/v1/completions", `{"model":"` + model + `","prompt":["a","b"],"stream":true}`}, {"POST", "/v1/completions", "{}"},
	{"POST", "/v1/messages", `{"model":"` + model + `","messages":[{"role":"user","content":"a"}],"max_tokens":3}`}, {"POST", "/v1/messages", "{}"},
	{"POST", "/v1/messages", `{"model":"` + model + `","messages":[{"role":"user","content":"a"}],"max_tokens":3,"stream":true}`},
	{"POST", "/v1/messages/count_tokens", `{"model":"` + model + `","messages":[{"role":"user","content":"a"}]}`}, {"POST", "/v1/messages/count_tokens", "{}"},
	{"POST", "/v1/embeddings", `{"model":"` + model + `","input":["a","b"]}`}, {"POST", "/v1/embeddings", `{"model":"` + model + `","input":"a","encoding_format":"base64"}`},
	{"POST", "/v1/embeddings", `{"model":"` + model + `","input":[]}`},
	{"POST", "/v1/rerank", `{"model":"` + model + `","query":"q","documents":["a",{"text":"b"}],"return_documents":true}`}, {"POST", "/v2/rerank", `{}`}, {"POST", "/v1/reranking", `{}`},
	{"POST", "/rerank", `{"model":"` + model + `","query":"q","documents":["a"],"raw_scores":true}`}, {"POST", "/reranking", `{}`},
	{"POST", "/v1/responses", `{"model":"` + model + `","input":"a","include":["message.output_text.logprobs"],"top_logprobs":1,"tools":[{"type":"function","name":"f"}],"tool_choice":"none"}`},
	{"POST", "/v1/responses", `{"model":"` + model + `","input":"a","stream":true}`}, {"POST", "/v1/responses", `{"model":"` + model + `","input":"a","background":true}`}, {"POST", "/v1/responses", "{}"},
	{"POST", "/v1/responses/input_tokens", `{"input":"a"}`}, {"POST", "/v1/responses/input_tokens", `{}`},
	{"GET", "/v1/responses/STORED", ""}, {"GET", "/v1/responses/STORED?stream=true", ""}, {"GET", "/v1/responses/STORED?stream=x", ""}, {"GET", "/v1/responses/none", ""},
	{"GET", "/v1/responses/STORED/input_items", ""}, {"GET", "/v1/responses/STORED/input_items?limit=0", ""}, {"GET", "/v1/responses/none/input_items", ""},
	{"POST", "/v1/responses/STORED/cancel", ""}, {"POST", "/v1/responses/none/cancel", ""},
	{"DELETE", "/v1/responses/STORED", ""}, {"DELETE", "/v1/responses/none", ""},
	{"POST", "/tokenize", `{"content":"a"}`}, {"POST", "/tokenize", `{"content":"a","with_pieces":true}`}, {"POST", "/tokenize", `[]`},
	{"POST", "/detokenize", `{"tokens":[1]}`}, {"POST", "/detokenize", `{"tokens":1}`},
	{"POST", "/apply-template", `{"messages":[{"role":"user","content":"x"}]}`}, {"POST", "/apply-template", `{`},
}

// TestOpenAPI_AnswersAreWhatItSays checks statuses, media types and bodies.
func TestOpenAPI_AnswersAreWhatItSays(t *testing.T) {
	f := newTextStation(t)
	f.does(func(_ context.Context, q *wire.GenerateRequest, out *frames) {
		out.send(wire.Frame{Type: wire.FrameText, Text: "Hi", Tokens: []int32{1}, Logprobs: []wire.TokenLogprob{{ID: 1, Bytes: []byte("Hi"), Logprob: -1,
			Top: []wire.TokenLogprob{{ID: 2, Bytes: []byte{0xff}, Logprob: -2}}}}})
		out.done(wire.ReasonLength, 1)
	})
	h := startHost(t, f.srv.URL, keeping(t), func(o *Options) { limited(o); o.Keys[1].Scopes = []KeyScope{ScopeInference, ScopeAdmin} })
	h.await(200)
	auth := []string{"Authorization", "Bearer k-free"}
	doc := readDocument(t, h, auth...)
	kept := h.askAs("k-free", `"a"`, `"background":true`, `"stream":true`).response(t)
	seen := map[string]bool{}
	for _, c := range answersOf {
		path, _, _ := strings.Cut(c.path, "?")
		if strings.HasPrefix(path, "/v1/models/") {
			path = "/v1/models/{model}"
		}
		for _, id := range []string{"STORED", "none"} {
			path = strings.Replace(path, "/v1/responses/"+id, "/v1/responses/{response_id}", 1)
		}
		o := doc.Paths.Find(path).GetOperation(c.method)
		seen[o.OperationID] = true
		r := h.do(c.method, strings.Replace(c.path, "STORED", kept.ID, 1), c.body, auth...)
		said := o.Responses.Status(r.status)
		require.NotNil(t, said, "%s %s: %d is not in the document: %s", c.method, c.path, r.status, r.body)
		media, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
		as := said.Value.Content.Get(media)
		require.NotNil(t, as, "%s %s: %s is not in the document", c.method, c.path, media)
		var v any = r.body
		if media == "application/json" {
			require.NoError(t, json.Unmarshal([]byte(r.body), &v))
		}
		require.NoError(t, as.Schema.Value.VisitJSON(v, openapi3.EnableJSONSchema2020()), "%s %s", c.method, c.path)
	}
	for _, item := range doc.Paths.Map() {
		for _, o := range item.Operations() {
			require.True(t, seen[o.OperationID], "%s was not asked: add it to answersOf", o.OperationID)
		}
	}
}

// TestOpenAPI_ScopesAreWhatItSays asks for each operation with every kind of key:
// a route that is added without its scope is found here.
func TestOpenAPI_ScopesAreWhatItSays(t *testing.T) {
	h := newHost(t, newFakeStation(t), limited)
	status := func(method, path, key string) int {
		var auth []string
		if key != "" {
			auth = []string{"Authorization", "Bearer " + key}
		}
		return h.do(method, strings.Replace(path, "{model}", model, 1), "{}", auth...).status
	}
	for path, item := range readDocument(t, h, "Authorization", "Bearer k-free").Paths.Map() {
		for method, o := range item.Operations() {
			scope, name := o.Extensions["x-scope"], method+" "+path
			if o.Security == nil {
				require.Equal(t, 200, status(method, path, ""), name)
				continue
			}
			require.Equal(t, 401, status(method, path, ""), name)
			require.Equal(t, 401, status(method, path, "wrong"), name)
			require.Equal(t, scope == "inference", status(method, path, "k-boss") == 403, "%s with a key for admin", name)
			require.Equal(t, scope == "admin", status(method, path, "k-free") == 403, "%s with a key for inference", name)
			require.Equal(t, scope == "inference", method == "POST" && o.OperationID != "cancelResponse", "%s: what is posted asks the model", name)
		}
	}
}

func TestOpenAPI_ErrorsAreDescribedByTheirCodes(t *testing.T) {
	doc := readDocument(t, newHost(t, newFakeStation(t)))
	codes := doc.Components.Schemas["ErrorObject"].Value.Properties["code"].Value.Enum
	require.Contains(t, codes, "rate_limit_exceeded")
	require.NotContains(t, codes, "client_closed_request", "nobody gets it")
	require.Contains(t, *doc.Components.Responses["Error429"].Value.Description, "overloaded, rate_limit_exceeded")
	require.Contains(t, doc.Components.Responses["Error429"].Value.Headers, "Retry-After")
}
