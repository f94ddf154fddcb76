package compare

import (
	"encoding/json"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// fit is how a text fits a schema. An answer that its cap ended is held against the
// schema, too: one that was never under it would pass otherwise.
type fit int

const (
	none  fit = iota // nothing that could follow makes it an instance
	begun            // the beginning of an instance
	full             // an instance
)

// fits holds a text against a schema: type object with properties, required and no
// further members where properties are given, strings with enum, pattern and lengths,
// integers with bounds; any JSON where there is no type.
func fits(schema m, text string) fit {
	p := &partial{text}
	f := p.value(schema)
	p.space()
	if f == full && p.rest != "" {
		return none
	}
	return f
}

// instance wants a text that is an instance of the schema, or the beginning of one
// where the cap ended it.
func (t *trial) instance(schema m, text, finish string) {
	f := fits(schema, text)
	if finish == "length" {
		t.that(f != none && text != "", "the text, which the cap ended, begins no instance: %q", short(text, 60))
		return
	}
	t.that(f == full, "the text is no instance: %q", short(text, 60))
}

// partial reads JSON that may end anywhere.
type partial struct{ rest string }

func (p *partial) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *partial) value(schema m) fit {
	p.space()
	if p.rest == "" {
		return begun
	}
	kind, first := str(schema, "type"), p.rest[0]
	switch {
	case first == '{' && (kind == "object" || kind == ""):
		return p.object(schema)
	case first == '"' && (kind == "string" || kind == ""):
		text, f := p.quoted()
		return allowed(schema, text, f)
	case kind == "integer", kind == "" && (first == '-' || first >= '0' && first <= '9'):
		return p.number(schema)
	case kind == "" && first == '[':
		return p.list()
	case kind == "":
		return p.word()
	}
	return none
}

func (p *partial) object(schema m) fit {
	properties, closed := schema["properties"].(m)
	required, _ := schema["required"].([]string)
	seen := map[string]bool{}
	p.rest = p.rest[1:]
	for first := true; ; first = false {
		p.space()
		switch {
		case p.rest == "":
			return begun
		case p.rest[0] == '}' && first && len(required) == 0:
			p.rest = p.rest[1:]
			return full
		case p.rest[0] != '"':
			return none
		}
		name, f := p.quoted()
		if f == begun {
			if closed && !slices.ContainsFunc(slices.Collect(maps.Keys(properties)), func(k string) bool { return !seen[k] && strings.HasPrefix(k, name) }) {
				return none
			}
			return begun
		}
		member, known := properties[name].(m)
		if f == none || closed && (!known || seen[name]) {
			return none
		}
		seen[name] = true
		if p.space(); p.rest == "" {
			return begun
		}
		if p.rest[0] != ':' {
			return none
		}
		p.rest = p.rest[1:]
		if f := p.value(member); f != full {
			return f
		}
		switch end, more := p.next('}'); {
		case end == full && slices.ContainsFunc(required, func(n string) bool { return !seen[n] }):
			return none
		case !more:
			return end
		}
	}
}

func (p *partial) list() fit {
	p.rest = p.rest[1:]
	if p.space(); strings.HasPrefix(p.rest, "]") {
		p.rest = p.rest[1:]
		return full
	}
	for {
		if f := p.value(nil); f != full {
			return f
		}
		if end, more := p.next(']'); !more {
			return end
		}
	}
}

// next reads what stands after a member: a comma, or the end.
func (p *partial) next(end byte) (f fit, more bool) {
	if p.space(); p.rest == "" {
		return begun, false
	}
	c := p.rest[0]
	p.rest = p.rest[1:]
	switch c {
	case ',':
		return begun, true
	case end:
		return full, false
	}
	return none, false
}

// quoted reads a string, or what there is of one.
func (p *partial) quoted() (text string, f fit) {
	for i := 1; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '\\':
			i++
		case '"':
			raw := p.rest[:i+1]
			p.rest = p.rest[i+1:]
			if json.Unmarshal([]byte(raw), &text) != nil {
				return "", none
			}
			return text, full
		}
	}
	raw := p.rest
	p.rest = ""
	if json.Unmarshal([]byte(raw+`"`), &text) == nil {
		return text, begun
	}
	if i := strings.LastIndexByte(raw, '\\'); i > 0 && len(raw)-i < len(`\u0000`) && json.Unmarshal([]byte(raw[:i]+`"`), &text) == nil {
		return text, begun // an escape was cut
	}
	return "", none
}

// allowed holds a string against its schema.
func allowed(schema m, text string, f fit) fit {
	if f == none {
		return none
	}
	if enum, ok := schema["enum"].([]string); ok && !slices.ContainsFunc(enum, func(e string) bool { return e == text || f == begun && strings.HasPrefix(e, text) }) {
		return none
	}
	n := utf8.RuneCountInString(text)
	if most, ok := schema["maxLength"].(int); ok && n > most {
		return none
	}
	if f == begun {
		return begun
	}
	if least, ok := schema["minLength"].(int); ok && n < least {
		return none
	}
	if pattern, ok := schema["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(text) {
		return none
	}
	return full
}

var begunNumber = regexp.MustCompile(`^-?((0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]*)?)?$`)

func (p *partial) number(schema m) fit {
	text := p.rest[:len(p.rest)-len(strings.TrimLeft(p.rest, "+-.eE0123456789"))]
	p.rest = p.rest[len(text):]
	least, bounded := schema["minimum"].(int)
	most, _ := schema["maximum"].(int) // with a minimum
	if p.rest == "" {                  // more digits may have come
		if text == "" || !begunNumber.MatchString(text) {
			return none
		}
		for n := least; bounded && n <= most; n++ {
			if strings.HasPrefix(strconv.Itoa(n), text) || strings.HasPrefix(text, strconv.Itoa(n)) {
				return begun
			}
		}
		if bounded {
			return none
		}
		return begun
	}
	var v float64
	if json.Unmarshal([]byte(text), &v) != nil || schema["type"] == "integer" && v != math.Trunc(v) || bounded && (v < float64(least) || v > float64(most)) {
		return none
	}
	return full
}

func (p *partial) word() fit {
	for _, w := range []string{"true", "false", "null"} {
		switch {
		case strings.HasPrefix(p.rest, w):
			p.rest = p.rest[len(w):]
			return full
		case strings.HasPrefix(w, p.rest):
			p.rest = ""
			return begun
		}
	}
	return none
}
