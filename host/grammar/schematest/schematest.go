package schematest

import (
	"fmt"
	"strconv"
	"strings"
)

// Source is where the choices come from; a *rand.Rand of math/rand/v2 is one.
type Source interface {
	IntN(n int) int // from 0 to n-1
}

// Generate makes a schema of an object that a model can answer with some two
// hundred tokens.
func Generate(src Source) []byte {
	g := generator{Source: src}
	return []byte(g.root())
}

// GenerateAny makes a schema whose instances may be of any type and size.
func GenerateAny(src Source) []byte {
	g := generator{Source: src, unbounded: true}
	return []byte(g.root())
}

type generator struct {
	Source
	unbounded bool
	defs      []string // members of $defs, as JSON
	names     int
}

// deepest is how far schemas nest below the root.
const deepest = 2

func (g *generator) root() string {
	var body []string
	if g.unbounded && g.IntN(3) == 0 {
		body = g.schema(0)
	} else {
		body = g.object(0)
	}
	if len(g.defs) > 0 {
		body = append(body, `"$defs": {`+strings.Join(g.defs, ", ")+`}`)
	}
	return braces(body)
}

// schema is a schema's keywords, each as JSON with its name.
func (g *generator) schema(depth int) []string {
	kinds := []func(int) []string{
		g.text, g.number, g.integer, g.fixed, g.text, g.integer, g.boolean, g.null,
	}
	if depth < deepest {
		kinds = append(kinds, g.object, g.array, g.tuple, g.anyOf, g.oneOf, g.allOf, g.reference, g.tagged)
		if g.unbounded {
			kinds = append(kinds, g.recursive, g.free)
		}
	}
	body := kinds[g.IntN(len(kinds))](depth)
	if g.IntN(6) == 0 {
		body = append(body, `"description": "some text", "default": null`)
	}
	return body
}

func (g *generator) under(depth int) string { return braces(g.schema(depth + 1)) }

func (g *generator) text(int) []string {
	body := []string{`"type": "string"`}
	switch g.IntN(6) {
	case 0:
		return append(body, member("format", pick(g, "date", "time", "date-time", "uuid")))
	case 1:
		return append(body, member("pattern", pick(g,
			`^[a-z]{1,6}$`, `^[A-Z][a-z]{0,5}( [0-9]+)?$`, `^(yes|no|perhaps)$`, `^\d{3}-\d{4}$`, `^[^\s"]{2,4}$`)))
	case 2:
		return append(body, member("enum", raw(`["calm", "angry", "é \"q\"\n", ""]`)))
	}
	if g.unbounded && g.IntN(2) == 0 {
		return body
	}
	least := g.IntN(4)
	if least > 0 {
		body = append(body, member("minLength", raw(strconv.Itoa(least))))
	}
	return append(body, member("maxLength", raw(strconv.Itoa(least+g.IntN(12)))))
}

func (g *generator) integer(int) []string {
	return append([]string{`"type": "integer"`}, g.bounds(func() (string, string) {
		lo := g.IntN(400) - 200
		return strconv.Itoa(lo), strconv.Itoa(lo + 2 + g.IntN(1+g.IntN(5000)))
	})...)
}

func (g *generator) number(int) []string {
	return append([]string{`"type": "number"`}, g.bounds(func() (string, string) {
		lo := g.IntN(4000) - 2000
		hi := lo + 1 + g.IntN(1+g.IntN(9000))
		return fmt.Sprintf("%.2f", float64(lo)/100), fmt.Sprintf("%.2f", float64(hi)/100)
	})...)
}

func (g *generator) bounds(pair func() (lo, hi string)) []string {
	lo, hi := pair()
	var body []string
	switch g.IntN(4) {
	case 0:
		body = append(body, member("minimum", raw(lo)))
	case 1:
		body = append(body, member("exclusiveMinimum", raw(lo)))
	}
	switch g.IntN(4) {
	case 0:
		body = append(body, member("maximum", raw(hi)))
	case 1:
		body = append(body, member("exclusiveMaximum", raw(hi)))
	}
	return body
}

func (g *generator) fixed(int) []string {
	if g.IntN(2) == 0 {
		return []string{member("const", raw(pick(g, `"only"`, `42`, `-1.50`, `true`, `null`, `{"a": [1, {"b": ""}]}`, `[]`)))}
	}
	return []string{member("enum", raw(`[1, "1", 2.5, null, [false], {"k": "v"}]`)),
		member("type", raw(pick(g, `"integer"`, `["string", "null"]`, `"object"`, `["number", "array"]`)))}
}

func (g *generator) boolean(int) []string { return []string{`"type": "boolean"`} }
func (g *generator) null(int) []string    { return []string{`"type": ["null", "boolean"]`} }
func (g *generator) free(int) []string    { return []string{`"title": "anything"`} }

