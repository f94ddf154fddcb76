package stationtest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

func isCode(err error, code wire.Code) bool {
	var e *wire.Error
	return errors.As(err, &e) && e.Code == code
}

// requireError checks an HTTP error: status by the wire's table, JSON, code.
func requireError(t *testing.T, resp *http.Response, body string, code wire.Code) *wire.Error {
	t.Helper()
	require.Equal(t, (&wire.Error{Code: code}).Status(), resp.StatusCode, body)
	require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	var eb wire.ErrorBody
	require.NoError(t, json.Unmarshal([]byte(body), &eb), body)
	require.NotNil(t, eb.Error)
	require.Equal(t, code, eb.Error.Code)
	require.NotEmpty(t, eb.Error.Message)
	return eb.Error
}

// errors sends bad fields: each is 400 before any frame, and names the field.
func (s *suite) errors(t *testing.T) {
	gen := func(field string) string { return `{"prompt":{"text":"a"},"max_tokens":1,` + field + `}` }
	sam := func(field string) string { return gen(`"sampling":{` + field + `}`) }
	many := `"stop":[` + strings.TrimRight(strings.Repeat(`"x",`, 17), ",") + `]`
	cases := []struct{ route, body, param string }{
		{wire.RouteGenerate, sam(`"temperature":-0.1`), "sampling.temperature"},
		{wire.RouteGenerate, sam(`"temperature":2.1`), "sampling.temperature"},
		{wire.RouteGenerate, sam(`"temperature":"hot"`), "sampling.temperature"},
		{wire.RouteGenerate, sam(`"top_k":-1`), "sampling.top_k"},
		{wire.RouteGenerate, sam(`"top_k":1.5`), "sampling.top_k"},
		{wire.RouteGenerate, sam(`"top_p":1.5`), "sampling.top_p"},
		{wire.RouteGenerate, sam(`"min_p":2`), "sampling.min_p"},
		{wire.RouteGenerate, sam(`"typical_p":0`), "sampling.typical_p"},
		{wire.RouteGenerate, sam(`"repeat_penalty":0`), "sampling.repeat_penalty"},
		{wire.RouteGenerate, sam(`"repeat_last_n":-1`), "sampling.repeat_last_n"},
		{wire.RouteGenerate, sam(`"frequency_penalty":2.5`), "sampling.frequency_penalty"},
		{wire.RouteGenerate, sam(`"presence_penalty":-2.5`), "sampling.presence_penalty"},
		{wire.RouteGenerate, sam(`"logit_bias":{"5":101}`), "sampling.logit_bias"},
		{wire.RouteGenerate, sam(`"logit_bias":{"99999999":1}`), "sampling.logit_bias"},
		{wire.RouteGenerate, sam(`"top_logprobs":21,"logprobs":true`), "sampling.top_logprobs"},
		{wire.RouteGenerate, sam(`"seed":-1`), "sampling.seed"},
		{wire.RouteGenerate, `{"prompt":{"text":"a"},"max_tokens":-1}`, "max_tokens"},
		{wire.RouteGenerate, `{"prompt":{"text":"a"},"max_tokens":"8"}`, "max_tokens"},
		{wire.RouteGenerate, gen(`"stop":[""]`), "stop"},
		{wire.RouteGenerate, gen(many), "stop"},
		{wire.RouteGenerate, `{"prompt":{"text":"a","tokens":[1]}}`, "prompt"},
		{wire.RouteGenerate, `{"prompt":{"tokens":[-1]}}`, "prompt.tokens"},
		{wire.RouteGenerate, `{"prompt":{"tokens":[99999999]}}`, "prompt.tokens"},
		{wire.RouteGenerate, `{"prompt":{"tokens":[]}}`, "prompt"},
		{wire.RouteGenerate, `{"prompt":"a"}`, "prompt"},
		{wire.RouteGenerate, `[]`, ""},
		{wire.RouteGenerate, `{"prompt":`, ""},
		{wire.RouteGenerate, ``, ""},
		{wire.RouteGenerate, gen(`"max_tokens":1}{"x":1`), ""},
		{wire.RouteTokenize, `{"prompt":{"text":"a","segments":[{"text":"b"}]}}`, "prompt"},
		{wire.RouteDetokenize, `{"tokens":[99999999]}`, "tokens"},
		{wire.RouteEmbed, `{"prompt":{"tokens":[]}}`, "prompt"},
		{wire.RouteEmbed, `{"append":true,"prompt":{"text":"a"}}`, ""},
		{wire.RouteForward, `{}`, "session"},
		{wire.RouteForward, `{"session":"s","top_logprobs":21}`, "top_logprobs"},
		{wire.RouteDecodeNext, `{}`, "session"},
	}
	for _, k := range cases {
		t.Run(k.route+" "+k.param, func(t *testing.T) {
			resp, body := s.raw.do(t, http.MethodPost, k.route, k.body)
			e := requireError(t, resp, body, wire.CodeInvalid)
			require.True(t, strings.HasPrefix(e.Param, k.param), "param is %q, want %q for %s", e.Param, k.param, k.body)
			require.False(t, e.Retryable, "the same again fails again")
		})
	}
	t.Run("fields of a session's calls", func(t *testing.T) {
		e := s.stage(t, wire.Prompt{Text: s.o.Prompt})
		for field, r := range map[string]*wire.ForwardRequest{"count": {Session: e.Session, Count: 9999999}} {
			_, err := s.c.Forward(s.ctx(t), r)
			require.Equal(t, field, requireCode(t, err, wire.CodeInvalid).Param)
		}
		_, err := s.c.DecodeNext(s.ctx(t), &wire.DecodeRequest{Session: e.Session, N: -1})
		require.Equal(t, "n", requireCode(t, err, wire.CodeInvalid).Param)
		s.release(t, e.Session)
	})
	t.Run("a megabyte of one letter", func(t *testing.T) {
		// Splitters that recurse run out of stack on it, and take the process along.
		text := strings.Repeat("a", 1<<20)
		r, err := s.c.Tokenize(s.ctx(t), &wire.TokenizeRequest{Prompt: wire.Prompt{Text: text, AddBOS: ptr(false)}, Pieces: true})
		if err != nil {
			requireCode(t, err, wire.CodeInvalid)
		} else {
			n := 0
			for _, p := range r.Pieces {
				n += len(p)
			}
			require.Equal(t, len(text), n)
		}
		q := s.greedy(1)
		q.Prompt.Text = text
		_, err = s.c.Generate(s.ctx(t), q)
		require.True(t, isCode(err, wire.CodeInvalid) || isCode(err, wire.CodeContextLength), "%v", err)
		s.ask(t, s.greedy(1))
	})
	t.Run("lists are never null", func(t *testing.T) {
		resp, body := s.raw.do(t, http.MethodPost, wire.RouteTokenize, `{"prompt":{"text":"","add_bos":false}}`)
		require.Equal(t, 200, resp.StatusCode)
		require.JSONEq(t, `{"tokens":[]}`, body)
		resp, body = s.raw.do(t, http.MethodPost, wire.RouteDetokenize, `{"tokens":[]}`)
		require.Equal(t, 200, resp.StatusCode)
		require.JSONEq(t, `{"text":""}`, body)
	})
}

