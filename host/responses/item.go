package responses

import (
	"crypto/rand"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

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

	// Of reasoning that was done elsewhere.
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
	Type        string
	Text        string
	Annotations []jsontext.Value      // of output_text that was written elsewhere
	Logprobs    []openai.TokenLogprob // of output_text
	Breakpoint  *openai.CacheBreakpoint
}

// Output is what a function answered: a string, or parts.
type Output struct {
	Text  string
	Parts []Part // nil: it is Text
}

// NewID makes an id of its own, such as resp_..., msg_..., fc_... or rs_...
func NewID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// Prefixes of ids.
const (
	PrefixResponse  = "resp_"
	prefixMessage   = "msg_"
	prefixReasoning = "rs_"
	prefixCall      = "fc_"
	prefixOutput    = "fco_"
)

// prefix is that of an item's id.
func (i *Item) prefix() string {
	switch i.Type {
	case TypeReasoning:
		return prefixReasoning
	case TypeCall:
		return prefixCall
	case TypeOutput:
		return prefixOutput
	}
	return prefixMessage
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

// MarshalJSON writes the fields of the item's type in the reference's order.
func (i Item) MarshalJSON() ([]byte, error) {
	var v any
	switch i.Type {
	case TypeReasoning:
		v = struct {
			ID        string `json:"id"`
			Type      string `json:"type"`
			Summary   []Part `json:"summary"`
			Content   []Part `json:"content"`
			Encrypted string `json:"encrypted_content,omitempty"`
			Status    string `json:"status,omitempty"`
		}{i.ID, i.Type, list(i.Summary), list(i.Content), i.Encrypted, i.Status}
	case TypeCall:
		v = struct {
			ID        string `json:"id"`
			Type      string `json:"type"`
			Status    string `json:"status,omitempty"`
			Arguments string `json:"arguments"`
			CallID    string `json:"call_id"`
			Name      string `json:"name"`
		}{i.ID, i.Type, i.Status, i.Arguments, i.CallID, i.Name}
	case TypeOutput:
		v = struct {
			ID     string `json:"id"`
			Type   string `json:"type"`
			Status string `json:"status,omitempty"`
			CallID string `json:"call_id"`
			Output Output `json:"output"`
		}{i.ID, i.Type, i.Status, i.CallID, i.Output}
	default:
		v = struct {
			ID      string `json:"id"`
			Type    string `json:"type"`
			Status  string `json:"status,omitempty"`
			Content []Part `json:"content"`
			Phase   string `json:"phase,omitempty"`
			Role    string `json:"role"`
		}{i.ID, i.Type, i.Status, list(i.Content), i.Phase, i.Role}
	}
	return json.Marshal(v)
}

// MarshalJSON writes the fields of the part's type.
func (p Part) MarshalJSON() ([]byte, error) {
	switch p.Type {
	case partOutput:
		return json.Marshal(struct {
			Type        string                `json:"type"`
			Annotations []jsontext.Value      `json:"annotations"`
			Logprobs    []openai.TokenLogprob `json:"logprobs"`
			Text        string                `json:"text"`
		}{p.Type, list(p.Annotations), list(p.Logprobs), p.Text})
	case partRefusal:
		return json.Marshal(struct {
			Type    string `json:"type"`
			Refusal string `json:"refusal"`
		}{p.Type, p.Text})
	}
	return json.Marshal(struct {
		Type       string      `json:"type"`
		Text       string      `json:"text"`
		Breakpoint *breakpoint `json:"prompt_cache_breakpoint,omitempty"`
	}{p.Type, p.Text, marked(p.Breakpoint)})
}

// MarshalJSON writes a string, or the parts.
func (o Output) MarshalJSON() ([]byte, error) {
	if o.Parts == nil {
		return json.Marshal(o.Text)
	}
	return json.Marshal(o.Parts)
}

// breakpoint is a [openai.CacheBreakpoint] as it goes out.
type breakpoint struct {
	Mode *string `json:"mode"`
	TTL  *string `json:"ttl,omitempty"`
}

func marked(b *openai.CacheBreakpoint) *breakpoint {
	if b == nil {
		return nil
	}
	return &breakpoint{b.Mode, b.TTL}
}

// list is never null in JSON.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// UnmarshalJSON reads an item that was stored, or one of a client.
func (i *Item) UnmarshalJSON(b []byte) error {
	read, e := readItem("", b)
	if e != nil {
		return e
	}
	*i = read
	return nil
}
