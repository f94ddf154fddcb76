//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// obj is a JSON object.
type obj = map[string]any

// reply is an HTTP answer read to its end.
type reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// JSON decodes the body.
func (r reply) JSON(t *testing.T) obj {
	t.Helper()
	var o obj
	require.NoError(t, json.Unmarshal(r.Body, &o), "%s", r.Body)
	return o
}

// Err checks that the answer is an error envelope with this status and returns
// its error object.
func (r reply) Err(t *testing.T, status int) obj {
	t.Helper()
	require.Equal(t, status, r.Status, "%s", r.Body)
	require.Contains(t, r.Header.Get("Content-Type"), "application/json")
	e, ok := r.JSON(t)["error"].(obj)
	require.True(t, ok, "no error object: %s", r.Body)
	require.NotEmpty(t, e["message"])
	require.IsType(t, "", e["type"])
	for _, k := range []string{"param", "code"} {
		v, there := e[k]
		require.True(t, there, "no %s: %s", k, r.Body)
		if v != nil {
			require.IsType(t, "", v)
		}
	}
	return e
}

// Text is the first choice's content.
func (r reply) Text(t *testing.T) string {
	t.Helper()
	require.Equal(t, 200, r.Status, "%s", r.Body)
	m := r.choice(t)["message"].(obj)
	text, ok := m["content"].(string)
	require.True(t, ok, "content is no string: %s", r.Body)
	return text
}

// Finish is the first choice's finish_reason.
func (r reply) Finish(t *testing.T) any { t.Helper(); return r.choice(t)["finish_reason"] }

// Usage is one of the usage's numbers.
func (r reply) Usage(t *testing.T, name string) int {
	t.Helper()
	n, ok := r.JSON(t)["usage"].(obj)[name].(float64)
	require.True(t, ok, "usage.%s: %s", name, r.Body)
	return int(n)
}

func (r reply) choice(t *testing.T) obj {
	t.Helper()
	choices, ok := r.JSON(t)["choices"].([]any)
	require.True(t, ok && len(choices) > 0, "no choices: %s", r.Body)
	return choices[0].(obj)
}

// do sends a request; body may be nil, a string (sent as it is) or a value
// (sent as JSON).
func (s *server) do(t *testing.T, method, path string, body any, header ...string) reply {
	t.Helper()
	r, err := s.try(t.Context(), method, path, body, header...)
	require.NoError(t, err)
	return r
}

// try is do with the error returned; ctx may cut it short. Safe on any goroutine.
func (s *server) try(ctx context.Context, method, path string, body any, header ...string) (reply, error) {
	resp, err := s.open(ctx, method, path, body, header...)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, b}, err
}

// open sends a request and leaves the body to the caller.
func (s *server) open(ctx context.Context, method, path string, body any, header ...string) (*http.Response, error) {
	var rd io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		rd = strings.NewReader(b)
	default:
		j, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		rd = bytes.NewReader(j)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, rd)
	if err != nil {
		return nil, err
	}
	if rd != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return (&http.Client{Timeout: patience}).Do(req)
}

const chatPath = "/v1/chat/completions"

// chat posts the plain request P of the field cases with keys merged in; a nil
// value takes a key out, use null for JSON's null.
func (s *server) chat(t *testing.T, merge ...obj) reply {
	t.Helper()
	return s.do(t, http.MethodPost, chatPath, P(merge...))
}

var null = json.RawMessage("null")

// P is the smallest useful chat request, with keys merged in.
func P(merge ...obj) obj {
	p := obj{"model": "test-model", "messages": []obj{user("Say hi")}, "max_tokens": 8, "temperature": 0}
	for _, m := range merge {
		for k, v := range m {
			if v == nil {
				delete(p, k)
			} else {
				p[k] = v
			}
		}
	}
	return p
}

func user(text string) obj                 { return obj{"role": "user", "content": text} }
func message(role string, content any) obj { return obj{"role": role, "content": content} }
