package dialect

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// pairs is a form of calls whose arguments are keys and values in brackets.
type pairs struct {
	open, colon string
	close       byte
	mark        string // around texts; "" for quotes with backslashes
	value       func(text string) (value string, ok bool)
}

// gemmaPairs are functiongemma's name{key:value,...}, in which texts stand between
// <escape> marks. pythonPairs are olmo3's name(key=value, ...).
var (
	gemmaPairs  = pairs{open: "{", colon: ":", close: '}', mark: gemmaEscape, value: gemmaValue}
	pythonPairs = pairs{open: "(", colon: "=", close: ')', value: pythonValue}
)

// pairsCall reads a call in such a form. Arguments are known one by one, and no
// byte is looked at again when more text comes.
type pairsCall struct {
	form pairs

	name      string
	keys      map[string]bool // nil before the opening bracket
	arguments strings.Builder
	at        int // bytes that the arguments stand for

	// Of the argument that is read now.
	pos   int    // bytes looked at
	comma bool   // it has its comma
	begun bool   // its key, or its value once the key is known
	from  int    // where that began
	key   string // "" while it grows
	depth int    // brackets open in its value
	text  string // ends the text in its value that pos is in; "" outside
}

func (c *pairsCall) read(s string, over bool) reading {
	if c.keys == nil {
		n := nameAt(s)
		if n == len(s) && !over {
			return reading{}
		}
		at, found, _ := step(s, n, over, c.form.open)
		if n == 0 || !found {
			return reading{state: broken}
		}
		c.name, c.at, c.pos, c.keys = s[:n], at, at, map[string]bool{}
		c.arguments.WriteByte('{')
	}
	for {
		if more, state := c.argument(s); !more {
			return reading{state: state, name: c.name, arguments: c.arguments.String(), length: c.at}
		}
	}
}

// argument reads the next argument, or the call's end.
func (c *pairsCall) argument(s string) (more bool, st state) {
	if c.key == "" {
		if !c.begun {
			c.pos = skipSpaces(s, c.pos)
			switch {
			case c.pos == len(s):
				return false, growing
			case c.comma || len(c.keys) == 0 && s[c.pos] != c.form.close:
				c.begun, c.from = true, c.pos
			case s[c.pos] == c.form.close:
				c.arguments.WriteByte('}')
				c.at = c.pos + 1
				return false, complete
			case s[c.pos] == ',':
				c.comma = true
				c.pos++
				return true, growing
			default:
				return false, broken
			}
		}
		n := strings.IndexAny(s[c.pos:], c.form.colon+"\n"+string(c.form.close))
		if n < 0 {
			c.pos = len(s)
			return false, growing
		}
		c.pos += n
		key := strings.Trim(s[c.from:c.pos], spaces)
		if s[c.pos] != c.form.colon[0] || key == "" || c.keys[key] {
			return false, broken
		}
		c.pos++
		c.key, c.from = key, c.pos
	}
	if !c.passValue(s) {
		return false, growing
	}
	value, ok := c.form.value(strings.Trim(s[c.from:c.pos], spaces))
	if !ok {
		return false, broken
	}
	if len(c.keys) > 0 {
		c.arguments.WriteString(", ")
	}
	c.arguments.WriteString(quote(c.key) + ": " + value)
	c.keys[c.key] = true
	c.at, c.key, c.comma, c.begun, c.depth = c.pos, "", false, false, 0
	return true, growing
}

// passValue goes on to where a value ends: at a comma or bracket that is not in a
// text nor in brackets of the value's own. It returns false while there is none.
func (c *pairsCall) passValue(s string) bool {
	mark := c.form.mark
	for c.pos < len(s) {
		rest := s[c.pos:]
		switch b := rest[0]; {
		case c.text != "" && mark != "":
			n := strings.Index(rest, mark)
			if n < 0 {
				c.pos = max(c.pos, len(s)-len(mark)+1)
				return false
			}
			c.text = ""
			c.pos += n + len(mark) - 1
		case c.text != "" && b == '\\':
			if len(rest) == 1 {
				return false
			}
			c.pos++
		case c.text != "":
			if b == c.text[0] {
				c.text = ""
			}
		case mark != "" && strings.HasPrefix(rest, mark):
			c.text = mark
			c.pos += len(mark) - 1
		case mark != "" && strings.HasPrefix(mark, rest):
			return false
		case mark == "" && (b == '"' || b == '\''):
			c.text = rest[:1]
		case c.depth == 0 && (b == ',' || b == c.form.close):
			return true
		case b == '{' || b == '[' || b == '(':
			c.depth++
		case b == '}' || b == ']' || b == ')':
			c.depth--
		}
		c.pos++
	}
	return false
}

