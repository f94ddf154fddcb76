package dialect

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"thoth/host/grammar"
	"thoth/host/grammar/grammartest"
)

// compiled is the grammar of an ask; nil when it is not bound.
func compiled(t *testing.T, d *Dialect, ask Ask, content func(b *grammar.Builder) grammar.Rule) *grammartest.Grammar {
	t.Helper()
	b := grammar.NewBuilder(grammar.Limits{})
	if content != nil {
		ask.Content = content(b)
	}
	rule, bound, err := d.Grammar(b, ask)
	require.NoError(t, err)
	if !bound {
		return nil
	}
	text, err := b.Build(rule)
	require.NoError(t, err)
	g, err := grammartest.Compile(text)
	require.NoError(t, err, text)
	return g
}

// valid fails unless the arguments follow the tool's schema.
func valid(t *testing.T, tool Tool, arguments string) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(arguments))
	require.NoError(t, err, "%q", arguments)
	if tool.Parameters == nil {
		require.Equal(t, map[string]any{}, value)
		return
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(tool.Parameters)))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("tool.json", doc))
	schema, err := c.Compile("tool.json")
	require.NoError(t, err)
	require.NoError(t, schema.Validate(value), "%s: %s", tool.Name, arguments)
}

// calls are the calls among events, by index; ok if there is no text.
func calls(events []Event) (names, arguments []string, text string) {
	for _, e := range events {
		switch e.Kind {
		case Call:
			names, arguments = append(names, e.Name), append(arguments, "")
		case Arguments:
			arguments[e.Index] += e.Text
		case Content:
			text += e.Text
		}
	}
	return names, arguments, text
}

// TestGrammar_MembersParseIntoValidCalls draws answers from every family's
// grammar and takes them apart again.
func TestGrammar_MembersParseIntoValidCalls(t *testing.T) {
	tails := map[string]string{"": "assistant\n", "opened": "<think>\n", "closed": "<think>\n\n</think>\n\n"}
	for name, d := range all() {
		for how, tail := range tails {
			for _, parallel := range []bool{true, false} {
				if d.harmony && how != "" {
					continue
				}
				d := d
				if !d.harmony {
					d = thoughtful(d)
				}
				ask := auto()
				ask.Mode, ask.Parallel, ask.Tail = ModeRequired, parallel, tail
				g := compiled(t, d, ask, nil)
				r := rand.New(rand.NewSource(1))
				for range 60 {
					text, ok := g.Generate(r, 10+r.Intn(500))
					require.True(t, ok)
					require.True(t, g.Match(text))
					names, arguments, rest := calls(parse(d, ask, false, text))
					require.Empty(t, rest, "%s %s: %q", name, how, text)
					require.NotEmpty(t, names, "%s %s: %q", name, how, text)
					if !parallel {
						require.Len(t, names, 1, "%s: %q", name, text)
					}
					for i := range names {
						for _, tool := range ask.Tools {
							if tool.Name == names[i] {
								valid(t, tool, arguments[i])
							}
						}
					}
				}
			}
		}
	}
}

// TestGrammar_WhatItWritesIsTheFamilysFormat checks answers as their templates
// show them.
func TestGrammar_WhatItWritesIsTheFamilysFormat(t *testing.T) {
	const weatherArgs = `{"city": "Oslo", "days": 3}`
	good := map[string]string{
		"hermes":        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " + weatherArgs + "}\n</tool_call>\n<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>",
		"qwen3-coder":   "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=unit>\nC\n</parameter>\n</function>\n</tool_call>",
		"glm":           "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
		"llama3":        `{"name": "get_weather", "parameters": ` + weatherArgs + `}`,
		"mistral":       `[TOOL_CALLS][{"name": "get_weather", "arguments": ` + weatherArgs + `, "id": "abcdefgh1"}, {"name": "clock", "arguments": {}}]`,
		"mistral-args":  `[TOOL_CALLS]get_weather[ARGS]` + weatherArgs + `[TOOL_CALLS]clock[ARGS]{}`,
		"deepseek":      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" + weatherArgs + "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		"deepseek-r1":   "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n" + weatherArgs + "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		"gpt-oss":       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + weatherArgs,
		"phi-4-mini":    `<|tool_call|>[{"name": "get_weather", "arguments": ` + weatherArgs + `}]<|/tool_call|>`,
		"phi-4-mini-2":  `functools[{"name": "get_weather", "arguments": ` + weatherArgs + `}]`,
		"granite":       `<|tool_call|>[{"name": "get_weather", "arguments": ` + weatherArgs + `}]`,
		"functiongemma": "<start_function_call>call:get_weather{city:<escape>Oslo<escape>,days:3}<end_function_call>",
		"olmo3":         `<function_calls>get_weather(city="Oslo", days=3)` + "\n" + `clock()</function_calls>`,
	}
	for name, d := range all() {
		ask := auto()
		ask.Mode = ModeRequired
		g := compiled(t, d, ask, nil)
		require.True(t, g.Match(good[name]), "%s: %q", name, good[name])
		for i := range good[name] {
			require.True(t, g.Prefix(strings.ToValidUTF8(good[name][:i], "")), "%s: %q", name, good[name][:i])
		}
		require.False(t, g.Match(good[name]+"x"), name)
		require.False(t, g.Match("Sure. "+good[name]), name)
		require.False(t, g.Match(strings.Replace(good[name], "3", "30", 1)), name)
		require.False(t, g.Match(strings.Replace(good[name], "get_weather", "weather", 1)), name)
		require.False(t, g.Match(""), name)

		named := ask
		named.Allowed = []int{2}
		require.False(t, compiled(t, d, named, nil).Match(good[name]), name)
	}
}

