package openai

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits bound what one request may ask for.
type Limits struct {
	Depth      int // nesting of arrays and objects in a body; default 128
	Messages   int // most messages; default 4096
	Parts      int // most content parts, content blocks and tool calls of all messages; default 16384
	Choices    int // most choices (n); default 16
	Stops      int // most stop strings; default 16 (OpenAI: 4; the station's own limit is 16)
	StopBytes  int // longest stop string in bytes; default 1024
	Answers    int // most answers of a completion, prompts times best_of; default 64
	LogitBias  int // most logit_bias entries; default 1024
	Tools      int // most tools; default 128, OpenAI's limit
	Vocabulary int // token ids are below it; 0: not known, not checked
}

// WithDefaults fills what is zero.
func (l Limits) WithDefaults() Limits {
	for _, f := range []struct {
		v *int
		d int
	}{{&l.Depth, maxDepth}, {&l.Messages, 4096}, {&l.Parts, 16384}, {&l.Choices, 16}, {&l.Stops, 16}, {&l.StopBytes, 1024}, {&l.Answers, 64}, {&l.LogitBias, 1024}, {&l.Tools, 128}} {
		if *f.v == 0 {
			*f.v = f.d
		}
	}
	return l
}

// maxTopLogprobs is OpenAI's limit and the wire's.
const maxTopLogprobs = 20

func (r *ChatRequest) validate(l Limits) *Error {
	l = l.WithDefaults()
	if r.Model == nil || *r.Model == "" {
		return NewError(CodeMissing, "model", "model is missing: give the name of a served model (GET /v1/models lists them)")
	}
	checks := []func(Limits) *Error{r.validateRefused, r.validateMessages, r.validateLength, r.Sampling.validate, r.validateOutput, r.validateCache, r.validateTools, r.validateFormat,
		r.validateTemplate, r.validateNames}
	for _, check := range checks {
		if err := check(l); err != nil {
			return err
		}
	}
	return nil
}

func (r *ChatRequest) validateMessages(l Limits) *Error {
	switch {
	case r.Messages == nil:
		return NewError(CodeMissing, "messages", "messages is missing: give an array of messages")
	case len(r.Messages) == 0:
		return NewError(CodeInvalidValue, "messages", "messages is empty: give at least one message")
	}
	calls := map[string]bool{} // ids of the calls so far
	for i := range r.Messages {
		m := &r.Messages[i]
		if err := m.validate(i); err != nil {
			return err
		}
		if err := m.answers(i, calls); err != nil {
			return err
		}
	}
	return nil
}

func (r *ChatRequest) validateLength(l Limits) *Error {
	for _, f := range []struct {
		name string
		v    *Int
	}{{"max_tokens", r.MaxTokens}, {"max_completion_tokens", r.MaxCompletionTokens}} {
		if f.v != nil && *f.v < 1 {
			return NewError(CodeInvalidValue, f.name, "%s is %d: it must be at least 1", f.name, *f.v)
		}
	}
	if r.MaxTokens != nil && r.MaxCompletionTokens != nil && *r.MaxTokens != *r.MaxCompletionTokens {
		return NewError(CodeInvalidValue, "max_tokens", "max_tokens (%d) and max_completion_tokens (%d) differ: give one of them", *r.MaxTokens, *r.MaxCompletionTokens)
	}
	return r.Stop.validate(l)
}

func (r *ChatRequest) validateOutput(l Limits) *Error {
	if r.N != nil && (*r.N < 1 || int64(*r.N) > int64(l.Choices)) {
		return NewError(CodeInvalidValue, "n", "n is %d: it must be between 1 and %d", *r.N, l.Choices)
	}
	if r.TopLogprobs == nil {
		return nil
	}
	if *r.TopLogprobs < 0 || *r.TopLogprobs > maxTopLogprobs {
		return NewError(CodeInvalidValue, "top_logprobs", "top_logprobs is %d: it must be between 0 and %d", *r.TopLogprobs, maxTopLogprobs)
	}
	if !r.Logprobs {
		return NewError(CodeInvalidValue, "top_logprobs", "top_logprobs needs logprobs to be true")
	}
	return nil
}

