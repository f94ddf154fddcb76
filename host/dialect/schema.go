package dialect

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/grammar"
)

// schema is one place in a tool's parameters; the zero one says nothing.
type schema struct{ *grammar.Place }

// maxHops bounds the references followed from one place.
const maxHops = 16

// maxDepth bounds the nesting of parameters that are read where no grammar is
// made of them.
const maxDepth = 1000

// newSchema follows a reference that stands alone. Beside other keywords it stays
// one of them.
func newSchema(at *grammar.Place) schema {
	s := schema{at}
	for range maxHops {
		target := s.Target()
		if target == nil || slices.ContainsFunc(s.Names(), func(word string) bool { return word != "$ref" && !annotation(word) }) {
			break
		}
		s = schema{target}
	}
	return s
}

// readParameters reads a tool's parameters whatever the limits of grammars are;
// nil if they are no JSON.
func readParameters(text jsontext.Value) *grammar.Place {
	d, err := grammar.NewBuilder(grammar.Limits{SchemaBytes: len(text), Depth: maxDepth}).Document(text)
	if err != nil {
		return nil
	}
	return d.Root()
}

// required are the members an object must have.
func (s schema) required() []string {
	var out []string
	for _, name := range s.Member("required").Items() {
		out = append(out, name.Text())
	}
	return out
}

// types are the types the schema allows, none when it does not say.
func (s schema) types() []string {
	var out []string
	s.eachType(map[*grammar.Place]bool{}, func(t string) {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	})
	return out
}

// eachType looks at each place once: what a place adds it has added then, and
// schemas that name each other many times over are not followed as often.
func (s schema) eachType(seen map[*grammar.Place]bool, add func(string)) {
	if s.Place == nil || seen[s.Place] {
		return
	}
	seen[s.Place] = true
	if t := s.Member("type"); t != nil {
		if t.Kind() == '"' {
			add(t.Text())
		}
		for _, one := range t.Items() {
			add(one.Text())
		}
		return
	}
	newSchema(s.Target()).eachType(seen, add)
	for _, value := range s.literals() {
		add(value.Type())
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		for _, one := range s.Member(word).Items() {
			newSchema(one).eachType(seen, add)
		}
	}
}

// literals are the values of enum or const.
func (s schema) literals() []*grammar.Place {
	if v := s.Member("const"); v != nil {
		return []*grammar.Place{v}
	}
	return s.Member("enum").Items()
}

// plain tells whether the schema says no more of a value than its type, so that
// each value of the type is valid.
func (s schema) plain() bool { return s.plainOnce(map[*grammar.Place]bool{}) }

// plainOnce looks at each place once. One that needs itself is not plain.
func (s schema) plainOnce(known map[*grammar.Place]bool) bool {
	if plain, ok := known[s.Place]; ok {
		return plain
	}
	known[s.Place] = false
	if s.Kind() == 'f' || s.Member("type") != nil && s.Member("anyOf") != nil {
		return false
	}
	for _, word := range s.Names() {
		switch {
		case annotation(word), word == "type":
		case word == "anyOf":
			for _, one := range s.Member(word).Items() {
				if !newSchema(one).plainOnce(known) {
					return false
				}
			}
		default:
			return false
		}
	}
	known[s.Place] = true
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

// typesOf tells which types a tool's parameters allow for an argument, none when
// they do not say.
type typesOf func(tool, argument string) []string

// argumentTypes reads each tool's parameters once, and when they are asked for.
func argumentTypes(tool func(name string) *Tool) typesOf {
	type argument struct{ tool, name string }
	properties, known := map[string]*grammar.Place{}, map[argument][]string{}
	return func(name, argumentName string) []string {
		key := argument{name, argumentName}
		types, ok := known[key]
		if ok {
			return types
		}
		if _, ok := properties[name]; !ok {
			properties[name] = nil
			if t := tool(name); t != nil && t.Parameters != nil {
				properties[name] = newSchema(readParameters(t.Parameters)).Member("properties")
			}
		}
		types = newSchema(properties[name].Member(argumentName)).types()
		known[key] = types
		return types
	}
}
