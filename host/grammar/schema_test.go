package grammar_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/host/grammar"
	"thoth/host/grammar/grammartest"
)

// compile makes the grammar of a schema and checks that the engine can work with
// it.
func compile(t require.TestingT, schema string) *grammartest.Grammar {
	b := grammar.NewBuilder(grammar.Limits{})
	r, err := b.Schema([]byte(schema))
	require.NoError(t, err, schema)
	text, err := b.Build(r)
	require.NoError(t, err, schema)
	g, err := grammartest.Compile(text)
	require.NoError(t, err, "%s\n%s", schema, text)
	return g
}

func TestBuilderSchema_AcceptsInstancesAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		name, schema string
		yes, no      []string
	}{
		{
			"the types", `{"properties": {"a": {"type": "null"}, "b": {"type": "boolean"}, "c": {"type": ["integer", "null"]}, "d": {"type": "string"}}, "required": ["a", "b", "c", "d"]}`,
			[]string{`{"a": null, "b": true, "c": 5, "d": "x"}`, `{"a": null, "b": false, "c": null, "d": "\" é"}`},
			[]string{`{"a": null, "b": true, "c": 5}`, `{"a": null, "b": 1, "c": 5, "d": "x"}`, `{"a": null, "b": true, "c": 5.5, "d": "x"}`, `{"b": true, "a": null, "c": 5, "d": "x"}`},
		},
		{
			"optional properties come in order with their commas", `{"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "required": ["b"]}`,
			[]string{`{"b": 2}`, `{"a": 1, "b": 2}`, `{"b": 2, "c": 3}`, `{"a": 1, "b": 2, "c": 3}`},
			[]string{`{}`, `{"a": 1}`, `{"a": 1, "c": 3}`, `{"b": 2, "a": 1}`, `{"b": 2, }`, `{, "b": 2}`, `{"b": 2, "b": 2}`, `{"b": 2, "d": 4}`, `{"b":2}`, `{ "b": 2}`},
		},
		{
			"all of them optional", `{"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}}`,
			[]string{`{}`, `{"a": 1}`, `{"b": 2}`, `{"c": 3}`, `{"a": 1, "b": 2}`, `{"a": 1, "c": 3}`, `{"b": 2, "c": 3}`, `{"a": 1, "b": 2, "c": 3}`},
			[]string{`{"c": 3, "a": 1}`, `{"a": 1, "a": 1}`},
		},
		{
			"an object without properties is free", `{"type": "object"}`,
			[]string{`{}`, `{"x": [1, {"y": null}], "z": "s"}`},
			[]string{`[]`, `null`, `{"x": }`, `{"x": 1,}`},
		},
		{
			"an object with no properties is empty", `{"type": "object", "properties": {}}`,
			[]string{`{}`}, []string{`{"x": 1}`},
		},
		{
			"what is required and not declared", `{"type": "object", "required": ["a"]}`,
			[]string{`{"a": 1}`, `{"a": 1, "b": 2}`}, []string{`{}`, `{"b": 2}`, `{"a": 1, "a": 2}`},
		},
		{
			"additional properties are none of those declared",
			`{"type": "object", "properties": {"ab": {"type": "null"}, "abc": {"type": "null"}, "\"": {"type": "null"}}, "additionalProperties": {"type": "integer"}}`,
			[]string{`{}`, `{"ab": null}`, `{"ab": null, "a": 1, "abcd": 2}`, `{"": 1}`, `{"abd": 1}`, `{"b": 3}`, `{"é": 3}`, `{"\"": null, "x": 1}`},
			[]string{`{"ab": 1}`, `{"abc": 1}`, `{"a": 1, "ab": null}`, `{"x": null}`, `{"\u0061b": 1}`, `{"\"": 1}`},
		},
		{
			"additional properties of any kind", `{"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": true}`,
			[]string{`{"a": null, "b": {"c": [1]}}`}, []string{`{"a": 1}`},
		},
		{
			"a closed object", `{"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": false}`,
			[]string{`{"a": null}`, `{}`}, []string{`{"b": 1}`},
		},
		{
			"the number of properties", `{"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}, "d": {"const": 4}}, "required": ["c"], "minProperties": 2, "maxProperties": 3}`,
			[]string{`{"a": 1, "c": 3}`, `{"c": 3, "d": 4}`, `{"a": 1, "b": 2, "c": 3}`, `{"b": 2, "c": 3, "d": 4}`},
			[]string{`{"c": 3}`, `{"a": 1, "b": 2, "c": 3, "d": 4}`, `{"a": 1, "b": 2}`},
		},
		{
			"the number of additional properties", `{"type": "object", "required": ["a"], "additionalProperties": {"const": 0}, "minProperties": 2, "maxProperties": 3}`,
			[]string{`{"a": 0, "b": 0}`, `{"a": 0, "b": 0, "c": 0}`}, []string{`{"a": 0}`, `{"a": 0, "b": 0, "c": 0, "d": 0}`},
		},
		{
			"shapes of which one is empty", `{"type": "object", "anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"maxProperties": 0}]}`,
			[]string{`{}`, `{"a": 1}`}, []string{`{"b": 1}`, `{"a": 1, "b": 1}`},
		},
		{
			"shapes of different order and count", `{"type": "object", "anyOf": [
				{"properties": {"a": {"const": 1}, "b": {"const": 2}}, "minProperties": 1},
				{"properties": {"b": {"const": 2}, "a": {"const": 1}}, "required": ["a"]},
				{"properties": {"b": {"const": 2}, "c": {"const": 3}}, "required": ["b"], "additionalProperties": {"const": 0}, "maxProperties": 3}]}`,
			[]string{`{"a": 1}`, `{"b": 2}`, `{"a": 1, "b": 2}`, `{"b": 2, "a": 1}`, `{"b": 2, "c": 3}`, `{"b": 2, "c": 3, "d": 0}`, `{"b": 2, "x": 0, "d": 0}`},
			[]string{`{}`, `{"c": 3}`, `{"a": 1, "c": 3}`, `{"b": 2, "c": 3, "d": 0, "e": 0}`, `{"b": 2, "d": 0, "c": 3}`},
		},
		{
			"additional properties may have one name, so no two are counted on", `{"type": "object", "properties": {"a": {"const": 0}}, "additionalProperties": {"const": 0}, "minProperties": 2}`,
			[]string{`{"a": 0, "b": 0}`, `{"a": 0, "b": 0, "c": 0}`}, []string{`{"a": 0}`, `{"b": 0}`, `{"b": 0, "b": 0}`},
		},
		{
			"no properties at all", `{"type": "object", "maxProperties": 0}`, []string{`{}`}, []string{`{"a": 1}`},
		},
		{
			"enum and const as JSON compares them", `{"enum": [1.0, "1", null, {"a": [1e2, false], "b": "\u00e9"}, 2.50]}`,
			[]string{`1`, `"1"`, `null`, `{"a": [100, false], "b": "é"}`, `2.5`}, []string{`1.0`, `true`, `{"a": [100, false]}`},
		},
		{
			"enum with what stands beside it", `{"enum": ["a", "abc", 1, 7, [], {"x": 1}, {"x": "1"}], "type": ["string", "number", "object"], "maxLength": 1, "minimum": 2, "properties": {"x": {"type": "string"}}}`,
			[]string{`"a"`, `7`, `{"x": "1"}`}, []string{`"abc"`, `1`, `[]`, `{"x": 1}`},
		},
		{
			"enum within anyOf, with what surrounds it", `{"type": "integer", "minimum": 2, "anyOf": [{"enum": [1, 2]}, {"enum": [2, 3, "x"]}]}`,
			[]string{`2`, `3`}, []string{`1`, `"x"`, `4`},
		},
		{
			"multiples", `{"type": "array", "items": {"multipleOf": 0.25, "minimum": 0}, "prefixItems": [{"type": "number", "multipleOf": 2}, {"allOf": [{"type": "integer", "multipleOf": 4}, {"multipleOf": 6}], "maximum": 36}, {"multipleOf": 1.5, "enum": [1, 1.5, 3, "x"]}]}`,
			[]string{`[]`, `[4, -12]`, `[0, 36, 1.5, 0.25, 1.50, 7]`, `[0, 24, 3]`, `[0, 24, "x"]`}, []string{`[3]`, `[2.0]`, `[0, 18]`, `[0, 48]`, `[0, 12, 1]`, `[0, 12, 3, 0.3]`, `[0, 12, 3, "x"]`},
		},
		{
			"multiples that tell branches apart", `{"oneOf": [{"type": "integer", "multipleOf": 4, "minimum": 1, "maximum": 7}, {"type": "integer", "multipleOf": 3, "minimum": 1, "maximum": 11}]}`,
			[]string{`4`, `3`, `6`, `9`}, []string{`1`, `8`, `12`, `0`},
		},
		{
			"arrays", `{"type": "array", "items": {"const": 1}, "minItems": 1, "maxItems": 3}`,
			[]string{`[1]`, `[1, 1]`, `[1, 1, 1]`}, []string{`[]`, `[1, 1, 1, 1]`, `[1,1]`, `[1, ]`, `[2]`},
		},
		{
			"arrays without bounds", `{"type": "array", "items": {"const": 1}}`, []string{`[]`, `[1]`, `[1, 1, 1, 1, 1]`}, []string{`[`, `[, 1]`},
		},
		{
			"no items", `{"type": "array", "items": false}`, []string{`[]`}, []string{`[1]`},
		},
		{
			"tuples", `{"prefixItems": [{"const": 1}, {"const": 2}]}`, []string{`[]`, `[1]`, `[1, 2]`}, []string{`[2]`, `[1, 2, 3]`, `{}`},
		},
		{
			"tuples with more items", `{"prefixItems": [{"const": 1}, {"const": 2}], "items": {"const": 3}, "minItems": 2, "maxItems": 4}`,
			[]string{`[1, 2]`, `[1, 2, 3]`, `[1, 2, 3, 3]`}, []string{`[1]`, `[1, 2, 2]`, `[1, 2, 3, 3, 3]`},
		},
		{
			"a tuple that ends early", `{"prefixItems": [{"const": 1}, false, {"const": 3}]}`, []string{`[]`, `[1]`}, []string{`[1, 2]`, `[1, 3]`},
		},
		{
			"more items than the tuple has are demanded", `{"prefixItems": [{"const": 1}], "minItems": 2, "maxItems": 2}`, []string{`[1, {"a": 0}]`}, []string{`[1]`, `[1, 1, 1]`},
		},
		{
			"strings", `{"type": "string", "minLength": 1, "maxLength": 2}`, []string{`"a"`, `"éé"`, `"\n"`, `"😀"`}, []string{`""`, `"abc"`, `a`},
		},
		{
			"patterns, formats and lengths together", `{"type": "string", "maxLength": 3, "allOf": [{"pattern": "^a"}, {"pattern": "b$"}]}`,
			[]string{`"ab"`, `"axb"`}, []string{`"b"`, `"axxb"`, `"a"`},
		},
		{
			"enum with pattern and format", `{"enum": ["ab", "2024-02-29", "2023-02-29", 5], "anyOf": [{"type": "string", "format": "date"}, {"pattern": "^a"}]}`,
			[]string{`"ab"`, `"2024-02-29"`, `5`}, []string{`"2023-02-29"`},
		},
		{
			"anyOf with what it shares", `{"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}`,
			[]string{`{"a": 1}`, `{"b": 2}`, `{"a": 1, "b": 2}`}, []string{`{}`},
		},
		{
			"anyOf drops what cannot be", `{"type": "string", "anyOf": [{"const": 1}, {"const": "x"}, {"type": "array"}]}`, []string{`"x"`}, []string{`1`, `[]`},
		},
		{
			"oneOf by type", `{"oneOf": [{"type": "null"}, {"type": "object", "properties": {}}, {"const": "x"}]}`, []string{`null`, `{}`, `"x"`}, []string{`"y"`},
		},
		{
			"oneOf by a required property", `{"oneOf": [
				{"properties": {"kind": {"const": "leaf"}}, "required": ["kind"]},
				{"properties": {"kind": {"enum": ["node", "tree"]}, "left": {"$ref": "#"}}, "required": ["kind", "left"]}]}`,
			[]string{`{"kind": "leaf"}`, `{"kind": "node", "left": {"kind": "tree", "left": {"kind": "leaf"}}}`}, []string{`{"kind": "node"}`, `{"kind": "leaf", "left": {"kind": "leaf"}}`},
		},
		{
			"oneOf by range", `{"type": "integer", "oneOf": [{"maximum": 3}, {"exclusiveMinimum": 3}]}`, []string{`-7`, `3`, `4`}, []string{`"x"`},
		},
		{
			"oneOf with enum beside it counts", `{"enum": [1, 2, 3], "oneOf": [{"minimum": 2}, {"maximum": 2}]}`, []string{`1`, `3`}, []string{`2`},
		},
		{
			"allOf merges", `{"allOf": [
				{"type": "object", "properties": {"a": {"type": "number", "minimum": 1}, "b": {"type": "object", "properties": {"x": {"maxLength": 3}}}}, "required": ["b"]},
				{"properties": {"a": {"type": "integer", "maximum": 2}, "b": {"properties": {"x": {"type": "string", "minLength": 2}}, "required": ["x"]}}, "required": ["a"]}]}`,
			[]string{`{"a": 1, "b": {"x": "abc"}}`, `{"a": 2, "b": {"x": "ab"}}`},
			[]string{`{"a": 3, "b": {"x": "abc"}}`, `{"a": 1.5, "b": {"x": "abc"}}`, `{"a": 1, "b": {"x": "a"}}`, `{"a": 1, "b": {}}`, `{"b": {"x": "abc"}}`},
		},
		{
			"allOf keeps each schema's additionalProperties to itself", `{"allOf": [
				{"properties": {"a": {"const": 1}}, "additionalProperties": false}, {"properties": {"a": true, "b": {"const": 2}}}]}`,
			[]string{`{}`, `{"a": 1}`}, []string{`{"b": 2}`, `{"a": 1, "b": 2}`},
		},
		{
			"allOf with lists of values", `{"allOf": [{"enum": [1, 2, 3]}, {"enum": [3, 2, 9]}, {"minimum": 3}]}`, []string{`3`}, []string{`2`, `9`},
		},
		{
			"references", `{"$defs": {"a/b": {"const": 1}, "c~d": {"const": 2}, "é %": {"const": 3}}, "type": "array",
				"prefixItems": [{"$ref": "#/$defs/a~1b"}, {"$ref": "#/$defs/c~0d"}, {"$ref": "#/$defs/%C3%A9%20%25"}, {"$ref": "#/prefixItems/0"}], "minItems": 4}`,
			[]string{`[1, 2, 3, 1]`}, []string{`[1, 2, 3, 2]`},
		},
		{
			"a reference by the root's own name", `{"$id": "http://x/y.json", "definitions": {"a": {"const": 1}}, "$ref": "http://x/y.json#/definitions/a"}`, []string{`1`}, []string{`2`},
		},
		{
			"siblings of a reference hold too", `{"$defs": {"a": {"type": "string", "maxLength": 3}}, "$ref": "#/$defs/a", "minLength": 3}`, []string{`"abc"`}, []string{`"ab"`, `"abcd"`},
		},
		{
			"recursion", `{"type": "object", "properties": {"v": {"const": 1}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["v", "next"]}`,
			[]string{`{"v": 1, "next": null}`, `{"v": 1, "next": {"v": 1, "next": {"v": 1, "next": null}}}`}, []string{`{"v": 1}`, `{"v": 1, "next": {}}`},
		},
		{
			"recursion that merges", `{"$defs": {"t": {"type": "object", "properties": {"v": {"type": "integer"}, "c": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "required": ["v"]}},
				"allOf": [{"$ref": "#/$defs/t"}, {"properties": {"v": {"const": 7}}}]}`,
			[]string{`{"v": 7}`, `{"v": 7, "c": [{"v": 8}]}`}, []string{`{"v": 8}`, `{"v": 7, "c": [{}]}`},
		},
		{
			"a property that can never end is left out", `{"$defs": {"t": {"type": "object", "properties": {"t": {"$ref": "#/$defs/t"}}, "required": ["t"]}}, "properties": {"a": {"const": 1}, "t": {"$ref": "#/$defs/t"}}}`,
			[]string{`{}`, `{"a": 1}`}, []string{`{"t": {}}`},
		},
		{
			"a forbidden property", `{"type": "object", "properties": {"a": false, "b": {"const": 1}}, "additionalProperties": {"const": 2}}`,
			[]string{`{}`, `{"b": 1}`, `{"b": 1, "c": 2}`}, []string{`{"a": 2}`, `{"a": 1}`},
		},
		{
			"true", `true`, []string{`null`, `[{"a": 1}, "x", -1.5]`}, []string{``, `nul`},
		},
		{
			"annotations and unknown keywords", `{"title": "t", "description": "d", "default": 3, "examples": [3], "$schema": "s", "$comment": "c", "deprecated": true, "readOnly": true,
				"writeOnly": true, "contentMediaType": "text/plain", "x-own": {"not": {}}, "type": "null", "uniqueItems": false, "not": false, "unevaluatedItems": true, "then": false, "minContains": 2}`, []string{`null`}, []string{`3`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := compile(t, c.schema)
			for _, text := range c.yes {
				require.True(t, g.Match(text), "must accept %s", text)
			}
			for _, text := range c.no {
				require.False(t, g.Match(text), "must refuse %s", text)
			}
		})
	}
}

