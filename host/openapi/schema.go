package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Schema is a JSON Schema (draft 2020-12) as it is written down.
type Schema map[string]any

// Type says about a Go struct what its declaration does not.
type Type struct {
	Of       any      // a value of the type
	Name     string   // in the document; empty: the type's own
	Note     string   // description
	Required []string // of a request: fields that must be there
	// Fields are keywords of single fields. They are added to those made of the
	// field's type; a schema with a type, a reference or a combination replaces them.
	Fields map[string]Schema
	// Notes are descriptions, in Markdown, of single fields that Fields describes none for;
	// a name that is no field is passed over.
	Notes map[string]string
	// Hidden fields are not shown: a request that has them is refused.
	Hidden []string
	// More are keywords of the whole, such as rules between fields.
	More Schema
	// Example is a whole body.
	Example any
}

// direction is where a body goes: absent, null and required mean other things.
type direction int

const (
	request direction = iota
	answer
)

// schemas makes the schemas of types, each once.
type schemas struct {
	types map[reflect.Type]Type
	forms map[reflect.Type]Schema // of types that write themselves
	named map[string]named
	done  map[string]Schema // what components/schemas gets
	errs  []error
}

type named struct {
	t reflect.Type
	d direction
}

func newSchemas(types []Type, forms map[reflect.Type]Schema) *schemas {
	s := &schemas{types: map[reflect.Type]Type{}, forms: forms, named: map[string]named{}, done: map[string]Schema{}}
	for _, t := range types {
		s.types[reflect.TypeOf(t.Of)] = t
	}
	return s
}

func (s *schemas) errorf(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf(format, args...))
}

var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	timeType = reflect.TypeFor[time.Time]()
)

// of is the schema of a type; raw tells that it may be any JSON.
func (s *schemas) of(t reflect.Type, d direction) (schema Schema, raw bool) {
	if form, ok := s.forms[t]; ok {
		return maps.Clone(form), false
	}
	switch {
	case t == timeType:
		return Schema{"type": "string", "format": "date-time"}, false
	case t == rawType || t.Kind() == reflect.Interface || t.Name() == "Value" && strings.HasSuffix(t.PkgPath(), "/jsontext"):
		return Schema{}, true
	}
	switch t.Kind() {
	case reflect.Pointer:
		inner, raw := s.of(t.Elem(), d)
		return nullable(inner), raw
	case reflect.Bool:
		return Schema{"type": "boolean"}, false
	case reflect.String:
		return Schema{"type": "string"}, false
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return Schema{"type": "integer"}, false
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Schema{"type": "integer", "minimum": 0}, false
	case reflect.Float32, reflect.Float64:
		return Schema{"type": "number"}, false
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return Schema{"type": "string", "contentEncoding": "base64"}, false
		}
		items, raw := s.of(t.Elem(), d)
		return Schema{"type": "array", "items": items}, raw
	case reflect.Map:
		values, raw := s.of(t.Elem(), d)
		return Schema{"type": "object", "additionalProperties": values}, raw
	case reflect.Struct:
		return s.ref(t, d), false
	}
	s.errorf("%s has no JSON form", t)
	return Schema{}, false
}

// ref names the schema of a struct, which is made at its first use. A struct
// without a name is written where it stands.
func (s *schemas) ref(t reflect.Type, d direction) Schema {
	name := s.types[t].Name
	if name == "" {
		name = exported(t.Name())
	}
	if name == "" {
		return s.object(t, d)
	}
	use := named{t, d}
	if before, ok := s.named[name]; ok && before != use {
		s.errorf("the name %s stands for %s and %s, or for a request and an answer", name, before.t, t)
	} else if !ok {
		s.named[name] = use
		s.done[name] = s.object(t, d)
	}
	return Schema{"$ref": "#/components/schemas/" + name}
}

func exported(name string) string {
	if name == "" {
		return ""
	}
	r := []rune(name)
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}

// object is the schema of a struct's fields.
func (s *schemas) object(t reflect.Type, d direction) Schema {
	about := s.types[t]
	properties := map[string]Schema{}
	required := slices.Clone(about.Required)
	seen := map[string]bool{}
	for _, f := range fields(t) {
		seen[f.name] = true
		if slices.Contains(about.Hidden, f.name) {
			continue
		}
		schema, raw := s.of(f.typ, d)
		more, said := about.Fields[f.name]
		if raw && !said {
			s.errorf("%s.%s is raw JSON: say what it may be, or hide it", t, f.name)
		}
		schema = merge(schema, more)
		if note := about.Notes[f.name]; note != "" && schema["description"] == nil {
			schema["description"] = note
		}
		if d == request && !slices.Contains(about.Required, f.name) {
			schema = nullable(schema)
		}
		if d == answer && !f.omitted {
			required = append(required, f.name)
		}
		properties[f.name] = schema
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(about.Fields)), about.Required, about.Hidden) {
		if !seen[name] {
			s.errorf("%s has no field %s", t, name)
		}
	}
	out := Schema{"type": "object", "properties": properties}
	if len(required) > 0 {
		slices.Sort(required)
		out["required"] = required
	}
	if about.Note != "" {
		out["description"] = about.Note
	}
	maps.Copy(out, about.More)
	if about.Example != nil {
		out["examples"] = []any{about.Example}
	}
	return out
}

// field is one member of a struct's JSON object.
type field struct {
	name    string
	typ     reflect.Type
	omitted bool // where it is empty
}

// fields lists the members of a struct, those of embedded structs among them.
func fields(t reflect.Type) (list []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case name == "-" || strings.Contains(options, "embed") || strings.Contains(options, "inline"):
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			list = append(list, fields(inner)...)
		case f.IsExported():
			if name == "" {
				name = f.Name
			}
			list = append(list, field{name, f.Type, strings.Contains(options, "omit")})
		}
	}
	return list
}

// whole are keywords that say all there is to say of a value.
var whole = []string{"type", "$ref", "anyOf", "oneOf", "enum", "const"}

// merge adds keywords, or takes them instead.
func merge(schema, more Schema) Schema {
	for _, k := range whole {
		if _, ok := more[k]; ok {
			if k == "enum" && schema["type"] != nil {
				continue // the type stays
			}
			return maps.Clone(more)
		}
	}
	out := maps.Clone(schema)
	maps.Copy(out, more)
	return out
}

// nullable lets a value be null, too.
func nullable(schema Schema) Schema {
	null := Schema{"type": "null"}
	out := maps.Clone(schema)
	types, _ := schema["type"].([]string)
	if one, ok := schema["type"].(string); ok {
		types = []string{one}
	}
	if types != nil {
		if !slices.Contains(types, "null") {
			out["type"] = append(slices.Clone(types), "null")
		}
		if allowed := reflect.ValueOf(schema["enum"]); allowed.Kind() == reflect.Slice {
			all := make([]any, 0, allowed.Len()+1)
			for i := range allowed.Len() {
				all = append(all, allowed.Index(i).Interface())
			}
			if !slices.Contains(all, nil) {
				all = append(all, nil)
			}
			out["enum"] = all
		}
		return out
	}
	if some, ok := schema["anyOf"].([]Schema); ok {
		if !slices.ContainsFunc(some, func(s Schema) bool { return s["type"] == "null" }) {
			out["anyOf"] = append(slices.Clone(some), null)
		}
		return out
	}
	if len(schema) == 0 { // anything
		return out
	}
	return Schema{"anyOf": []Schema{schema, null}}
}
