package compare

import (
	"net/http"
	"strings"
)

var errorCases = []Case{
	{"errors", "their shape", "ray-project/ray#64833", "error.message and type are texts, param and code are texts or null", func(t *trial) {
		refusals := 0
		for _, over := range []m{{"messages": m{}}, {"temperature": "hot"}, {"max_tokens": "x"}} {
			r := t.chat(over)
			if r.status < 400 {
				continue // that is a case of its own
			}
			refusals++
			t.that(r.message() != "", "%s: the error has no error.message", brief(over))
			t.that(r.isJSON(), "Content-Type is %q", r.header.Get("Content-Type"))
			e := at(r.value(), "error")
			t.that(str(e, "type") != "", "type is %s", brief(at(e, "type")))
			for _, n := range []string{"param", "code"} {
				_, text := at(e, n).(string)
				t.that(text || at(e, n) == nil, "%s is %s", n, brief(at(e, n)))
			}
		}
		t.needs(refusals > 0, "an error")
	}},
	{"errors", "they name what is wrong", reference, "param, or the message, has the parameter's name", func(t *trial) {
		refusals := 0
		for _, one := range []struct {
			name string
			over m
		}{{"temperature", m{"temperature": "hot"}}, {"messages", m{"messages": []m{role("banana", "Hi")}}}, {"max_tokens", m{"max_tokens": "x"}}} {
			name, over := one.name, one.over
			r := t.chat(over)
			if r.status < 400 || r.status >= 500 {
				continue // that is a case of its own
			}
			refusals++
			param := str(r.value(), "error", "param")
			t.that(strings.Contains(param, name) || param == "" && strings.Contains(r.message(), name), "%s: param %s, message %q", name, brief(at(r.value(), "error", "param")), short(r.message(), 60))
		}
		t.needs(refusals > 0, "an error that is the client's")
	}},
	{"errors", "a body that is no JSON", "vllm-project/vllm#12886", "400 with the envelope", func(t *trial) {
		for _, body := range []string{`{"model":`, `not json`, `[]`, `5`, ``} {
			t.post(pathChat, body).refused("%q", body)
		}
	}},
	{"errors", "stream of another type", "ray-project/ray#64833", "an error", func(t *trial) {
		t.refused(m{"stream": "yes"})
		t.refused(m{"stream": 1})
	}},
	{"errors", "an unknown model", "docker/model-runner PR 10", "404 with code model_not_found, or an answer with the name of the model that served", func(t *trial) {
		r := t.chat(m{"model": "does-not-exist"})
		if r.status == 200 {
			t.that(str(r.object(), "model") != "does-not-exist", "the answer claims to be of does-not-exist")
			return
		}
		t.that(r.status == 404 && r.message() != "", "%d %s", r.status, short(r.message(), 60))
		t.that(str(r.value(), "error", "code") == "model_not_found", "code is %s", brief(at(r.value(), "error", "code")))
	}},
	{"errors", "no model", "vllm-project/vllm PR 58025", "an error, or the served model's name in the answer", func(t *trial) {
		for _, v := range []any{drop, "", nil} {
			r := t.chat(m{"model": v})
			if r.status == 200 {
				t.that(str(r.object(), "model") != "", "the answer has no model")
				continue
			}
			t.that(r.status == 400 || r.status == 404 || r.status == 422, "%d %s", r.status, short(r.message(), 60))
		}
	}},
	{"errors", "a body nested 20,000 levels deep", "Andy963/rsp4copilot PR 9", "an error or an answer, and the server lives", func(t *trial) {
		deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
		t.post(pathChat, `{"model":"`+t.Model+`","messages":[{"role":"user","content":"Hi"}],"max_tokens":1,"tools":[{"type":"function","function":{"name":"f","parameters":`+deep+`}}]}`).noFault("20,000 levels")
	}},
}

