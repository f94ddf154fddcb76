package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/openai"
	"thoth/station/wire"
)

// Message is a whole answer.
type Message struct {
	ID           string         `json:"id"`
	Type         string         `json:"type"` // message
	Role         string         `json:"role"` // assistant
	Model        string         `json:"model"`
	Content      []Block        `json:"content"`
	StopReason   *string        `json:"stop_reason"`
	StopSequence *string        `json:"stop_sequence"`
	Usage        Usage          `json:"usage"`
	Gnosis       *openai.Gnosis `json:"_gnosis,omitempty"`
}

// NewMessage begins an answer.
func NewMessage(id, model string) *Message {
	return &Message{ID: id, Type: "message", Role: "assistant", Model: model, Content: []Block{}}
}

// Block is one of an answer's content: text, thinking or tool_use, and only the
// fields of that one.
type Block struct {
	Type      string           `json:"type"`
	Text      *string          `json:"text,omitempty"`
	Thinking  *string          `json:"thinking,omitempty"`
	Signature *string          `json:"signature,omitempty"` // "": nothing is signed here
	ID        string           `json:"id,omitempty"`
	Name      string           `json:"name,omitempty"`
	Input     *json.RawMessage `json:"input,omitempty"`
}

// NewText makes a text block.
func NewText(text string) Block { return Block{Type: "text", Text: &text} }

// NewThinking makes a thinking block.
func NewThinking(text string) Block {
	return Block{Type: "thinking", Thinking: &text, Signature: new(string)}
}

// NewToolUse makes a tool_use block; input is the text of an object. One that was
// cut has none that a client could use, and stop_reason says so.
func NewToolUse(id, name, input string) Block {
	raw := json.RawMessage("{}")
	if v := jsontext.Value(input); v.IsValid() && v.Kind() == '{' {
		raw = json.RawMessage(v)
	}
	return Block{Type: "tool_use", ID: id, Name: name, Input: &raw}
}

// ToolUseID makes the id of a call that of a tool_use block.
func ToolUseID(id string) string { return "toolu_" + strings.TrimPrefix(id, "call_") }

// Usage counts tokens. The prompt's are the sum of the first three: those of
// neither cache, newly stored, and restored.
type Usage struct {
	InputTokens         int `json:"input_tokens"`
	CacheCreationTokens int `json:"cache_creation_input_tokens"`
	CacheReadTokens     int `json:"cache_read_input_tokens"`
	OutputTokens        int `json:"output_tokens"`
}

// NewUsage splits the usage of a chat.
func NewUsage(u openai.Usage) Usage {
	d := u.PromptDetails
	read := min(d.CachedTokens, u.PromptTokens)
	created := min(d.CacheWriteTokens, u.PromptTokens-read)
	return Usage{InputTokens: u.PromptTokens - read - created, CacheCreationTokens: created, CacheReadTokens: read, OutputTokens: u.CompletionTokens}
}

// Stop says why an answer ended, and at which stop sequence; called tells that it
// made a call, and that its last one is whole.
func Stop(d *wire.Done, called bool) (reason string, sequence *string) {
	switch {
	case d.Reason == wire.ReasonLength:
		return "max_tokens", nil
	case called:
		return "tool_use", nil
	case d.Reason == wire.ReasonStop:
		return "stop_sequence", &d.StopString
	}
	return "end_turn", nil
}

// Count answers POST /v1/messages/count_tokens.
type Count struct {
	InputTokens int `json:"input_tokens"`
}
