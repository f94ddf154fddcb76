package responses

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/openai"
	"thoth/station/wire"
)

// Request is the body of POST /v1/responses and of its input_tokens. Pointers are
// nullable fields: absent and null are the same. [Decode] fills and validates it.
type Request struct {
	Model        *string        `json:"model"`
	RawInput     jsontext.Value `json:"input"`
	Instructions string         `json:"instructions"`
	PreviousID   string         `json:"previous_response_id"`

	// How it runs, and what comes back.
	Stream        bool           `json:"stream"`
	StreamOptions *StreamOptions `json:"stream_options"`
	Background    bool           `json:"background"`
	Store         *bool          `json:"store"`
	Include       []string       `json:"include"`
	TopLogprobs   *openai.Int    `json:"top_logprobs"`

	MaxOutputTokens *openai.Int `json:"max_output_tokens"`
	MaxToolCalls    *openai.Int `json:"max_tool_calls"` // of tools that run at OpenAI
	Stop            openai.Stop `json:"stop"`
	IgnoreEOS       bool        `json:"ignore_eos"`
	openai.Sampling

	// Tools the model may call, the form its text must have, and how it reasons. The
	// fields as they came; [Decode] makes Tools, Choice and Format of them.
	RawTools          jsontext.Value `json:"tools"`
	RawToolChoice     jsontext.Value `json:"tool_choice"`
	ParallelToolCalls *bool          `json:"parallel_tool_calls"`
	Text              *Text          `json:"text"`
	Reasoning         *Reasoning     `json:"reasoning"`

	openai.Caching

	User             *string           `json:"user"`
	SafetyIdentifier *string           `json:"safety_identifier"`
	Metadata         map[string]string `json:"metadata"`
	ServiceTier      *string           `json:"service_tier"`

	// Rest are the parameters that this server refuses, or does not know.
	Rest jsontext.Value `json:",embed"`

	// What the request means, in the host's words.
	Input  []Item            `json:"-"`
	Tools  []openai.Tool     `json:"-"`
	Choice openai.ToolChoice `json:"-"`
	Format openai.Format     `json:"-"`

	format      FormatUsed // text.format as the response says it
	tools       []ToolUsed
	counting    bool // the tokens of the prompt are all that is asked for
	parts       *openai.Bound
	breakpoints int
	ttl         time.Duration // the longest of them
}

// StreamOptions of a request.
type StreamOptions struct {
	Rest jsontext.Value `json:",embed"`
}

// Text says what the text of the response must be.
type Text struct {
	Format    jsontext.Value `json:"format"`
	Verbosity *string        `json:"verbosity"`
	Rest      jsontext.Value `json:",embed"`
}

// Reasoning says how much the model shall reason.
type Reasoning struct {
	Effort          *string `json:"effort"`
	Summary         *string `json:"summary"`
	GenerateSummary *string `json:"generate_summary"` // the older name of summary

	Rest jsontext.Value `json:",embed"`
}

// Values of include that are taken.
const (
	IncludeLogprobs  = "message.output_text.logprobs"
	IncludeEncrypted = "reasoning.encrypted_content"
)

// Decode decodes and validates a body; counting tells that it is input_tokens', which
// needs neither model nor input.
func Decode(body []byte, l openai.Limits, counting bool) (*Request, *openai.Error) {
	r := &Request{counting: counting, parts: l.PartsBound()}
	if e := openai.Decode(body, l, r, openai.ListOf[[]string](&openai.Bound{Most: maxInclude})); e != nil {
		return nil, e
	}
	l = l.WithDefaults()
	if (r.Model == nil && !counting) || (r.Model != nil && *r.Model == "") {
		return nil, missing("model", "give the name of a served model (GET /v1/models lists them)")
	}
	for _, check := range []func(openai.Limits) *openai.Error{r.validateRefused, r.validateLength, r.validateOutput, r.validateReasoning, r.validateLabels,
		r.readTools, r.readToolChoice, r.readFormat, r.readInput, r.validateTogether} {
		if e := check(l); e != nil {
			return nil, e
		}
	}
	r.RawInput, r.RawTools = nil, nil // read, and as large as the body: the request lives as long as its answer
	return r, nil
}

// Parallel tells whether an answer may have more than one call.
func (r *Request) Parallel() bool { return r.Choice.Parallel(r.ParallelToolCalls) }

// Effort is reasoning.effort, "" for none said.
func (r *Request) Effort() string {
	if r.Reasoning == nil || r.Reasoning.Effort == nil {
		return ""
	}
	return *r.Reasoning.Effort
}

// Verbosity is text.verbosity, "" for none said.
func (r *Request) Verbosity() string {
	if r.Text == nil || r.Text.Verbosity == nil {
		return ""
	}
	return *r.Text.Verbosity
}

// Wants tells whether include has a value.
func (r *Request) Wants(include string) bool { return slices.Contains(r.Include, include) }

// Cache sums up the cache parameters and the breakpoints of the items.
func (r *Request) Cache() openai.CacheControl {
	c := r.Caching.Cache()
	c.TTL = max(c.TTL, r.ttl)
	return c
}

// Generate makes the station's request. contextLength and defaultCap bound its
// tokens; 0 means unknown and none.
func (r *Request) Generate(segments []wire.Segment, i, contextLength, defaultCap int) *wire.GenerateRequest {
	limit := int64(defaultCap)
	if r.MaxOutputTokens != nil {
		limit = int64(*r.MaxOutputTokens)
	}
	q := &wire.GenerateRequest{
		Prompt:    wire.Prompt{Segments: segments},
		Sampling:  r.Sampling.Wire(i),
		Stop:      r.Stop,
		MaxTokens: openai.Within(limit, contextLength),
		IgnoreEOG: r.IgnoreEOS,
	}
	q.Sampling.Logprobs = r.Wants(IncludeLogprobs)
	if r.TopLogprobs != nil {
		q.Sampling.TopLogprobs = int(*r.TopLogprobs)
	}
	return q
}
