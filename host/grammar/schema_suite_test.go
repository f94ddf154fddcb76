package grammar_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"thoth/host/grammar"
	"thoth/host/grammar/grammartest"
)

// What the grammars cover of the public JSON-Schema test suite, draft 2020-12,
// without references to other documents and without vocabularies. The rest is
// refused by name, or valid and not generated: a grammar picks what a schema
// means, while the suite tests that everything else is valid, too.
const (
	suiteCompiled  = 0.48 // share of schemas
	suiteGenerated = 0.63 // share of the valid instances of those
)

// validator is the schema as the reference library has it, formats asserted.
func validator(t require.TestingT, schema []byte) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("schema.json", doc))
	s, err := c.Compile("schema.json")
	require.NoError(t, err, "%s", schema)
	return s
}

func validate(s *jsonschema.Schema, text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func TestBuilderSchema_JSONSchemaTestSuite(t *testing.T) {
	files, err := filepath.Glob("testdata/suite/*.json")
	require.NoError(t, err)
	formats, err := filepath.Glob("testdata/suite/format/*.json")
	require.NoError(t, err)
	var schemas, compiled, valid, generated, invalid int
	reasons := map[string]int{}
	for _, file := range append(files, formats...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var groups []struct {
			Description string
			Schema      json.RawMessage
			Tests       []struct {
				Data  json.RawMessage
				Valid bool
			}
		}
		require.NoError(t, json.Unmarshal(text, &groups))
		for _, group := range groups {
			schemas++
			b := grammar.NewBuilder(grammar.Limits{})
			r, err := b.Schema(group.Schema)
			if err != nil {
				var e *grammar.Error
				require.ErrorAs(t, err, &e)
				parts := strings.Split(e.Path, ".")
				reasons[parts[len(parts)-1]+": "+e.Message[:min(len(e.Message), 40)]]++
				continue
			}
			gbnf, err := b.Build(r)
			require.NoError(t, err)
			g, err := grammartest.Compile(gbnf)
			require.NoError(t, err, "%s\n%s", group.Schema, gbnf)
			compiled++
			for _, test := range group.Tests {
				accepted := slices.ContainsFunc(spellings(t, test.Data), g.Match)
				if test.Valid {
					valid++
					if accepted {
						generated++
					} else if testing.Verbose() {
						t.Logf("valid and not generated: %s of %s", test.Data, group.Schema)
					}
				} else {
					invalid++
					require.False(t, accepted, "%s: %s: accepts the invalid %s\n%s", file, group.Description, test.Data, group.Schema)
				}
			}
		}
	}
	t.Logf("%d of %d schemas compile; of theirs, %d of %d valid instances can be generated and none of %d invalid ones",
		compiled, schemas, generated, valid, invalid)
	for reason, n := range reasons {
		t.Logf("refused %d times: %s", n, reason)
	}
	require.GreaterOrEqual(t, float64(compiled)/float64(schemas), suiteCompiled)
	require.GreaterOrEqual(t, float64(generated)/float64(valid), suiteGenerated)
}

// spellings are the instance in this package's way of writing, with the members
// of each object in every order: a grammar has one order, that of its schema.
func spellings(t *testing.T, data json.RawMessage) []string {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return spell(t, v)
}

func spell(t *testing.T, v any) []string {
	switch v := v.(type) {
	case []any:
		all := []string{""}
		for i, item := range v {
			if i > 0 {
				all = product(all, []string{", "})
			}
			all = product(all, spell(t, item))
		}
		return product([]string{"["}, product(all, []string{"]"}))
	case map[string]any:
		var all []string
		for _, order := range orders(v) {
			one := []string{""}
			for i, name := range order {
				if i > 0 {
					one = product(one, []string{", "})
				}
				one = product(one, product([]string{plain(t, name) + ": "}, spell(t, v[name])))
			}
			all = append(all, one...)
		}
		return product([]string{"{"}, product(all, []string{"}"}))
	}
	return []string{plain(t, v)}
}

// plain writes a scalar, a number that is whole without its point.
func plain(t *testing.T, v any) string {
	if n, ok := v.(json.Number); ok {
		return grammar.FormatNumber(n.String())
	}
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(v))
	return strings.NewReplacer("\n", "", `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(out.String())
}

func orders(v map[string]any) [][]string {
	all := [][]string{{}}
	for name := range v {
		var more [][]string
		for _, order := range all {
			for i := range len(order) + 1 {
				more = append(more, slices.Insert(slices.Clone(order), i, name))
			}
		}
		all = more
	}
	return all
}

func product(heads, tails []string) []string {
	var all []string
	for _, h := range heads {
		for _, t := range tails {
			all = append(all, h+t)
		}
	}
	return all
}
