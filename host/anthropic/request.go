package anthropic

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/openai"
	"thoth/host/prompt"
	"thoth/station/wire"
)

// maxUserID bounds metadata.user_id, as at Anthropic.
const maxUserID = 256

// Request is the body of POST /v1/messages and of its count_tokens. Pointers are
// nullable fields. [Decode] fills and validates it.
type Request struct {
	Model    *string        `json:"model"`
	Messages []InputMessage `json:"messages"`
	System   jsontext.Value `json:"system"`

	MaxTokens     *openai.Int `json:"max_tokens"`
	StopSequences openai.Stop `json:"stop_sequences"`
	Temperature   *float64    `json:"temperature"`
	TopP          *float64    `json:"top_p"`
	TopK          *openai.Int `json:"top_k"`
	Stream        bool        `json:"stream"`

	RawTools      []jsontext.Value `json:"tools"`
	RawToolChoice *ToolChoice      `json:"tool_choice"`
	Thinking      *Thinking        `json:"thinking"`
	OutputConfig  *OutputConfig    `json:"output_config"`
	OutputFormat  *OutputFormat    `json:"output_format"` // the older name of output_config.format

	CacheControl *CacheControl `json:"cache_control"` // of the whole: the last block is marked
	Metadata     *Metadata     `json:"metadata"`
	ServiceTier  *string       `json:"service_tier"`

	// Rest are the parameters that this build refuses, here and in the objects below.
	Rest jsontext.Value `json:",embed"`

	// What the request means, in the host's words. Prefill is the text a last
	// message of the assistant begins the answer with.
	Conversation prompt.Conversation `json:"-"`
	Tools        []openai.Tool       `json:"-"`
	Choice       openai.ToolChoice   `json:"-"`
	Format       openai.Format       `json:"-"`
	Prefill      string              `json:"-"`
	marks        int                 // blocks with a cache_control
	markedTools  bool                // one of them is a tool
	ttl          time.Duration
}

// Metadata has no effect.
type Metadata struct {
	UserID *string        `json:"user_id"`
	Rest   jsontext.Value `json:",embed"`
}

// Thinking says whether the model may reason before it answers.
type Thinking struct {
	Type         *string        `json:"type"`
	BudgetTokens *openai.Int    `json:"budget_tokens"`
	Display      *string        `json:"display"`
	Rest         jsontext.Value `json:",embed"`
}

// OutputConfig says what the answer must be, and how much effort to take.
type OutputConfig struct {
	Format *OutputFormat  `json:"format"`
	Effort *string        `json:"effort"`
	Rest   jsontext.Value `json:",embed"`
}

// OutputFormat is a schema that the text of the answer follows.
type OutputFormat struct {
	Type   *string        `json:"type"`
	Schema jsontext.Value `json:"schema"`
	Rest   jsontext.Value `json:",embed"`
}

// Decode decodes and validates a body; counting tells that it is count_tokens',
// which needs no max_tokens.
func Decode(body []byte, l openai.Limits, counting bool) (*Request, *openai.Error) {
	r := new(Request)
	if e := openai.Decode(body, l, r, openai.ListOf[[]InputMessage](&openai.Bound{Most: l.WithDefaults().Messages}), openai.ListOf[[]jsontext.Value](&openai.Bound{Most: l.WithDefaults().Tools})); e != nil {
		return nil, e
	}
	l = l.WithDefaults()
	if r.Model == nil || *r.Model == "" {
		return nil, missing("model", "give the name of a served model (GET /v1/models lists them)")
	}
	if r.MaxTokens == nil && !counting {
		return nil, missing("max_tokens", "give the most tokens the answer may have")
	}
	for _, check := range []func(openai.Limits) *openai.Error{r.validateRefused, r.validateSampling, r.validateThinking, r.readTools, r.readConversation, r.readFormat, r.validateTogether} {
		if e := check(l); e != nil {
			return nil, e
		}
	}
	return r, nil
}

func missing(path, hint string) *openai.Error {
	return openai.NewError(openai.CodeMissing, path, "%s is missing: %s", path, hint)
}

func invalid(path, format string, args ...any) *openai.Error {
	return openai.NewError(openai.CodeInvalidValue, path, path+" "+format, args...)
}

func unsupported(path, format string, args ...any) *openai.Error {
	return openai.NewError(openai.CodeUnsupported, path, path+" "+format, args...)
}

func (r *Request) validateRefused(openai.Limits) *openai.Error {
	if e := Parameters.Refuse(r.Rest); e != nil {
		return e
	}
	if r.Metadata != nil {
		if e := Parameters.RefuseIn("metadata", r.Metadata.Rest); e != nil {
			return e
		}
	}
	if r.OutputConfig != nil {
		if e := Parameters.RefuseIn("output_config", r.OutputConfig.Rest); e != nil {
			return e
		}
	}
	if t := r.ServiceTier; t != nil && *t != "auto" && *t != "standard_only" {
		return invalid("service_tier", "is %q: allowed are auto and standard_only", openai.Clip(*t))
	}
	if m := r.Metadata; m != nil && m.UserID != nil && len(*m.UserID) > maxUserID {
		return invalid("metadata.user_id", "has %d bytes: at most %d are allowed", len(*m.UserID), maxUserID)
	}
	return nil
}

func (r *Request) validateSampling(l openai.Limits) *openai.Error {
	if r.MaxTokens != nil && *r.MaxTokens < 1 {
		return invalid("max_tokens", "is %d: it must be at least 1", *r.MaxTokens)
	}
	for _, f := range []struct {
		name string
		v    *float64
	}{{"temperature", r.Temperature}, {"top_p", r.TopP}} {
		if f.v != nil && (*f.v < 0 || *f.v > 1) {
			return invalid(f.name, "is %g: it must be between 0 and 1", *f.v)
		}
	}
	if r.TopK != nil && (*r.TopK < 0 || *r.TopK > 1<<31-1) {
		return invalid("top_k", "is %d: it must be 0 (off) or a positive number of tokens", *r.TopK)
	}
	return r.StopSequences.Validate("stop_sequences", l)
}

