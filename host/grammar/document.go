package grammar

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// A Document is a JSON Schema that is read once and whose places can be looked
// at, and compiled each by itself: some model families write a call's arguments
// one by one, not as one JSON object. What several places share is compiled once,
// and the limits hold for all places together, so that many rules of one document
// cost no more than one rule of it all.
type Document struct {
	c      *compiler
	places map[*value]*Place
}

// Document reads a schema.
func (b *Builder) Document(text []byte) (*Document, error) {
	d := &Document{c: newCompiler(b), places: map[*value]*Place{}}
	if err := d.c.readDocument(text); err != nil {
		return nil, err
	}
	return d, nil
}

// A Place is a value in a document. There is one Place for each value, so that
// pointers to it can be compared. A nil Place is a value that is not there.
type Place struct {
	document *Document
	value    *value
	path     string
	level    int // of JSON, below the root
}

// Root is the whole document.
func (d *Document) Root() *Place { return d.place(d.c.document, "", 0) }

func (d *Document) place(v *value, path string, level int) *Place {
	if v == nil {
		return nil
	}
	p := d.places[v]
	if p == nil {
		p = &Place{d, v, path, level}
		d.places[v] = p
	}
	return p
}

// Path is the JSON path from the root, as an [Error] has it.
func (p *Place) Path() string {
	if p == nil {
		return ""
	}
	return p.path
}

// Kind is that of the value.
func (p *Place) Kind() jsontext.Kind {
	if p == nil {
		return 0
	}
	return p.value.kind
}

// Type is JSON Schema's name of the value's type; a number without a fraction is
// an integer.
func (p *Place) Type() string {
	switch p.Kind() {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	case '0':
		if p.value.num.IsInt() {
			return "integer"
		}
		return "number"
	}
	return ""
}

// Text is a string's, "" of another value.
func (p *Place) Text() string {
	if p == nil {
		return ""
	}
	return p.value.text
}

// Names are those of an object's members, in order.
func (p *Place) Names() []string {
	if p == nil {
		return nil
	}
	return slices.Clone(p.value.names)
}

// Member is an object's member, nil if there is none of that name.
func (p *Place) Member(name string) *Place {
	if p == nil {
		return nil
	}
	return p.document.place(p.value.get(name), below(p.path, name), p.level+1)
}

// Items are an array's.
func (p *Place) Items() []*Place {
	if p.Kind() != '[' {
		return nil
	}
	items := make([]*Place, len(p.value.items))
	for i, v := range p.value.items {
		items[i] = p.document.place(v, element(p.path, i), p.level+1)
	}
	return items
}

// Target is what the schema's $ref points at, nil if it has none or it leads
// nowhere.
func (p *Place) Target() *Place {
	ref := p.Member("$ref")
	if ref == nil {
		return nil
	}
	s, err := p.document.c.resolve(ref.path, ref.value)
	if err != nil {
		return nil
	}
	return p.document.place(s.value, s.path, 2*s.depth)
}

// Rule is an instance of the schema at this place. An error leaves the builder as
// it was, so that another rule may stand in for the one that cannot be made.
func (p *Place) Rule() (Rule, error) {
	c := p.document.c
	r, err := c.b.attempt(func() (Rule, error) { return c.compile(p.value, p.path, (p.level+1)/2) })
	if err != nil {
		// What was half read or written must not be taken for done.
		c.schemas, c.nodes, c.done = map[*value]*schema{}, map[string]*node{}, map[*node]bool{}
	}
	return r, err
}

// attempt is what try makes. If it cannot, all rules it has made are undone, and
// of the failure only the work remains, which stays counted.
func (b *Builder) attempt(try func() (Rule, error)) (Rule, error) {
	if b.err != nil {
		return "", b.err
	}
	keys, names, size := len(b.keys), len(b.names), b.size
	r, err := try()
	if err == nil && b.err != nil {
		err = b.err
	}
	if err == nil {
		return r, nil
	}
	for _, key := range b.keys[keys:] {
		delete(b.made, key)
	}
	for _, name := range b.names[names:] {
		delete(b.rules, name)
	}
	b.keys, b.names, b.size, b.err = b.keys[:keys], b.names[:names], size, nil
	return "", err
}