func (g *generator) object(depth int) []string {
	var properties, required []string
	for range 1 + g.IntN(4) {
		name := g.name()
		properties = append(properties, member(name, raw(g.under(depth))))
		if g.IntN(2) == 0 {
			required = append(required, strconv.Quote(name))
		}
	}
	body := []string{`"type": "object"`, member("properties", raw(braces(properties)))}
	if len(required) > 0 {
		body = append(body, member("required", raw("["+strings.Join(required, ", ")+"]")))
	}
	switch g.IntN(5) {
	case 0, 1:
		body = append(body, member("additionalProperties", raw("false")))
	case 2:
		if g.unbounded { // a further name has no bound
			body = append(body, member("additionalProperties", raw(pick(g, `{"type": "boolean"}`, "true", `{"type": ["object", "null"]}`))))
		}
	case 3:
		most := max(1, len(required)) + g.IntN(2)
		body = append(body, member("maxProperties", raw(strconv.Itoa(most))))
		if g.IntN(2) == 0 {
			body = append(body, member("minProperties", raw(strconv.Itoa(min(len(properties), most)))))
		}
	}
	return body
}

func (g *generator) array(depth int) []string {
	body := []string{`"type": "array"`, member("items", raw(g.under(depth)))}
	least := g.IntN(3)
	if least > 0 {
		body = append(body, member("minItems", raw(strconv.Itoa(least))))
	}
	if !g.unbounded || g.IntN(2) == 0 {
		body = append(body, member("maxItems", raw(strconv.Itoa(least+g.IntN(2)))))
	}
	return body
}

func (g *generator) tuple(depth int) []string {
	body := []string{`"type": "array"`, member("prefixItems", raw("["+g.under(depth)+", "+g.under(depth)+"]"))}
	if g.IntN(2) == 0 {
		body = append(body, member("minItems", raw(strconv.Itoa(g.IntN(3)))))
	}
	if g.IntN(2) == 0 {
		body = append(body, member("items", raw(pick(g, "false", `{"type": "null"}`))), member("maxItems", raw("3")))
	}
	return body
}

func (g *generator) anyOf(depth int) []string {
	return []string{member("anyOf", raw("["+g.under(depth)+", "+g.under(depth)+"]"))}
}

// oneOf has branches that their types exclude from each other.
func (g *generator) oneOf(depth int) []string {
	return []string{member("oneOf", raw("["+braces(g.object(depth+1))+", "+braces(g.text(depth))+", "+braces(g.number(depth))+"]"))}
}

// tagged has branches that a required property excludes from each other.
func (g *generator) tagged(depth int) []string {
	branch := func(tag string) string {
		return braces([]string{`"type": "object"`,
			member("properties", raw(braces([]string{member("kind", raw(`{"const": "`+tag+`"}`)), member(g.name(), raw(g.under(depth)))}))),
			member("required", raw(`["kind"]`))})
	}
	return []string{member("oneOf", raw("["+branch("circle")+", "+branch("square")+"]"))}
}

func (g *generator) allOf(depth int) []string {
	shared := g.name()
	part := func(properties ...string) string {
		return braces([]string{`"type": "object"`, member("properties", raw(braces(properties)))})
	}
	return []string{
		member("allOf", raw("["+
			part(member(shared, raw(`{"type": "integer", "minimum": 3}`)), member(g.name(), raw(g.under(depth))))+", "+
			part(member(shared, raw(`{"type": "number", "exclusiveMaximum": 12}`)), member(g.name(), raw(g.under(depth))))+"]")),
		member("required", raw("["+strconv.Quote(shared)+"]")),
	}
}

func (g *generator) reference(depth int) []string {
	name := g.name()
	under := g.under(depth)
	g.defs = append(g.defs, member(name, raw(under)))
	return []string{member("$ref", pointer(name))}
}

func (g *generator) recursive(depth int) []string {
	name := g.name()
	ref := member("$ref", pointer(name))
	body := pick(g,
		`{"type": "object", "properties": {"value": {"type": "integer"}, "next": {"anyOf": [%s, {"type": "null"}]}}, "required": ["value", "next"]}`,
		`{"type": "object", "properties": {"children": {"type": "array", "items": %s}}, "additionalProperties": false}`,
		`{"type": "array", "items": %s, "maxItems": 2}`)
	g.defs = append(g.defs, member(name, raw(fmt.Sprintf(body, braces([]string{ref})))))
	return []string{ref}
}

// name is a name no other part of the schema has: names of one object differ.
func (g *generator) name() string {
	g.names++
	return pick(g, "name", "level", "note", "a b", "x/y", "é", "na") + strconv.Itoa(g.names)
}

// pointer is a reference to a schema of $defs.
func pointer(name string) string {
	return "#/$defs/" + strings.NewReplacer("~", "~0", "/", "~1", " ", "%20").Replace(name)
}

type raw string

func member(name string, v any) string {
	if s, ok := v.(string); ok {
		v = quote(s)
	}
	return fmt.Sprintf("%s: %s", quote(name), v)
}

// quote writes a JSON string; what is put into schemas here has no characters
// for which Go's way differs.
func quote(s string) string { return strconv.Quote(s) }

func braces(members []string) string { return "{" + strings.Join(members, ", ") + "}" }

func pick(src Source, from ...string) string { return from[src.IntN(len(from))] }