func TestGrammar_NotBoundWhereAnyAnswerWillDo(t *testing.T) {
	for name, d := range all() {
		require.Nil(t, compiled(t, d, Ask{}, nil), name)
		require.Nil(t, compiled(t, d, Ask{Mode: ModeAuto}, nil), name)
		require.Nil(t, compiled(t, d, auto(), nil), name)
	}
}

func TestGrammar_Auto(t *testing.T) {
	ask := auto()
	ask.Parallel = false
	call := `<tool_call>` + "\n" + `{"name": "clock", "arguments": {}}` + "\n" + `</tool_call>`
	g := compiled(t, hermes(), ask, nil)
	for text, want := range map[string]bool{
		"": true, "Yes.": true, "Let me see.\n\n" + call: true, call: true,
		call + "\n" + call: false, "<tool_call>": false, "Yes <tool_call> no": false, call + "Yes.": false,
	} {
		require.Equal(t, want, g.Match(text), "%q", text)
	}
	bare := compiled(t, llama(), ask, nil)
	for text, want := range map[string]bool{
		"": true, "Yes {\"a\": 1}.": true, "\n<b>": true, `{"name": "clock", "parameters": {}}`: true,
		`{"a": 1}`: false, ` {"name": "clock", "parameters": {}}`: false, "<|python_tag|>x": false, "a <|python_tag|>x": false,
	} {
		require.Equal(t, want, bare.Match(text), "%q", text)
	}
	for name, d := range all() {
		g := compiled(t, d, ask, nil)
		r := rand.New(rand.NewSource(2))
		for range 40 {
			text, ok := g.Generate(r, 200)
			require.True(t, ok)
			for _, marker := range d.openers() {
				if strings.Contains(text, marker) {
					names, _, _ := calls(parse(d, ask, false, text))
					require.Len(t, names, 1, "%s: %q", name, text)
				}
			}
		}
	}
}

func TestGrammar_NoneKeepsMarkersOut(t *testing.T) {
	ask := auto()
	ask.Mode = ModeNone
	for name, d := range all() {
		g := compiled(t, d, ask, nil)
		if d.bare != nil {
			require.Nil(t, g, name)
			continue
		}
		plain := "Yes."
		if d.harmony {
			plain = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes."
		}
		require.True(t, g.Match(plain), name)
		for _, marker := range d.Markers() {
			if d.harmony {
				marker = "<|channel|>commentary " + marker
			}
			require.False(t, g.Prefix(marker), name)
		}
	}
}

func TestGrammar_Content(t *testing.T) {
	content := func(b *grammar.Builder) grammar.Rule { return b.Choice(b.Literal("yes"), b.Literal("no")) }
	d := thoughtful(hermes())
	for tail, answers := range map[string]map[string]bool{
		"<think>\n":               {"Hm.\n</think>\n\nyes": true, "yes": false, "</think>no": true, "Hm": false},
		"":                        {"<think>\nHm.\n</think>\n\nyes": true, "yes": true, "Hm.\n</think>\n\nyes": false},
		"<think>\n\n</think>\n\n": {"yes": true, "<think>\n</think>yes": false},
	} {
		g := compiled(t, d, Ask{Tail: tail}, content)
		for text, want := range answers {
			require.Equal(t, want, g.Match(text), "%q %q", tail, text)
		}
	}
	g := compiled(t, harmony(), Ask{}, content)
	require.True(t, g.Match("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>yes"))
	require.True(t, g.Match("<|channel|>final <|constrain|>json<|message|>no"))
	require.False(t, g.Match("<|channel|>final<|message|>maybe"))

	either := compiled(t, hermes(), auto(), content)
	require.True(t, either.Match("yes"))
	require.True(t, either.Match("<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>"))
	require.False(t, either.Match("yes<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>"))
}

