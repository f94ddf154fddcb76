package prompt

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ardanlabs/jinja"
	"github.com/go-json-experiment/json/jsontext"
)

// jsonText is JSON that has been read, so that each rendering of a conversation can
// make its value without reading it again. A rendering has marks of its own, and a
// template may change what it is given; so arrays and objects are filled anew for each,
// and what a rendering has of them is the next one's.
type jsonText []token

// token is one of a text, in the order of the text, without the ends of arrays and
// objects.
type token struct {
	kind  jsontext.Kind
	kept  bool // a string that no rendering marks
	n     int  // how many values of an array or names of an object follow
	value jinja.Value
}

// errMany ends the reading of a text with more values than there is room for.
var errMany = errors.New("too many values")

// readJSON reads the first value of a text. Strings that keep tells to keep are never
// marked, be they names or values. room is how many more it may be, names included.
func readJSON(text []byte, room *int, keep func(string) bool, number func(jsontext.Token) jinja.Value) (jsonText, error) {
	r := reader{jsontext.NewDecoder(bytes.NewReader(text)), room, keep, number, make(jsonText, 0, min(1+len(text)/6, 256))}
	err := r.value()
	return r.out, err
}

type reader struct {
	*jsontext.Decoder
	room   *int
	keep   func(string) bool
	number func(jsontext.Token) jinja.Value
	out    jsonText
}

func (r *reader) value() error {
	tok, err := r.ReadToken()
	if err != nil {
		return err
	}
	if *r.room--; *r.room < 0 {
		return errMany
	}
	t := token{kind: tok.Kind()}
	switch t.kind {
	case 'n':
		t.value = jinja.None()
	case 't', 'f':
		t.value = jinja.NewBool(tok.Bool())
	case '"':
		s := tok.String()
		t.value, t.kept = jinja.NewString(s), r.keep(s)
	case '0':
		t.value = r.number(tok)
	case '[':
		t.value = jinja.NewList(nil)
	case '{':
		t.value = jinja.NewDict()
	}
	at := len(r.out)
	r.out = append(r.out, t)
	if t.kind != '[' && t.kind != '{' {
		return nil
	}
	for r.PeekKind() != t.kind+2 { // the end's kind, in either case
		if err := r.value(); err != nil {
			return err
		}
		if t.kind == '{' {
			if err := r.value(); err != nil {
				return err
			}
		}
		r.out[at].n++
	}
	_, err = r.ReadToken()
	return err
}

// value is the template's value. Names keep their order and are marked too:
// templates print them.
func (j jsonText) value(mark marker, soft bool) jinja.Value {
	b := builder{j, mark, soft}
	return b.value()
}

type builder struct {
	rest jsonText
	mark marker
	soft bool
}

func (b *builder) value() jinja.Value {
	t := b.next()
	switch t.kind {
	case '"':
		if s := b.text(t); s != t.value.AsString() {
			return jinja.NewString(s)
		}
	case '[':
		l := t.value.AsList()
		if cap(l.Items) < t.n {
			l.Items = make([]jinja.Value, 0, t.n)
		}
		l.Items = l.Items[:0:t.n] // no room to grow that one rendering has and another has not: the library works in place where there is
		for range t.n {
			l.Items = append(l.Items, b.value())
		}
	case '{':
		d := t.value.AsDict()
		clear(d.Data)
		d.Keys = slices.Grow(d.Keys[:0], t.n)
		for range t.n {
			name := b.next()
			item := b.value()
			key := b.text(name)
			d.Keys = append(d.Keys, key) // it is new: the reader refuses a name that is there twice
			d.Data[key] = item
		}
	}
	return t.value
}

func (b *builder) next() *token {
	t := &b.rest[0]
	b.rest = b.rest[1:]
	return t
}

func (b *builder) text(t *token) string {
	s := t.value.AsString()
	if t.kept {
		return s
	}
	return b.mark(s, b.soft)
}

// number keeps integers integers: 9007199254740993 must not pass through a
// float on its way into the prompt.
func number(tok jsontext.Token) jinja.Value {
	if !strings.ContainsAny(tok.String(), ".eE") {
		if i, err := tok.Int(); err == nil {
			return jinja.NewInt(i)
		}
	}
	f, _ := tok.Float()
	return jinja.NewFloat(f)
}

// numberMark begins the text of a number that the template language cannot
// hold as it is spelled (1.0, 1e3, 2⁶⁴). It is no UTF-8, so that no text of a
// client can have it; render takes it out again.
const numberMark = "\xff"

// spelled keeps a number as the client spelled it: the model wrote it so, and
// another spelling is other tokens.
func spelled(tok jsontext.Token) jinja.Value {
	s := tok.String()
	if v := number(tok); v.IsInt() && fmt.Sprint(v.AsInt()) == s || v.IsFloat() && fmt.Sprint(v.AsFloat()) == s {
		return v
	}
	return jinja.NewString(numberMark + s)
}