func TestBuilderSchema_RefusesWhatItCannotEnforceByPlace(t *testing.T) {
	for schema, want := range map[string]string{
		`5`:                      "the schema must be an object, true or false, not number",
		`{`:                      "the schema is not JSON",
		`{} {}`:                  "the schema is not one JSON value",
		`{"type": 1, "type": 2}`: "duplicate object member name",
		`{"type": "strin"}`:      `type: is "strin", allowed are null, boolean, integer, number, string, array, object`,
		`{"type": []}`:           "type: must be a type's name or a list of them",
		`{"type": ["null", 5]}`:  "type[1]: must be a type's name",
		`{"properties": {"a": {"items": {"pattern": 5}}}}`: "properties.a.items.pattern: must be a string",
		`{"properties": {"a b": 5}}`:                       `properties["a b"]: must be an object, true or false, not number`,
		`{"properties": []}`:                               "properties: must be an object of schemas",
		`{"required": ["a", 1]}`:                           "required[1]: must be a string",
		`{"enum": []}`:                                     "enum: must be a list of at least one value",
		`{"minLength": -1}`:                                "minLength: must be a whole number, not negative",
		`{"maxItems": 1.5}`:                                "maxItems: must be a whole number, not negative",
		`{"minimum": "1"}`:                                 "minimum: must be a number",
		`{"multipleOf": 0}`:                                "multipleOf: must be a number above 0",
		`{"multipleOf": "2"}`:                              "multipleOf: must be a number above 0",
		`{"type": "integer", "multipleOf": 7, "minimum": 8, "maximum": 13}`:                     "the schema has bounds that leave no value between them",
		`{"type": "number", "multipleOf": 0.5, "minimum": 0.6, "exclusiveMaximum": 1}`:          "the schema has bounds that leave no value between them",
		`{"allOf": [{"type": "integer", "multipleOf": 99991}, {"multipleOf": 99989}]}`:          "a multiple of 9998000099 has too many digits to be enforced",
		`{"allOf": [{"multipleOf": 1e390}, {"multipleOf": 1` + strings.Repeat("7", 390) + `}]}`: "allOf[1].multipleOf: has no common multiple with others",
		`{"exclusiveMinimum": true}`:                    "exclusiveMinimum: must be a number",
		`{"anyOf": {}}`:                                 "anyOf: must be a list of at least one schema",
		`{"allOf": []}`:                                 "allOf: must be a list of at least one schema",
		`{"items": [{}]}`:                               "items: a list of schemas is not taken here, prefixItems is",
		`{"$ref": "#/nowhere"}`:                         `$ref: "#/nowhere" leads nowhere`,
		`{"$ref": "#/anyOf/01", "anyOf": [true, true]}`: `$ref: "#/anyOf/01" leads nowhere`,
		`{"$ref": "http://other/x"}`:                    `$ref: "http://other/x" is not supported, a reference is # or a JSON pointer such as #/$defs/name`,
		`{"$id": "http://x/a", "$ref": "http://x/a/$defs/q", "$defs": {"q": true}}`:   `$ref: "http://x/a/$defs/q" is not supported`,
		`{"$id": "http://x/a#", "$ref": "http://x/ab", "$defs": {"q": true}}`:         `$ref: "http://x/ab" is not supported`,
		`{"$id": "http://x/a", "$ref": "http://x/a/#/$defs/q", "$defs": {"q": true}}`: `$ref: "http://x/a/#/$defs/q" is not supported`,
		`{"$ref": "#name"}`:                   `$ref: "#name" is not supported`,
		`{"$ref": "#/%zz"}`:                   `$ref: "#/%zz" has a malformed % escape`,
		`{"properties": {"a": {"$id": "x"}}}`: "properties.a.$id: is supported at the root alone",
		`{"$ref": "#/$defs/a/b", "$defs": {"a": {"$id": "x", "b": true}}}`: "leads through a schema with an $id of its own",
		`{"$ref": "#"}`: "the schema refers to itself without end",
		`{"anyOf": [{"type": "null"}, {"$ref": "#"}]}`: "the schema refers to itself without end",
		`{"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a", "type": "null"}}}`: "$defs.a: refers to itself without end",
		`{"properties": {"a": {"$ref": "#"}}, "required": ["a"]}`:                                                                            "the schema can never end: every value of it holds another one",
		`{"properties": {"l": {"type": "array", "items": {"$ref": "#"}, "minItems": 1}}, "required": ["l"]}`:                                 "the schema can never end: every value of it holds another one",
		`false`: "the schema is false, which nothing satisfies",
		`{"properties": {"a": false}, "required": ["a"]}`:                                            "properties.a: is false, which nothing satisfies",
		`{"enum": [1, 2], "minimum": 3}`:                                                             "enum: allows no value that satisfies the rest of the schema",
		`{"allOf": [{"type": "string"}, {"type": "array"}]}`:                                         "the schema has parts that exclude each other",
		`{"type": "integer", "minimum": 1.2, "maximum": 1.8}`:                                        "the schema has bounds that leave no value between them",
		`{"type": "string", "minLength": 3, "maxLength": 2}`:                                         "the schema has bounds that leave no value between them",
		`{"properties": {"a": true}, "minProperties": 2}`:                                            "minProperties: is 2, and 1 property can be written",
		`{"type": "object", "minProperties": 2}`:                                                     "minProperties: is 2, but no more than 1 property can be told apart",
		`{"properties": {"a": {"anyOf": [true, {"oneOf": [{"type": "integer"}, {"minimum": 2}]}]}}}`: "properties.a.anyOf[1].oneOf: branches 0 and 1 may both hold",
		`{"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}`:                                      "oneOf: branches 0 and 1 may both hold",
		`{"oneOf": [{"properties": {"k": {"const": 1}}}, {"properties": {"k": {"const": 2}}}]}`:      "oneOf: branches 0 and 1 may both hold",
		`{"properties": {"a": {"format": "no-such"}}}`:                                               "properties.a.format: ",
		`{"properties": {"a": {"pattern": "^(?=a)b$"}}}`:                                             "properties.a.pattern: ",
		`{"const": 1e999999999}`:                                                                     "has more than 400 digits",
	} {
		_, err := grammar.NewBuilder(grammar.Limits{}).Schema([]byte(schema))
		require.ErrorContains(t, err, want, schema)
		var e *grammar.Error
		require.ErrorAs(t, err, &e, schema)
	}
}

