package grammar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// numberDigits bounds a number in a schema, written out without an exponent:
// 1e999999999 is eleven bytes to send and a gigabyte to compute with.
const numberDigits = 400

// value is a JSON value of the schema as it was sent, its objects in order.
type value struct {
	kind  jsontext.Kind // n t f " 0 { [
	text  string        // of a string, decoded
	num   *big.Rat      // of a number
	names []string      // of an object, in order; items holds their values
	items []*value      // of an array, or an object
	index map[string]int
}

// get is the value of an object's member, or nil.
func (v *value) get(name string) *value {
	if i, ok := v.index[name]; ok {
		return v.items[i]
	}
	return nil
}

// equal compares as JSON Schema does: numbers by what they are worth, objects
// without their order.
func (v *value) equal(w *value) bool {
	if v.kind != w.kind || len(v.items) != len(w.items) || v.text != w.text {
		return false
	}
	if v.num != nil && v.num.Cmp(w.num) != 0 {
		return false
	}
	for i, item := range v.items {
		other := w.items[i]
		if v.kind == '{' {
			if other = w.get(v.names[i]); other == nil {
				return false
			}
		}
		if !item.equal(other) {
			return false
		}
	}
	return true
}

// json writes the value the way the package's grammars do.
func (v *value) json() string {
	var out strings.Builder
	v.write(&out)
	return out.String()
}

func (v *value) write(out *strings.Builder) {
	switch v.kind {
	case 'n':
		out.WriteString("null")
	case 't':
		out.WriteString("true")
	case 'f':
		out.WriteString("false")
	case '"':
		out.WriteString(quoteJSON(v.text))
	case '0':
		out.WriteString(formatNumber(v.num))
	default:
		open, end := "[", "]"
		if v.kind == '{' {
			open, end = "{", "}"
		}
		out.WriteString(open)
		for i, item := range v.items {
			if i > 0 {
				out.WriteString(", ")
			}
			if v.kind == '{' {
				out.WriteString(quoteJSON(v.names[i]) + ": ")
			}
			item.write(out)
		}
		out.WriteString(end)
	}
}

// quoteJSON writes a JSON string as json.dumps does with ensure_ascii off.
func quoteJSON(s string) string {
	out := []byte{'"'}
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\n':
			out = append(out, `\n`...)
		case r == '\r':
			out = append(out, `\r`...)
		case r == '\t':
			out = append(out, `\t`...)
		case r == '\b':
			out = append(out, `\b`...)
		case r == '\f':
			out = append(out, `\f`...)
		case r < 0x20:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, string(r)...)
		}
	}
	return string(append(out, '"'))
}

// formatNumber writes a number without exponent: whole numbers without a point,
// others with the digits they need. Every number parseNumber lets in is finite
// in decimal.
func formatNumber(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	return strings.TrimRight(r.FloatString(numberDigits), "0")
}

func parseNumber(text string) (*big.Rat, error) {
	mantissa, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
		e, err := strconv.Atoi(strings.TrimPrefix(text[i+1:], "+"))
		if err != nil || e > numberDigits || e < -numberDigits {
			return nil, fmt.Errorf("number %.20s has more than %d digits", text, numberDigits)
		}
		exponent = max(e, -e)
	}
	if len(mantissa)+exponent > numberDigits {
		return nil, fmt.Errorf("number %.20s has more than %d digits", text, numberDigits)
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, fmt.Errorf("number %.20s is malformed", text)
	}
	return r, nil
}

// decodeValue reads one JSON text. Duplicate names, invalid UTF-8 and anything
// behind the value are errors, and so is nesting deeper than depth.
func decodeValue(text []byte, depth int) (*value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	v, err := readValue(d, depth)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("is not one JSON value: more text follows it")
	}
	return v, nil
}

func readValue(d *jsontext.Decoder, depth int) (*value, error) {
	t, err := d.ReadToken()
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	v := &value{kind: t.Kind()}
	switch v.kind {
	case '"':
		v.text = t.String()
	case '0':
		if v.num, err = parseNumber(t.String()); err != nil {
			return nil, err
		}
	case '{', '[':
		if depth == 0 {
			return nil, errTooDeep
		}
		for d.PeekKind() != '}' && d.PeekKind() != ']' {
			if v.kind == '{' {
				name, err := d.ReadToken()
				if err != nil {
					return nil, fmt.Errorf("is not JSON: %w", err)
				}
				if v.index == nil {
					v.index = map[string]int{}
				}
				v.names = append(v.names, name.String())
				v.index[v.names[len(v.names)-1]] = len(v.items)
			}
			item, err := readValue(d, depth-1)
			if err != nil {
				return nil, err
			}
			v.items = append(v.items, item)
		}
		if _, err := d.ReadToken(); err != nil {
			return nil, fmt.Errorf("is not JSON: %w", err)
		}
	}
	return v, nil
}

var errTooDeep = errors.New("nests too deep")
