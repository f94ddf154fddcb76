package anthropic

import (
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/openai"
	"thoth/host/prompt"
)

type tool struct {
	Type         *string        `json:"type"`
	Name         *string        `json:"name"`
	Description  string         `json:"description"`
	InputSchema  jsontext.Value `json:"input_schema"`
	Strict       bool           `json:"strict"`
	CacheControl *CacheControl  `json:"cache_control"`
	Eager        bool           `json:"eager_input_streaming"` // as every input is streamed

	Rest jsontext.Value `json:",embed"`
}

// ToolChoice says whether the model may call a tool.
type ToolChoice struct {
	Type            *string `json:"type"`
	Name            *string `json:"name"`
	DisableParallel *bool   `json:"disable_parallel_tool_use"`

	Rest jsontext.Value `json:",embed"`
}

// toolName is what a tool may be called, as at Anthropic.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

func (r *Request) readTools(openai.Limits) *openai.Error {
	for i, v := range r.RawTools {
		path := fmt.Sprintf("tools[%d]", i)
		if v.Kind() != '{' {
			return wrongKind(path, "an object", v)
		}
		var t tool
		if e := openai.DecodeAt(path, v, &t); e != nil {
			return e
		}
		if e := r.readTool(path, &t); e != nil {
			return e
		}
	}
	return r.readToolChoice()
}

func (r *Request) readTool(path string, t *tool) *openai.Error {
	switch {
	case t.Type != nil && *t.Type != "custom":
		return unsupported(path+".type", "is %q, which would run at Anthropic: allowed is custom", openai.Clip(*t.Type))
	case t.Name == nil:
		return missing(path+".name", "give 1 to 128 letters, digits, underscores and hyphens")
	case !toolName.MatchString(*t.Name):
		return invalid(path+".name", "is %q: allowed are 1 to 128 letters, digits, underscores and hyphens", openai.Clip(*t.Name))
	case openai.ToolIndex(r.Tools, *t.Name) >= 0:
		return invalid(path+".name", "is %q, as that of a tool before it: names must differ", *t.Name)
	case !openai.Present(t.InputSchema):
		return missing(path+".input_schema", "give a JSON Schema of type object")
	case t.InputSchema.Kind() != '{':
		return wrongKind(path+".input_schema", "a JSON Schema object", t.InputSchema)
	}
	if e := Parameters.RefuseIn(path, t.Rest); e != nil {
		return e
	}
	var schema struct {
		Type jsontext.Value `json:"type"`
	}
	if e := openai.DecodeAt(path+".input_schema", t.InputSchema, &schema); e != nil {
		return e
	}
	if string(schema.Type) != `"object"` {
		return invalid(path+".input_schema.type", "must be \"object\": the input of a tool is one")
	}
	// Chat templates know OpenAI's form of a tool.
	definition := append([]byte(`{"type":"function","function":{"name":`), openai.Encode(*t.Name)...)
	if t.Description != "" {
		definition, _ = jsontext.AppendQuote(append(definition, `,"description":`...), t.Description)
	}
	definition = append(append(append(definition, `,"parameters":`...), t.InputSchema...), "}}"...)
	r.Tools = append(r.Tools, openai.Tool{Name: *t.Name, Description: t.Description, Parameters: t.InputSchema, Strict: t.Strict, Definition: definition})
	r.Conversation.Tools = append(r.Conversation.Tools, prompt.Tool{Name: *t.Name, Definition: definition})
	if t.CacheControl != nil {
		r.markedTools = true
	}
	return r.mark(path+".", t.CacheControl)
}

func (r *Request) readToolChoice() *openai.Error {
	r.Choice.Mode = openai.ToolNone
	if len(r.Tools) > 0 {
		r.Choice.Mode = openai.ToolAuto
	}
	c := r.RawToolChoice
	if c == nil {
		return nil
	}
	if e := Parameters.RefuseIn("tool_choice", c.Rest); e != nil {
		return e
	}
	const path, allowed = "tool_choice.type", "allowed are auto, any, tool and none"
	switch {
	case c.Type == nil:
		return missing(path, allowed)
	case *c.Type == "none":
		r.Choice.Mode = openai.ToolNone
		return nil
	case *c.Type == "auto":
		return nil
	case *c.Type != "any" && *c.Type != "tool":
		return invalid(path, "is %q: %s", openai.Clip(*c.Type), allowed)
	case len(r.Tools) == 0:
		return invalid(path, "is %q, which needs tools", *c.Type)
	}
	r.Choice.Mode = openai.ToolRequired
	if *c.Type == "any" {
		return nil
	}
	if c.Name == nil {
		return missing("tool_choice.name", "give the name of a tool of this request")
	}
	i := openai.ToolIndex(r.Tools, *c.Name)
	if i < 0 {
		return invalid("tool_choice.name", "is %q: no tool of this request has that name", openai.Clip(*c.Name))
	}
	r.Choice.Allowed, r.Choice.Named = []int{i}, true
	return nil
}
