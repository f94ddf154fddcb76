package prompt

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// jsonFilter is the name under which templates find our tojson. The library
// looks a filter up in its own table first and has no way to replace one there:
// its tojson sorts keys and escapes <, > and & when it indents, and writes 1.0
// as 1. Prompts have to be what the models were trained on, which is Python's
// json.dumps without ASCII escapes.
const jsonFilter = "thoth_tojson"

var (
	jsonFilterUse = regexp.MustCompile(`\|(\s*)tojson\b`)
	attributeTest = regexp.MustCompile(`\b((?:select|reject)attr)\(\s*('[^']*'|"[^"]*")\s*\)`)
)

// withOwnFilters makes a template's text use the filter of this package, and
// names the test of selectattr and rejectattr, which the library panics without.
func withOwnFilters(text string) string {
	text = jsonFilterUse.ReplaceAllString(text, "|${1}"+jsonFilter)
	return attributeTest.ReplaceAllString(text, "${1}(${2}, 'truthy')")
}

var dumps = jinja.NewCallable(jsonFilter, func(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Value{}, errors.New("tojson: no value")
	}
	w := jsonWriter{item: ", ", key: ": "}
	indent := named["indent"]
	if len(args) > 1 {
		indent = args[1]
	}
	switch {
	case indent.IsInt():
		n := indent.AsInt()
		if n < 0 || n > 16 {
			return jinja.Value{}, fmt.Errorf("tojson: indent %d", n)
		}
		w.indent, w.item = strings.Repeat(" ", int(n)), ","
		w.lines = true
	case indent.IsString():
		w.indent, w.item = indent.AsString(), ","
		w.lines = true
	}
	if s := named["separators"]; s.IsList() && s.AsList().Len() == 2 {
		w.item, w.key = text(s.AsList().Get(0)), text(s.AsList().Get(1))
	}
	w.sort = named["sort_keys"].IsTruthy()
	if err := w.value(args[0], 0); err != nil {
		return jinja.Value{}, err
	}
	return jinja.NewString(w.String()), nil
})

func text(v jinja.Value) string {
	if v.IsString() {
		return v.AsString()
	}
	return ""
}

// jsonWriter writes values the way Python's json.dumps does.
type jsonWriter struct {
	strings.Builder
	item, key string // separators
	indent    string
	lines     bool // one item a line
	sort      bool
}

func (w *jsonWriter) value(v jinja.Value, depth int) error {
	switch {
	case v.IsBool():
		w.WriteString(strconv.FormatBool(v.AsBool()))
	case v.IsInt():
		w.WriteString(strconv.FormatInt(v.AsInt(), 10))
	case v.IsFloat():
		return w.float(v.AsFloat())
	case v.IsString():
		if number, ok := strings.CutPrefix(v.AsString(), numberMark); ok {
			w.WriteString(number)
		} else {
			writeJSONString(&w.Builder, v.AsString())
		}
	case v.IsList():
		items := v.AsList().Items
		return w.items('[', ']', len(items), depth, func(i int) error { return w.value(items[i], depth+1) })
	case v.IsDict():
		d := v.AsDict()
		keys := d.Keys
		if w.sort {
			keys = slices.Sorted(slices.Values(keys))
		}
		return w.items('{', '}', len(keys), depth, func(i int) error {
			writeJSONString(&w.Builder, keys[i])
			w.WriteString(w.key)
			return w.value(d.Data[keys[i]], depth+1)
		})
	default:
		w.WriteString("null")
	}
	return nil
}

func (w *jsonWriter) items(open, end byte, n, depth int, item func(i int) error) error {
	w.WriteByte(open)
	for i := range n {
		if i > 0 {
			w.WriteString(w.item)
		}
		w.newline(depth + 1)
		if err := item(i); err != nil {
			return err
		}
	}
	if n > 0 {
		w.newline(depth)
	}
	w.WriteByte(end)
	return nil
}

func (w *jsonWriter) newline(depth int) {
	if w.lines {
		w.WriteByte('\n')
		for range depth {
			w.WriteString(w.indent)
		}
	}
}

// float writes a number that a template computed, as Python's repr does.
func (w *jsonWriter) float(f float64) error {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return fmt.Errorf("tojson: %v is no JSON", f)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		s = strconv.FormatFloat(f, 'e', -1, 64)
	} else if !strings.Contains(s, ".") {
		s += ".0"
	}
	w.WriteString(s)
	return nil
}

// writeJSONString escapes what JSON demands and nothing else.
func writeJSONString(b *strings.Builder, s string) {
	b.WriteByte('"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b.WriteString(s[from:i])
		from = i + 1
		switch c {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '\b':
			b.WriteString(`\b`)
		case '\f':
			b.WriteString(`\f`)
		default:
			fmt.Fprintf(b, `\u%04x`, c)
		}
	}
	b.WriteString(s[from:])
	b.WriteByte('"')
}
