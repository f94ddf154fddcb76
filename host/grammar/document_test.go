package grammar

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDocument_Places(t *testing.T) {
	d, err := NewBuilder(Limits{}).Document([]byte(`{"properties": {"b": {"$ref": "#/$defs/x"}, "a": {"enum": ["t", 1, 1.5, null, true, [], {}]}},
		"$defs": {"x": {"type": "string", "items": {"$ref": "#/$defs/none"}}}}`))
	require.NoError(t, err)
	properties := d.Root().Member("properties")
	require.Equal(t, []string{"b", "a"}, properties.Names())
	target := properties.Member("b").Target()
	require.Same(t, d.Root().Member("$defs").Member("x"), target)
	require.Equal(t, "$defs.x", target.Path())
	require.Equal(t, "string", target.Member("type").Text())
	require.Nil(t, target.Member("items").Target())
	require.Nil(t, target.Member("none").Member("more").Target())
	var types []string
	for _, item := range properties.Member("a").Member("enum").Items() {
		types = append(types, item.Type())
	}
	require.Equal(t, []string{"string", "integer", "number", "null", "boolean", "array", "object"}, types)
}

func TestDocument_RuleOfAPlaceIsThatOfItsSchema(t *testing.T) {
	b := NewBuilder(Limits{})
	d, err := b.Document([]byte(`{"properties": {"a": {"$ref": "#/$defs/tree"}, "b": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
		"$defs": {"tree": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "required": ["kids"]}}}`))
	require.NoError(t, err)
	a, err := d.Root().Member("properties").Member("a").Rule()
	require.NoError(t, err)
	items, err := d.Root().Member("properties").Member("b").Rule()
	require.NoError(t, err)
	text, err := b.Build(b.Sequence(a, b.Literal(" "), items))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(text, `\"kids\"`), "what both refer to is one rule: %s", text)
}

// What has failed once fails again, and leaves no rule behind.
func TestDocument_FailureLeavesTheBuilderAsItWas(t *testing.T) {
	b := NewBuilder(Limits{GrammarSize: 4000})
	d, err := b.Document([]byte(`{"properties": {"bad": {"$ref": "#/$defs/bad"}, "again": {"$ref": "#/$defs/bad"}, "good": {"type": "array", "items": {"type": "boolean"}},
		"large": {"enum": ["` + strings.Repeat("x", 4001) + `"]}, "after": {"type": "array", "items": {"type": "boolean"}}},
		"$defs": {"bad": {"type": "object", "properties": {"x": {"type": "boolean"}}, "not": {}}}}`))
	require.NoError(t, err)
	var good []Rule
	for _, name := range d.Root().Member("properties").Names() {
		r, err := d.Root().Member("properties").Member(name).Rule()
		if name == "good" || name == "after" {
			require.NoError(t, err, name)
			good = append(good, r)
			continue
		}
		var at *Error
		require.ErrorAs(t, err, &at, name)
		if name == "bad" || name == "again" {
			require.Equal(t, "$defs.bad.not", at.Path)
		}
	}
	text, err := b.Build(b.Sequence(good...))
	require.NoError(t, err)
	require.NotContains(t, text, "xx")
}

// The limits are of the document, not of each place.
func TestDocument_LimitsHoldForAllPlacesTogether(t *testing.T) {
	var properties []string
	for i := range 30 {
		properties = append(properties, fmt.Sprintf(`"p%d": {"type": "integer", "minimum": %d}`, i, i))
	}
	d, err := NewBuilder(Limits{Nodes: 20}).Document([]byte(`{"properties": {` + strings.Join(properties, ", ") + `}}`))
	require.NoError(t, err)
	made := 0
	for _, name := range d.Root().Member("properties").Names() {
		if _, err := d.Root().Member("properties").Member(name).Rule(); err == nil {
			made++
		}
	}
	require.Equal(t, 20, made)
}
