package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// trial is a case against one server. Its methods end the case where an answer is
// wrong, so that a check reads as a list of what is right.
type trial struct {
	ctx context.Context
	*asker
}

// verdict ends a case, broken the run.
type (
	verdict Verdict
	broken  struct{ error }
)

// m is a JSON object.
type m = map[string]any

// drop as a value leaves a member out.
var drop = new(int)

// that ends the case as wrong unless ok.
func (t *trial) that(ok bool, format string, args ...any) {
	if !ok {
		t.wrong(format, args...)
	}
}

func (t *trial) wrong(format string, args ...any) {
	panic(verdict{Wrong, fmt.Sprintf(format, args...)})
}

// needs ends the case as not shown unless there is what it is about: an answer that is
// too short to cut, or has no call where none was forced, says nothing of the case.
func (t *trial) needs(ok bool, format string, args ...any) {
	if !ok {
		t.unshown("needs "+format, args...)
	}
}

func (t *trial) unshown(format string, args ...any) {
	panic(verdict{Unshown, fmt.Sprintf(format, args...)})
}

func (t *trial) absent(format string, args ...any) {
	panic(verdict{Absent, fmt.Sprintf(format, args...)})
}

// with puts members over those of a body.
func with(body m, over ...m) m {
	out := maps.Clone(body)
	for _, o := range over {
		for k, v := range o {
			if v == any(drop) {
				delete(out, k)
			} else {
				out[k] = v
			}
		}
	}
	return out
}

// user is a conversation of one message.
func user(text any) []m { return []m{{"role": "user", "content": text}} }

// say is the body of a short chat, fresh says the same to a server that may reuse a
// prompt: what comes of a reused one may differ in the last digit, and with it a
// close decision, which is no fault of what the case asks about.
func (t *trial) say(over ...m) m {
	return with(m{"model": t.Model, "messages": user("Say hi"), "max_tokens": 8, "temperature": 0}, over...)
}

func (t *trial) fresh(over ...m) m { return with(t.say(m{"cache_prompt": false}), over...) }

const pathChat = "/v1/chat/completions"

// post sends a body: an object, or JSON as text.
func (t *trial) post(path string, body any, headers ...string) *reply {
	return t.send("POST", path, body, headers...)
}

func (t *trial) send(method, path string, body any, headers ...string) *reply {
	var text []byte
	switch b := body.(type) {
	case nil:
	case string:
		text = []byte(b)
	default:
		var err error
		if text, err = json.Marshal(b); err != nil {
			panic(err) // a fault of the case
		}
	}
	h := map[string]string{"Content-Type": "application/json"}
	for i := 0; i < len(headers); i += 2 {
		h[headers[i]] = headers[i+1]
	}
	r, err := t.ask(t.ctx, method, path, text, h)
	var late late
	switch {
	case err == nil:
		r.t = t
		return r
	case t.ctx.Err() != nil:
		panic(broken{context.Cause(t.ctx)})
	case errors.As(err, &late):
		t.unshown("no answer: %v", err)
	}
	t.wrong("no answer: %v", err)
	return nil
}

// chat is a short chat with further members.
func (t *trial) chat(over ...m) *reply { return t.post(pathChat, t.say(over...)) }

// refused wants the request refused.
func (t *trial) refused(over m) { t.chat(over).refused("%s", brief(over)) }

// brief is a JSON text short enough for a report.
func brief(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return short(string(b), 80)
}

func short(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// at follows names and indexes into JSON; nil where there is nothing.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			o, _ := v.(m)
			v = o[p]
		case int:
			l, _ := v.([]any)
			if p < 0 {
				p += len(l)
			}
			if p < 0 || p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// str, num, list and has read what at found.
func str(v any, path ...any) string { s, _ := at(v, path...).(string); return s }

func num(v any, path ...any) int { f, _ := at(v, path...).(float64); return int(f) }

func list(v any, path ...any) []any { l, _ := at(v, path...).([]any); return l }

func has(v any, name string) bool { o, _ := v.(m); _, ok := o[name]; return ok }

// whole tells that a value is a number without a fraction.
func whole(v any) bool { f, ok := v.(float64); return ok && f == float64(int64(f)) }

// lacking says of a request that was refused that the server does not have it.
var lacking = regexp.MustCompile(`(?i)not (yet )?(support|implement|enabl|available|offered)|unsupported|no embeddings|makes no|cannot (rank|embed|make)|does not (have|make|know)|cannot be used here|not stored`)

// offered ends the case as absent where the server says that it does not have what
// was asked for.
func (t *trial) offered(r *reply) *reply {
	message := r.message()
	switch {
	case r.status == 404 && message != "", r.status == 405, r.status == 501,
		r.status >= 400 && r.status < 500 && lacking.MatchString(message):
		t.absent("%d: %s", r.status, short(message, 90))
	}
	return r
}
