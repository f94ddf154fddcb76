package openai

import (
	"bytes"
	"fmt"
	"maps"
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
	Name      string // its path: a dot leads into an object
	Treatment Treatment
	Allowed   string // the values, in words; of a refused one it is made of Taken
	Note      string // what it does; of a refused one what to do instead, for the error
	Extension bool   // the API's own reference does not have it

	// Taken are compact JSON values. Of a refused parameter they are all that ask for
	// nothing, and are therefore taken; null always does. Of one without effect they
	// are examples. Of one that is honoured there are none.
	Taken []string
}

// Table is all that an endpoint knows of its parameters: validation, the OpenAPI
// document and docs/api.md are made of it. What stands in no table passes unread.
//
// Invariants, which a test holds against the request's type: a parameter that is
// honoured or accepted is a field of it, and a field is in the table; a refused one
// is no field, and comes in what the decoder has left over.
type Table struct {
	Endpoint   string // its method and path
	Parameters []Parameter
	refused    map[string]*Parameter
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

// RefuseIn is [Table.Refuse] for what an object has left over; in is its path.
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
		p := t.refused[name]
		if p != nil && !p.idle(v) {
			return NewError(CodeUnsupported, p.Name, "%s is not supported: %s", p.Name, p.Note)
		}
	}
	return nil
}

// idle tells that a value asks for nothing; white space does not count.
func (p *Parameter) idle(v jsontext.Value) bool {
	if !present(v) {
		return true
	}
	c := v.Clone()
	if c.Compact() != nil || !utf8.Valid(c) {
		return false
	}
	for _, s := range p.Taken {
		if string(c) == s {
			return true
		}
	}
	return false
}
