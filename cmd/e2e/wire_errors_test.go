//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

func TestChat_WrongTypesGetTheEnvelope(t *testing.T) {
	defer shared.unharmed(t)()
	for _, c := range []struct {
		merge obj
		param string
	}{
		{obj{"messages": obj{"role": "user", "content": "hi"}}, "messages"},
		{obj{"messages": "hi"}, "messages"},
		{obj{"messages": []obj{}}, "messages"},
		{obj{"messages": []string{"hi"}}, "messages[0]"},
		{obj{"messages": nil}, "messages"},
		{obj{"messages": null}, "messages"},
		{obj{"temperature": "hot"}, "temperature"},
		{obj{"temperature": 9}, "temperature"},
		{obj{"top_p": -1}, "top_p"},
		{obj{"stop": 5}, "stop"},
		{obj{"stop": []int{5}}, "stop[0]"},
		{obj{"seed": "1"}, "seed"},
		{obj{"presence_penalty": 3}, "presence_penalty"},
		{obj{"top_logprobs": 3}, "top_logprobs"},
	} {
		e := refusal(t, 400, c.merge)
		require.Equal(t, c.param, e["param"], "%v", c.merge)
		require.Equal(t, "invalid_request_error", e["type"])
		require.NotRegexp(t, `(?i)golang|json:|jsontext|unmarshal|openai\.|\*?string\b.*struct`, e["message"], "the decoder's own words stay inside")
	}
	e := shared.chat(t, obj{"stream": "yes"}).Err(t, 400)
	require.Equal(t, "stream", e["param"])
	for _, body := range []string{"", "null", "[]", `"hi"`, "5", "{", "{}x", "not json"} {
		shared.do(t, http.MethodPost, chatPath, body).Err(t, 400)
	}
}

func TestChat_ErrorsReachAClientLibrary(t *testing.T) {
	defer shared.unharmed(t)()
	client := library(shared, "none")
	request := openai.ChatCompletionRequest{Model: "test-model", Temperature: 9, MaxCompletionTokens: 8,
		Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "Say hi"}}}
	_, err := client.CreateChatCompletion(t.Context(), request)
	var api *openai.APIError
	require.True(t, errors.As(err, &api), "%v", err)
	require.Equal(t, 400, api.HTTPStatusCode)
	require.Equal(t, "temperature", *api.Param)
	require.Equal(t, "invalid_request_error", api.Type)
	require.Equal(t, "invalid_value", api.Code)
	_, err = client.CreateChatCompletionStream(t.Context(), request)
	require.True(t, errors.As(err, &api), "%v", err)
	require.Equal(t, 400, api.HTTPStatusCode)
}

// library is a client other people wrote.
func library(s *server, key string) *openai.Client {
	c := openai.DefaultConfig(key)
	c.BaseURL = s.base + "/v1"
	c.HTTPClient = &http.Client{Timeout: patience}
	return openai.NewClientWithConfig(c)
}

func TestChat_UnknownModelNamesTheServedOnes(t *testing.T) {
	defer shared.unharmed(t)()
	for _, name := range []string{"does-not-exist", "test-model ", "TEST-MODEL", "../test-model"} {
		e := refusal(t, 404, obj{"model": name})
		require.Equal(t, "model_not_found", e["code"])
		require.Equal(t, "model", e["param"])
		require.Contains(t, e["message"], "test-model, test-alias")
	}
	for _, merge := range []obj{{"model": ""}, {"model": null}, {"model": nil}, {"model": 5}} {
		require.Equal(t, "model", refusal(t, 400, merge)["param"])
	}
	require.Equal(t, "test-model", shared.chat(t, obj{"model": "test-alias"}).JSON(t)["model"])
}

func TestChat_ErrorsBeforeTheFirstTokenAreHTTPErrors(t *testing.T) {
	defer shared.unharmed(t)()
	// refusal posts each streamed as well, and wants JSON of both.
	refusal(t, 400, obj{"temperature": -1})
	refusal(t, 400, obj{"messages": []obj{message("banana", "hi")}})
	refusal(t, 404, obj{"model": "does-not-exist"})
	e := refusal(t, 400, obj{"messages": []obj{user(strings.Repeat("river ", 6000))}})
	require.Equal(t, "context_length_exceeded", e["code"])
	require.Equal(t, "messages", e["param"])
	require.Regexp(t, `\d`, e["message"])
}

func TestChat_UnknownRoutesAndMethodsAreJSON(t *testing.T) {
	defer shared.unharmed(t)()
	for _, method := range []string{"GET", "DELETE", "PUT", "PATCH", "OPTIONS"} {
		r := shared.do(t, method, chatPath, nil)
		require.Equal(t, "method_not_allowed", r.Err(t, 405)["code"], method)
		require.Equal(t, "POST", r.Header.Get("Allow"), method)
	}
	r := shared.do(t, "POST", "/v1/models", P())
	r.Err(t, 405)
	require.Contains(t, r.Header.Get("Allow"), "GET")
	for _, path := range []string{"/v1/nope", "/v1/responses/", "/v1/chat/completions/", "/v1/chat//completions", "/v1", "/v1/../etc"} {
		require.Equal(t, "not_found", shared.do(t, "POST", path, P()).Err(t, 404)["code"], path)
	}
	shared.do(t, "GET", "/", nil).Err(t, 404)
	head := shared.do(t, "HEAD", chatPath, nil)
	require.Equal(t, 405, head.Status)
	require.Empty(t, head.Body)
}

func TestChat_ContentTypes(t *testing.T) {
	defer shared.unharmed(t)()
	body, err := json.Marshal(P())
	require.NoError(t, err)
	post := func(contentType ...string) reply {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, shared.base+chatPath, strings.NewReader(string(body)))
		require.NoError(t, err)
		req.Header["Content-Type"] = contentType
		resp, err := (&http.Client{Timeout: patience}).Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return reply{resp.StatusCode, resp.Header, b}
	}
	for _, as := range []string{"application/json; charset=utf-8", "Application/JSON;charset=UTF-8", "application/json"} {
		require.Equal(t, 200, post(as).Status, as)
	}
	// What says nothing about the body is read as what it is.
	for _, as := range [][]string{nil, {""}, {"application/x-www-form-urlencoded"}, {"text/plain"}} {
		require.Equal(t, 200, post(as...).Status, "%v", as)
	}
	for _, as := range []string{"application/json; charset=latin1", "multipart/form-data; boundary=x", "application/json; charset=utf-16", ";;"} {
		require.Contains(t, post(as).Err(t, 415)["message"], "Content-Type", as)
	}
}
