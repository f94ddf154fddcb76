package dialect

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// schema is one place in a tool's parameters.
type schema struct {
	root  jsontext.Value // the whole, where references point
	names []string       // its keywords, in order
	never bool           // nothing is valid
	words map[string]jsontext.Value
}

// maxHops bounds the references followed from one place.
const maxHops = 16

// newSchema follows a reference that stands alone. Beside other keywords it stays
// one of them.
func newSchema(root, at jsontext.Value) schema {
	s := schema{root: root}
	for range maxHops {
		s.names, s.words = fields(at)
		s.never = at.Kind() == 'f'
		target, ok := s.target()
		if !ok || slices.ContainsFunc(s.names, func(word string) bool { return word != "$ref" && !annotation(word) }) {
			break
		}
		at = target
	}
	return s
}

// target is what the schema's reference points to.
func (s schema) target() (jsontext.Value, bool) {
	ref, is := s.words["$ref"]
	if !is {
		return nil, false
	}
	return pointed(s.root, unquote(string(ref)))
}

// pointed follows a reference like #/$defs/x.
func pointed(root jsontext.Value, ref string) (jsontext.Value, bool) {
	path, ok := strings.CutPrefix(ref, "#")
	at := root
	for path != "" && ok {
		var name string
		name, path, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
		if path != "" {
			path = "/" + path
		}
		_, members := fields(at)
		at, ok = members[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	}
	return at, ok
}

// properties are the members of an object's schema, in order.
func (s schema) properties() ([]string, map[string]jsontext.Value) {
	return fields(s.words["properties"])
}

// required are the members an object must have.
func (s schema) required() []string {
	var out []string
	if err := json.Unmarshal(s.words["required"], &out); err != nil {
		return nil
	}
	return out
}

// types are the types the schema allows, none when it does not say.
func (s schema) types() []string { return s.typesWithin(8) }

func (s schema) typesWithin(depth int) []string {
	var out []string
	add := func(types ...string) {
		for _, t := range types {
			if !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	if depth == 0 {
		return nil
	}
	if t, ok := s.words["type"]; ok {
		var many []string
		if t.Kind() == '"' {
			many = []string{unquote(string(t))}
		} else if err := json.Unmarshal(t, &many); err != nil {
			return nil
		}
		add(many...)
		return out
	}
	if target, ok := s.target(); ok {
		add(newSchema(s.root, target).typesWithin(depth - 1)...)
	}
	for _, value := range s.literals() {
		add(kindOf(value))
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		for _, one := range s.list(word) {
			add(newSchema(s.root, one).typesWithin(depth - 1)...)
		}
	}
	return out
}

// literals are the values of enum or const.
func (s schema) literals() []jsontext.Value {
	if v, ok := s.words["const"]; ok {
		return []jsontext.Value{v}
	}
	return s.list("enum")
}

func (s schema) list(word string) []jsontext.Value {
	var out []jsontext.Value
	if v, ok := s.words[word]; ok {
		if err := json.Unmarshal(v, &out); err != nil {
			return nil
		}
	}
	return out
}

// plain tells whether the schema says no more of a value than its type, so that
// each value of the type is valid.
func (s schema) plain() bool { return s.plainWithin(8) }

func (s schema) plainWithin(depth int) bool {
	if s.never || depth == 0 {
		return false
	}
	if _, typed := s.words["type"]; typed && s.words["anyOf"] != nil {
		return false
	}
	for _, word := range s.names {
		switch {
		case annotation(word), word == "type":
		case word == "anyOf":
			for _, one := range s.list(word) {
				if !newSchema(s.root, one).plainWithin(depth - 1) {
					return false
				}
			}
		default:
			return false
		}
	}
	return true
}

// annotation tells whether a keyword says nothing about validity.
func annotation(word string) bool {
	switch word {
	case "title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
		"$comment", "$defs", "definitions", "$schema", "$id":
		return true
	}
	return false
}

// types are those that a tool's parameters allow for an argument.
func (t *Tool) types(argument string) []string {
	if t == nil || t.Parameters == nil {
		return nil
	}
	_, properties := newSchema(t.Parameters, t.Parameters).properties()
	at, ok := properties[argument]
	if !ok {
		return nil
	}
	return newSchema(t.Parameters, at).types()
}
