package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// blind is a server that has every route, says one text to all, streamed or not, and
// takes any body and no notice of it.
type blind struct {
	text    string
	finish  string // of chats and completions
	tokens  int
	content string // the content of a chat as JSON instead of text
}

func (b *blind) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	streamed := strings.Contains(string(body), `"stream":true`)
	quoted, _ := json.Marshal(b.text)
	text := string(quoted)
	usage := fmt.Sprintf(`{"prompt_tokens":5,"completion_tokens":%d,"total_tokens":%d}`, b.tokens, 5+b.tokens)
	var events []string
	whole := ""
	switch {
	case r.URL.Path == "/v1/models":
		whole = `{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"x"}]}`
	case r.URL.Path == pathChat:
		content := text
		if b.content != "" {
			content = b.content
		}
		whole = fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":%q}],"usage":%s}`, content, b.finish, usage)
		for _, c := range []string{`{"role":"assistant","content":` + content + `},"finish_reason":null`, fmt.Sprintf(`{},"finish_reason":%q`, b.finish)} {
			events = append(events, `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":`+c+`}]}`)
		}
		events = append(events, "[DONE]")
	case r.URL.Path == pathCompletions:
		whole = fmt.Sprintf(`{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":%s,"finish_reason":%q}],"usage":%s}`, text, b.finish, usage)
		events = []string{whole, "[DONE]"}
	case r.URL.Path == pathResponses:
		whole = fmt.Sprintf(`{"id":"resp_1","object":"response","created_at":1,"model":"m","status":"completed","output":[{"type":"message","id":"msg_1","role":"assistant","status":"completed",
			"content":[{"type":"output_text","text":%s,"annotations":[]}]}]}`, text)
		events = []string{`{"type":"response.created","sequence_number":0}`, `{"type":"response.completed","sequence_number":1,"response":` + strings.ReplaceAll(whole, "\n", "") + `}`}
	case r.URL.Path == pathMessages:
		whole = fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":%s}],"stop_reason":"end_turn","stop_sequence":null}`, text)
		for range 6 {
			events = append(events, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`)
		}
	case r.URL.Path == "/tokenize":
		whole = `{"tokens":[]}`
	case strings.HasSuffix(r.URL.Path, "rerank"):
		whole = `{"results":[]}`
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		whole = `{"error":{"message":"there is none","type":"not_found"}}`
	}
	if !streamed || events == nil {
		if w.Header().Set("Content-Type", "application/json"); r.Method != http.MethodHead {
			_, _ = io.WriteString(w, whole)
		}
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		_, _ = io.WriteString(w, "data: "+e+"\n\n")
		w.(http.Flusher).Flush()
	}
}

// right runs all cases and gives those that it got right, and the verdict of each.
func (b *blind) right(t *testing.T, only ...string) (right []string, all map[string]Verdict) {
	srv := httptest.NewServer(b)
	defer srv.Close()
	rep, err := Run(t.Context(), Options{Servers: []Server{{URL: srv.URL}}, Only: only})
	require.NoError(t, err)
	all = map[string]Verdict{}
	for _, r := range rep.Results {
		name := r.Area + ": " + r.Name
		if all[name] = r.Verdicts[0]; r.Verdicts[0].State == Right {
			right = append(right, name)
		}
	}
	return right, all
}

// What a server gets right that looks at nothing: that it answers at all and in the
// API's form, and that it leaves out what nobody asked for.
var blindlyRight = []string{
	"chat: the members of an answer", "chat: max_tokens null", "chat: max_tokens far too large", "chat: integers above 2^53",
	"messages: empty turns in the history", "messages: odd but legal histories", "messages: the last message is the assistant's",
	"messages: lone surrogates", "messages: bytes that are no UTF-8",
	"logprobs: not asked for",
	"stream: the first event has the role", "stream: its end", "stream: the members of an event", "stream: no usage unless asked for",
	"stream: stream_options without stream", "stream: the text", "stream: its headers",
	"tools: tool_choice none", "structured output: type text",
	"errors: an unknown model", "errors: no model", "errors: a body nested 20,000 levels deep",
	"http: an unknown route", "http: content types", "http: a key where none is asked for", "http: the list of models", "http: HEAD",
	"completions: streamed", "responses: store false",
}

var (
	rambler = blind{text: strings.Repeat("It runs past the mill and the old bridge, and on. ", 10), finish: "length", tokens: 200}
	terse   = blind{text: "Hi", finish: "stop", tokens: 1}
)

func TestRun_AServerThatLooksAtNothingIsNotRightByAccident(t *testing.T) {
	for _, c := range []struct {
		blind
		more []string
	}{
		{rambler, []string{"stop: a string that only begins"}}, // it begins and never ends
		{terse, []string{"chat: whole numbers written as floats", "completions: the members of an answer"}},
	} {
		right, all := c.right(t)
		require.ElementsMatch(t, append(c.more, blindlyRight...), right)
		require.Len(t, all, len(Cases()))
		for name, v := range all {
			require.NotContains(t, v.Why, "expected shape", name)
		}
	}
}

func TestRun_WhatAShortAnswerCannotShowIsNotWrong(t *testing.T) {
	_, all := terse.right(t, "stop", "completions", "messages API")
	for _, name := range []string{"stop: at the first token", "stop: a string over several tokens", "stop: a string that only begins", "stop: several",
		"completions: stop", "completions: no max_tokens", "messages API: stop_sequences", "messages API: the cap is reached"} {
		require.Equal(t, Unshown, all[name].State, name)
	}
}

func TestRun_AnAnswerWithoutItsCapIsNotReadToItsEnd(t *testing.T) {
	gone := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != pathCompletions {
			terse.ServeHTTP(w, r)
			return
		}
		defer close(gone)
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil { // endless
			fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"text\":\" and on\"}]}\n\n")
			w.(http.Flusher).Flush()
		}
	}))
	defer srv.Close()
	rep, err := Run(t.Context(), Options{Servers: []Server{{URL: srv.URL}}, Only: []string{"no max_tokens"}})
	require.NoError(t, err)
	<-gone
	require.Equal(t, Wrong, rep.Results[0].Verdicts[0].State)
	require.Contains(t, rep.Results[0].Verdicts[0].Why, "events and more")
}

func TestRun_ACallThatIsNotForcedCountsOnce(t *testing.T) {
	_, all := rambler.right(t, "tools", "responses", "messages API")
	var wrong []string
	for name, v := range all {
		if v.Why == "no call" {
			wrong = append(wrong, name)
		}
	}
	require.Equal(t, []string{"tools: tool_choice required"}, wrong)
	for _, name := range []string{"tools: tool_choice names a tool", "tools: streamed calls", "tools: parallel_tool_calls false",
		"responses: a function call", "responses: a streamed function call", "messages API: tool_choice any"} {
		require.Equal(t, Unshown, all[name].State, name)
		require.Contains(t, all[name].Why, "needs a call", name)
	}
}

func TestRun_StructuredOutputThatTheCapEndsBeginsAnInstance(t *testing.T) {
	_, all := rambler.right(t, "structured output")
	for _, name := range []string{"json_object", "json_schema", "json_schema, streamed", "cut by the cap", "bounds of a schema"} {
		require.Equal(t, Wrong, all["structured output: "+name].State, name)
		require.Contains(t, all["structured output: "+name].Why, "begins no instance", name)
	}
	begins := blind{text: `{"level": 1, "mood": "ca`, finish: "length", tokens: 3}
	right, _ := begins.right(t, "structured output")
	require.Subset(t, right, []string{"structured output: json_object", "structured output: json_schema", "structured output: json_schema, streamed", "structured output: cut by the cap"})
	require.NotContains(t, right, "structured output: bounds of a schema")
}

func TestRun_OddAnswersAreWrongAndTheRunGoesOn(t *testing.T) {
	for _, content := range []string{"null", "5", "[]", `{"a":1}`, `"",
		"tool_calls":5`, `"Hi"},"logprobs":{"content":["x",{"logprob":-1,"top_logprobs":[1,2,3],"bytes":["H"]}]},"x":{"y":1`} {
		odd := rambler
		odd.content = content
		_, all := odd.right(t)
		require.Len(t, all, len(Cases()), content)
	}
	o := Options{Servers: []Server{{URL: newFake(t, &fake{}).URL}}, cases: []Case{
		{Area: "a", Name: "b", check: func(t *trial) { _ = list(nil)[3] }},
		{Area: "a", Name: "c", check: func(t *trial) { t.chat().object() }}}}
	rep, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, Wrong, rep.Results[0].Verdicts[0].State)
	require.Contains(t, rep.Results[0].Verdicts[0].Why, "the answer is not of the expected shape")
	require.Equal(t, Right, rep.Results[1].Verdicts[0].State)
}

func TestRun_AFaultOfEveryBrokenBodyCountsOnce(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.URL.Path == pathChat && (!json.Valid(body) || bytes.Contains(body, []byte(`\u`)) || !utf8.Valid(body)) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		terse.ServeHTTP(w, r)
	}))
	defer srv.Close()
	rep, err := Run(t.Context(), Options{Servers: []Server{{URL: srv.URL}}, Only: []string{"a body that is no JSON", "lone surrogates", "bytes that are no UTF-8"}})
	require.NoError(t, err)
	states := map[string]State{}
	for _, r := range rep.Results {
		states[r.Name] = r.Verdicts[0].State
	}
	require.Equal(t, map[string]State{"a body that is no JSON": Wrong, "lone surrogates": Unshown, "bytes that are no UTF-8": Unshown}, states)
}

