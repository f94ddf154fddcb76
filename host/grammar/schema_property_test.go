package grammar_test

import (
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"thoth/host/grammar"
	"thoth/host/grammar/schematest"
)

// drawn lets rapid choose, so that what fails is made small.
type drawn struct{ t *rapid.T }

func (d drawn) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "choice") }

func TestBuilderSchema_WhatIsGeneratedIsValid(t *testing.T) {
	for name, generate := range map[string]func(schematest.Source) []byte{
		"bounded": schematest.Generate, "any": schematest.GenerateAny,
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				schema := generate(drawn{t})
				g := compile(t, string(schema))
				v := validator(t, schema)
				r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
				for range 10 {
					text, ok := g.Generate(r, 300)
					require.True(t, ok, "ran into a dead end: %s", schema)
					require.NoError(t, validate(v, text), "%s\n%s", text, schema)
					require.True(t, g.Match(text))
				}
			})
		})
	}
}

// wild is a schema of few names and values, put together without sense, so that
// its parts meet: most of what it says is contradictory or refused.
func wild(src schematest.Source, depth int) string {
	pick := func(from ...string) string { return from[src.IntN(len(from))] }
	sub := func() string { return wild(src, depth-1) }
	list := func() string {
		all := []string{sub(), sub(), sub()}
		return "[" + strings.Join(all[:1+src.IntN(3)], ", ") + "]"
	}
	leaf := []func() (string, string){
		func() (string, string) {
			return "type", pick(`"object"`, `"object"`, `"array"`, `"string"`, `"integer"`, `"number"`, `["object", "null"]`, `["integer", "string"]`)
		},
		func() (string, string) {
			return "const", pick(`1`, `2.5`, `"a"`, `{}`, `{"a": 1}`, `[]`, `[1, "a"]`, `null`)
		},
		func() (string, string) {
			return "enum", pick(`[1, 2, "a", {"a": 1}]`, `[2, 3, "b", null]`, `["a", "b", "2024-02-29", [1]]`)
		},
		func() (string, string) { return pick("minimum", "exclusiveMinimum"), pick("1", "1.5", "2") },
		func() (string, string) { return pick("maximum", "exclusiveMaximum"), pick("2", "2.5", "30") },
		func() (string, string) { return "multipleOf", pick("1", "2", "0.5", "1.5", "0.01") },
		func() (string, string) {
			return pick("minLength", "maxLength", "minItems", "maxItems"), pick("0", "1", "2")
		},
		func() (string, string) { return pick("minProperties", "maxProperties"), pick("0", "1", "2") },
		func() (string, string) { return "required", pick(`["a"]`, `["b"]`, `["a", "b"]`) },
		func() (string, string) { return "pattern", pick(`"^a"`, `"b$"`, `"^[a-c]*$"`) },
		func() (string, string) { return "format", pick(`"date"`, `"email"`) },
		func() (string, string) { return "additionalProperties", pick("true", "false") },
		func() (string, string) { return "$ref", pick(`"#/$defs/x"`, `"#/$defs/y"`) },
	}
	inner := []func() (string, string){
		func() (string, string) { return "properties", `{"a": ` + sub() + `, "b": ` + sub() + `}` },
		func() (string, string) { return "properties", `{"b": ` + sub() + `, "c": ` + sub() + `}` },
		func() (string, string) { return "additionalProperties", sub() },
		func() (string, string) { return "items", sub() },
		func() (string, string) { return "prefixItems", list() },
		func() (string, string) { return "anyOf", list() },
		func() (string, string) { return "oneOf", list() },
		func() (string, string) { return "allOf", list() },
	}
	body := map[string]string{}
	for range 1 + src.IntN(3) {
		from := leaf
		if depth > 0 && src.IntN(2) == 0 {
			from = inner
		}
		keyword, value := from[src.IntN(len(from))]()
		body[keyword] = value
	}
	var members []string
	for _, keyword := range slices.Sorted(maps.Keys(body)) {
		members = append(members, `"`+keyword+`": `+body[keyword])
	}
	return "{" + strings.Join(members, ", ") + "}"
}

