package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// asker asks one server.
type asker struct {
	Server
	http    *http.Client
	timeout time.Duration
	most    int64 // bytes of an answer that are read
	// What several cases want to know, once it was asked for.
	text    string // a longer answer
	forces  *bool  // tool_choice required brings a call
	counts  *bool  // usage.prompt_tokens grow with the prompt
	badJSON int    // status of a body that is no JSON
}

// late is what became of a request that was not answered in time. It says nothing of
// the answer, so it makes no case wrong.
type late struct{ limit time.Duration }

func (l late) Error() string { return fmt.Sprintf("none within %s", l.limit) }

func newAsker(s Server, timeout time.Duration) *asker {
	return &asker{Server: s, timeout: timeout, most: mostBytes, http: &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// mostBytes bounds an answer that is read, unless a case wants less of it.
const mostBytes = 32 << 20

// ask sends a request and reads the whole answer.
func (a *asker) ask(ctx context.Context, method, path string, body []byte, headers map[string]string) (*reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.timeout, late{a.timeout})
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range headers {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	if a.Key != "" {
		req.Header.Set("Authorization", "Bearer "+a.Key)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, a.most))
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return &reply{status: resp.StatusCode, header: resp.Header, length: resp.ContentLength, raw: raw}, nil
}

func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// chooseModel takes the first served name unless one was given.
func (a *asker) chooseModel(ctx context.Context) error {
	r, err := a.ask(ctx, "GET", "/v1/models", nil, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", a.URL, err)
	}
	if a.Model != "" {
		return nil
	}
	if a.Model = str(r.value(), "data", 0, "id"); a.Model == "" {
		return errors.New(a.URL + " lists no model; name one")
	}
	return nil
}

// reply is an answer that was read to its end.
type reply struct {
	t      *trial
	status int
	header http.Header
	length int64 // that was announced, -1 for none
	raw    []byte
}

// value is the body as JSON, nil where it is none.
func (r *reply) value() any {
	var v any
	if json.Unmarshal(r.raw, &v) != nil {
		return nil
	}
	return v
}

// message is what an error says, in the form of either API, "" where it is none.
func (r *reply) message() string { return str(r.value(), "error", "message") }

func (r *reply) isJSON() bool {
	return strings.HasPrefix(r.header.Get("Content-Type"), "application/json")
}

// object wants an answer that went well.
func (r *reply) object() m {
	r.t.that(r.status == 200, "%d: %s", r.status, short(string(r.raw), 120))
	r.t.that(utf8.Valid(r.raw), "the answer is not valid UTF-8")
	o, ok := r.value().(m)
	r.t.that(ok && r.isJSON(), "the answer is no JSON object (%s)", r.header.Get("Content-Type"))
	return o
}

// refused wants an error that is the client's. Which client's status it has is left
// to the server: libraries have a class for each.
func (r *reply) refused(format string, args ...any) {
	what := short(fmt.Sprintf(format, args...), 90)
	r.t.that(r.status != 200, "%s: accepted", what)
	r.t.that(r.status == 400 || r.status == 422, "%s: %d %s", what, r.status, short(r.message(), 60))
	r.t.that(r.message() != "", "%s: the error has no error.message", what)
}

// noFault wants success or an error that is the client's.
func (r *reply) noFault(format string, args ...any) {
	r.t.that(r.status < 500, "%s: %d %s", short(fmt.Sprintf(format, args...), 90), r.status, short(r.message(), 60))
}

// choice is a choice of a chat's whole answer.
func choice(o m, i int) m { c, _ := at(o, "choices", i).(m); return c }

// textOf is the text of a chat's first choice.
func textOf(o m) string { return str(o, "choices", 0, "message", "content") }

func finishOf(o m) string { return str(o, "choices", 0, "finish_reason") }

// promptTokens of a chat with these messages.
func (t *trial) promptTokens(messages any) int {
	n := num(t.chat(m{"messages": messages, "max_tokens": 1}).object(), "usage", "prompt_tokens")
	t.needs(n > 0, "usage.prompt_tokens")
	return n
}

// counting needs a server whose prompt tokens are counted: equal numbers say nothing
// where all are equal.
func (t *trial) counting() {
	if t.asker.counts == nil {
		grow := t.promptTokens(user(strings.Repeat("The river runs. ", 20))) > t.promptTokens(user("The river runs. "))
		t.asker.counts = &grow
	}
	t.needs(*t.asker.counts, "usage.prompt_tokens that grow with the prompt")
}

// noJSONFault wants no fault, but one that every body that cannot be parsed meets:
// that is a case of its own.
func (r *reply) noJSONFault(format string, args ...any) {
	t := r.t
	if t.asker.badJSON == 0 {
		t.asker.badJSON = t.post(pathChat, `{"model":`).status
	}
	t.needs(r.status < 500 || r.status != t.asker.badJSON, "more than the %d of every body that is no JSON", r.status)
	r.noFault(format, args...)
}
