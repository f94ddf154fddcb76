package responses

import (
	"fmt"

	"thoth/host/openai"
	"thoth/host/prompt"
)

// Conversation is the prompt of a request: the items of the turns before, oldest
// first, and those of this one. instructions are a system message ahead of them all,
// those of this request alone.
func Conversation(instructions string, history, input []Item, tools []openai.Tool) (prompt.Conversation, *openai.Error) {
	c := prompt.Conversation{}
	for _, t := range tools {
		c.Tools = append(c.Tools, prompt.Tool{Name: t.Name, Definition: t.Definition})
	}
	g := gatherer{calls: map[string]bool{}}
	if instructions != "" {
		g.out = append(g.out, prompt.Message{Role: prompt.System, Content: instructions})
	}
	for i := range history {
		if e := g.add("previous_response_id", &history[i]); e != nil {
			return c, e
		}
	}
	for i := range input {
		if e := g.add(fmt.Sprintf("input[%d]", i), &input[i]); e != nil {
			return c, e
		}
	}
	c.Messages = g.out
	return c, nil
}

// gatherer puts the items of one turn of the model together: its reasoning, message
// and calls were one text, and are one message again. A turn is over where somebody
// else speaks, where a message follows a message, and where reasoning follows either:
// no answer has those two in a row but at its beginning.
type gatherer struct {
	out   []prompt.Message
	calls map[string]bool // ids of the calls so far
	last  string          // the type of the item before, "" outside a turn of the model
}

func (g *gatherer) add(path string, it *Item) *openai.Error {
	switch {
	case it.Type == TypeMessage && it.Role != roleAssistant:
		g.say(it)
	case it.Type == TypeOutput:
		if !g.calls[it.CallID] {
			return invalid(at(path, "call_id"), "is %q: no function_call before it has this call_id", openai.Clip(it.CallID))
		}
		m := prompt.Message{Role: prompt.ToolResult, ToolCallID: it.CallID, Content: it.Output.Text}
		if it.Output.Parts != nil {
			m.Content, m.Breakpoints = joined(it.Output.Parts)
		}
		g.out, g.last = append(g.out, m), ""
	default:
		return g.turn(path, it)
	}
	return nil
}

// say adds a message of somebody else. developer is OpenAI's newer word for system,
// and templates know the older one.
func (g *gatherer) say(it *Item) {
	m := prompt.Message{Role: prompt.User}
	if it.Role != roleUser {
		m.Role = prompt.System
	}
	m.Content, m.Breakpoints = joined(it.Content)
	g.out, g.last = append(g.out, m), ""
}

// turn adds an item of the model.
func (g *gatherer) turn(path string, it *Item) *openai.Error {
	over := g.last == "" || it.Type == TypeReasoning && g.last != TypeReasoning || it.Type == TypeMessage && g.last == TypeMessage
	if over {
		g.out = append(g.out, prompt.Message{Role: prompt.Assistant})
	}
	m := &g.out[len(g.out)-1]
	g.last = it.Type
	switch it.Type {
	case TypeReasoning:
		thought := it.Content
		if len(thought) == 0 {
			thought = it.Summary // of another model's, all that is known of it
		}
		m.Reasoning += text(thought)
	case TypeMessage:
		m.Content += text(it.Content)
	case TypeCall:
		arguments := it.Arguments
		if e := openai.CheckArguments(at(path, "arguments"), &arguments); e != nil {
			// An input's were checked: this is of an answer that was cut.
			return invalid(path, "names a response that was cut in a function_call (call_id %q), which cannot be gone on from", it.CallID)
		}
		for _, c := range m.ToolCalls {
			if c.ID == it.CallID {
				return invalid(at(path, "call_id"), "is %q, as that of a function_call before it: each call of a turn needs its own", openai.Clip(it.CallID))
			}
		}
		g.calls[it.CallID] = true
		m.ToolCalls = append(m.ToolCalls, prompt.ToolCall{ID: it.CallID, Name: it.Name, Arguments: arguments})
	}
	return nil
}

// joined is the text of parts, and where those end that are marked.
func joined(parts []Part) (all string, breakpoints []int) {
	all = text(parts)
	end := 0
	for _, p := range parts {
		if end += len(p.Text); p.Breakpoint != nil {
			breakpoints = append(breakpoints, end)
		}
	}
	return all, breakpoints
}
