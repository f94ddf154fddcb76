//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const schemaParam = "response_format.json_schema.schema"

// What cannot be enforced is refused before any token, with the place.
func TestStructured_WhatCannotBeEnforcedIsRefused(t *testing.T) {
	defer shared.unharmed(t)()
	inside := func(schema obj) any { return obj{"type": "object", "properties": obj{"x": schema}} }
	for name, c := range map[string]struct {
		schema any
		param  string // below the schema
		says   string
	}{
		"a pattern with a lookahead":        {inside(obj{"type": "string", "pattern": "^(?=a)b$"}), ".properties.x.pattern", "lookahead"},
		"a pattern with a backreference":    {inside(obj{"type": "string", "pattern": `^(a)\1$`}), ".properties.x.pattern", ""},
		"a pattern that is none":            {inside(obj{"type": "string", "pattern": "^(a$"}), ".properties.x.pattern", ""},
		"a number":                          {5, "", "a number"},
		"a list":                            {[]int{5}, "", "an array"},
		"a reference to nowhere":            {inside(obj{"$ref": "#/$defs/nowhere"}), ".properties.x.$ref", "#/$defs/nowhere"},
		"a reference to another file":       {inside(obj{"$ref": "https://example.org/s"}), ".properties.x.$ref", "https://example.org/s"},
		"a reference to itself":             {obj{"$ref": "#"}, "", "itself"},
		"propertyNames":                     {inside(obj{"type": "object", "propertyNames": obj{"pattern": "^a"}}), ".properties.x.propertyNames", ""},
		"patternProperties":                 {inside(obj{"type": "object", "patternProperties": obj{"^a": true}}), ".properties.x.patternProperties", ""},
		"not":                               {inside(obj{"not": obj{"type": "string"}}), ".properties.x.not", ""},
		"if":                                {inside(obj{"if": obj{"type": "string"}, "then": false}), ".properties.x.if", ""},
		"uniqueItems":                       {inside(obj{"type": "array", "uniqueItems": true}), ".properties.x.uniqueItems", ""},
		"contains":                          {inside(obj{"type": "array", "contains": obj{"type": "string"}}), ".properties.x.contains", ""},
		"multipleOf of too many remainders": {inside(obj{"type": "integer", "multipleOf": 4096}), ".properties.x", ""},
		"dependentRequired":                 {inside(obj{"type": "object", "dependentRequired": obj{"a": []string{"b"}}}), ".properties.x.dependentRequired", ""},
		"a format":                          {inside(obj{"type": "string", "format": "idn-email"}), ".properties.x.format", "idn-email"},
		"a type":                            {inside(obj{"type": "strng"}), ".properties.x.type", "strng"},
		"a bound that is no number":         {inside(obj{"type": "integer", "minimum": "1"}), ".properties.x.minimum", ""},
		"branches that overlap":             {inside(obj{"oneOf": []obj{{"minimum": 1, "type": "integer"}, {"maximum": 5, "type": "integer"}}}), ".properties.x.oneOf", ""},
		"no value at all":                   {obj{"type": "integer", "minimum": 5, "maximum": 1}, "", ""},
	} {
		e := refusal(t, 400, schemaFormat(c.schema))
		require.Equal(t, schemaParam+c.param, e["param"], "%s: %v", name, e)
		require.Contains(t, e["message"], c.says, name)
		if c.param != "" { // guided_json and a tool's parameters say the same of their own place
			e = refusal(t, 400, obj{"guided_json": c.schema})
			require.Equal(t, "guided_json"+c.param, e["param"], "%s: %v", name, e)
			e = refusal(t, 400, obj{"tool_choice": "required", "tools": []obj{function("f", c.schema)}})
			require.Equal(t, "tools[0].function.parameters"+c.param, e["param"], "%s: %v", name, e)
		}
	}
}

func TestStructured_FormatsThatAreNone(t *testing.T) {
	defer shared.unharmed(t)()
	schema := func(fields obj) obj { return obj{"response_format": obj{"type": "json_schema", "json_schema": fields}} }
	for name, c := range map[string]struct {
		ask   obj
		param string
	}{
		"an unknown type":         {obj{"response_format": obj{"type": "yaml"}}, "response_format.type"},
		"no type":                 {obj{"response_format": obj{}}, "response_format.type"},
		"a string":                {obj{"response_format": "json"}, "response_format"},
		"no json_schema":          {obj{"response_format": obj{"type": "json_schema"}}, "response_format.json_schema"},
		"no schema":               {schema(obj{"name": "a"}), schemaParam},
		"null for a schema":       {schema(obj{"name": "a", "schema": nil}), schemaParam},
		"no name":                 {schema(obj{"schema": moodSchema}), "response_format.json_schema.name"},
		"a name with a space":     {schema(obj{"name": "a b", "schema": moodSchema}), "response_format.json_schema.name"},
		"two formats":             {obj{"response_format": obj{"type": "json_object"}, "guided_regex": "a"}, "guided_regex"},
		"a stop string":           {obj{"response_format": obj{"type": "json_object"}, "stop": "}"}, "stop"},
		"a regex that is none":    {obj{"guided_regex": "(a"}, "guided_regex"},
		"no regex":                {obj{"guided_regex": ""}, "guided_regex"},
		"no choices":              {obj{"guided_choice": []string{}}, "guided_choice"},
		"an empty choice":         {obj{"guided_choice": []string{"a", ""}}, "guided_choice[1]"},
		"a grammar without root":  {obj{"grammar": `main ::= "a"`}, "grammar"},
		"a rule that is missing":  {obj{"grammar": `root ::= "a" b`}, "grammar"},
		"a grammar of itself":     {obj{"grammar": `root ::= root "a" | "a"`}, "grammar"},
		"a grammar that ends":     {obj{"grammar": `root ::= "a`}, "grammar"},
		"a huge repetition":       {obj{"grammar": `root ::= [a-z]{1,100000}`}, "grammar"},
		"guided_grammar":          {obj{"guided_grammar": `root ::= "a"`}, "guided_grammar"},
		"json_schema at the top":  {obj{"json_schema": moodSchema}, "json_schema"},
		"a tool beside a grammar": {obj{"grammar": `root ::= "a"`, "tools": []obj{function("f", nil)}}, "grammar"},
	} {
		e := refusal(t, 400, c.ask)
		require.Equal(t, c.param, e["param"], "%s: %v", name, e)
	}
}