func TestGrammar_ErrorsNameThePlace(t *testing.T) {
	bad := Tool{Name: "bad", Parameters: []byte(`{"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)"}}}`)}
	for name, d := range all() {
		ask := auto(clock, bad)
		ask.Mode = ModeRequired
		_, _, err := d.Grammar(grammar.NewBuilder(grammar.Limits{}), ask)
		var at *grammar.Error
		require.ErrorAs(t, err, &at, name)
		require.True(t, strings.HasPrefix(at.Path, "tools[1].function.parameters.properties.a"), "%s: %s", name, at.Path)

		ask.Mode, ask.Parallel = ModeAuto, false // free to be any object
		require.NotNil(t, compiled(t, d, ask, nil), name)
		ask.Tools[1].Strict = true
		_, _, err = d.Grammar(grammar.NewBuilder(grammar.Limits{}), ask)
		require.ErrorAs(t, err, &at, name)

		ask = auto()
		ask.Mode, ask.Allowed = ModeRequired, []int{}
		_, _, err = d.Grammar(grammar.NewBuilder(grammar.Limits{}), ask)
		require.ErrorAs(t, err, &at, name)
		require.Equal(t, "tool_choice", at.Path)
	}
}

// TestGrammar_TextsWithoutQuotesFollowTheirSchemaOrAreRefused draws calls with
// properties of all kinds in the formats that are not JSON.
func TestGrammar_TextsWithoutQuotesFollowTheirSchemaOrAreRefused(t *testing.T) {
	const defs = `"$defs": {"name": {"type": "string"}, "tree": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "additionalProperties": false}}`
	for property, enforced := range map[string]bool{
		`{}`:                                   true,
		`true`:                                 true,
		`{"type": "string", "default": "x"}`:   true,
		`{"$ref": "#/$defs/name"}`:             true,
		`{"enum": ["null", "true", "", " a"]}`: true,
		`{"const": "1"}`:                       true,
		`{"anyOf": [{"type": "string"}, {"type": "null"}]}`:                 true,
		`{"type": ["string", "integer", "boolean"]}`:                        true,
		`{"type": ["integer", "null"]}`:                                     true,
		`{"type": "number", "minimum": -1.5, "maximum": 99}`:                true,
		`{"type": "array", "items": {"type": "string"}, "maxItems": 3}`:     true,
		`{"$ref": "#/$defs/tree"}`:                                          true,
		`false`:                                                             false,
		`{"type": "string", "minLength": 2}`:                                false,
		`{"$ref": "#/$defs/name", "maxLength": 2}`:                          false,
		`{"type": "string", "anyOf": [{"type": "integer"}]}`:                false,
		`{"type": "string", "format": "date"}`:                              false,
		`{"const": "a\n"}`:                                                  false,
		`{"enum": ["a", 1]}`:                                                false,
		`{"anyOf": [{"type": "string", "pattern": "a"}, {"type": "null"}]}`: false,
	} {
		tool := Tool{Name: "f", Parameters: []byte(`{"type": "object", "properties": {"a": ` + property + `}, "required": ["a"], ` + defs + `}`)}
		ask := auto(tool)
		ask.Mode = ModeRequired
		for _, d := range []*Dialect{qwenCoder(), glm()} {
			if !enforced {
				_, _, err := d.Grammar(grammar.NewBuilder(grammar.Limits{}), ask)
				var at *grammar.Error
				require.ErrorAs(t, err, &at, property)
				require.Equal(t, "tools[0].function.parameters.properties.a", at.Path)
				continue
			}
			g := compiled(t, d, ask, nil)
			r := rand.New(rand.NewSource(4))
			for range 60 {
				text, ok := g.Generate(r, 10+r.Intn(60))
				require.True(t, ok)
				_, arguments, rest := calls(parse(d, ask, false, text))
				require.Empty(t, rest, "%q", text)
				require.NotEmpty(t, arguments, "%q", text)
				for _, a := range arguments {
					valid(t, tool, a)
				}
			}
		}
	}
}

