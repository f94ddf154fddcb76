package prompt

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// The generic format is how a model without tool training is told about tools,
// and how it calls them: as text, the same in the explanation, in the answer and
// in the history.

// genericList explains the tools. It is text of the system message: early, and
// the same for the same tools, so that liquid memory keeps it.
func genericList(tools []Tool) string {
	var b strings.Builder
	b.WriteString("You can call functions to help with the user's request. Each line within <tools></tools> describes one function as JSON:\n<tools>\n")
	for _, t := range tools {
		b.Write(oneLine(t.Definition))
		b.WriteByte('\n')
	}
	b.WriteString("</tools>\n\nTo call a function, write its name and its arguments as a JSON object within <tool_call></tool_call>, like this:\n" +
		"<tool_call>\n{\"name\": \"NAME\", \"arguments\": {\"ARGUMENT\": \"VALUE\"}}\n</tool_call>\n" +
		"Several calls may follow each other. The results come back within <tool_response></tool_response>; use them for your answer.")
	return b.String()
}

// oneLine is JSON on one line, spaced the way Python's json.dumps does.
func oneLine(text []byte) []byte {
	v := jsontext.Value(bytes.Clone(text))
	if v.Format(jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true)) != nil {
		return text
	}
	return v
}

// genericCall is a call as the model has to write it. The arguments stay as they
// are, byte for byte: they are what the model wrote.
func genericCall(c ToolCall) string {
	var b strings.Builder
	b.WriteString("<tool_call>\n{\"name\": ")
	writeJSONString(&b, c.Name)
	b.WriteString(", \"arguments\": " + c.arguments() + "}\n</tool_call>")
	return b.String()
}

// genericCalls writes tool calls and results as ordinary text, since a result the
// model does not see is a result it invents. Results join the user message
// after them: many of these templates insist that roles alternate.
func genericCalls(in []Message) []Message {
	var out []Message
	joined := false // the last of out holds a result
	named := true   // results say whose they are: all but that of a single call
	for _, m := range in {
		switch {
		case m.Role == Assistant && len(m.ToolCalls) > 0:
			calls := m.ToolCalls
			m.ToolCalls, named = nil, len(calls) > 1
			for _, c := range calls {
				if m.Content != "" {
					m.join("\n", nil)
				}
				m.join(genericCall(c), nil)
			}
			out, joined = append(out, m), false
		case m.Role == ToolResult:
			open := "<tool_response"
			if named && m.Name != "" {
				open += ` name=` + quoted(m.Name)
			}
			open += ">\n"
			if joined {
				open = "\n" + open
			} else {
				out, joined = append(out, Message{Role: User}), true
			}
			last := &out[len(out)-1]
			last.join(open, nil)
			m.breakTag("</tool_response")
			last.join(m.Content, m.Breakpoints)
			last.join("\n</tool_response>", nil)
		case m.Role == User && joined:
			last := &out[len(out)-1]
			last.join("\n\n", nil)
			last.join(m.Content, m.Breakpoints)
			joined, named = false, true
		default:
			out, joined, named = append(out, m), false, true
		}
	}
	return out
}

// quoted is a name as a tag's attribute: no character of it ends the attribute or
// the tag.
func quoted(name string) string {
	var b strings.Builder
	writeJSONString(&b, name)
	return strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(b.String())
}

// breakTag puts a backslash into a closing tag wherever it stands in the content,
// in whichever case, or a result could end itself and forge the next one. Tags of
// calls stay: what is read of them is the model's answer alone.
func (m *Message) breakTag(tag string) {
	var b strings.Builder
	points := slices.Clone(m.Breakpoints)
	rest := 0
	for i := 0; i+len(tag) <= len(m.Content); i++ {
		if !strings.EqualFold(m.Content[i:i+len(tag)], tag) {
			continue
		}
		b.WriteString(m.Content[rest:i+1] + `\`)
		rest = i + 1
		for j, at := range m.Breakpoints {
			if at > i {
				points[j]++
			}
		}
	}
	m.Content, m.Breakpoints = b.String()+m.Content[rest:], points
}
