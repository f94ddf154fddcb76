package responses

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/openai"
)

// tool is one entry of tools: this API has a function's fields beside the type.
type tool struct {
	Type         *string        `json:"type"`
	Name         *string        `json:"name"`
	Description  *string        `json:"description"`
	Parameters   jsontext.Value `json:"parameters"`
	Strict       bool           `json:"strict"`
	DeferLoading bool           `json:"defer_loading"`
	Async        bool           `json:"async"`
}

func (r *Request) readTools(l openai.Limits) *openai.Error {
	if !openai.Present(r.RawTools) {
		return nil
	}
	if r.RawTools.Kind() != '[' {
		return wrongKind("tools", "an array", r.RawTools)
	}
	var all []jsontext.Value
	if e := openai.DecodeAt("tools", r.RawTools, &all, openai.ListOf[[]jsontext.Value](&openai.Bound{Most: l.Tools})); e != nil {
		return e
	}
	for i, v := range all {
		if e := r.readTool(fmt.Sprintf("tools[%d]", i), v); e != nil {
			return e
		}
	}
	return nil
}

func (r *Request) readTool(path string, v jsontext.Value) *openai.Error {
	if v.Kind() != '{' {
		return wrongKind(path, "an object", v)
	}
	var kind struct {
		Type *string `json:"type"`
	}
	if e := openai.DecodeAt(path, v, &kind); e != nil {
		return e
	}
	switch {
	case kind.Type == nil:
		return missing(path+".type", "allowed is function")
	case *kind.Type != "function":
		return unsupported(path+".type", "is %q, and this server runs no tools of its own: allowed is function", openai.Clip(*kind.Type))
	}
	var t tool
	if e := openai.DecodeAt(path, v, &t); e != nil {
		return e
	}
	if e := openai.CheckName(path+".name", t.Name); e != nil {
		return e
	}
	switch {
	case openai.ToolIndex(r.Tools, *t.Name) >= 0:
		return invalid(path+".name", "is %q, as that of a tool before it: names must differ", *t.Name)
	case t.DeferLoading:
		return unsupported(path+".defer_loading", "is not supported: all tools are shown to the model")
	case t.Async:
		return unsupported(path+".async", "is not supported: a turn ends with its calls")
	}
	if !openai.Present(t.Parameters) {
		t.Parameters = nil
	} else if e := openai.CheckParameters(path+".parameters", t.Parameters); e != nil {
		return e
	}
	// Chat templates know the form that the chat completions API has.
	definition := []byte(`{"type":"function","function":{"name":`)
	definition, _ = jsontext.AppendQuote(definition, *t.Name)
	if t.Description != nil {
		definition, _ = jsontext.AppendQuote(append(definition, `,"description":`...), *t.Description)
	}
	if t.Parameters != nil {
		definition = append(append(definition, `,"parameters":`...), t.Parameters...)
	}
	if t.Strict {
		definition = append(definition, `,"strict":true`...)
	}
	definition = append(definition, "}}"...)
	own := openai.Tool{Name: *t.Name, Parameters: t.Parameters, Strict: t.Strict, Definition: definition}
	if t.Description != nil {
		own.Description = *t.Description
	}
	r.Tools = append(r.Tools, own)
	r.tools = append(r.tools, ToolUsed{Type: "function", Name: *t.Name, Description: t.Description, Parameters: t.Parameters, Strict: t.Strict})
	return nil
}

const toolChoices = `"none", "auto", "required", {"type":"function","name":NAME} or {"type":"allowed_tools","mode":MODE,"tools":[...]}`

// namedTool is how tool_choice names one.
type namedTool struct {
	Type *string `json:"type"`
	Name *string `json:"name"`
}

func (r *Request) readToolChoice(l openai.Limits) *openai.Error {
	const path = "tool_choice"
	r.Choice.Mode = openai.ToolNone
	if len(r.Tools) > 0 {
		r.Choice.Mode = openai.ToolAuto
	}
	v := r.RawToolChoice
	switch {
	case !openai.Present(v):
		return nil
	case v.Kind() == '{':
		return r.readToolObject(path, v, l)
	case v.Kind() != '"':
		return wrongKind(path, toolChoices, v)
	}
	var mode openai.ToolMode
	if e := openai.DecodeAt(path, v, &mode); e != nil {
		return e
	}
	switch mode {
	case openai.ToolNone:
		r.Choice.Mode = openai.ToolNone
	case openai.ToolAuto:
	case openai.ToolRequired:
		if len(r.Tools) == 0 {
			return invalid(path, "is \"required\", which needs tools")
		}
		r.Choice.Mode = openai.ToolRequired
	default:
		return invalid(path, "is %q: allowed are %s", openai.Clip(string(mode)), toolChoices)
	}
	return nil
}

func (r *Request) readToolObject(path string, v jsontext.Value, l openai.Limits) *openai.Error {
	var in struct {
		namedTool
		Mode  *openai.ToolMode `json:"mode"`
		Tools []namedTool      `json:"tools"`
	}
	if e := openai.DecodeAt(path, v, &in, openai.ListOf[[]namedTool](&openai.Bound{Most: l.Tools})); e != nil {
		return e
	}
	switch {
	case in.Type == nil:
		return missing(path+".type", "allowed are function and allowed_tools")
	case *in.Type != "function" && *in.Type != "allowed_tools":
		return unsupported(path+".type", "is %q, and this server runs no tools of its own: allowed are function and allowed_tools", openai.Clip(*in.Type))
	case len(r.Tools) == 0:
		return invalid(path, "is an object of type %q, which needs tools", *in.Type)
	case *in.Type == "function":
		i, e := r.named(path, &in.namedTool)
		r.Choice = openai.ToolChoice{Mode: openai.ToolRequired, Allowed: []int{i}, Named: true}
		return e
	case in.Mode == nil:
		return missing(path+".mode", "allowed are auto and required")
	case *in.Mode != openai.ToolAuto && *in.Mode != openai.ToolRequired:
		return invalid(path+".mode", "is %q: allowed are auto and required", openai.Clip(string(*in.Mode)))
	case len(in.Tools) == 0:
		return missing(path+".tools", "name at least one tool")
	}
	r.Choice.Mode = *in.Mode
	return r.Choice.Allow(len(in.Tools), func(j int) (int, *openai.Error) {
		return r.named(fmt.Sprintf("%s.tools[%d]", path, j), &in.Tools[j])
	})
}

// named finds the tool that a part of tool_choice means.
func (r *Request) named(path string, n *namedTool) (int, *openai.Error) {
	switch {
	case n.Type == nil:
		return 0, missing(path+".type", "allowed is function")
	case *n.Type != "function":
		return 0, unsupported(path+".type", "is %q: allowed is function", openai.Clip(*n.Type))
	case n.Name == nil:
		return 0, missing(path+".name", "give the name of a tool of this request")
	}
	i := openai.ToolIndex(r.Tools, *n.Name)
	if i < 0 {
		return 0, invalid(path+".name", "is %q: no tool of this request has that name", openai.Clip(*n.Name))
	}
	return i, nil
}
