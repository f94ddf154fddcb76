package grammar_test

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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