func (r *ChatRequest) validateRefused(Limits) *Error {
	if e := ChatParameters.Refuse(r.Rest); e != nil {
		return e
	}
	if r.Reasoning != nil {
		if e := ChatParameters.RefuseIn("reasoning", r.Reasoning.Rest); e != nil {
			return e
		}
	}
	if r.Thinking != nil {
		if e := ChatParameters.RefuseIn("thinking", r.Thinking.Rest); e != nil {
			return e
		}
	}
	return ChatParameters.refuseStream(r.StreamOptions)
}

// refuseStream names what stream_options has that is not honoured.
func (t *Table) refuseStream(o *StreamOptions) *Error {
	if o == nil {
		return nil
	}
	return t.RefuseIn("stream_options", o.Rest)
}

// maxTemplateBytes bounds the variables of a template, which take eighty times their text
// while they are rendered.
const maxTemplateBytes = 1 << 20

func (r *ChatRequest) validateTemplate(Limits) *Error {
	if e := r.validateReasoning(); e != nil {
		return e
	}
	switch v := r.ChatTemplateKwargs; {
	case present(v) && v.Kind() != '{':
		return NewError(CodeInvalidType, "chat_template_kwargs", "chat_template_kwargs must be an object, not %s", kindName(v.Kind()))
	case len(v) > maxTemplateBytes:
		return NewError(CodeInvalidValue, "chat_template_kwargs", "chat_template_kwargs has %d bytes: at most %d are allowed", len(v), maxTemplateBytes)
	}
	return oneOf("verbosity", r.Verbosity, "low", "medium", "high")
}

// tierDefault is the only service tier there is.
const tierDefault = "default"

// validateNames checks what has no effect.
func (r *ChatRequest) validateNames(Limits) *Error {
	if e := oneOf("service_tier", r.ServiceTier, "auto", tierDefault, "flex", "scale", "priority"); e != nil {
		return e
	}
	if e := ValidateMetadata(r.Metadata); e != nil {
		return e
	}
	return ValidateSafetyIdentifier(r.SafetyIdentifier)
}

// oneOf checks a parameter that is one of a few words, or absent.
func oneOf(name string, v *string, allowed ...string) *Error {
	if v == nil || slices.Contains(allowed, *v) {
		return nil
	}
	last := len(allowed) - 1
	return NewError(CodeInvalidValue, name, "%s is %q: allowed are %s and %s", name, clip(*v), strings.Join(allowed[:last], ", "), allowed[last])
}

// Bounds of metadata and of safety_identifier, in characters, as at OpenAI.
const (
	maxMetadata         = 16
	maxMetadataName     = 64
	maxMetadataValue    = 512
	maxSafetyIdentifier = 64
)

// ValidateMetadata checks the parameter of this name.
func ValidateMetadata(m map[string]string) *Error {
	if len(m) > maxMetadata {
		return NewError(CodeInvalidValue, "metadata", "metadata has %d entries: at most %d are allowed", len(m), maxMetadata)
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if n := utf8.RuneCountInString(name); n > maxMetadataName {
			return NewError(CodeInvalidValue, "metadata", "metadata has a name of %d characters, %q: at most %d are allowed", n, clip(name), maxMetadataName)
		}
		if n := utf8.RuneCountInString(m[name]); n > maxMetadataValue {
			return NewError(CodeInvalidValue, "metadata."+name, "metadata.%s has %d characters: at most %d are allowed", name, n, maxMetadataValue)
		}
	}
	return nil
}

// ValidateSafetyIdentifier checks the parameter of this name.
func ValidateSafetyIdentifier(id *string) *Error {
	if n := utf8.RuneCountInString(text(id)); n > maxSafetyIdentifier {
		return NewError(CodeInvalidValue, "safety_identifier", "safety_identifier has %d characters: at most %d are allowed", n, maxSafetyIdentifier)
	}
	return nil
}
