package openai

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Role of a message.
type Role string

// The roles a message may have.
const (
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

const rolesAllowed = "system, developer, user, assistant or tool"

// Message is one message of a request.
type Message struct {
	Role       *string    `json:"role"`
	Content    Content    `json:"content"`
	Name       string     `json:"name"`
	Refusal    *string    `json:"refusal"` // of an assistant: text, as a part of this type
	ToolCalls  []ToolCall `json:"tool_calls"`
	ToolCallID string     `json:"tool_call_id"`

	// Reasoning is what servers of this kind send back beside the content, under
	// either name; clients replay it.
	ReasoningContent *string `json:"reasoning_content"`
	Reasoning        *string `json:"reasoning"`

	FunctionCall jsontext.Value `json:"function_call"`
	Audio        jsontext.Value `json:"audio"`
}

// Content is a message's text: a string, an array of text parts, or null.
type Content struct {
	Given bool // neither absent nor null
	Text  string

	// Breakpoints are the byte offsets in Text where a part with a
	// prompt_cache_breakpoint ends, ascending.
	Breakpoints []int

	ttl   time.Duration // the longest of the breakpoints
	parts []part
}

type part struct {
	Type       *string          `json:"type"`
	Text       *string          `json:"text"`
	Refusal    *string          `json:"refusal"`
	Breakpoint *CacheBreakpoint `json:"prompt_cache_breakpoint"`
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (c *Content) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*c = Content{}
	switch dec.PeekKind() {
	case 'n':
		return dec.SkipValue()
	case '"':
		c.Given = true
		return json.UnmarshalDecode(dec, &c.Text)
	case '[':
		c.Given = true
		return json.UnmarshalDecode(dec, &c.parts)
	}
	return skip(dec, errContent)
}

// join checks the parts and puts their texts together as one string, the way
// the string form would have it.
func (c *Content) join(path string) *Error {
	var all strings.Builder // thousands of parts one after the other would be copied as often
	for i, p := range c.parts {
		at := fmt.Sprintf("%s.content[%d]", path, i)
		if p.Type == nil {
			return NewError(CodeMissing, at+".type", "%s.type is missing: content parts need a type, and this model takes \"text\"", at)
		}
		text := p.Text
		switch *p.Type {
		case "text":
		case "refusal":
			text = p.Refusal
		default:
			return NewError(CodeUnsupported, at+".type", "%s has type %q, which this model does not take: only \"text\" parts are supported", at, clip(*p.Type))
		}
		if text == nil {
			return NewError(CodeMissing, at+"."+*p.Type, "%s.%s is missing", at, *p.Type)
		}
		all.WriteString(*text)
		if p.Breakpoint == nil {
			continue
		}
		at += ".prompt_cache_breakpoint"
		if *p.Type != "text" {
			return NewError(CodeUnsupported, at, "%s is only allowed in text parts", at)
		}
		if err := p.Breakpoint.validate(at); err != nil {
			return err
		}
		c.Breakpoints = append(c.Breakpoints, all.Len())
		c.ttl = max(c.ttl, lifetime(p.Breakpoint.TTL))
	}
	if c.parts != nil {
		c.Text, c.parts = all.String(), nil
	}
	return nil
}

// ToolCall is a call an assistant message made.
type ToolCall struct {
	ID       string       `json:"id"`
	Type     *string      `json:"type"`
	Function FunctionCall `json:"function"`
}

// FunctionCall names the function and its arguments.
type FunctionCall struct {
	Name      string    `json:"name"`
	Arguments Arguments `json:"arguments"`
}

// Arguments is the JSON object of a call. The wire format is a string holding
// it; some clients send the object itself. Empty means no arguments.
type Arguments string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (a *Arguments) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case 'n':
		*a = ""
		return dec.SkipValue()
	case '"':
		return json.UnmarshalDecode(dec, (*string)(a))
	case '{':
		v, err := dec.ReadValue()
		*a = Arguments(v)
		return err
	}
	return skip(dec, errArguments)
}

