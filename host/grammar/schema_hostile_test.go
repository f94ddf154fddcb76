package grammar

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// repeatJoin is n texts made of their number.
func repeatJoin(n int, format string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strings.ReplaceAll(strings.ReplaceAll(format, "#i", fmt.Sprint(i)), "#next", fmt.Sprint(i+1))
	}
	return strings.Join(all, ", ")
}

func nest(n int, open, core, end string) string {
	return strings.Repeat(open, n) + core + strings.Repeat(end, n)
}

func TestSchema_HostileSchemasEndAtALimit(t *testing.T) {
	for name, c := range map[string]struct{ schema, want string }{
		"large":                  {`{"description": "` + strings.Repeat("x", 64<<10) + `"}`, "bytes, the limit is 65536"},
		"deep":                   {nest(40, `{"properties": {"a": `, `true`, `}}`), "nests deeper than 32 schemas, the limit"},
		"deep in other ways":     {nest(40, `{"items": `, `true`, `}`), "nests deeper than 32 schemas, the limit"},
		"deep beyond reason":     {strings.Repeat(`[`, 60000), "nests deeper than 32 schemas, the limit"},
		"many":                   {`{"properties": {` + repeatJoin(2500, `"p#i": {"title":""}`) + `}}`, "more than 2000 schemas, the limit"},
		"many values":            {`{"enum": [` + repeatJoin(1001, `#i`) + `]}`, "enum: has 1001 values, the limit is 1000"},
		"long":                   {`{"maxLength": 10001}`, "maxLength: is 10001, the limit is 10000"},
		"many items":             {`{"items": {"minItems": 1e30}}`, "items.minItems: is 1000000000000000000000000000000, the limit is 1000"},
		"references that double": {`{"$ref": "#/$defs/d0", "$defs": {` + repeatJoin(40, `"d#i": {"allOf": [{"$ref": "#/$defs/d#next"}, {"$ref": "#/$defs/d#next"}]}`) + `, "d40": {"minimum": "x"}}}`, "$defs.d40.minimum: must be a number"},
		"choices that double":    {`{"$ref": "#/$defs/d0", "$defs": {` + repeatJoin(30, `"d#i": {"anyOf": [{"$ref": "#/$defs/d#next"}, {"$ref": "#/$defs/d#next", "minLength": #i}]}`) + `, "d30": {"type": "string"}}}`, "take more than 200000 steps, 100 for each of the 2000 schemas"},
		"a product of choices":   {`{"allOf": [` + repeatJoin(20, `{"anyOf": [{"minLength": #i}, {"pattern": "#i"}, {"required": ["#i"]}]}`) + `]}`, "take more than 200000 steps"},
		"properties that multiply": {`{"$defs": {` + repeatJoin(6, `"a#i": {"anyOf": [`+strings.Repeat(`{"properties": {"x": {"$ref": "#/$defs/a#i"}}}, `, 11)+`{"properties": {"y": true}}]}`) +
			`}, "allOf": [` + repeatJoin(6, `{"$ref": "#/$defs/a#i"}`) + `]}`, "the limit"},
		"oneOf of many":                 {`{"oneOf": [` + repeatJoin(700, `{"properties": {"k": {"const": #i}}, "required": ["k"]}`) + `]}`, "the limit"},
		"a value validated without end": {`{"const": {"a": 1}, "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"$ref": "#/$defs/c", "type": "integer"}, "c": {"$ref": "#/$defs/b", "type": "integer"}}}`, "refers to itself without end"},
		"a value validated ever twice":  {`{"const": 1, "$ref": "#/$defs/d0", "$defs": {` + repeatJoin(40, `"d#i": {"anyOf": [{"allOf": [{"$ref": "#/$defs/d#next"}, false]}, {"$ref": "#/$defs/d#next"}]}`) + `, "d40": true}}`, "take more than 200000 steps"},
		"patterns of many states":       {`{"properties": {` + repeatJoin(900, `"p#i": {"maxLength": 4, "pattern": "(a|b)*a(a|b){9}|a#i"}`) + `}}`, "the strings and numbers together take more than 2097152 steps"},
		"values against patterns":       {`{"properties": {` + repeatJoin(900, `"p#i": {"const": "a", "pattern": "^(a|b)*a(a|b){9}$|^a(#i)?$"}`) + `}}`, "the strings and numbers together take more than 2097152 steps"},
		"products of patterns":          {products(), "the strings and numbers together take more than 2097152 steps"},
		"numbers of many bounds":        {`{"properties": {` + repeatJoin(700, `"p#i": {"type": "number", "minimum": 0.#i7, "maximum": 1#i.1}`) + `}}`, "the strings and numbers together take more than 2097152 steps"},
		"a grammar of many counts":      {`{"properties": {` + repeatJoin(900, `"p#i": {"type": "null"}`) + `}, "minProperties": 300, "maxProperties": 600}`, "the grammar would have more than 262144 bytes"},
		"long strings of a pattern":     {`{"properties": {` + repeatJoin(600, `"p#i": {"pattern": "^(a#i|a{99})$", "minLength": 99, "maxLength": 9#i}`) + `}}`, "the strings and numbers together take more than 2097152 steps"},
		"a grammar of long items":       {`{"properties": {` + repeatJoin(900, `"p#i": {"type": "array", "items": {"const": #i}, "maxItems": 1000}`) + `}}`, "the grammar would have more than 262144 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBuilder(Limits{})
			c2 := newCompiler(b)
			err := c2.readDocument([]byte(c.schema))
			if err == nil {
				_, err = c2.compile(c2.document, "", 0)
			}
			require.ErrorContains(t, err, c.want)
			require.LessOrEqual(t, c2.visited, b.limits.Nodes+1)
			require.LessOrEqual(t, b.steps, 2*stepsPerNode*b.limits.Nodes)
			require.LessOrEqual(t, len(c2.nodes), c2.visited+b.steps)
			require.Greater(t, b.work, -b.limits.GrammarSize)
			require.LessOrEqual(t, b.size, b.limits.GrammarSize+64<<10)
		})
	}
}

