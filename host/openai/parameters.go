package openai

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Treatment is what an endpoint does with a parameter.
type Treatment string

// A refused parameter may still be given with a value that asks for nothing. One
// without effect is checked, and then only said back; the API's reference allows that.
const (
	Honoured Treatment = "honoured"
	Accepted Treatment = "accepted without effect"
	Refused  Treatment = "refused"
)

// Parameter is one parameter of an endpoint's requests.
type Parameter struct {
	Name      string // its path: a dot leads into an object, [] into each of an array
	Treatment Treatment
	Allowed   string // the values, in words; of a refused one it is made of Taken
	Note      string // what it does; of a refused one what to do instead, for the error
	Extension bool   // the API's own reference does not have it

	// Taken are JSON values. Of a refused parameter they are all that ask for nothing,
	// and are therefore taken, however they are written; null always does. Of one
	// without effect they are examples. Of one that is honoured there are none.
	Taken []string
}

// Table is all that an endpoint knows of its parameters: validation, the OpenAPI
// document and docs/api.md are made of it.
//
// What stands in no table passes unread at the top of a request, where clients of
// several servers put labels and switches of their own, unless the table is closed. In
// an object that is looked into it is refused by name: what is there says more about
// something that is honoured.
//
// Invariants, which a test holds against the request's type: a parameter that is
// honoured or accepted is a field of it, and a field is in the table; a refused one
// is no field, and comes in what the decoder has left over.
type Table struct {
	Endpoint   string // its method and path
	Parameters []Parameter
	refused    map[string]*Parameter
	closed     bool
}

// NewTable makes a table. It panics on a name that stands there twice: tables are
// made when the program starts.
func NewTable(endpoint string, parameters ...Parameter) *Table {
	t := &Table{Endpoint: endpoint, Parameters: parameters, refused: map[string]*Parameter{}}
	seen := map[string]bool{}
	for i := range parameters {
		p := &parameters[i]
		if seen[p.Name] {
			panic(fmt.Sprintf("%s has the parameter %s twice", endpoint, p.Name))
		}
		seen[p.Name] = true
		if p.Treatment == Refused {
			t.refused[p.Name] = p
		}
	}
	return t
}

// Closed makes the table one that refuses what it does not know, as the references
// of some APIs do.
func (t *Table) Closed() *Table {
	t.closed = true
	return t
}

// Notes are the notes of what is not refused, by name.
func (t *Table) Notes() map[string]string {
	notes := map[string]string{}
	for _, p := range t.Parameters {
		if p.Treatment != Refused {
			notes[p.Name] = p.Note
		}
	}
	return notes
}

// RefusedNote names what is refused.
func (t *Table) RefusedNote() string {
	names := slices.Sorted(maps.Keys(t.refused))
	if len(names) == 0 {
		return ""
	}
	return "Refused by name, unless the value asks for nothing: " + strings.Join(names, ", ") + "."
}

// Refuse names the first parameter of a request that this build does not honour,
// unless it asks for nothing: dropping it would be a wrong answer with a success
// code. rest is what the decoder has left over: the field of the request's type with
// the tag `json:",embed"`.
func (t *Table) Refuse(rest jsontext.Value) *Error { return t.RefuseIn("", rest) }

// RefuseIn is [Table.Refuse] for what an object has left over, all of which is
// refused unless it asks for nothing; in is the object's path.
func (t *Table) RefuseIn(in string, rest jsontext.Value) *Error {
	if len(rest) == 0 {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(rest))
	if _, err := dec.ReadToken(); err != nil {
		return decodeError(in, err)
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return decodeError(in, err)
		}
		name := token.String()
		v, err := dec.ReadValue()
		if err != nil {
			return decodeError(in, err)
		}
		if in != "" {
			name = in + "." + name
		}
		switch p := t.refused[index.ReplaceAllString(name, "[]")]; {
		case p != nil && !p.idle(v):
			return NewError(CodeUnsupported, name, "%s is not supported: %s", name, p.Note)
		case p == nil && present(v) && (t.closed || in != ""):
			return NewError(CodeUnsupported, clip(name), "%s is not a parameter of %s: extra ones are not permitted", clip(name), t.Endpoint)
		}
	}
	return nil
}

// index is how a path leads into an array.
var index = regexp.MustCompile(`\[\d+\]`)

// idle tells that a value asks for nothing, whichever way it is written: white space,
// the order of members and the digits of a number (1, 1.0) do not count.
func (p *Parameter) idle(v jsontext.Value) bool {
	if !present(v) {
		return true
	}
	c, ok := canonical(v)
	return ok && slices.ContainsFunc(p.Taken, func(taken string) bool {
		t, _ := canonical(jsontext.Value(taken))
		return c == t
	})
}

// canonical writes a value in the one way of RFC 8785. It has none for what is not
// Unicode, nor for a number that a float cannot hold.
func canonical(v jsontext.Value) (string, bool) {
	c := v.Clone()
	if c.Canonicalize() != nil || !utf8.Valid(c) {
		return "", false
	}
	return string(c), true
}
