package prompt

import "slices"

// Roles of a message.
const (
	System     = "system"
	User       = "user"
	Assistant  = "assistant"
	ToolResult = "tool"
)

// Conversation is what a template renders.
type Conversation struct {
	Messages []Message

	// Tools the model may call, in the client's order. A template that does not
	// know tools (see [Abilities.NativeTools]) has them explained in the system
	// message, in the generic format; Generic asks for that with any template,
	// because the answer's parser does not know the template's own format.
	Tools   []Tool
	Generic bool

	// Variables are further template variables, as the text of a JSON object,
	// or empty. Names the template's machinery owns are refused.
	Variables []byte
}

// Message of a conversation. The role is one of the constants above.
type Message struct {
	Role       string
	Content    string
	Name       string
	Reasoning  string
	ToolCalls  []ToolCall
	ToolCallID string

	// Breakpoints are byte offsets in Content, at the end of what a client marked;
	// see [Template.RenderPoints].
	Breakpoints []int
}

// join adds text to a message's content, and the breakpoints in it.
func (m *Message) join(text string, breakpoints []int) {
	points := slices.Clone(m.Breakpoints) // the client's own slice stays as it is
	for _, at := range breakpoints {
		points = append(points, len(m.Content)+at)
	}
	m.Content, m.Breakpoints = m.Content+text, points
}

// Tool is a function the model may call. Definition is the JSON text as the
// client sent it: {"type":"function","function":{...}}.
type Tool struct {
	Name       string
	Definition []byte
}

// ToolCall of an assistant message. Arguments is the text of a JSON object; empty
// means no arguments.
type ToolCall struct {
	ID, Name, Arguments string
}

func (c ToolCall) arguments() string {
	if c.Arguments == "" {
		return "{}"
	}
	return c.Arguments
}