// hostile are schemas made to cost: each is refused by a limit that the error
// names with its number.
func hostile() map[string]struct {
	ask  obj
	says string
} {
	var deep any = obj{"type": "string"}
	for range 40 {
		deep = obj{"type": "object", "properties": obj{"a": deep}}
	}
	many := make([]string, 1001)
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	// Each definition unites two different references to the next.
	defs, wide := obj{"a40": obj{"type": "object"}, "b40": obj{"type": "object"}}, obj{}
	for i := range 40 {
		next := []obj{{"$ref": fmt.Sprintf("#/$defs/a%d", i+1)}, {"$ref": fmt.Sprintf("#/$defs/b%d", i+1)}}
		for _, name := range []string{"a", "b"} {
			defs[name+strconv.Itoa(i)] = obj{"anyOf": next}
		}
	}
	for i := range 60 {
		properties := obj{}
		for j := range 40 {
			properties[fmt.Sprintf("q%d", j)] = obj{"maxLength": 999}
		}
		wide[fmt.Sprintf("p%d", i)] = obj{"properties": properties}
	}
	var pairs, squares []obj
	for i := range 30 {
		pairs = append(pairs, obj{"anyOf": []obj{{"type": "integer", "minimum": i}, {"type": "number", "maximum": i}}})
		squares = append(squares, obj{"$ref": "#/$defs/a0"})
	}
	return map[string]struct {
		ask  obj
		says string
	}{
		"nested too deep":         {schemaFormat(deep), "32"},
		"a huge enum":             {schemaFormat(obj{"enum": many}), "1000"},
		"anyOf of anyOf":          {schemaFormat(obj{"$defs": defs, "allOf": squares}), "2000"},
		"allOf of anyOf":          {schemaFormat(obj{"allOf": pairs}), "2000"},
		"too many schemas":        {schemaFormat(obj{"properties": wide}), "2000"},
		"a pattern that repeats":  {schemaFormat(obj{"type": "string", "pattern": "^(a{1,999}){1,999}$"}), "32768"},
		"a pattern that explodes": {schemaFormat(obj{"type": "string", "pattern": "(a|b)*a(a|b){30}"}), "16384"},
		"a long string":           {schemaFormat(obj{"type": "string", "maxLength": 1000000}), "1000"},
		"a large schema":          {schemaFormat(obj{"description": strings.Repeat("x", 70_000)}), "65536"},
		"a regex":                 {obj{"guided_regex": "(a{1,999}){1,999}"}, "32768"},
		"a large grammar":         {obj{"grammar": `root ::= "` + strings.Repeat("a", 70_000) + `"`}, "65536"},
		"a repeated repetition":   {obj{"grammar": `root ::= ((("a"{1,999}){1,999}){1,999}){1,999}`}, ""},
		"parentheses":             {obj{"grammar": "root ::= " + strings.Repeat("(", 20_000) + `"a"` + strings.Repeat(")", 20_000)}, ""},
		"parameters of a tool":    {obj{"tool_choice": "required", "tools": []obj{function("f", obj{"type": "object", "properties": obj{"x": deep}})}}, "32"},
	}
}

func TestStructured_HostileSchemasAreRefusedByNamedLimits(t *testing.T) {
	defer shared.unharmed(t)()
	type attack struct {
		name, says string
		body       json.RawMessage
	}
	var attacks []attack
	for name, c := range hostile() {
		body, err := json.Marshal(P(c.ask))
		require.NoError(t, err)
		attacks = append(attacks, attack{name, c.says, body})
		e := refusal(t, 400, c.ask)
		require.Contains(t, e["message"], c.says, name)
		require.NotNil(t, e["param"], name)
		require.Less(t, len(e["message"].(string)), 600, name)
	}
	// Plain requests are answered while many of them come.
	want, err := ask(t.Context(), false)
	require.NoError(t, err)
	parallel(t, 12*len(attacks), func(ctx context.Context, i int) error {
		if i%4 == 0 {
			got, err := ask(ctx, i%8 == 0)
			if err == nil && got.Text != want.Text {
				err = fmt.Errorf("%q, and %q alone", got.Text, want.Text)
			}
			return err
		}
		a := attacks[i%len(attacks)]
		r, err := shared.try(ctx, http.MethodPost, chatPath, string(a.body))
		if err == nil && r.Status != http.StatusBadRequest {
			err = fmt.Errorf("%s: status %d", a.name, r.Status)
		}
		return err
	})
}
