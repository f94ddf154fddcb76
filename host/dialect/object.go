package dialect

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// spaces are JSON's own.
const spaces = " \t\r\n"

// object follows one JSON object while its text grows, to know where it ends and
// where its members' values stand. It looks at nesting and strings alone; whether
// the object is JSON is asked of jsontext when it is complete.
type object struct {
	skip    int // bytes of a longer text before it, at least
	pos     int // bytes looked at
	length  int // of the whole object, once it is over
	depth   int
	inText  bool
	escaped bool
	quote   int    // where the last string began
	key     string // the last string at depth 1, with its quotes
	value   bool   // between a member's colon and its end
	members []member
}

// member of an object; start and end are -1 while not known.
type member struct {
	key        string
	start, end int
}

// scan goes on from where it stopped and returns the object's length, -1 as long
// as it is not over. The text must begin with {.
func (o *object) scan(s string) int {
	if o.length > 0 {
		return o.length
	}
	for ; o.pos < len(s); o.pos++ {
		c := s[o.pos]
		if o.inText {
			switch {
			case o.escaped:
				o.escaped = false
			case c == '\\':
				o.escaped = true
			case c == '"':
				o.inText = false
				if o.depth == 1 && !o.value {
					o.key = s[o.quote : o.pos+1]
				}
			}
			continue
		}
		switch c {
		case '"':
			o.begin()
			o.inText, o.quote = true, o.pos
		case '{', '[':
			o.begin()
			o.depth++
		case '}', ']':
			o.depth--
			if o.depth <= 0 {
				o.end(s)
				o.length = o.pos + 1
				return o.length
			}
			if o.depth == 1 && o.value {
				o.members[len(o.members)-1].end = o.pos + 1
			}
		case ':':
			if o.depth == 1 && !o.value {
				o.value = true
				o.members = append(o.members, member{key: unquote(o.key), start: -1, end: -1})
			}
		case ',':
			if o.depth == 1 {
				o.end(s)
				o.value = false
			}
		case ' ', '\t', '\r', '\n':
		default:
			o.begin()
		}
	}
	return -1
}

// begin notes the first byte of a value.
func (o *object) begin() {
	if o.depth == 1 && o.value && o.members[len(o.members)-1].start < 0 {
		o.members[len(o.members)-1].start = o.pos
	}
}

// end notes that the value before this byte is over.
func (o *object) end(s string) {
	if !o.value {
		return
	}
	m := &o.members[len(o.members)-1]
	if m.start < 0 {
		m.start = o.pos
	}
	if m.end < 0 {
		m.end = m.start + len(strings.TrimRight(s[m.start:o.pos], spaces))
	}
}

// get is the text of a value, as far as it is there, and whether it is complete.
func (o *object) get(s, key string) (text string, complete, ok bool) {
	for _, m := range o.members {
		if m.key != key || m.start < 0 {
			continue
		}
		if m.end < 0 {
			return s[m.start:], false, true
		}
		return s[m.start:m.end], true, true
	}
	return "", false, false
}

// unquote is the text of a JSON string, "" when it is none.
func unquote(quoted string) string {
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return ""
	}
	return string(text)
}

// quote is a text as a JSON string. In one that is not UTF-8 the broken bytes are
// replaced, and the error says no more than that.
func quote(text string) string {
	quoted, _ := jsontext.AppendQuote(nil, text)
	return string(quoted)
}
