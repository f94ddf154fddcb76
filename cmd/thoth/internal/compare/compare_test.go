package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fake is a chat server that is right, or has the faults that are set.
type fake struct {
	*httptest.Server
	asked []string

	noDone      bool // streams have no [DONE]
	roles       bool // every delta has the role
	usageAlways bool // an event without choices that nobody asked for
	takesAll    bool // wrong types are accepted
	plainErrors bool // without the envelope
	headLost    bool // text that was held back for a stop string is lost
	dies        bool // after the first chat
	dead        bool
}

const fakeText = "I say hi to you, and to the river, the mill, the old bridge and whoever comes along the road."

func newFake(t *testing.T, f *fake) *fake {
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.asked = append(f.asked, r.Method+" "+r.URL.Path+" "+string(body))
	w.Header().Set("Content-Type", "application/json")
	switch {
	case f.dead:
		w.WriteHeader(http.StatusBadGateway)
	case r.URL.Path == "/v1/models":
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"x"}]}`)
	case r.URL.Path == pathChat && r.Method == "POST":
		f.chat(w, r)
		f.dead = f.dies
	default:
		f.fail(w, 404, "there is no "+r.URL.Path+" here")
	}
}

func (f *fake) fail(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	if f.plainErrors {
		fmt.Fprint(w, message)
		return
	}
	b, _ := json.Marshal(m{"error": m{"message": message, "type": "invalid_request_error", "param": nil, "code": nil}})
	_, _ = w.Write(b)
}

func (f *fake) chat(w http.ResponseWriter, r *http.Request) {
	var q m
	if json.NewDecoder(r.Body).Decode(&q) != nil {
		f.fail(w, 400, "no JSON")
		return
	}
	_, hot := q["temperature"].(string)
	messages := list(q, "messages")
	if !f.takesAll && (hot || len(messages) == 0 || str(messages[0], "role") == "banana") {
		f.fail(w, 400, "temperature or messages")
		return
	}
	text, finish := fakeText, "length"
	for _, s := range list(q, "stop") {
		if before, _, found := strings.Cut(text, s.(string)); found {
			text, finish = before, "stop"
		} else if f.headLost && q["stream"] == true {
			text = text[:len(text)-4]
		}
	}
	head := `"id":"chatcmpl-1","created":1,"model":"m"`
	usage := `"usage":{"prompt_tokens":5,"completion_tokens":8,"total_tokens":13}`
	if q["stream"] != true {
		b, _ := json.Marshal(text)
		fmt.Fprintf(w, `{%s,"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":%q}],%s}`, head, b, finish, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	send := func(choices, more string) {
		fmt.Fprintf(w, ": ping\n\ndata: {%s,\"object\":\"chat.completion.chunk\",\"choices\":[%s]%s}\r\n\r\n", head, choices, more)
	}
	send(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`, "")
	for _, c := range text {
		b, _ := json.Marshal(string(c))
		role := ""
		if f.roles {
			role = `"role":"assistant",`
		}
		send(fmt.Sprintf(`{"index":0,"delta":{%s"content":%s},"finish_reason":null}`, role, b), "")
	}
	send(fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%q}`, finish), "")
	if f.usageAlways || at(q, "stream_options", "include_usage") == true {
		send("", ","+usage)
	}
	if !f.noDone {
		fmt.Fprint(w, "data: [DONE]\n\n")
	}
}

func run(t *testing.T, only []string, fakes ...*fake) (*Report, error) {
	t.Helper()
	o := Options{Only: only}
	for i, f := range fakes {
		o.Servers = append(o.Servers, Server{Name: fmt.Sprint("server ", i), URL: f.URL + "/v1/"})
	}
	return Run(t.Context(), o)
}

func TestRun_TellsRightFromWrong(t *testing.T) {
	for name, c := range map[string]struct {
		fault *fake
		why   string
	}{
		"the first event has the role":  {&fake{roles: true}, "has a role, too"},
		"its end":                       {&fake{noDone: true}, "does not end with [DONE]"},
		"no usage unless asked for":     {&fake{usageAlways: true}, "no choices"},
		"no messages":                   {&fake{takesAll: true}, "accepted"},
		"a body that is no JSON":        {&fake{plainErrors: true}, "no error.message"},
		"an unknown route":              {&fake{plainErrors: true}, "no envelope"},
		"a string that only begins":     {&fake{headLost: true}, "the text ends"},
		"usage where asked for":         {&fake{}, ""},
		"the members of an event":       {&fake{}, ""},
		"a string over several tokens":  {&fake{}, ""},
		"stream_options without stream": {&fake{takesAll: true}, ""},
	} {
		rep, err := run(t, []string{name}, newFake(t, &fake{}), newFake(t, c.fault))
		require.NoError(t, err)
		require.NotEmpty(t, rep.Results)
		for _, r := range rep.Results {
			require.Equal(t, Verdict{State: Right}, r.Verdicts[0], r.Name)
			if c.why == "" {
				require.Equal(t, Right, r.Verdicts[1].State, "%s: %s", r.Name, r.Verdicts[1].Why)
				continue
			}
			require.Equal(t, Wrong, r.Verdicts[1].State, r.Name)
			require.Contains(t, r.Verdicts[1].Why, c.why)
		}
	}
}

func TestRun_WhatIsNotOfferedIsAbsent(t *testing.T) {
	rep, err := run(t, []string{"embeddings", "responses", "messages API", "one model"}, newFake(t, &fake{}))
	require.NoError(t, err)
	for _, r := range rep.Results {
		require.Equal(t, Absent, r.Verdicts[0].State, r.Name)
		require.Contains(t, r.Verdicts[0].Why, "404: there is no /v1/")
	}
	require.Equal(t, len(rep.Results), rep.Totals[0][Absent])
}

func TestRun_AServerThatDiesEndsTheRun(t *testing.T) {
	rep, err := run(t, []string{"chat"}, newFake(t, &fake{dies: true}))
	require.ErrorContains(t, err, "answers no more")
	require.Empty(t, rep.Results)
}

func TestRun_ASlowAnswerIsNoneAndAnEndedContextAnError(t *testing.T) {
	f := newFake(t, &fake{})
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == pathChat {
			<-release
		}
		f.ServeHTTP(w, r)
	}))
	defer slow.Close()
	defer close(release)
	rep, err := Run(t.Context(), Options{Servers: []Server{{URL: slow.URL}}, Only: []string{"ids differ"}, Timeout: time.Second})
	require.NoError(t, err)
	require.Equal(t, Verdict{Unshown, "no answer: none within 1s"}, rep.Results[0].Verdicts[0])

	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	o := Options{Servers: []Server{{URL: f.URL}}, cases: []Case{{Area: "a", Name: "b", check: func(t *trial) {
		cancel(why)
		t.chat()
	}}}}
	_, err = Run(ctx, o)
	require.ErrorIs(t, err, why)
}

func TestRun_AsksBothTheSame(t *testing.T) {
	a, b := newFake(t, &fake{}), newFake(t, &fake{})
	rep, err := run(t, []string{"chat", "messages", "stream", "stop", "tools", "structured output", "http", "errors"}, a, b)
	require.NoError(t, err)
	require.Greater(t, len(rep.Results), 60)
	require.Equal(t, a.asked, b.asked)
}

func TestOptions_AreChecked(t *testing.T) {
	for want, o := range map[string]Options{
		"0 servers":                  {},
		`server address "nowhere"`:   {Servers: []Server{{URL: "nowhere"}}},
		`both servers have the name`: {Servers: []Server{{URL: "http://a"}, {URL: "http://a"}}},
		`no case is of the area`:     {Servers: []Server{{URL: "http://a"}}, Only: []string{"chat", "no such"}},
		"timeout -1s":                {Servers: []Server{{URL: "http://a"}}, Timeout: -time.Second},
	} {
		_, err := Run(t.Context(), o)
		require.ErrorContains(t, err, want)
	}
}

func TestReport_IsATableWithTotals(t *testing.T) {
	rep := &Report{Servers: []ReportServer{{Name: "ours"}, {Name: "theirs"}},
		Results: []Result{
			{"chat", "one", "x", "so", []Verdict{{State: Right}, {Wrong, "a | b\n<c>"}}},
			{"chat", "two", "x", "so", []Verdict{{Wrong, "w"}, {Absent, "501: none"}}}},
		Totals: []map[State]int{{Right: 1, Wrong: 1}, {Wrong: 1, Absent: 1}}}
	var b bytes.Buffer
	require.NoError(t, rep.WriteTable(&b))
	require.Equal(t, `| | case | right is | ours | theirs | why not right |
|---|---|---|---|---|---|
| chat | one | so | ✓ | ✗ | a \| b &lt;c> |
|  | two | so | ✗ | – | ours: w; 501: none |

| | ours | theirs |
|---|---|---|
| ✓ right | 1 | 0 |
| ✗ wrong | 1 | 1 |
| – not offered, and said so | 0 | 1 |
| ○ not shown | 0 | 0 |
`, b.String())
	b.Reset()
	require.NoError(t, rep.WriteJSON(&b))
	require.Contains(t, b.String(), `"why": "a | b\n<c>"`)
}

func TestCases_AreNamedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		require.False(t, seen[c.Area+c.Name], c.Name)
		seen[c.Area+c.Name] = true
		require.NotEmpty(t, c.From)
		require.NotEmpty(t, c.Right)
	}
	require.Greater(t, len(seen), 100)
}
