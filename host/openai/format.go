package openai

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// FormatKind says how the text of an answer is bound.
type FormatKind int

// The kinds of formats.
const (
	FormatText    FormatKind = iota // not at all
	FormatObject                    // a JSON object
	FormatSchema                    // an instance of the JSON Schema Format.Text
	FormatRegex                     // a match of the regular expression Format.Text
	FormatChoice                    // one of Format.Choices
	FormatGrammar                   // what the GBNF grammar Format.Text says
)

// Format is what the text of an answer must be, whichever parameter said it.
type Format struct {
	Kind    FormatKind
	Param   string // path of the parameter that holds Text, for errors
	Text    string
	Choices []string
}

// Bounds of guided_choice.
const (
	maxGuidedChoices     = 1000
	maxGuidedChoiceBytes = 64 << 10 // all together
)

const formatsAllowed = `"text", "json_object" and "json_schema"`

// validateFormat sums up response_format and its extensions as one [Format].
func (r *ChatRequest) validateFormat(Limits) *Error {
	for _, read := range []func() (Format, *Error){r.responseFormat, r.rawGrammar, r.guidedJSON, r.guidedRegex, r.guidedChoice} {
		f, err := read()
		switch {
		case err != nil:
			return err
		case f.Kind == FormatText:
			continue
		case r.Format.Kind != FormatText:
			first, second := field(r.Format.Param), field(f.Param)
			return NewError(CodeInvalidValue, second, "%s and %s both say what the answer must be: give one of them", first, second)
		}
		r.Format = f
	}
	bound := r.bound()
	if bound == "" {
		return nil
	}
	// Either would end the answer, or go on with it, where it is not whole.
	if len(r.Stop) > 0 {
		return NewError(CodeInvalidValue, "stop", "stop cannot be combined with %s: it could cut the answer that must be whole", bound)
	}
	if r.IgnoreEOS {
		return NewError(CodeInvalidValue, "ignore_eos", "ignore_eos cannot be combined with %s: the answer ends where it is whole", bound)
	}
	if r.Format.Kind == FormatGrammar && r.Choice.Mode != ToolNone {
		return NewError(CodeInvalidValue, "grammar", "grammar cannot be combined with tools, unless tool_choice is \"none\": it describes the whole answer")
	}
	return nil
}

// bound is the parameter because of which a grammar binds the answer, or the
// calls in it; "" when the model is free.
func (r *ChatRequest) bound() string {
	switch {
	case r.Format.Kind != FormatText:
		return field(r.Format.Param)
	case r.Choice.Mode == ToolRequired:
		return "tool_choice"
	case r.Choice.Mode == ToolNone || len(r.Tools) == 0:
		return ""
	case !r.Parallel():
		return "parallel_tool_calls false"
	}
	for i, t := range r.Tools {
		if t.Strict && (r.Choice.Allowed == nil || slices.Contains(r.Choice.Allowed, i)) {
			return fmt.Sprintf("tools[%d].function.strict", i)
		}
	}
	return ""
}

func (r *ChatRequest) responseFormat() (Format, *Error) {
	const path = "response_format"
	v := r.RawResponseFormat
	if !present(v) {
		return Format{}, nil
	}
	if v.Kind() != '{' {
		return Format{}, NewError(CodeInvalidType, path, "response_format must be an object with a type, not %s", kindName(v.Kind()))
	}
	var in struct {
		Type       *string        `json:"type"`
		JSONSchema jsontext.Value `json:"json_schema"`
		Rest       jsontext.Value `json:",embed"`
	}
	if err := decodeAt(path, v, &in); err != nil {
		return Format{}, err
	}
	if err := ChatParameters.RefuseIn(path, in.Rest); err != nil {
		return Format{}, err
	}
	switch {
	case in.Type == nil:
		return Format{}, NewError(CodeMissing, path+".type", "response_format.type is missing: allowed are %s", formatsAllowed)
	case *in.Type == "text":
		return Format{}, nil
	case *in.Type == "json_object":
		return Format{Kind: FormatObject, Param: path}, nil
	case *in.Type == "json_schema":
		return schemaFormat(path+".json_schema", in.JSONSchema)
	}
	return Format{}, NewError(CodeInvalidValue, path+".type", "response_format.type is %q: allowed are %s", clip(*in.Type), formatsAllowed)
}