// validate checks a message and completes it: parts joined, reasoning under one
// name, empty arguments as {}.
func (m *Message) validate(i int) *Error {
	path := "messages[" + strconv.Itoa(i) + "]"
	if m.Role == nil {
		return NewError(CodeMissing, path+".role", "%s.role is missing: give %s", path, rolesAllowed)
	}
	if err := m.Content.join(path); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		v    jsontext.Value
	}{{"function_call", m.FunctionCall}, {"audio", m.Audio}} {
		if present(f.v) {
			return NewError(CodeUnsupported, path+"."+f.name, "%s.%s is not supported; use tool_calls and text", path, f.name)
		}
	}
	role := Role(*m.Role)
	switch role {
	case RoleAssistant:
		// An empty turn, or one with calls alone, is legal history.
	case RoleSystem, RoleDeveloper, RoleUser, RoleTool:
		if !m.Content.Given {
			return NewError(CodeMissing, path+".content", "%s.content is missing: a %s message needs a string or an array of text parts", path, role)
		}
		if len(m.ToolCalls) > 0 {
			return NewError(CodeInvalidValue, path+".tool_calls", "%s.tool_calls is only allowed in assistant messages", path)
		}
	default:
		return NewError(CodeInvalidValue, path+".role", "%s.role is %q: allowed are %s", path, clip(*m.Role), rolesAllowed)
	}
	if s := text(m.Refusal); s != "" {
		if role != RoleAssistant {
			return NewError(CodeInvalidValue, path+".refusal", "%s.refusal is only allowed in assistant messages", path)
		}
		m.Content.Given = true
		m.Content.Text += s
	}
	if m.ReasoningContent == nil {
		m.ReasoningContent = m.Reasoning
	}
	for j := range m.ToolCalls {
		if err := m.ToolCalls[j].validate(fmt.Sprintf("%s.tool_calls[%d]", path, j)); err != nil {
			return err
		}
	}
	return nil
}

// answers checks that a tool's result has its call before it, and notes the
// calls that m makes. A call may stay unanswered: clients trim their histories,
// and some let the user speak in between.
func (m *Message) answers(i int, calls map[string]bool) *Error {
	for j, t := range m.ToolCalls {
		at := fmt.Sprintf("messages[%d].tool_calls[%d].id", i, j)
		if t.ID == "" {
			return NewError(CodeMissing, at, "%s is missing: the tool's result names its call by it", at)
		}
		if slices.ContainsFunc(m.ToolCalls[:j], func(o ToolCall) bool { return o.ID == t.ID }) {
			return NewError(CodeInvalidValue, at, "%s is %q, as that of a call before it: each call of a message needs its own", at, clip(t.ID))
		}
		calls[t.ID] = true
	}
	if Role(*m.Role) != RoleTool {
		return nil
	}
	at := fmt.Sprintf("messages[%d].tool_call_id", i)
	switch {
	case m.ToolCallID == "":
		return NewError(CodeMissing, at, "%s is missing: a tool message names the call it answers", at)
	case !calls[m.ToolCallID]:
		return NewError(CodeInvalidValue, at, "%s is %q: no assistant message before it has a tool call with this id", at, clip(m.ToolCallID))
	}
	return nil
}

func (t *ToolCall) validate(path string) *Error {
	if t.Type != nil && *t.Type != "function" {
		return NewError(CodeUnsupported, path+".type", "%s.type is %q: only \"function\" is supported", path, clip(*t.Type))
	}
	if t.Function.Name == "" {
		return NewError(CodeMissing, path+".function.name", "%s.function.name is missing", path)
	}
	return checkArguments(path+".function.arguments", (*string)(&t.Function.Arguments))
}

// checkArguments completes the arguments of a call, "" for none, and wants the text
// of a JSON object.
func checkArguments(path string, arguments *string) *Error {
	if *arguments == "" {
		*arguments = "{}"
	}
	v := jsontext.Value(*arguments)
	if deepest, widest := extent(v); deepest > maxDepth || widest > maxNames || !v.IsValid() || v.Kind() != '{' {
		return NewError(CodeInvalidValue, path, "%s must be a string that holds a JSON object", path)
	}
	return nil
}

// present tells a field that was given from one that is absent or null.
func present(v jsontext.Value) bool { return len(v) > 0 && v.Kind() != 'n' }

// clip shortens a client's text for an error message.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return string(r[:most]) + "…"
}