func TestBuilderSchema_RefusesByNameTheKeywordsItDoesNotEnforce(t *testing.T) {
	for keyword, value := range map[string]string{
		"$dynamicRef": `"#x"`, "additionalItems": `false`, "contains": `true`, "dependentRequired": `{"a": []}`, "dependentSchemas": `{"a": true}`, "dependencies": `{"a": []}`,
		"if": `true, "then": true`, "not": `{}`, "patternProperties": `{"": true}`,
		"propertyNames": `{}`, "unevaluatedItems": `false`, "unevaluatedProperties": `false`, "uniqueItems": `true`,
	} {
		_, err := grammar.NewBuilder(grammar.Limits{}).Schema([]byte(`{"properties": {"a": {"anyOf": [{"` + keyword + `": ` + value + `}]}}}`))
		require.EqualError(t, err, "properties.a.anyOf[0]."+keyword+": the keyword is not supported, and to ignore it would break the schema")
	}
}

func TestBuilderObject_IsAnyObject(t *testing.T) {
	b := grammar.NewBuilder(grammar.Limits{})
	text, err := b.Build(b.Object())
	require.NoError(t, err)
	g, err := grammartest.Compile(text)
	require.NoError(t, err)
	for _, yes := range []string{`{}`, `{"a": {"b": [1, -2.5, "\u00e9", true, false, null, {}, []]}}`} {
		require.True(t, g.Match(yes), yes)
	}
	for _, no := range []string{`[]`, `{"a":1}`, `{"a": 01}`, `{a: 1}`, `{"a": 1} `, `null`} {
		require.False(t, g.Match(no), no)
	}
}

