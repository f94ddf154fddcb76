package openai

import (
	"github.com/go-json-experiment/json/jsontext"
)

// ChatRequest is the body of POST /v1/chat/completions. Pointers are nullable
// fields: absent and null are the same. [DecodeChat] fills and validates it.
type ChatRequest struct {
	Model    *string   `json:"model"`
	Messages []Message `json:"messages"`

	// Length and stops.
	MaxTokens           *Int `json:"max_tokens"`
	MaxCompletionTokens *Int `json:"max_completion_tokens"`
	Stop                Stop `json:"stop"`

	Sampling

	// What comes back.
	N             *Int           `json:"n"`
	Stream        bool           `json:"stream"`
	StreamOptions *StreamOptions `json:"stream_options"`
	Logprobs      bool           `json:"logprobs"`
	TopLogprobs   *Int           `json:"top_logprobs"`

	// IgnoreEOS goes on past the end of the turn, up to the cap: for benchmarks.
	IgnoreEOS bool `json:"ignore_eos"`

	// Tools the model may call, and the form its text must have. The fields as
	// they came; [DecodeChat] makes Tools, Choice and Format of them.
	RawTools          jsontext.Value `json:"tools"`
	RawToolChoice     jsontext.Value `json:"tool_choice"`
	ParallelToolCalls *bool          `json:"parallel_tool_calls"`
	RawResponseFormat jsontext.Value `json:"response_format"`
	Grammar           *string        `json:"grammar"`
	GuidedJSON        jsontext.Value `json:"guided_json"`
	GuidedRegex       *string        `json:"guided_regex"`
	GuidedChoice      []string       `json:"guided_choice"`

	Tools  []Tool     `json:"-"`
	Choice ToolChoice `json:"-"`
	Format Format     `json:"-"`

	// Variables of the chat template. ReasoningEffort is for templates that know
	// one, or a switch for thinking; [DecodeChat] puts the effort of Reasoning there.
	// Verbosity is for those that know one.
	ChatTemplateKwargs jsontext.Value `json:"chat_template_kwargs"`
	ReasoningEffort    *string        `json:"reasoning_effort"`
	Reasoning          *Reasoning     `json:"reasoning"`
	EnableThinking     *bool          `json:"enable_thinking"`
	Think              *bool          `json:"think"`
	Thinking           *Thinking      `json:"thinking"`
	Verbosity          *string        `json:"verbosity"`

	// Switch is what EnableThinking and its other names say, nil for nothing; where it
	// is off, [DecodeChat] makes "none" of ReasoningEffort.
	Switch *Switch `json:"-"`

	// Reuse of the prompt; [ChatRequest.Cache] sums it up with the breakpoints of
	// the messages.
	Caching

	// Without effect, see [ChatParameters].
	ServiceTier      *string           `json:"service_tier"`
	Metadata         map[string]string `json:"metadata"`
	SafetyIdentifier *string           `json:"safety_identifier"`
	User             *string           `json:"user"`

	// Rest are the parameters that this build refuses, or does not know.
	Rest jsontext.Value `json:",embed"`
}

// StreamOptions of a request.
type StreamOptions struct {
	IncludeUsage bool `json:"include_usage"`

	// Without effect: hints that usage may come with every event.
	ContinuousUsageStats bool `json:"continuous_usage_stats"`
	ChunkIncludeUsage    bool `json:"chunk_include_usage"`

	Rest jsontext.Value `json:",embed"`
}

// Choices is n, 1 when absent.
func (r *ChatRequest) Choices() int {
	if r.N == nil {
		return 1
	}
	return int(*r.N)
}

// Parallel tells whether an answer may have more than one call.
func (r *ChatRequest) Parallel() bool { return r.Choice.Parallel(r.ParallelToolCalls) }

// IncludeUsage tells whether a stream ends with a usage chunk.
func (r *ChatRequest) IncludeUsage() bool {
	return r.Stream && r.StreamOptions != nil && r.StreamOptions.IncludeUsage
}

// Tier is the service tier that the answer names: that of the answer where the
// request named one, and "" else.
func (r *ChatRequest) Tier() string {
	if r.ServiceTier == nil {
		return ""
	}
	return tierDefault
}

// Cap is the token limit asked for, 0 for none.
func (r *ChatRequest) Cap() int64 {
	switch {
	case r.MaxCompletionTokens != nil:
		return int64(*r.MaxCompletionTokens)
	case r.MaxTokens != nil:
		return int64(*r.MaxTokens)
	}
	return 0
}
