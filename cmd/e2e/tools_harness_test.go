//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// function is a tool; without parameters when they are nil.
func function(name string, parameters any) obj {
	f := obj{"name": name, "description": "The function " + name + "."}
	if parameters != nil {
		f["parameters"] = parameters
	}
	return obj{"type": "function", "function": f}
}

// Tools with small arguments, and one without any.
var (
	weatherSchema = obj{"type": "object", "additionalProperties": false, "required": []string{"city", "unit"},
		"properties": obj{"city": obj{"type": "string", "maxLength": 12}, "unit": obj{"enum": []string{"C", "F"}}}}
	addSchema = obj{"type": "object", "additionalProperties": false, "required": []string{"a", "b"},
		"properties": obj{"a": obj{"type": "integer", "minimum": 0, "maximum": 99}, "b": obj{"type": "integer", "minimum": 0, "maximum": 99}}}
)

func allTools() []obj {
	return []obj{function("get_weather", weatherSchema), function("add", addSchema), function("get_time", nil)}
}

// needy is a conversation that asks for a call.
func needy(more ...obj) []obj {
	return append([]obj{{"messages": []obj{user("What is the weather in Oslo?")}, "tools": allTools(), "max_tokens": 160}}, more...)
}

func namedTool(name string) obj { return obj{"type": "function", "function": obj{"name": name}} }

// callsAreValid checks an answer's calls against the schemas of their tools, which
// are all tools if none are given. Of an answer that was cut, the last call need
// not be whole.
func callsAreValid(t *testing.T, said turn, tools ...obj) {
	t.Helper()
	if len(tools) == 0 {
		tools = allTools()
	}
	schemas := map[string]any{}
	for _, tool := range tools {
		f := tool["function"].(obj)
		schemas[f["name"].(string)] = f["parameters"]
	}
	for i, c := range said.Calls {
		require.Contains(t, schemas, c.Name)
		switch schema := schemas[c.Name]; {
		case said.Finish == "length" && i == len(said.Calls)-1:
		case schema == nil:
			require.Equal(t, "{}", c.Arguments)
		default:
			valid(t, schema, c.Arguments)
		}
	}
}

// otherTemplate is a host of its own in front of the station of s, whose model it
// shows with another chat template. The test model knows no family's markers as
// control tokens: they are text to it, as is all that a grammar has it write.
func (s *server) otherTemplate(t *testing.T, template string) *server {
	t.Helper()
	address := s.stationAddress(t)
	target, err := url.Parse(address)
	require.NoError(t, err)
	transport := &http.Transport{}
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		target = &url.URL{Scheme: "http", Host: "station"}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // of requests that the host gave up
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Path != wire.RouteModel || r.StatusCode != http.StatusOK {
				return nil
			}
			var m wire.Model
			if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
				return err
			}
			m.ChatTemplate = template
			b, err := json.Marshal(m)
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(b))), int64(len(b))
			r.Header.Set("Content-Length", strconv.Itoa(len(b)))
			return err
		},
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // the station may answer before it has seen the request's end
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		proxy.Close()
		transport.CloseIdleConnections()
	})
	host := hostBefore(t, proxy.URL, "THOTH_MODEL_NAME=test-model")
	host.serves(t)
	return host
}