// unsupported sends what the wire knows and no station builds yet. A station
// that builds one drops it from here.
func (s *suite) unsupported(t *testing.T) {
	forked := s.health.Fork > 0
	for param, field := range map[string]string{
		"fork": `"fork":2`, "priority": `"priority":0`, "deadline_ms": `"deadline_ms":1000`,
		"prediction": `"prediction":"x"`, "adapters": `"adapters":[{"digest":"d","scale":1}]`,
	} {
		for _, route := range []string{wire.RouteGenerate, wire.RouteEmbed} {
			if param == "fork" && route == wire.RouteGenerate && forked {
				continue
			}
			resp, body := s.raw.do(t, http.MethodPost, route, `{"prompt":{"text":"a"},`+field+`}`)
			require.Equal(t, param, requireError(t, resp, body, wire.CodeUnsupported).Param)
		}
	}
}

// routes: 404 means that the route does not exist, and nothing else.
func (s *suite) routes(t *testing.T) {
	for _, k := range []struct{ method, path string }{{"GET", "/nope"}, {"POST", "/generate/x"}, {"GET", "/"}, {"POST", "/v1/chat/completions"}} {
		resp, body := s.raw.do(t, k.method, k.path, "")
		requireError(t, resp, body, wire.CodeNoRoute)
	}
	for _, k := range []struct{ method, path, allow string }{
		{"GET", wire.RouteGenerate, "POST"}, {"DELETE", wire.RouteForward, "POST"}, {"PUT", wire.RouteEmbed, "POST"},
		{"POST", wire.RouteHealth, "GET"}, {"POST", wire.RouteStats, "GET"},
	} {
		resp, body := s.raw.do(t, k.method, k.path, "{}")
		requireError(t, resp, body, wire.CodeMethod)
		require.Equal(t, k.allow, resp.Header.Get("Allow"))
	}
	resp, body := s.raw.do(t, "GET", wire.RouteMetrics, "")
	require.Equal(t, 200, resp.StatusCode)
	require.True(t, strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain"))
	require.Contains(t, body, "\n# TYPE ")

	resp, body = s.raw.do(t, "POST", wire.RouteGenerate, `{"prompt":{"text":"a"},"max_tokens":2}`)
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, wire.ContentTypeStream, resp.Header.Get("Content-Type"))
	require.True(t, strings.HasSuffix(body, "}\n"), "every frame is a line")
}
