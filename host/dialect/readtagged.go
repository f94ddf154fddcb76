package dialect

import "strings"

// tagForm is how calls with a tag around each argument are written.
type tagForm struct {
	family       string // name of ollama's parser
	nameEnd      string // behind the function's name, "" for white space or a tag
	key, keyEnd  string
	value        string // before a value, "" for nothing
	valueEnd     string
	lines        bool   // a value stands on lines of its own
	end          string // of the call
	endsOutside  bool   // the end is the block's own and left to it
	aroundBefore string // what makes a call of f with the argument k, for ollama's parser
	aroundAfter  string
}

var coderTags = tagForm{
	family:  "qwen3-coder",
	nameEnd: ">", key: "<parameter=", keyEnd: ">", valueEnd: "</parameter>", lines: true, end: "</function>",
	aroundBefore: toolCall + "<function=f><parameter=k>", aroundAfter: "</parameter></function>" + toolCallEnd,
}

var glmTags = tagForm{
	family: "glm-4.7",
	key:    "<arg_key>", keyEnd: "</arg_key>", value: "<arg_value>", valueEnd: "</arg_value>",
	end: toolCallEnd, endsOutside: true,
	aroundBefore: toolCall + "f<arg_key>k</arg_key><arg_value>", aroundAfter: "</arg_value>" + toolCallEnd,
}

// taggedCall reads a name and arguments each in its tags. The arguments come
// into JSON in the order in which they are written.
type taggedCall struct {
	form  tagForm
	types typesOf

	at        int // bytes read
	spaces    int // end of the white space behind them
	searched  int // bytes in which no end of the current value is
	name      string
	keys      map[string]bool
	arguments strings.Builder
}

func (c *taggedCall) read(s string, over bool) reading {
	if c.keys == nil {
		n := nameAt(s)
		at, found, wait := step(s, n, over, c.form.nameEnd)
		switch {
		case n == len(s), wait && c.form.nameEnd != "":
			return reading{}
		case n == 0 || !found || c.form.nameEnd == "" && n < len(s) && s[n] != '<' && skipSpaces(s, n) == n:
			return reading{state: broken}
		}
		c.name, c.at, c.keys = s[:n], at, map[string]bool{}
		c.arguments.WriteByte('{')
	}
	for {
		more, r := c.argument(s, over)
		if !more {
			r.name, r.arguments = c.name, c.arguments.String()
			return r
		}
	}
}

// argument reads the next argument, or the call's end.
func (c *taggedCall) argument(s string, over bool) (more bool, r reading) {
	c.spaces = skipSpaces(s, max(c.at, c.spaces))
	at := c.spaces
	next, found, wait := step(s, at, over, c.form.end)
	if found {
		if c.form.endsOutside {
			next = at
		}
		c.arguments.WriteByte('}')
		return false, reading{state: complete, length: next}
	}
	next, found, waitKey := step(s, at, over, c.form.key)
	if !found {
		if wait || waitKey || at == len(s) {
			return false, reading{}
		}
		return false, reading{state: broken, length: c.at}
	}
	n := strings.Index(s[next:], c.form.keyEnd)
	if n < 0 {
		return false, reading{}
	}
	key := strings.TrimSpace(s[next : next+n])
	if c.keys[key] || key == "" {
		return false, reading{state: broken, length: c.at}
	}
	at = next + n + len(c.form.keyEnd)
	if c.form.value != "" {
		at = skipSpaces(s, at)
		if at, found, wait = step(s, at, over, c.form.value); wait {
			return false, reading{}
		} else if !found {
			return false, reading{state: broken, length: c.at}
		}
	}
	from := max(at, c.searched)
	n = strings.Index(s[from:], c.form.valueEnd)
	if n < 0 {
		c.searched = max(at, len(s)-len(c.form.valueEnd)+1)
		return false, reading{}
	}
	value := s[at : from+n]
	if c.form.lines {
		value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
	}
	if len(c.keys) > 0 {
		c.arguments.WriteString(", ")
	}
	c.keys[key] = true
	c.arguments.WriteString(quote(key) + ": " + typedValue(value, c.types(c.name, key), c.form.family, func(value string) string {
		return c.form.aroundBefore + value + c.form.aroundAfter
	}))
	c.at = from + n + len(c.form.valueEnd)
	return true, reading{}
}
