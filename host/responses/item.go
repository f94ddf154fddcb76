package responses

import (
	"math"
	"strings"

	"thoth/host/openai"
)

// Types of items.
const (
	TypeMessage   = "message"
	TypeReasoning = "reasoning"
	TypeCall      = "function_call"
	TypeOutput    = "function_call_output"
)

// Types of parts: of a message, of a message of the assistant, and of reasoning.
const (
	partInput     = "input_text"
	partOutput    = "output_text"
	partRefusal   = "refusal"
	partReasoning = "reasoning_text"
	partSummary   = "summary_text"
)

// Roles of a message.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleSystem    = "system"
	roleDeveloper = "developer"
)

// Item is one entry of an input or an output, and has only the fields of its type.
type Item struct {
	Type   string
	ID     string
	Status string // of the item: in_progress, completed or incomplete

	// Of a message. Phase is what a client says of one of the assistant's, and has
	// no effect. Content is also what reasoning has as its text.
	Role    string
	Phase   string
	Content []Part

	// Of reasoning: what another model has in place of its text, and the text as a token
	// for a client that drops it.
	Summary   []Part
	Encrypted string

	// Of a call, and of its output.
	CallID    string
	Name      string
	Arguments string // the text of a JSON object; what a cut answer holds of it
	Output    Output
}

// Part is a piece of a message's content, or of reasoning.
type Part struct {
	Type       string
	Text       string
	Logprobs   []openai.TokenLogprob // of output_text; they are not read back
	Breakpoint *openai.CacheBreakpoint
}

// Output is what a function answered: a string, or parts.
type Output struct {
	Text  string
	Parts []Part // nil: it is Text
}

// text is that of all parts together.
func text(parts []Part) string {
	if len(parts) == 1 {
		return parts[0].Text
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// TextBytes is how much of items a prompt has.
func TextBytes(items []Item) (n int) {
	for i := range items {
		it := &items[i]
		n += len(it.Name) + len(it.Arguments) + len(it.Output.Text)
		for _, parts := range [][]Part{it.Content, it.Summary, it.Output.Parts} {
			for j := range parts {
				n += len(parts[j].Text)
			}
		}
	}
	return n
}

// Settle leaves of an item what a later turn needs: its text is there, so no token of it
// is needed, and where it had a breakpoint is stored.
func (i *Item) Settle() {
	i.Encrypted = ""
	for _, parts := range [][]Part{i.Content, i.Output.Parts} {
		for j := range parts {
			parts[j].Breakpoint = nil
		}
	}
}

// UnmarshalJSON reads an item that was stored, whose parts were counted when it came.
func (i *Item) UnmarshalJSON(b []byte) error {
	read, e := readItem("", b, &openai.Bound{Most: math.MaxInt})
	if e != nil {
		return e
	}
	*i = read
	return nil
}