// gemmaValue makes JSON of a value in functiongemma's form.
func gemmaValue(text string) (string, bool) {
	if text == "" || text[0] != '[' && text[0] != '{' {
		return gemmaScalar(text), true
	}
	v := gemmaNested{s: text}
	if !v.value(0) || v.at != len(text) {
		return "", false
	}
	return v.out.String(), true
}

// gemmaScalar is a text between marks, a number or boolean in the model's own
// spelling, or a text without marks.
func gemmaScalar(text string) string {
	if inner, ok := strings.CutPrefix(text, gemmaEscape); ok && strings.Count(text, gemmaEscape) == 2 {
		if inner, ok = strings.CutSuffix(inner, gemmaEscape); ok {
			return quote(inner)
		}
	}
	if v := jsontext.Value(text); v.IsValid() && (v.Kind() == '0' || v.Kind() == 't' || v.Kind() == 'f') {
		return text
	}
	return quote(text)
}

// gemmaNested writes JSON of lists and objects in that form.
type gemmaNested struct {
	s   string
	at  int
	out strings.Builder
}

// value takes the next value; false if there is none.
func (v *gemmaNested) value(depth int) bool {
	v.at = skipSpaces(v.s, v.at)
	if v.at == len(v.s) || depth > maxDepth {
		return false
	}
	switch v.s[v.at] {
	case '[':
		return v.items(']', func() bool { return v.value(depth + 1) })
	case '{':
		keys := map[string]bool{}
		return v.items('}', func() bool { return v.key(keys) && v.value(depth+1) })
	}
	from := v.at
	for v.at < len(v.s) && !strings.ContainsAny(v.s[v.at:v.at+1], ",]}") {
		if !strings.HasPrefix(v.s[v.at:], gemmaEscape) {
			v.at++
			continue
		}
		text := v.at + len(gemmaEscape)
		n := strings.Index(v.s[text:], gemmaEscape)
		if n < 0 {
			return false
		}
		v.at = text + n + len(gemmaEscape)
	}
	text := strings.Trim(v.s[from:v.at], spaces)
	v.out.WriteString(gemmaScalar(text))
	return text != ""
}

// items takes a list of what one takes, in brackets.
func (v *gemmaNested) items(close byte, one func() bool) bool {
	v.out.WriteByte(v.s[v.at])
	v.at = skipSpaces(v.s, v.at+1)
	for first := true; v.at < len(v.s); first = false {
		switch c := v.s[v.at]; {
		case c == close:
			v.at++
			v.out.WriteByte(close)
			return true
		case first:
		case c == ',':
			v.at++
			v.out.WriteString(", ")
		default:
			return false
		}
		if !one() {
			return false
		}
		v.at = skipSpaces(v.s, v.at)
	}
	return false
}

// key takes a member's name and the colon behind it.
func (v *gemmaNested) key(known map[string]bool) bool {
	rest := v.s[v.at:]
	n := strings.IndexAny(rest, ":,[]{}")
	if n < 0 || rest[n] != ':' {
		return false
	}
	key := strings.Trim(rest[:n], spaces)
	if key == "" || known[key] {
		return false
	}
	known[key] = true
	v.at += n + 1
	v.out.WriteString(quote(key) + ": ")
	return true
}

// pythonValue makes JSON of a literal of Python's, or of JSON. Ollama's parser of
// the family is no help here: it loses bytes of characters beyond ASCII.
func pythonValue(text string) (string, bool) {
	if text == "" {
		return "", false
	}
	if !strings.ContainsAny(text, "\"'[]{}()") && !jsontext.Value(pythonWord(text)).IsValid() {
		return quote(text), true // a text whose quotes the model forgot
	}
	if jsontext.Value(text).IsValid() {
		return text, true
	}
	var out strings.Builder
	for at := 0; at < len(text); {
		switch c := text[at]; {
		case c == '"' || c == '\'':
			end := at + 1
			for end < len(text) && text[end] != c {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(text) {
				return "", false
			}
			out.WriteString(pythonText(text[at : end+1]))
			at = end + 1
		case nameByte(c):
			n := nameAt(text[at:])
			out.WriteString(pythonWord(text[at : at+n]))
			at += n
		default:
			out.WriteByte(c)
			at++
		}
	}
	return out.String(), jsontext.Value(out.String()).IsValid()
}

// pythonWord is JSON's word for one of Python's.
func pythonWord(word string) string {
	switch word {
	case "True":
		return "true"
	case "False":
		return "false"
	case "None":
		return "null"
	}
	return word
}

// pythonText is a quoted text in JSON.
func pythonText(quoted string) string {
	if jsontext.Value(quoted).IsValid() {
		return quoted
	}
	inner := quoted[1 : len(quoted)-1]
	return quote(strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\'`, "'", `\n`, "\n", `\t`, "\t", `\r`, "\r").Replace(inner))
}
