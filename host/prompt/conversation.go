package prompt

import (
	"bytes"
	"slices"
	"strings"

	"github.com/ardanlabs/jinja"
	"github.com/go-json-experiment/json/jsontext"
)

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

// ToolCall of an assistant message. Arguments is the text of a JSON object.
type ToolCall struct {
	ID, Name, Arguments string
}

// marker is applied to every string the client sent, on its way into the
// template's values.
type marker func(string) string

// messageValues builds the template's messages. It is called anew for every
// rendering, since a template may change what it is given.
func messageValues(messages []Message, mark marker) (jinja.Value, error) {
	items := make([]jinja.Value, len(messages))
	for i, m := range messages {
		v := jinja.NewDict()
		d := v.AsDict()
		d.Set("role", jinja.NewString(m.Role))
		d.Set("content", jinja.NewString(mark(m.Content)))
		setText(d, "name", m.Name, mark)
		setText(d, "reasoning_content", m.Reasoning, mark)
		setText(d, "tool_call_id", m.ToolCallID, mark)
		if len(m.ToolCalls) > 0 {
			calls := make([]jinja.Value, len(m.ToolCalls))
			for j, c := range m.ToolCalls {
				args, err := jsonValue([]byte(c.Arguments), mark)
				if err != nil {
					return jinja.Value{}, err
				}
				fn := jinja.NewDict()
				fn.AsDict().Set("name", jinja.NewString(mark(c.Name)))
				fn.AsDict().Set("arguments", args)
				call := jinja.NewDict()
				setText(call.AsDict(), "id", c.ID, mark)
				call.AsDict().Set("type", jinja.NewString("function"))
				call.AsDict().Set("function", fn)
				calls[j] = call
			}
			d.Set("tool_calls", jinja.NewList(calls))
		}
		items[i] = v
	}
	return jinja.NewList(items), nil
}

func setText(d *jinja.Dict, key, text string, mark marker) {
	if text != "" {
		d.Set(key, jinja.NewString(mark(text)))
	}
}

// jsonValue turns JSON text into a template value. Keys keep their order and
// are marked too: templates print them.
func jsonValue(text []byte, mark marker) (jinja.Value, error) {
	return decodeValue(jsontext.NewDecoder(bytes.NewReader(text)), mark)
}

func decodeValue(dec *jsontext.Decoder, mark marker) (jinja.Value, error) {
	tok, err := dec.ReadToken()
	if err != nil {
		return jinja.Value{}, err
	}
	switch tok.Kind() {
	case 'n':
		return jinja.None(), nil
	case 't', 'f':
		return jinja.NewBool(tok.Bool()), nil
	case '"':
		return jinja.NewString(mark(tok.String())), nil
	case '0':
		return numberValue(tok), nil
	case '[':
		var items []jinja.Value
		for dec.PeekKind() != ']' {
			v, err := decodeValue(dec, mark)
			if err != nil {
				return jinja.Value{}, err
			}
			items = append(items, v)
		}
		_, err := dec.ReadToken()
		return jinja.NewList(items), err
	}
	v := jinja.NewDict()
	for dec.PeekKind() != '}' {
		key, err := dec.ReadToken()
		if err != nil {
			return jinja.Value{}, err
		}
		name := key.String()
		item, err := decodeValue(dec, mark)
		if err != nil {
			return jinja.Value{}, err
		}
		v.AsDict().Set(mark(name), item)
	}
	_, err = dec.ReadToken()
	return v, err
}

// numberValue keeps integers integers: 9007199254740993 must not pass through a
// float on its way into the prompt.
func numberValue(tok jsontext.Token) jinja.Value {
	if !strings.ContainsAny(tok.String(), ".eE") {
		if i, err := tok.Int(); err == nil {
			return jinja.NewInt(i)
		}
	}
	f, _ := tok.Float()
	return jinja.NewFloat(f)
}
