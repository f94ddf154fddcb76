package dialect

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/model/parsers"
)

// A format that is not JSON writes an argument's value as plain text. What the
// value is, ollama's parser of the family decides by the tool's schema. It is
// asked for one argument at a time, under made-up names, so that nothing else in
// the call can mislead it; and where the model's own spelling is JSON of the type
// it decides for, that spelling stays.

// typed asks ollama's parser for the value of the argument k in a call of f.
func typed(family, call string, types []string) (any, bool) {
	p := parsers.ParserForName(family)
	properties := api.NewToolPropertiesMap()
	properties.Set("k", api.ToolProperty{Type: types})
	tool := api.Tool{Type: "function", Function: api.ToolFunction{Name: "f", Parameters: api.ToolFunctionParameters{Type: "object", Properties: properties}}}
	p.Init([]api.Tool{tool}, nil, &api.ThinkValue{Value: false})
	_, _, calls, err := p.Add(call, false)
	if err != nil || len(calls) != 1 || calls[0].Function.Name != "f" {
		return nil, false
	}
	return calls[0].Function.Arguments.Get("k")
}

// typedValue is the JSON of a value written as text; family and around are
// ollama's parser and the call that shows it the value. types are those the
// schema allows, none when it does not say.
func typedValue(text string, types []string, family string, around func(value string) string) string {
	spelled, word := jsontext.Value(text), strings.TrimSpace(text)
	isJSON := spelled.IsValid()
	mayBeText := len(types) == 0 || slices.Contains(types, "string")
	switch {
	case isJSON && !mayBeText && slices.ContainsFunc(types, func(t string) bool { return isKind(spelled, t) }):
		return strings.Trim(text, spaces)
	case len(types) == 1 && types[0] == "string", len(types) == 0 && !strings.EqualFold(word, "null"):
		return quote(text)
	case strings.EqualFold(word, "null") && !slices.Contains(types, "null") && mayBeText && len(types) > 0:
		return quote(text) // ollama takes every null for none
	}
	shown := text
	if isJSON { // no < may look like a tag
		if escaped, err := jsontext.AppendFormat(nil, spelled, jsontext.EscapeForHTML(true)); err == nil {
			shown = string(escaped)
		}
	} else if strings.ContainsFunc(text, notXML) {
		return quote(text)
	}
	value, ok := typed(family, around(shown), types)
	switch v := value.(type) {
	case string:
		return quote(text)
	case bool:
		if !v && !strings.EqualFold(word, "false") { // ollama takes whatever is no boolean for false
			return quote(text)
		}
	}
	if !ok {
		return quote(text)
	}
	if isJSON {
		return strings.Trim(text, spaces)
	}
	if out := encode(value, text); jsontext.Value(out).Kind() != '0' {
		return out
	}
	return quote(text) // 007 and 1_000 are a number to some, and not the text they stand for
}

// notXML tells which characters ollama's parsers, that go through XML, refuse or
// take for a tag.
func notXML(c rune) bool {
	return c == '<' || c < ' ' && !strings.ContainsRune(spaces, c) || c == utf8.RuneError || c >= 0xfffe && c <= 0xffff
}

// encode writes a decoded value the way JSON is written everywhere here; as the
// text it came from if it cannot be JSON, like NaN.
func encode(value any, text string) string {
	out, err := json.Marshal(value, json.Deterministic(true), jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true))
	if err != nil {
		return quote(text)
	}
	return string(out)
}

func isKind(v jsontext.Value, kind string) bool {
	own := kindOf(v)
	return own == kind || v.Kind() == '0' && (kind == "integer" || kind == "number")
}

// kindOf is the schema's type of a JSON value; a number without a fraction is
// an integer.
func kindOf(v jsontext.Value) string {
	switch v.Kind() {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case '0':
		if strings.ContainsAny(string(v), ".eE") {
			return "number"
		}
		return "integer"
	case 't', 'f':
		return "boolean"
	}
	return "null"
}