// schemaFormat reads response_format.json_schema. The schema is enforced whether
// strict is true or not: a promise of some instances is none.
func schemaFormat(path string, v jsontext.Value) (Format, *Error) {
	switch {
	case !present(v):
		return Format{}, NewError(CodeMissing, path, "%s is missing: give an object with name and schema", path)
	case v.Kind() != '{':
		return Format{}, NewError(CodeInvalidType, path, "%s must be an object with name and schema, not %s", path, kindName(v.Kind()))
	}
	var in struct {
		Name        *string        `json:"name"`
		Description string         `json:"description"`
		Schema      jsontext.Value `json:"schema"`
		Strict      *bool          `json:"strict"`
		Rest        jsontext.Value `json:",embed"`
	}
	if err := decodeAt(path, v, &in); err != nil {
		return Format{}, err
	}
	if err := ChatParameters.RefuseIn(path, in.Rest); err != nil {
		return Format{}, err
	}
	if err := checkName(path+".name", in.Name); err != nil {
		return Format{}, err
	}
	return schemaOf(path+".schema", in.Schema)
}

func schemaOf(path string, v jsontext.Value) (Format, *Error) {
	switch {
	case !present(v):
		return Format{}, NewError(CodeMissing, path, "%s is missing: give a JSON Schema object", path)
	case v.Kind() != '{':
		return Format{}, NewError(CodeInvalidType, path, "%s must be a JSON Schema object, not %s", path, kindName(v.Kind()))
	}
	return Format{Kind: FormatSchema, Param: path, Text: string(v)}, nil
}

// rawGrammar reads grammar, the GBNF of llama.cpp's server; its clients send ""
// for none.
func (r *ChatRequest) rawGrammar() (Format, *Error) {
	if text(r.Grammar) == "" {
		return Format{}, nil
	}
	return Format{Kind: FormatGrammar, Param: "grammar", Text: *r.Grammar}, nil
}

func (r *ChatRequest) guidedJSON() (Format, *Error) {
	if !present(r.GuidedJSON) {
		return Format{}, nil
	}
	return schemaOf("guided_json", r.GuidedJSON)
}

func (r *ChatRequest) guidedRegex() (Format, *Error) {
	switch {
	case r.GuidedRegex == nil:
		return Format{}, nil
	case *r.GuidedRegex == "":
		return Format{}, NewError(CodeInvalidValue, "guided_regex", "guided_regex is empty: give a regular expression")
	}
	return Format{Kind: FormatRegex, Param: "guided_regex", Text: *r.GuidedRegex}, nil
}

func (r *ChatRequest) guidedChoice() (Format, *Error) {
	switch n := len(r.GuidedChoice); {
	case r.GuidedChoice == nil:
		return Format{}, nil
	case n == 0:
		return Format{}, NewError(CodeInvalidValue, "guided_choice", "guided_choice is empty: allowed are 1 to %d strings", maxGuidedChoices)
	}
	total := 0
	for i, s := range r.GuidedChoice {
		if s == "" {
			at := fmt.Sprintf("guided_choice[%d]", i)
			return Format{}, NewError(CodeInvalidValue, at, "%s is empty: an answer has text", at)
		}
		total += len(s)
	}
	if total > maxGuidedChoiceBytes {
		return Format{}, NewError(CodeInvalidValue, "guided_choice", "guided_choice has %d bytes of text: at most %d are allowed", total, maxGuidedChoiceBytes)
	}
	return Format{Kind: FormatChoice, Param: "guided_choice", Choices: r.GuidedChoice}, nil
}

// field is the parameter of a path.
func field(path string) string {
	name, _, _ := strings.Cut(path, ".")
	return name
}
