package openai

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Tool is a function the model may call.
type Tool struct {
	Name        string
	Description string
	Parameters  jsontext.Value // JSON Schema of the arguments, an object; nil: none given
	Strict      bool           // the arguments must follow the schema, also where the model is free to call
	Definition  jsontext.Value // the whole tool as the client sent it: what a chat template shows
}

// ToolMode says whether the model may call a tool.
type ToolMode string

// The modes of tool_choice. A named tool is ToolRequired, Named, with that tool alone
// allowed.
const (
	ToolNone     ToolMode = "none"
	ToolAuto     ToolMode = "auto"
	ToolRequired ToolMode = "required"
)

// ToolChoice is tool_choice: the mode, and what may be called.
type ToolChoice struct {
	Mode    ToolMode
	Allowed []int // indexes in ChatRequest.Tools, ascending; nil: all
	Named   bool  // one tool by its name, not as one of several that are allowed
}

// Allow lets n tools alone be called. index gives the place of the j-th of them among
// the request's; one may be named twice.
func (c *ToolChoice) Allow(n int, index func(j int) (int, *Error)) *Error {
	for j := range n {
		i, err := index(j)
		if err != nil {
			return err
		}
		c.Allowed = append(c.Allowed, i)
	}
	slices.Sort(c.Allowed)
	c.Allowed = slices.Compact(c.Allowed)
	return nil
}

// Parallel tells whether an answer may have more than one call: as the request says,
// and if it says nothing unless it names the one tool to call. That is asked for one
// call, and a small model that is free to would call on to the cap.
func (c ToolChoice) Parallel(asked *bool) bool {
	if asked != nil {
		return *asked
	}
	return !c.Named
}

const toolChoices = `"none", "auto", "required", {"type":"function","function":{"name":NAME}} or {"type":"allowed_tools","allowed_tools":{"mode":MODE,"tools":[...]}}`

// identifier is what functions and schemas may be called, as at OpenAI.
var identifier = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

const identifierAllowed = "1 to 64 letters, digits, underscores and hyphens"

func (r *ChatRequest) validateTools(l Limits) *Error {
	if present(r.RawTools) {
		if r.RawTools.Kind() != '[' {
			return NewError(CodeInvalidType, "tools", "tools must be an array, not %s", kindName(r.RawTools.Kind()))
		}
		var all []jsontext.Value
		if err := decodeAt("tools", r.RawTools, &all, ListOf[[]jsontext.Value](&Bound{Most: l.Tools})); err != nil {
			return err
		}
		for i, v := range all {
			t, err := newTool(fmt.Sprintf("tools[%d]", i), v)
			if err != nil {
				return err
			}
			if ToolIndex(r.Tools, t.Name) >= 0 {
				at := fmt.Sprintf("tools[%d].function.name", i)
				return NewError(CodeInvalidValue, at, "%s is %q, as that of a tool before it: names must differ", at, t.Name)
			}
			r.Tools = append(r.Tools, t)
		}
	}
	return r.validateToolChoice(l)
}

// newTool reads one entry of tools.
func newTool(path string, v jsontext.Value) (Tool, *Error) {
	var in struct {
		Type     *string        `json:"type"`
		Function jsontext.Value `json:"function"`
	}
	if v.Kind() != '{' {
		return Tool{}, NewError(CodeInvalidType, path, "%s must be an object, not %s", path, kindName(v.Kind()))
	}
	if err := decodeAt(path, v, &in); err != nil {
		return Tool{}, err
	}
	switch at := path + ".type"; {
	case in.Type == nil:
		return Tool{}, NewError(CodeMissing, at, "%s is missing: allowed is \"function\"", at)
	case *in.Type != "function":
		return Tool{}, NewError(CodeUnsupported, at, "%s is %q: only \"function\" is supported", at, clip(*in.Type))
	}
	path += ".function"
	switch {
	case !present(in.Function):
		return Tool{}, NewError(CodeMissing, path, "%s is missing: give an object with a name", path)
	case in.Function.Kind() != '{':
		return Tool{}, NewError(CodeInvalidType, path, "%s must be an object, not %s", path, kindName(in.Function.Kind()))
	}
	var f struct {
		Name        *string        `json:"name"`
		Description string         `json:"description"`
		Parameters  jsontext.Value `json:"parameters"`
		Strict      *bool          `json:"strict"`
	}
	if err := decodeAt(path, in.Function, &f); err != nil {
		return Tool{}, err
	}
	if err := checkName(path+".name", f.Name); err != nil {
		return Tool{}, err
	}
	t := Tool{Name: *f.Name, Description: f.Description, Strict: f.Strict != nil && *f.Strict, Definition: v}
	if present(f.Parameters) {
		if err := checkParameters(path+".parameters", f.Parameters); err != nil {
			return Tool{}, err
		}
		t.Parameters = f.Parameters
	}
	return t, nil
}

// checkParameters wants the schema of an object: arguments are one.
func checkParameters(path string, v jsontext.Value) *Error {
	if v.Kind() != '{' {
		return NewError(CodeInvalidType, path, "%s must be a JSON Schema object, not %s", path, kindName(v.Kind()))
	}
	var schema struct {
		Type jsontext.Value `json:"type"`
	}
	if err := decodeAt(path, v, &schema); err != nil {
		return err
	}
	if len(schema.Type) > 0 && string(schema.Type) != `"object"` {
		return NewError(CodeInvalidValue, path+".type", "%s.type must be \"object\": the arguments of a function are one", path)
	}
	return nil
}