func TestBuilderSchema_WhatCompilesOfWildSchemasIsSound(t *testing.T) {
	compiled, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		src := drawn{t}
		schema := `{"allOf": [` + wild(src, 2) + `], "$defs": {"x": ` + wild(src, 1) + `, "y": ` + wild(src, 1) + `}}`
		b := grammar.NewBuilder(grammar.Limits{})
		all++
		if _, err := b.Schema([]byte(schema)); err != nil {
			var e *grammar.Error
			require.ErrorAs(t, err, &e)
			return
		}
		compiled++
		g := compile(t, schema)
		v := validator(t, []byte(schema))
		r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		for range 20 {
			text, ok := g.Generate(r, 60)
			require.True(t, ok, "ran into a dead end: %s", schema)
			require.NoError(t, validate(v, text), "%s\n%s", text, schema)
		}
	})
	require.Greater(t, 4*compiled, all, "hardly anything compiles")
}

// numberSchema has bounds and multiples, some of them in an allOf and in choices.
func numberSchema(src schematest.Source) string {
	pick := func(from ...string) string { return from[src.IntN(len(from))] }
	one := func() string {
		return `{"type": "` + pick("number", "integer") + `", "multipleOf": ` + pick("1", "2", "3", "7", "10", "100", "0.1", "0.01", "0.25", "1.5", "2.5", "12", "1e2") +
			pick("", `, "minimum": `+pick("-7", "0", "0.3", "99.99", "1e3")) + pick("", `, "`+pick("maximum", "exclusiveMaximum")+`": `+pick("1000", "1050.5", "2e6")) + "}"
	}
	return `{"type": "array", "minItems": 3, "maxItems": 3, "prefixItems": [` + one() + `, {"allOf": [` + one() + `, ` + one() + `]}, {"anyOf": [` + one() + `, ` + one() + `]}]}`
}

func TestBuilderSchema_MultiplesAreThose(t *testing.T) {
	compiled, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		schema := numberSchema(drawn{t})
		b := grammar.NewBuilder(grammar.Limits{})
		all++
		if _, err := b.Schema([]byte(schema)); err != nil {
			require.Regexp(t, "no value|no number|leave|states", err.Error())
			return
		}
		compiled++
		g, v := compile(t, schema), validator(t, []byte(schema))
		r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		for range 20 {
			text, ok := g.Generate(r, r.Intn(60))
			require.True(t, ok, "ran into a dead end: %s", schema)
			require.NoError(t, validate(v, text), "%s\n%s", text, schema)
		}
	})
	require.Greater(t, 2*compiled, all, "hardly anything compiles")
}

func TestGenerate_IsOneSchemaForOneSourceAndOfEveryKeyword(t *testing.T) {
	made := map[string]bool{}
	for seed := range int64(500) {
		schema := schematest.Generate(source{rand.New(rand.NewSource(seed))})
		require.Equal(t, schema, schematest.Generate(source{rand.New(rand.NewSource(seed))}))
		require.True(t, jsontext.Value(schema).IsValid(), "%s", schema)
		made[string(schema)] = true
	}
	require.Greater(t, len(made), 490, "schemas repeat")
	var all strings.Builder
	for schema := range made {
		all.WriteString(schema)
	}
	for _, keyword := range []string{
		"type", "enum", "const", "properties", "required", "additionalProperties", "minProperties", "maxProperties", "items", "prefixItems",
		"minItems", "maxItems", "anyOf", "oneOf", "allOf", "$ref", "$defs", "minLength", "maxLength", "pattern", "format",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "description",
	} {
		require.Contains(t, all.String(), `"`+keyword+`": `)
	}
}

type source struct{ *rand.Rand }

func (s source) IntN(n int) int { return s.Intn(n) }
