package responses

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/openai"
)

// maxTopLogprobs is OpenAI's limit and the wire's.
const maxTopLogprobs = 20

// maxInclude is more than there are values of include.
const maxInclude = 64

// maxUser is the most characters of user, which is stored with every response.
const maxUser = 512

func (r *Request) validateRefused(openai.Limits) *openai.Error {
	if e := parameters.Refuse(r.Rest); e != nil {
		return e
	}
	if r.StreamOptions == nil {
		return nil
	}
	return parameters.RefuseIn("stream_options", r.StreamOptions.Rest)
}

func (r *Request) validateLength(l openai.Limits) *openai.Error {
	for _, f := range []struct {
		name string
		v    *openai.Int
	}{{"max_output_tokens", r.MaxOutputTokens}, {"max_tool_calls", r.MaxToolCalls}} {
		if f.v != nil && *f.v < 1 {
			return invalid(f.name, "is %d: it must be at least 1", *f.v)
		}
	}
	if e := r.Stop.Validate("stop", l); e != nil {
		return e
	}
	if e := r.Sampling.Validate(l); e != nil {
		return e
	}
	return r.Caching.Validate()
}

func (r *Request) validateOutput(openai.Limits) *openai.Error {
	for i, v := range r.Include {
		at := fmt.Sprintf("include[%d]", i)
		switch v {
		case IncludeLogprobs, IncludeEncrypted:
		case "file_search_call.results", "web_search_call.results", "web_search_call.action.sources", "message.input_image.image_url",
			"computer_call_output.output.image_url", "code_interpreter_call.outputs":
			return unsupported(at, "is %q, which this server never has: allowed are %s and %s", v, IncludeLogprobs, IncludeEncrypted)
		default:
			return invalid(at, "is %q: allowed are %s and %s", openai.Clip(v), IncludeLogprobs, IncludeEncrypted)
		}
	}
	n := r.TopLogprobs
	switch {
	case n == nil || *n == 0:
		return nil
	case *n < 0 || *n > maxTopLogprobs:
		return invalid("top_logprobs", "is %d: it must be between 0 and %d", *n, maxTopLogprobs)
	case !r.Wants(IncludeLogprobs):
		return invalid("top_logprobs", "needs include to have %q", IncludeLogprobs)
	}
	return nil
}

func (r *Request) validateReasoning(openai.Limits) *openai.Error {
	why := r.Reasoning
	if why == nil {
		return nil
	}
	if e := parameters.RefuseIn("reasoning", why.Rest); e != nil {
		return e
	}
	if e := oneOf("reasoning.effort", why.Effort, "none", "minimal", "low", "medium", "high", "xhigh"); e != nil {
		return e
	}
	if e := oneOf("reasoning.summary", why.Summary, "auto", "concise", "detailed"); e != nil {
		return e
	}
	return oneOf("reasoning.generate_summary", why.GenerateSummary, "auto", "concise", "detailed")
}

// validateLabels checks what is only said back.
func (r *Request) validateLabels(openai.Limits) *openai.Error {
	if e := openai.ValidateMetadata(r.Metadata); e != nil {
		return e
	}
	if e := openai.ValidateSafetyIdentifier(r.SafetyIdentifier); e != nil {
		return e
	}
	if u := r.User; u != nil && utf8.RuneCountInString(*u) > maxUser {
		return invalid("user", "has more than the %d characters that are allowed", maxUser)
	}
	return oneOf("service_tier", r.ServiceTier, "auto", "default", "flex", "scale", "priority")
}

// oneOf checks a parameter that is one of a few words, or absent.
func oneOf(path string, v *string, allowed ...string) *openai.Error {
	if v == nil || slices.Contains(allowed, *v) {
		return nil
	}
	return invalid(path, "is %q: %s", openai.Clip(*v), words(allowed))
}

// readFormat reads text, in which a schema's fields stand beside the type.
func (r *Request) readFormat(openai.Limits) *openai.Error {
	r.format = FormatUsed{Type: "text"}
	if r.Text == nil {
		return nil
	}
	if e := parameters.RefuseIn("text", r.Text.Rest); e != nil {
		return e
	}
	if e := oneOf("text.verbosity", r.Text.Verbosity, "low", "medium", "high"); e != nil {
		return e
	}
	const path, allowed = "text.format", "allowed are text, json_object and json_schema"
	v := r.Text.Format
	switch {
	case !openai.Present(v):
		return nil
	case v.Kind() != '{':
		return wrongKind(path, "an object with a type", v)
	}
	var in struct {
		Type        *string        `json:"type"`
		Name        *string        `json:"name"`
		Description *string        `json:"description"`
		Schema      jsontext.Value `json:"schema"`
		Strict      bool           `json:"strict"`
		Rest        jsontext.Value `json:",embed"`
	}
	if e := openai.DecodeAt(path, v, &in); e != nil {
		return e
	}
	if e := parameters.RefuseIn(path, in.Rest); e != nil {
		return e
	}
	switch {
	case in.Type == nil:
		return missing(path+".type", allowed)
	case *in.Type == "text":
		return nil
	case *in.Type == "json_object":
		r.format.Type = *in.Type
		r.Format = openai.Format{Kind: openai.FormatObject, Param: path}
		return nil
	case *in.Type != "json_schema":
		return invalid(path+".type", "is %q: %s", openai.Clip(*in.Type), allowed)
	}
	if e := openai.CheckName(path+".name", in.Name); e != nil {
		return e
	}
	// It is enforced whether strict is true or not: a promise of some instances is none.
	f, e := openai.SchemaFormat(path+".schema", in.Schema)
	r.Format = f
	r.format = FormatUsed{Type: *in.Type, Name: *in.Name, Description: in.Description, Schema: in.Schema, Strict: &in.Strict}
	return e
}

// validateTogether refuses what would end an answer, or go on with it, where it is
// not whole.
func (r *Request) validateTogether(openai.Limits) *openai.Error {
	bound := r.bound()
	switch {
	case bound == "":
		return nil
	case len(r.Stop) > 0:
		return invalid("stop", "cannot be combined with %s: it could cut the answer that must be whole", bound)
	case r.IgnoreEOS:
		return invalid("ignore_eos", "cannot be combined with %s: the answer ends where it is whole", bound)
	}
	return nil
}

// bound is the parameter because of which a grammar binds the answer, or the calls in
// it; "" when the model is free.
func (r *Request) bound() string {
	switch {
	case r.Format.Kind != openai.FormatText:
		return "text.format"
	case r.Choice.Mode == openai.ToolRequired:
		return "tool_choice"
	case r.Choice.Mode == openai.ToolNone || len(r.Tools) == 0:
		return ""
	case !r.Parallel():
		return "parallel_tool_calls false"
	}
	for i, t := range r.Tools {
		if t.Strict && (r.Choice.Allowed == nil || slices.Contains(r.Choice.Allowed, i)) {
			return fmt.Sprintf("tools[%d].strict", i)
		}
	}
	return ""
}
