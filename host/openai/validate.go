package openai

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits bound what one request may ask for.
type Limits struct {
	Depth      int // nesting of arrays and objects in a body; default 128
	Messages   int // most messages; default 4096
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
	}{{&l.Depth, maxDepth}, {&l.Messages, 4096}, {&l.Choices, 16}, {&l.Stops, 16}, {&l.StopBytes, 1024}, {&l.Answers, 64}, {&l.LogitBias, 1024}, {&l.Tools, 128}} {
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
	checks := []func(Limits) *Error{r.validateMessages, r.validateLength, r.Sampling.validate, r.validateOutput, r.validateCache, r.validateTools, r.validateFormat, r.validateRefused}
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
	case len(r.Messages) > l.Messages:
		return NewError(CodeInvalidValue, "messages", "messages has %d entries: at most %d are allowed", len(r.Messages), l.Messages)
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

// validateRefused names every parameter this build does not honour, unless it
// asks for nothing: dropping it would be a wrong answer with a success code.
func (r *ChatRequest) validateRefused(Limits) *Error {
	for _, f := range []struct {
		name string
		v    jsontext.Value
		idle []string // values that ask for nothing
		hint string
	}{
		{"functions", r.Functions, []string{"[]"}, "use tools"},
		{"function_call", r.FunctionCall, []string{`"none"`, `"auto"`}, "use tool_choice"},
		{"modalities", r.Modalities, []string{"[]", `["text"]`}, `this model writes text: only ["text"] is supported`},
		{"audio", r.Audio, nil, "this model writes text"},
		{"prediction", r.Prediction, nil, "this version has no predicted outputs"},
		{"web_search_options", r.WebSearch, nil, "there is no web search here"},
		{"verbosity", r.Verbosity, []string{`"medium"`}, `only "medium" is supported`},
		{"chat_template", r.ChatTemplate, nil, "the template belongs to the model and cannot be replaced by a request"},
		{"continue_final_message", r.ContinueFinal, []string{"false"}, "an answer is always a fresh turn"},
		{"add_generation_prompt", r.AddGeneration, []string{"true"}, "an answer is always a fresh turn"},
		{"json_schema", r.JSONSchema, nil, "use response_format"},
		{"guided_grammar", r.GuidedGrammar, nil, "use grammar"},
		{"repetition_penalty", r.RepetitionPenalty, []string{"1", "1.0"}, "use repeat_penalty"},
		{"min_tokens", r.MinTokens, []string{"0"}, "use ignore_eos with max_tokens"},
		{"stop_token_ids", r.StopTokenIDs, []string{"[]"}, "use stop"},
		{"include_stop_str_in_output", r.IncludeStopInReply, []string{"false"}, "a stop string is never part of the answer"},
	} {
		if present(f.v) && !isIdle(f.v, f.idle) {
			return NewError(CodeUnsupported, f.name, "%s is not supported: %s", f.name, f.hint)
		}
	}
	if e := r.ReasoningEffort; e != nil {
		switch *e {
		case "none", "minimal", "low", "medium", "high", "xhigh":
		default:
			return NewError(CodeInvalidValue, "reasoning_effort", "reasoning_effort is %q: allowed are none, minimal, low, medium, high and xhigh", clip(*e))
		}
	}
	if v := r.ChatTemplateKwargs; present(v) && v.Kind() != '{' {
		return NewError(CodeInvalidType, "chat_template_kwargs", "chat_template_kwargs must be an object, not %s", kindName(v.Kind()))
	}
	return nil
}

// isIdle compares without regard to white space.
func isIdle(v jsontext.Value, idle []string) bool {
	c := v.Clone()
	if c.Compact() != nil || !utf8.Valid(c) {
		return false
	}
	for _, s := range idle {
		if string(c) == s {
			return true
		}
	}
	return false
}