func TestFits_ATextIsAnInstanceOrBeginsOne(t *testing.T) {
	schema := object(m{"n": m{"type": "integer", "minimum": 10, "maximum": 12}, "p": m{"type": "string", "pattern": "^[a-c]{2,3}$", "maxLength": 3},
		"e": m{"type": "string", "enum": []string{"calm", "angry"}}, "s": m{"type": "string", "minLength": 2}})
	for text, want := range map[string]fit{
		`{"n": 11, "p":"abc" ,"e":"calm","s":"é\u00e9"} `: full,
		`{"n":11,"p":"abc","e":"calm"}`:                   none, // s is missing
		`{"n":11,"p":"abc","e":"calm","s":"xx"} and on`:   none,
		`{"n":11,"p":"abc","e":"calm","s":"x"}`:           none,
		`{"n":11,"p":"abd"`:                               none,
		`{"p":"abcd`:                                      none,
		`{"n":13`:                                         none,
		`{"n":11.5,`:                                      none,
		`{"n":5`:                                          none,
		`{"n":1`:                                          begun,
		`{"n"`:                                            begun,
		`{"q`:                                             none,
		`{"n":11,"n`:                                      none, // twice
		`{"e":"an`:                                        begun,
		`{"e":"sad`:                                       none,
		`{"s":"\u00`:                                      begun,
		`{"s":"x` + "\n":                                  none,
		`{}`:                                              none,
		`{"n":11,}`:                                       none,
		``:                                                begun,
		`Once upon a time`:                                none,
		`[`:                                               none,
	} {
		require.Equal(t, want, fits(schema, text), text)
	}
	for text, want := range map[string]fit{`{"a":[1,-2.5e3,{"b":null}],"c":tr`: begun, `{"a":[true,false,"x"]}`: full, `{}`: full, `{"a":[1 2`: none, `{"a":01}`: none,
		`{"a":-`: begun, `{"a":[`: begun, `{"a":1,"a":2}`: full, `{"a":maybe`: none, `[]`: none} {
		require.Equal(t, want, fits(m{"type": "object"}, text), text)
	}
}
