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
	g := gatherer{answered: map[string]bool{}}
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
	return c, g.unanswered()
}

// gatherer puts the items of one turn of the model together: its reasoning, message
// and calls were one text, and are one message again. A turn is over where somebody
// else speaks, where a message follows a message, and where reasoning follows either:
// no answer has those two in a row but at its beginning.
//
// Every call has one output, ahead of whatever somebody else says next: a prompt in
// which a call is left open is one that the model has never seen.
type gatherer struct {
	out      []prompt.Message
	last     string          // the type of the item before, "" outside a turn of the model
	answered map[string]bool // whether a call has its output, by call_id
	open     []called        // calls that may have none; none where all have
	left     int             // of them have none
}

// called is a call and where it stands.
type called struct{ path, id string }

func (g *gatherer) add(path string, it *Item) *openai.Error {
	switch {
	case it.Type == TypeMessage && it.Role != roleAssistant:
		if e := g.unanswered(); e != nil {
			return e
		}
		g.say(it)
	case it.Type == TypeOutput:
		switch answered, known := g.answered[it.CallID]; {
		case !known:
			return invalid(at(path, "call_id"), "is %q: no function_call before it has this call_id", openai.Clip(it.CallID))
		case answered:
			return invalid(at(path, "call_id"), "is %q: this function_call has its output already", openai.Clip(it.CallID))
		}
		g.answered[it.CallID] = true
		if g.left--; g.left == 0 {
			g.open = g.open[:0]
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

// unanswered refuses a conversation that goes on, or ends, with a call that has no
// output.
func (g *gatherer) unanswered() *openai.Error {
	for _, c := range g.open {
		if !g.answered[c.id] {
			return openai.NewError(openai.CodeInvalidValue, c.path, "No tool output found for function call %s, which stands in %s: its function_call_output must come before the next message, and before the end of input.",
				openai.Clip(c.id), c.path)
		}
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
		if answered, known := g.answered[it.CallID]; known && !answered {
			return invalid(at(path, "call_id"), "is %q, as that of a function_call before it: each call needs its own until it has its output", openai.Clip(it.CallID))
		}
		g.answered[it.CallID] = false
		g.open, g.left = append(g.open, called{path, it.CallID}), g.left+1
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
