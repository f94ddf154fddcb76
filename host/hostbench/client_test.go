package hostbench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// request is one that clients send again and again.
type request struct {
	path   string
	body   string
	want   string // is in every answer
	end    string // is in every answer as a stream; "": there is none
	status int    // of the answer; 0: 200
	native bool   // past liquid memory
}

// streamed is the request with its answer as a stream, where it has one.
func (r request) streamed() request {
	if r.end != "" {
		r.body = object(strings.TrimSuffix(r.body[1:], "}"), `"stream":true`)
		r.want = r.end
	}
	return r
}

// Parts of a conversation whose prompt has about 200 tokens in a real model.
const (
	system = "You are a helpful assistant for people who travel by rail. Answer in the language of the question, in at most five sentences, and name the station, the platform and the time whenever you know them. When you do not know something, say so and tell where to ask."
	first  = "I am in Paris with two children and would like to see the river, a museum that is not too long, and somewhere to eat that does not need a booking. What would you do on a rainy Tuesday?"
	second = "Take the train to Musée d'Orsay: its upper floor shows the river through the old station clock, and an hour is enough. Behind it, Rue de Lille has small cafés that keep tables free. If it stops raining, walk along the quay to Pont Royal; it is ten minutes."
	third  = "And how do we come back to Gare de Lyon with a pram, without stairs?"
)

const model = `"model":"fake"`

// chat and the others are the requests by their endpoint; more are further fields
// of the body.
func chat(more string) request {
	return request{path: "/v1/chat/completions", body: object(model, messages(true), `"temperature":0.7,"top_p":0.95`, more), want: `"usage":{`, end: "data: [DONE]"}
}

func anthropic(more string) request {
	return request{path: "/v1/messages", body: object(model, `"system":`+quote(system), messages(false), `"temperature":0.7`, more), want: `"usage":{`, end: "event: message_stop"}
}

func completion(more string) request {
	return request{path: "/v1/completions", body: object(model, `"prompt":`+quote(strings.Join([]string{system, first, second, third}, "\n")), `"temperature":0.7`, more), want: `"usage":{`, end: "data: [DONE]"}
}

// response is for a host with a store.
func response(more string) request {
	input := `"input":` + strings.TrimPrefix(messages(false), `"messages":`)
	return request{path: "/v1/responses", body: object(model, `"instructions":`+quote(system), input, `"temperature":0.7`, more), want: `"store":true`, end: "event: response.incomplete"}
}

func embeddings() request {
	return request{path: "/v1/embeddings", body: object(model, `"input":`+quote([]string{first, second})), want: `"embedding":[`}
}

func rerank() request {
	return request{path: "/v1/rerank", body: object(model, `"query":`+quote(third), `"documents":`+quote([]string{first, second})), want: `"relevance_score":`}
}

const weather = `"name":"get_weather","description":"The weather of a city","parameters":{"type":"object","properties":{"city":{"type":"string"},"unit":{"enum":["celsius","fahrenheit"]}},"required":["city"],"additionalProperties":false}`

// tools asks with a tool and for an answer by a schema, of which the station makes
// one frame.
func tools(more string) request {
	r := chat(more)
	r.body = object(model, messages(true), more, `"tools":[{"type":"function","function":{`+weather+`}}]`,
		`"response_format":{"type":"json_schema","json_schema":{"name":"trip","strict":true,"schema":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city","days"],"additionalProperties":false}}}`)
	r.want = quote(structured)
	return r
}

// calls are answered by a call of the tool, which the host reads from the text.
func calls(more string) request {
	r := chat(more)
	r.body = object(model, messages(true), more, temperatureOfCalls, `"tools":[{"type":"function","function":{`+weather+`}}]`)
	r.want, r.end = `"finish_reason":"tool_calls"`, `"finish_reason":"tool_calls"`
	return r
}

func anthropicCalls(more string) request {
	r := anthropic(more)
	r.body = object(model, messages(false), more, temperatureOfCalls, `"tools":[{`+strings.Replace(weather, "parameters", "input_schema", 1)+`}]`)
	r.want, r.end = `"stop_reason":"tool_use"`, `"stop_reason":"tool_use"`
	return r
}

func messages(withSystem bool) string {
	all := []map[string]string{{"role": "user", "content": first}, {"role": "assistant", "content": second}, {"role": "user", "content": third}}
	if withSystem {
		all = append([]map[string]string{{"role": "system", "content": system}}, all...)
	}
	return `"messages":` + quote(all)
}

func object(fields ...string) string { return "{" + strings.Join(fields, ",") + "}" }

func quote(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// caller sends requests over one connection.
type caller struct {
	p    *process
	http *http.Client
	buf  bytes.Buffer
}

// ask sends a request and checks that the answer is whole.
func (c *caller) ask(r request) error {
	status, text, err := c.send(r)
	switch {
	case err != nil:
		return err
	case status != cmp.Or(r.status, http.StatusOK) || !bytes.Contains(text, []byte(r.want)):
		return fmt.Errorf("%s was answered with %d, and an answer that ends with %q lacks %q", r.path, status, text[max(0, len(text)-400):], r.want)
	}
	return nil
}

// send gives the whole answer, until the next one.
func (c *caller) send(r request) (status int, text []byte, err error) {
	req, err := http.NewRequest(http.MethodPost, c.p.base+r.path, strings.NewReader(r.body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	if r.native {
		req.Header.Set("X-Thoth-Liquid", "off")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	c.buf.Reset()
	_, err = io.Copy(&c.buf, resp.Body)
	return resp.StatusCode, c.buf.Bytes(), err
}

// crowd are callers that ask at once.
type crowd []*caller

func newCrowd(t testing.TB, p *process, n int) crowd {
	all := make(crowd, n)
	for i := range all {
		tr := &http.Transport{MaxConnsPerHost: 1}
		t.Cleanup(tr.CloseIdleConnections)
		all[i] = &caller{p: p, http: &http.Client{Transport: tr}}
	}
	return all
}

// ask makes each caller send n requests. They are numbered, those of all together,
// from 0.
func (all crowd) ask(t testing.TB, n int, request func(i int) request) {
	t.Helper()
	var asked errgroup.Group
	for k, c := range all {
		asked.Go(func() error {
			for i := range n {
				if err := c.ask(request(i*len(all) + k)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, asked.Wait())
}