// checkName checks the name of a function or schema.
func checkName(path string, name *string) *Error {
	switch {
	case name == nil:
		return NewError(CodeMissing, path, "%s is missing: give %s", path, identifierAllowed)
	case !identifier.MatchString(*name):
		return NewError(CodeInvalidValue, path, "%s is %q: allowed are %s", path, clip(*name), identifierAllowed)
	}
	return nil
}

// ToolIndex is the place of a tool by its name; -1 for none.
func ToolIndex(tools []Tool, name string) int {
	return slices.IndexFunc(tools, func(t Tool) bool { return t.Name == name })
}

// namedTool is how tool_choice names one.
type namedTool struct {
	Type     *string `json:"type"`
	Function *struct {
		Name *string `json:"name"`
	} `json:"function"`
}

func (r *ChatRequest) validateToolChoice(l Limits) *Error {
	const path = "tool_choice"
	r.Choice = ToolChoice{Mode: ToolNone}
	if len(r.Tools) > 0 {
		r.Choice.Mode = ToolAuto
	}
	v := r.RawToolChoice
	if !present(v) {
		return nil
	}
	switch v.Kind() {
	case '"':
		var mode ToolMode
		if err := decodeAt(path, v, &mode); err != nil {
			return err
		}
		switch mode {
		case ToolNone:
			r.Choice.Mode = ToolNone
		case ToolAuto:
		case ToolRequired:
			if len(r.Tools) == 0 {
				return NewError(CodeInvalidValue, path, "tool_choice is \"required\", which needs tools")
			}
			r.Choice.Mode = ToolRequired
		default:
			return NewError(CodeInvalidValue, path, "tool_choice is %q: allowed are %s", clip(string(mode)), toolChoices)
		}
		return nil
	case '{':
		return r.validateToolObject(path, v, l)
	}
	return NewError(CodeInvalidType, path, "tool_choice must be %s, not %s", toolChoices, kindName(v.Kind()))
}

func (r *ChatRequest) validateToolObject(path string, v jsontext.Value, l Limits) *Error {
	var in struct {
		namedTool
		AllowedTools *struct {
			Mode  *ToolMode   `json:"mode"`
			Tools []namedTool `json:"tools"`
		} `json:"allowed_tools"`
	}
	if err := decodeAt(path, v, &in, ListOf[[]namedTool](&Bound{Most: l.Tools})); err != nil {
		return err
	}
	switch {
	case in.Type == nil:
		return NewError(CodeMissing, path+".type", "tool_choice.type is missing: allowed are \"function\" and \"allowed_tools\"")
	case len(r.Tools) == 0:
		return NewError(CodeInvalidValue, path, "tool_choice is an object of type %q, which needs tools", clip(*in.Type))
	case *in.Type == "function":
		i, err := r.named(path, &in.namedTool)
		r.Choice = ToolChoice{Mode: ToolRequired, Allowed: []int{i}, Named: true}
		return err
	case *in.Type != "allowed_tools":
		return NewError(CodeUnsupported, path+".type", "tool_choice.type is %q: allowed are \"function\" and \"allowed_tools\"", clip(*in.Type))
	}
	path += ".allowed_tools"
	a := in.AllowedTools
	switch {
	case a == nil:
		return NewError(CodeMissing, path, "%s is missing: give an object with mode and tools", path)
	case a.Mode == nil:
		return NewError(CodeMissing, path+".mode", "%s.mode is missing: allowed are \"auto\" and \"required\"", path)
	case *a.Mode != ToolAuto && *a.Mode != ToolRequired:
		return NewError(CodeInvalidValue, path+".mode", "%s.mode is %q: allowed are \"auto\" and \"required\"", path, clip(string(*a.Mode)))
	case len(a.Tools) == 0:
		return NewError(CodeMissing, path+".tools", "%s.tools is missing or empty: name at least one tool", path)
	}
	r.Choice.Mode = *a.Mode
	return r.Choice.Allow(len(a.Tools), func(j int) (int, *Error) {
		return r.named(fmt.Sprintf("%s.tools[%d]", path, j), &a.Tools[j])
	})
}

// named finds the tool that a part of tool_choice means.
func (r *ChatRequest) named(path string, n *namedTool) (int, *Error) {
	if n.Type == nil {
		return 0, NewError(CodeMissing, path+".type", "%s.type is missing: allowed is \"function\"", path)
	}
	if *n.Type != "function" {
		return 0, NewError(CodeUnsupported, path+".type", "%s.type is %q: only \"function\" is supported", path, clip(*n.Type))
	}
	path += ".function.name"
	if n.Function == nil || n.Function.Name == nil {
		return 0, NewError(CodeMissing, path, "%s is missing: give the name of a tool of this request", path)
	}
	i := ToolIndex(r.Tools, *n.Function.Name)
	if i < 0 {
		return 0, NewError(CodeInvalidValue, path, "%s is %q: no tool of this request has that name", path, clip(*n.Function.Name))
	}
	return i, nil
}