// The least thinking.budget_tokens, as at Anthropic.
const minBudget = 1024

// What thinking.display may be.
const (
	displaySummarized = "summarized"
	displayOmitted    = "omitted"
)

func (r *Request) validateThinking(openai.Limits) *openai.Error {
	t := r.Thinking
	if t == nil {
		return nil
	}
	if e := Parameters.RefuseIn("thinking", t.Rest); e != nil {
		return e
	}
	if d := t.Display; d != nil && *d != displaySummarized && *d != displayOmitted {
		return invalid("thinking.display", "is %q: allowed are %s and %s", openai.Clip(*d), displaySummarized, displayOmitted)
	}
	const allowed = "allowed are enabled, disabled and adaptive"
	switch {
	case t.Type == nil:
		return missing("thinking.type", allowed)
	case *t.Type == "disabled" || *t.Type == "adaptive":
		return nil
	case *t.Type != "enabled":
		return invalid("thinking.type", "is %q: %s", openai.Clip(*t.Type), allowed)
	case t.BudgetTokens == nil:
		return missing("thinking.budget_tokens", "give at least 1024 tokens, fewer than max_tokens")
	case *t.BudgetTokens < minBudget:
		return invalid("thinking.budget_tokens", "is %d: it must be at least %d", *t.BudgetTokens, minBudget)
	case r.MaxTokens != nil && *t.BudgetTokens >= *r.MaxTokens:
		return invalid("thinking.budget_tokens", "is %d: it must be below max_tokens, which is %d", *t.BudgetTokens, *r.MaxTokens)
	}
	return nil
}

// readFormat reads output_config.format, or output_format.
func (r *Request) readFormat(openai.Limits) *openai.Error {
	path, f := "output_format", r.OutputFormat
	if r.OutputConfig != nil && r.OutputConfig.Format != nil {
		if f != nil {
			return invalid("output_format", "and output_config.format are names of one thing: give one of them")
		}
		path, f = "output_config.format", r.OutputConfig.Format
	}
	if f == nil {
		return nil
	}
	if e := Parameters.RefuseIn(path, f.Rest); e != nil {
		return e
	}
	switch {
	case f.Type == nil:
		return missing(path+".type", "allowed is json_schema")
	case *f.Type != "json_schema":
		return invalid(path+".type", "is %q: allowed is json_schema", openai.Clip(*f.Type))
	case !openai.Present(f.Schema):
		return missing(path+".schema", "give a JSON Schema object")
	case f.Schema.Kind() != '{':
		return wrongKind(path+".schema", "a JSON Schema object", f.Schema)
	}
	r.Format = openai.Format{Kind: openai.FormatSchema, Param: path + ".schema", Text: string(f.Schema)}
	return nil
}

func wrongKind(path, want string, v jsontext.Value) *openai.Error {
	return openai.NewError(openai.CodeInvalidType, path, "%s must be %s, not %s", path, want, openai.KindName(v))
}

// validateTogether refuses what would cut, or begin, an answer that must be whole.
func (r *Request) validateTogether(openai.Limits) *openai.Error {
	bound := ""
	switch {
	case r.Format.Kind != openai.FormatText:
		bound = r.Format.Param
	case r.Choice.Mode == openai.ToolRequired:
		bound = "tool_choice"
	default:
		return nil
	}
	switch {
	case len(r.StopSequences) > 0:
		return invalid("stop_sequences", "cannot be combined with %s: it could cut the answer that must be whole", bound)
	case r.Prefill != "":
		return invalid("messages", "ends with an assistant message, which cannot be combined with %s: the answer must be whole", bound)
	}
	return nil
}

// Parallel tells whether an answer may have more than one call.
func (r *Request) Parallel() bool {
	var asked *bool
	if c := r.RawToolChoice; c != nil && c.DisableParallel != nil {
		asked = new(!*c.DisableParallel)
	}
	return r.Choice.Parallel(asked)
}

// Thinks is what the request says about reasoning: enabled, disabled, adaptive, or
// "" for nothing.
func (r *Request) Thinks() string {
	if r.Thinking == nil {
		return ""
	}
	return *r.Thinking.Type
}

// OmitsThinking tells whether thinking blocks have no text.
func (r *Request) OmitsThinking() bool {
	return r.Thinking != nil && r.Thinking.Display != nil && *r.Thinking.Display == displayOmitted
}

// Effort is output_config.effort, "" for none.
func (r *Request) Effort() string {
	if r.OutputConfig == nil || r.OutputConfig.Effort == nil {
		return ""
	}
	return *r.OutputConfig.Effort
}

// Cache is what the marks of the request say.
func (r *Request) Cache() openai.CacheControl { return openai.CacheControl{TTL: r.ttl} }

// Generate makes the station's request; contextLength bounds max_tokens.
func (r *Request) Generate(segments []wire.Segment, i, contextLength, _ int) *wire.GenerateRequest {
	sampling := openai.Sampling{Temperature: r.Temperature, TopP: r.TopP, TopK: r.TopK}
	return &wire.GenerateRequest{
		Prompt:    wire.Prompt{Segments: segments},
		Sampling:  sampling.Wire(i),
		Stop:      r.StopSequences,
		MaxTokens: openai.Within(int64(*r.MaxTokens), contextLength),
	}
}
