package compare

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// event is one of a stream.
type event struct {
	name string // its event field
	data m
}

// stream is an event stream that was read to its end.
type stream struct {
	t      *trial
	reply  *reply
	events []event
	done   bool // [DONE] was its last event
}

// stream sends a chat that is to be streamed.
func (t *trial) stream(over ...m) *stream {
	return t.post(pathChat, t.say(append([]m{{"stream": true}}, over...)...)).stream()
}

// stream wants a well-formed event stream: each event ends with an empty line and its
// data is one JSON object, [DONE] apart, which stands at the end if anywhere.
func (r *reply) stream() *stream {
	t := r.t
	t.that(r.status == 200, "%d: %s", r.status, short(string(r.raw), 120))
	t.that(strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream"), "Content-Type is %q", r.header.Get("Content-Type"))
	t.that(utf8.Valid(r.raw), "the stream is not valid UTF-8")
	raw := bytes.ReplaceAll(r.raw, []byte("\r\n"), []byte("\n"))
	t.that(bytes.HasSuffix(raw, []byte("\n\n")), "the last event is not ended by an empty line")
	s := &stream{t: t, reply: r}
	for block := range bytes.SplitSeq(raw, []byte("\n\n")) {
		var e event
		var data []string
		for line := range strings.SplitSeq(string(block), "\n") {
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "event":
				e.name = value
			case "data":
				data = append(data, value)
			case "", "id", "retry": // a comment starts with a colon
			default:
				t.wrong("a line of the stream is %q", short(line, 60))
			}
		}
		if data == nil && e.name == "" {
			continue
		}
		text := strings.Join(data, "\n")
		t.that(!s.done, "an event follows [DONE]: %s", short(text, 60))
		if s.done = text == "[DONE]"; s.done {
			continue
		}
		t.that(json.Unmarshal([]byte(text), &e.data) == nil, "an event's data is not a JSON object: %q", short(text, 60))
		t.that(!has(e.data, "error") || e.data["error"] == nil, "an event is an error: %s", short(text, 90))
		s.events = append(s.events, e)
	}
	t.that(len(s.events) > 0, "the stream has no events")
	return s
}

// ended wants the sentinel of OpenAI's older streams.
func (s *stream) ended() *stream {
	s.t.that(s.done, "the stream does not end with [DONE]")
	return s
}

// choices gives every event's part of a choice.
func (s *stream) choices(index int) (all []m) {
	for _, e := range s.events {
		for _, c := range list(e.data, "choices") {
			if num(c, "index") == index {
				c, ok := c.(m)
				s.t.that(ok, "a choice is no object")
				all = append(all, c)
			}
		}
	}
	return all
}

// text is the whole text of a choice, of a chat or a completion.
func (s *stream) text(index int) string {
	var b strings.Builder
	for _, c := range s.choices(index) {
		b.WriteString(str(c, "delta", "content"))
		b.WriteString(str(c, "text"))
	}
	return b.String()
}

// finish wants exactly one finish_reason of a choice.
func (s *stream) finish(index int) string {
	reason, n := "", 0
	for _, c := range s.choices(index) {
		if r := str(c, "finish_reason"); r != "" {
			reason = r
			n++
		}
	}
	s.t.that(n == 1, "choice %d has %d events with a finish_reason", index, n)
	return reason
}

// names are the events' names.
func (s *stream) names() (all []string) {
	for _, e := range s.events {
		all = append(all, e.name)
	}
	return all
}

// of are the data of the events with this type.
func (s *stream) of(kind string) (all []m) {
	for _, e := range s.events {
		if str(e.data, "type") == kind {
			all = append(all, e.data)
		}
	}
	return all
}

// first is the first event with this type.
func (s *stream) first(kind string) m {
	all := s.of(kind)
	s.t.that(len(all) > 0, "no event %s", kind)
	return all[0]
}

// joined puts a member of such events together.
func (s *stream) joined(kind, name string) string {
	var b strings.Builder
	for _, e := range s.of(kind) {
		b.WriteString(str(e, name))
	}
	return b.String()
}
