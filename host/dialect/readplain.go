package dialect

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// gemmaReader reads functiongemma's name{key:value,...}, in which texts stand
// between <escape> marks. pythonCall reads olmo3's name(key=value, ...). Both
// look at their text from the head again: their models write short calls.
type gemmaReader struct{}

type pythonCall struct{}

func (gemmaReader) read(s string, over bool) reading {
	return readPairs(s, over, pairs{open: "{", colon: ":", close: '}', mark: gemmaEscape, value: gemmaValue})
}

func (pythonCall) read(s string, over bool) reading {
	return readPairs(s, over, pairs{open: "(", colon: "=", close: ')', value: pythonValue})
}

// pairs is a form of calls whose arguments are keys and values in brackets.
type pairs struct {
	open, colon string
	close       byte
	mark        string // around texts; "" for quotes with backslashes
	value       func(text string) (value string, ok bool)
}

// readPairs reads a call. Arguments are known one by one.
func readPairs(s string, over bool, form pairs) reading {
	n := nameAt(s)
	if n == len(s) && !over {
		return reading{}
	}
	at, found, _ := step(s, n, over, form.open)
	if n == 0 || !found {
		return reading{state: broken}
	}
	r := reading{name: s[:n], arguments: "{", length: at}
	keys := map[string]bool{}
	for {
		at = skipSpaces(s, at)
		if at == len(s) {
			return r
		}
		if s[at] == form.close {
			r.state, r.length = complete, at+1
			r.arguments += "}"
			return r
		}
		if len(keys) > 0 {
			if s[at] != ',' {
				r.state = broken
				return r
			}
			at = skipSpaces(s, at+1)
		}
		n := strings.IndexAny(s[at:], form.colon+"\n"+string(form.close))
		if n < 0 {
			return r
		}
		key := strings.Trim(s[at:at+n], spaces)
		if s[at+n] != form.colon[0] || key == "" || keys[key] {
			r.state = broken
			return r
		}
		end := valueEnd(s, at+n+1, form)
		if end < 0 {
			return r
		}
		value, ok := form.value(strings.Trim(s[at+n+1:end], spaces))
		if !ok {
			r.state = broken
			return r
		}
		if len(keys) > 0 {
			r.arguments += ", "
		}
		keys[key] = true
		r.arguments += quote(key) + ": " + value
		r.length, at = end, end
	}
}

// valueEnd is where a value ends: at a comma or bracket that is not in a text
// nor in brackets of the value's own.
func valueEnd(s string, at int, form pairs) int {
	depth := 0
	for at < len(s) {
		if form.mark != "" && strings.HasPrefix(s[at:], form.mark) {
			n := strings.Index(s[at+len(form.mark):], form.mark)
			if n < 0 {
				return -1
			}
			at += n + 2*len(form.mark)
			continue
		}
		switch c := s[at]; {
		case form.mark == "" && (c == '"' || c == '\''):
			for at++; at < len(s) && s[at] != c; at++ {
				if s[at] == '\\' {
					at++
				}
			}
		case depth == 0 && (c == ',' || c == form.close):
			return at
		case c == '{' || c == '[' || c == '(':
			depth++
		case c == '}' || c == ']' || c == ')':
			depth--
		}
		at++
	}
	return -1
}

func gemmaValue(text string) (string, bool) {
	if inner, ok := strings.CutPrefix(text, gemmaEscape); ok && strings.Count(text, gemmaEscape) == 2 {
		if inner, ok = strings.CutSuffix(inner, gemmaEscape); ok {
			return quote(inner), true
		}
	}
	if v := jsontext.Value(text); v.IsValid() && (v.Kind() == '0' || v.Kind() == 't' || v.Kind() == 'f') {
		return text, true
	}
	if text == "" || !strings.ContainsAny(text[:1], "[{") {
		return quote(text), true
	}
	value, ok := typed("functiongemma", gemmaCall+"call:f{k:"+text+"}"+gemmaCallEnd, nil)
	if !ok {
		return "", false
	}
	return encode(value, text), true
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