func TestGrammar_PropertiesMustBeDeclared(t *testing.T) {
	for schema, path := range map[string]string{
		`{"type": "object", "required": ["a"]}`:                              "tools[0].function.parameters.required",
		`{"type": "object", "properties": {"a": {}}, "minProperties": 1}`:    "tools[0].function.parameters.minProperties",
		`{"type": "object", "properties": {"a<b": {}}, "required": ["a<b"]}`: `tools[0].function.parameters.properties["a<b"]`,
		`{"type": "array"}`: "tools[0].function.parameters.type",
		`{"$ref": "#/$defs/x", "$defs": {"x": {"type": ["object", "null"]}}}`: "tools[0].function.parameters.$defs.x.type",
	} {
		ask := auto(Tool{Name: "f", Parameters: []byte(schema)})
		ask.Mode = ModeRequired
		_, _, err := qwenCoder().Grammar(grammar.NewBuilder(grammar.Limits{}), ask)
		var at *grammar.Error
		require.ErrorAs(t, err, &at, schema)
		require.Equal(t, path, at.Path)
	}
}

// A schema whose parts name each other many times over is looked at once, in the
// grammar and by the parser.
func TestGrammar_PartsThatNameEachOtherAreFollowedOnce(t *testing.T) {
	var defs strings.Builder
	for i := range 40 {
		ref := fmt.Sprintf(`{"$ref": "#/$defs/d%d"}`, i+1)
		fmt.Fprintf(&defs, `"d%d": {"anyOf": [%s]}, `, i, strings.Join([]string{ref, ref, ref, ref}, ", "))
	}
	tool := Tool{Name: "f", Parameters: []byte(`{"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}, "b": {"$ref": "#/$defs/loop"}}, "required": ["a"],
		"$defs": {` + defs.String() + `"d40": {"type": "string"}, "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "null"}]}}}`)}
	at := newSchema(readParameters(tool.Parameters)).Member("properties")
	require.Equal(t, []string{"string"}, newSchema(at.Member("a")).types())
	require.True(t, newSchema(at.Member("a")).plain())
	require.Equal(t, []string{"null"}, newSchema(at.Member("b")).types())
	require.False(t, newSchema(at.Member("b")).plain(), "it needs itself")

	ask := auto(tool)
	ask.Parallel = false
	call := "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"
	require.True(t, compiled(t, qwenCoder(), ask, nil).Match(call))
	require.Equal(t, `«0 f {"a": "1"}»`, parseAnyCut(t, qwenCoder(), ask, false, call))
}

// What a tool's arguments share is compiled once in the families that write them
// one by one, though each has its own rule.
func TestGrammar_ArgumentsShareTheirDefinitions(t *testing.T) {
	tool := Tool{Name: "f", Parameters: []byte(`{"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"type": "array", "items": {"$ref": "#/$defs/x"}}, "c": {"$ref": "#/$defs/x"}},
		"required": ["a", "b", "c"], "$defs": {"x": {"type": "object", "properties": {"marked": {"type": "integer"}}, "required": ["marked"]}}}`)}
	for _, must := range []bool{true, false} {
		ask := auto(tool)
		ask.Parallel, ask.Tools[0].Strict = false, must
		for _, d := range []*Dialect{qwenCoder(), glm(), olmo()} {
			b := grammar.NewBuilder(grammar.Limits{})
			rule, _, err := d.Grammar(b, ask)
			require.NoError(t, err)
			text, err := b.Build(rule)
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(text, `\"marked\"`), text)
		}
	}
}

// The limits of the builder hold, for tools that are not strict too.
func TestGrammar_BuildersOwnLimits(t *testing.T) {
	ask := auto(Tool{Name: "f", Parameters: []byte(`{"type": "object", "properties": {"a": {"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 3}}, "required": ["a"]}`)})
	ask.Parallel = false
	for most, enforced := range map[int]bool{2: false, 3: true} {
		b := grammar.NewBuilder(grammar.Limits{Repeat: most})
		rule, _, err := hermes().Grammar(b, ask)
		require.NoError(t, err)
		text, err := b.Build(rule)
		require.NoError(t, err)
		g, err := grammartest.Compile(text)
		require.NoError(t, err)
		require.Equal(t, enforced, !g.Match("<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"))
	}
	b := grammar.NewBuilder(grammar.Limits{SchemaBytes: 20})
	rule, _, err := hermes().Grammar(b, ask)
	require.NoError(t, err)
	text, err := b.Build(rule)
	require.NoError(t, err)
	require.Contains(t, text, "value ::=", "a schema beyond the limits of one that need not be enforced: any object")
	ask.Tools[0].Strict = true
	_, _, err = hermes().Grammar(b, ask)
	require.ErrorContains(t, err, "tools[0].function.parameters: the schema has")
}