// products are patterns that each are small, and schemas that ask for two of them
// at once.
func products() string {
	const ends = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789cdef"
	var defs, properties []string
	for i, end := range ends {
		defs = append(defs, fmt.Sprintf(`"a%d": {"pattern": "^(([ab]{%d})*%c|z)$"}`, i, 88+i, end))
		for j := range i {
			if len(properties) < 620 {
				properties = append(properties, fmt.Sprintf(`"p%d": {"allOf": [{"$ref": "#/$defs/a%d"}, {"$ref": "#/$defs/a%d"}]}`, len(properties), i, j))
			}
		}
	}
	return `{"$defs": {` + strings.Join(defs, ", ") + `}, "properties": {` + strings.Join(properties, ", ") + `}}`
}

// A request's tools are put into one grammar: what they cost is bounded together.
func TestSchema_SchemasOfOneGrammarShareTheirBounds(t *testing.T) {
	b := NewBuilder(Limits{})
	for range 6 {
		_, err := b.Schema([]byte(products()))
		require.ErrorContains(t, err, "the strings and numbers together take more than 2097152 steps")
		require.Greater(t, b.work, -b.limits.GrammarSize)
	}
	b = NewBuilder(Limits{})
	schema := []byte(`{"oneOf": [` + repeatJoin(40, `{"properties": {"k": {"const": #i}}, "required": ["k"]}`) + `]}`)
	_, err := b.Schema(schema)
	require.NoError(t, err)
	for n := 1; err == nil; n++ {
		require.Less(t, n, 100, "no bound is reached")
		_, err = b.Schema(schema)
	}
	require.ErrorContains(t, err, "take more than 200000 steps")
}

// What is large and honest compiles.
func TestSchema_LargeSchemasCompile(t *testing.T) {
	for name, schema := range map[string]string{
		"properties":     `{"properties": {` + repeatJoin(300, `"property#i": {"type": "integer"}`) + `}, "additionalProperties": false}`,
		"enum":           `{"enum": [` + repeatJoin(1000, `"value #i"`) + `]}`,
		"oneOf":          `{"oneOf": [` + repeatJoin(60, `{"properties": {"kind": {"const": "k#i"}, "v": {"type": "integer"}}, "required": ["kind"], "additionalProperties": false}`) + `]}`,
		"names kept out": `{"properties": {` + repeatJoin(200, `"property#i": {"type": "boolean"}`) + `}, "additionalProperties": {"type": "string"}}`,
		"depth":          nest(30, `{"type": "object", "properties": {"a": `, `true`, `}}`),
		"formats":        `{"properties": {` + repeatJoin(500, `"p#i": {"format": "date-time"}`) + `}}`,
		"long strings":   `{"properties": {` + repeatJoin(600, `"p#i": {"minLength": #i, "maxLength": 9#i}`) + `}}`,
		"long patterns":  `{"properties": {` + repeatJoin(100, `"p#i": {"maxLength": 64, "pattern": "^[a-z]+-#i(-[0-9]{1,3})*$"}`) + `}}`,
		"long formats":   `{"properties": {` + repeatJoin(100, `"p#i": {"format": "email", "maxLength": 2#i}, "q#i": {"format": "uuid", "minLength": 36, "maxLength": 36}`) + `}}`,
		"bounds":         `{"properties": {` + repeatJoin(100, `"p#i": {"type": "number", "minimum": -#i.25, "maximum": 1#i}`) + `}}`,
		"patterns":       `{"properties": {` + repeatJoin(100, `"p#i": {"pattern": "^[a-z]+-#i(-[0-9]{1,3})*$"}`) + `}}`,
		"a chain":        `{"$ref": "#/$defs/d0", "$defs": {` + repeatJoin(300, `"d#i": {"type": "object", "properties": {"next": {"$ref": "#/$defs/d#next"}}}`) + `, "d300": {"type": "null"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBuilder(Limits{})
			r, err := b.Schema([]byte(schema))
			require.NoError(t, err)
			_, err = b.Build(r)
			require.NoError(t, err)
		})
	}
}
