package dialect

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonCall reads {"name": ..., "arguments": {...}}; the arguments are also known
// as parameters. Behind a marker a call without arguments may leave them out. Bare
// JSON is a call only if it has all that makes one and nothing else: an answer in
// JSON may have a name too.
type jsonCall struct {
	object object
	bare   bool
}

func (c *jsonCall) read(s string, _ bool) reading {
	if s == "" {
		return reading{}
	}
	if s[0] != '{' {
		return reading{state: broken}
	}
	end := c.object.scan(s)
	if !c.plausible(s) {
		return reading{state: broken}
	}
	r := reading{}
	if text, known, _ := c.object.get(s, "name"); known {
		r.name = unquote(text)
	}
	text, known, has := c.object.get(s, "arguments")
	other, otherKnown, twice := c.object.get(s, "parameters")
	if !has {
		text, known, has, twice = other, otherKnown, twice, false
	}
	if strings.HasPrefix(text, "{") {
		r.arguments = text
	}
	if end < 0 {
		return r
	}
	r.length, r.state = end, broken
	switch {
	case r.name == "" || !jsontext.Value(s[:end]).IsValid():
	case twice, c.bare && !has:
	case !has:
		if len(c.object.members) == 1 { // the name
			r.state, r.arguments = complete, "{}"
		}
	case known && strings.HasPrefix(text, `"`): // some models write the object as a string
		if text = unquote(text); isObject(text) {
			r.state, r.arguments = complete, text
		}
	case known && isObject(text):
		r.state = complete
	}
	return r
}

// plausible is false once the object cannot be a call's, so that an answer which
// is JSON itself is not held back to its end.
func (c *jsonCall) plausible(s string) bool {
	if head := strings.TrimLeft(s[1:], spaces); head != "" && head[0] != '"' {
		return false
	}
	for _, m := range c.object.members {
		switch m.key {
		case "name", "arguments", "parameters", "id", "type":
		default:
			return false
		}
		if !c.bare {
			break // behind a marker further members may be anything
		}
	}
	return true
}

func isObject(text string) bool {
	v := jsontext.Value(text)
	return v.Kind() == '{' && v.IsValid()
}

// argumentsAt reads the object at s[at:] as a call's arguments. It returns the
// object's end, -1 while it grows.
func argumentsAt(o *object, s string, at int) (end int, text string, ok bool) {
	if s[at] != '{' {
		return 0, "", false
	}
	n := o.scan(s[at:])
	if n < 0 {
		return -1, s[at:], true
	}
	return at + n, s[at : at+n], isObject(s[at : at+n])
}

// step takes one of the texts, or none, at s[at:]. It reports whether more text
// could change that.
func step(s string, at int, over bool, texts ...string) (next int, found, wait bool) {
	for _, text := range texts {
		switch rest := s[at:]; {
		case strings.HasPrefix(rest, text):
			return at + len(text), true, false
		case strings.HasPrefix(text, rest) && !over:
			wait = true
		}
	}
	return at, false, wait
}

// skipSpaces is the place of the next byte that is not white space.
func skipSpaces(s string, at int) int {
	for at < len(s) && strings.IndexByte(spaces, s[at]) >= 0 {
		at++
	}
	return at
}

// nameAt is the length of the function name at the head of s.
func nameAt(s string) int {
	i := 0
	for i < len(s) && nameByte(s[i]) {
		i++
	}
	return i
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}

// argsCall reads Mistral's name[ARGS]{...}, in which a [CALL_ID] may stand.
type argsCall struct{ object object }

func (c *argsCall) read(s string, over bool) reading {
	at := nameAt(s)
	name := s[:at]
	if at == len(s) {
		return reading{}
	}
	next, found, wait := step(s, at, over, mistralID)
	if wait && !strings.HasPrefix(mistralArgs, s[at:]) {
		return reading{}
	}
	if found {
		at = next + nameAt(s[next:])
	}
	if at, found, wait = step(s, at, over, mistralArgs); !found {
		if wait {
			return reading{}
		}
		return reading{state: broken}
	}
	return finish(&c.object, s, at, name, nil)
}

// finish reads the arguments that end a call, after white space; tail reads what
// still follows them.
func finish(o *object, s string, at int, name string, tail func(end int) (int, state)) reading {
	r := reading{name: name, length: at}
	o.skip = skipSpaces(s, max(at, o.skip))
	if at = o.skip; at == len(s) {
		return reading{name: name}
	}
	end, text, ok := argumentsAt(o, s, at)
	r.arguments = text
	if end < 0 {
		return r
	}
	if !ok {
		r.state, r.length = broken, max(at, end)
		return r
	}
	r.state, r.length = complete, end
	if tail != nil {
		r.length, r.state = tail(end)
	}
	return r
}

// deepseekReader reads name<sep>{...}<end>, and the older
// function<sep>name, the arguments in a fenced block of JSON, <end>.
type deepseekReader struct{ object object }

func (c *deepseekReader) read(s string, over bool) reading {
	at := nameAt(s)
	name := s[:at]
	at, found, wait := step(s, at, over, deepseekSep)
	if !found {
		if wait || at == len(s) {
			return reading{}
		}
		return reading{state: broken}
	}
	if at == len(s) {
		return reading{}
	}
	if name == "function" && nameByte(s[at]) {
		n := nameAt(s[at:])
		name = s[at : at+n]
		if at = skipSpaces(s, at+n); at == len(s) {
			return reading{}
		}
		if at, found, wait = step(s, at, over, "```json"); wait {
			return reading{}
		} else if !found {
			return reading{state: broken}
		}
	}
	return finish(&c.object, s, at, name, func(end int) (int, state) {
		for _, text := range []string{"```", deepseekCallEnd} {
			next, found, wait := step(s, skipSpaces(s, end), over, text)
			if wait {
				return end, growing
			}
			if found {
				end = next
			}
		}
		return end, complete
	})
}