// A recursive choice between objects that begin alike has few readings: were its
// branches apart, each level would double them.
func TestBuilderSchema_BranchesThatBeginAlikeAreReadTogether(t *testing.T) {
	g := compile(t, `{"$ref": "#/$defs/e", "$defs": {"e": {"anyOf": [
		{"type": "object", "properties": {"note": {"type": "string"}, "left": {"$ref": "#/$defs/e"}, "right": {"$ref": "#/$defs/e"}, "op": {"const": "add"}}, "required": ["left", "right", "op"]},
		{"type": "object", "properties": {"left": {"$ref": "#/$defs/e"}, "right": {"$ref": "#/$defs/e"}, "op": {"const": "mul"}}, "required": ["left", "op"]},
		{"type": "integer"}]}}}`)
	deep := func(n int, open, core, end string) string {
		return strings.Repeat(open, n) + core + strings.Repeat(end, n)
	}
	for _, yes := range []string{
		deep(20, `{"left": `, `1`, `, "op": "mul"}`),
		deep(20, `{"left": `, `1`, `, "right": 2, "op": "add"}`),
		deep(20, `{"left": `, `1`, `, "right": 2, "op": "mul"}`),
		deep(20, `{"note": "", "left": `, `1`, `, "right": 2, "op": "add"}`),
	} {
		require.True(t, g.Match(yes), yes)
		require.Less(t, g.Stacks(yes), 30)
	}
	for _, no := range []string{`{"left": 1, "op": "add"}`, `{"note": "", "left": 1, "right": 2, "op": "mul"}`, `{"op": "mul"}`} {
		require.False(t, g.Match(no), no)
	}
}