var httpCases = []Case{
	{"http", "an unknown route", "tmc/langchaingo#667", "404 with the envelope", func(t *trial) {
		for _, r := range []*reply{t.post("/v1/nope", t.say()), t.send("GET", "/v1/nope", nil)} {
			t.that(r.status == 404, "%d", r.status)
			t.that(r.isJSON() && r.message() != "", "%s, no envelope: %q", r.header.Get("Content-Type"), short(string(r.raw), 60))
		}
	}},
	{"http", "another method", "ggml-org/llama.cpp PR 5961", "405 with Allow and the envelope", func(t *trial) {
		for _, method := range []string{"GET", "DELETE", "PUT"} {
			r := t.send(method, pathChat, nil)
			if method == "GET" && r.status == 200 && str(r.value(), "object") == "list" {
				continue // stored completions are listed here
			}
			t.that(r.status == 405 && r.header.Get("Allow") != "", "%s: %d, Allow %q", method, r.status, r.header.Get("Allow"))
			t.that(r.message() != "", "%s: no envelope", method)
		}
	}},
	{"http", "content types", "vllm-project/vllm#11171", "utf-8 in any spelling is taken; others are taken or refused, never a fault", func(t *trial) {
		for _, as := range []string{"application/json; charset=utf-8", "Application/JSON;charset=UTF-8"} {
			r := t.post(pathChat, t.say(), "Content-Type", as)
			t.that(r.status == 200, "%s: %d", as, r.status)
		}
		for _, as := range []string{"", "application/x-www-form-urlencoded", "text/plain", "application/json; charset=latin1"} {
			t.post(pathChat, t.say(), "Content-Type", as).noFault("%q", as)
		}
	}},
	{"http", "a preflight", "ollama/ollama#4001", "allowed with all headers asked for, or a clean refusal", func(t *trial) {
		const asked = "authorization,content-type,x-stainless-os,x-stainless-lang,x-stainless-retry-count"
		r := t.send("OPTIONS", pathChat, nil, "Content-Type", "", "Origin", "http://localhost:5173", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", asked)
		if r.header.Get("Access-Control-Allow-Origin") == "" {
			t.that(r.status >= 400 && r.status < 500, "%d without Access-Control-Allow-Origin", r.status)
			t.absent("%d: no browser may call", r.status)
		}
		t.that(r.status == 200 || r.status == 204, "%d", r.status)
		methods, headers := r.header.Get("Access-Control-Allow-Methods"), strings.ToLower(r.header.Get("Access-Control-Allow-Headers"))
		t.that(methods == "*" || strings.Contains(methods, "POST"), "Access-Control-Allow-Methods is %q", methods)
		for _, h := range strings.Split(asked, ",") {
			t.that(strings.Contains(headers, h) || headers == "*", "Access-Control-Allow-Headers is %q, without %s", short(headers, 40), h)
		}
	}},
	{"http", "browsers may read errors and streams", "pinecone-io/canopy#284", "Access-Control-Allow-Origin on every answer, where on any", func(t *trial) {
		const origin = "http://localhost:5173"
		allowed := func(r *reply) bool {
			a := r.header.Get("Access-Control-Allow-Origin")
			return a == "*" || a == origin
		}
		if r := t.post(pathChat, t.say(), "Origin", origin); !allowed(r) {
			t.absent("no browser may call")
		}
		t.that(allowed(t.post(pathChat, t.say(m{"stream": true}), "Origin", origin)), "not on a stream")
		t.that(allowed(t.post(pathChat, t.say(m{"temperature": "hot"}), "Origin", origin)), "not on an error")
		t.that(allowed(t.send("GET", "/v1/nope", nil, "Origin", origin)), "not on a 404")
	}},
	{"http", "the id of a request", reference, "x-request-id on answers and errors, each another", func(t *trial) {
		a, b := t.chat().header.Get("X-Request-Id"), t.chat(m{"temperature": "hot"}).header.Get("X-Request-Id")
		t.that(a != "" && b != "" && a != b, "they are %q and %q", a, b)
	}},
	{"http", "a key where none is asked for", reference, "any is taken", func(t *trial) {
		if t.Key != "" {
			t.absent("a key was given for this run")
		}
		r := t.post(pathChat, t.say(), "Authorization", "Bearer none")
		t.that(r.status == 200, "%d", r.status)
	}},
	{"http", "the list of models", "docker/model-runner PR 170", "objects of the reference, whose ids work and are no paths", func(t *trial) {
		o := t.send("GET", "/v1/models", nil).object()
		t.that(str(o, "object") == "list" && len(list(o, "data")) > 0, "it is %s", brief(o))
		for _, one := range list(o, "data") {
			t.that(str(one, "object") == "model" && whole(at(one, "created")) && str(one, "owned_by") != "", "a model is %s", brief(one))
			id := str(one, "id")
			t.that(id != "" && !strings.HasPrefix(id, "/"), "the id is %q", id)
			t.chat(m{"model": id}).object()
		}
	}},
	{"http", "one model", "timtoole02/Camelid#692", "its object by its id; 404 with the envelope for another", func(t *trial) {
		r := t.offered(t.send("GET", "/v1/models/"+t.Model, nil))
		t.that(r.status == 200 && str(r.value(), "id") == t.Model && str(r.value(), "object") == "model", "%d %s", r.status, short(string(r.raw), 60))
		none := t.send("GET", "/v1/models/none", nil)
		t.that(none.status == 404 && none.message() != "", "of none: %d %s", none.status, short(string(none.raw), 60))
	}},
	{"http", "HEAD", "RFC 9110", "as GET, without a body", func(t *trial) {
		r := t.send(http.MethodHead, "/v1/models", nil)
		t.that(r.status == 200 && len(r.raw) == 0, "%d, %d bytes", r.status, len(r.raw))
	}},
}
