package openai

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"thoth/station/wire"
)

// Defaults and bounds of a completion, as at OpenAI.
const (
	defaultCompletionTokens = 16
	maxCompletionLogprobs   = 5
)

// CompletionRequest is the body of POST /v1/completions: text goes on as the
// model would write it, without a chat template. [DecodeCompletion] fills and
// validates it.
type CompletionRequest struct {
	Model  *string `json:"model"`
	Prompt Prompts `json:"prompt"`
	Suffix *string `json:"suffix"` // what stands after the answer: for models that fill in the middle; "" as nil

	MaxTokens *Int `json:"max_tokens"` // 16 when absent; 0 asks for no answer
	Stop      Stop `json:"stop"`
	Sampling

	N             *Int           `json:"n"`
	BestOf        *Int           `json:"best_of"`
	Stream        bool           `json:"stream"`
	StreamOptions *StreamOptions `json:"stream_options"`
	Logprobs      *Int           `json:"logprobs"` // that many alternatives of each token
	Echo          bool           `json:"echo"`     // the answer begins with the prompt

	// IgnoreEOS goes on past the end of the text, up to the cap: for benchmarks.
	IgnoreEOS bool `json:"ignore_eos"`

	Caching

	User *string `json:"user"` // without effect

	// Rest are the parameters that this build refuses, or does not know.
	Rest jsontext.Value `json:",embed"`
}

// Prompt is one prompt: text, or tokens where Tokens is not nil.
type Prompt struct {
	Text   string
	Tokens []int32
}

// Prompts is the prompt parameter: a text, texts, tokens, or lists of tokens.
type Prompts []Prompt

var errPrompt = errors.New("must be a string, an array of strings, an array of token ids or an array of such arrays")

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (p *Prompts) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return p.read(dec, math.MaxInt) }

// promptsUpTo decodes prompts, of a list one more than most: it is refused for it,
// and what came after would only take memory until then, many times its bytes.
func promptsUpTo(most int) List {
	return List{reflect.TypeFor[Prompts](), &Bound{Most: most}, func(bound **Bound) *json.Unmarshalers {
		return json.UnmarshalFromFunc(func(dec *jsontext.Decoder, p *Prompts) error { return p.read(dec, (*bound).Most) })
	}}
}

func (p *Prompts) read(dec *jsontext.Decoder, most int) error {
	*p = nil
	switch dec.PeekKind() {
	case 'n':
		return dec.SkipValue()
	case '"':
		var one string
		if err := json.UnmarshalDecode(dec, &one); err != nil {
			return err
		}
		*p = Prompts{{Text: one}}
		return nil
	case '[':
		all, err := dec.ReadValue()
		if err != nil {
			return err
		}
		return p.list(all, most)
	}
	return skip(dec, errPrompt)
}

// list reads an array, whose first entry says what it is of. Entries are not kept
// as text on the way: eight megabytes of tokens would become hundreds.
func (p *Prompts) list(all jsontext.Value, most int) error {
	*p = Prompts{}
	dec := jsontext.NewDecoder(bytes.NewBuffer(all))
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	kind := dec.PeekKind()
	switch kind {
	case ']':
		return nil
	case '0':
		tokens, err := tokenIDs(all)
		*p = Prompts{{Tokens: tokens}}
		return err
	case '"', '[':
	default:
		return errPrompt
	}
	for dec.PeekKind() != ']' && len(*p) <= most {
		if dec.PeekKind() != kind {
			return errPrompt
		}
		var one Prompt
		if kind == '"' {
			if err := json.UnmarshalDecode(dec, &one.Text); err != nil {
				return err
			}
		} else {
			entry, err := dec.ReadValue()
			if err != nil {
				return err
			}
			if one.Tokens, err = tokenIDs(entry); err != nil {
				return err
			}
		}
		*p = append(*p, one)
	}
	return nil
}

// tokenIDs reads an array of token ids.
func tokenIDs(list jsontext.Value) ([]int32, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(list))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	ids := make([]int32, 0, atMost(list))
	for dec.PeekKind() != ']' {
		v, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		id := 0
		for _, c := range v {
			if c < '0' || c > '9' {
				return nil, errPrompt
			}
			if id = 10*id + int(c-'0'); id > maxTokenID {
				return nil, errPrompt
			}
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

// atMost is the number of entries of an array, if it is one of numbers.
func atMost(list jsontext.Value) int { return bytes.Count(list, []byte{','}) + 1 }

// DecodeCompletion decodes and validates a body.
func DecodeCompletion(body []byte, l Limits) (*CompletionRequest, *Error) {
	r := new(CompletionRequest)
	if e := decodeBody(body, l, r, promptsUpTo(l.WithDefaults().Answers)); e != nil {
		return nil, e
	}
	l = l.WithDefaults()
	if r.Suffix != nil && *r.Suffix == "" {
		r.Suffix = nil // several clients send it always
	}
	if r.Model == nil || *r.Model == "" {
		return nil, NewError(CodeMissing, "model", "model is missing: give the name of a served model (GET /v1/models lists them)")
	}
	for _, check := range []func(Limits) *Error{r.validateRefused, r.validatePrompt, r.validateLength, r.Sampling.validate, r.validateOutput} {
		if e := check(l); e != nil {
			return nil, e
		}
	}
	return r, r.Caching.validate()
}

func (r *CompletionRequest) validatePrompt(l Limits) *Error {
	switch {
	case r.Prompt == nil:
		return NewError(CodeMissing, "prompt", "prompt is missing: it %s", errPrompt)
	case len(r.Prompt) == 0:
		return NewError(CodeInvalidValue, "prompt", "prompt is an empty array: give at least one prompt")
	}
	for i, p := range r.Prompt {
		path := "prompt"
		if len(r.Prompt) > 1 {
			path = fmt.Sprintf("prompt[%d]", i)
		}
		if p.Tokens != nil && len(p.Tokens) == 0 {
			return NewError(CodeInvalidValue, path, "%s is an empty array: give at least one token", path)
		}
		for _, id := range p.Tokens {
			if l.Vocabulary > 0 && int(id) >= l.Vocabulary {
				return NewError(CodeInvalidValue, path, "%s names token %d: this model's ids run from 0 to %d", path, id, l.Vocabulary-1)
			}
		}
		if r.Suffix != nil && p.Tokens != nil {
			return NewError(CodeInvalidValue, "suffix", "suffix needs a prompt of text, not of tokens")
		}
	}
	return nil
}

func (r *CompletionRequest) validateLength(l Limits) *Error {
	if r.MaxTokens != nil && *r.MaxTokens < 0 {
		return NewError(CodeInvalidValue, "max_tokens", "max_tokens is %d: it must be at least 0", *r.MaxTokens)
	}
	return r.Stop.validate(l)
}

func (r *CompletionRequest) validateOutput(l Limits) *Error {
	for _, f := range []struct {
		name string
		v    *Int
	}{{"n", r.N}, {"best_of", r.BestOf}} {
		if f.v != nil && (*f.v < 1 || int64(*f.v) > int64(l.Choices)) {
			return NewError(CodeInvalidValue, f.name, "%s is %d: it must be between 1 and %d", f.name, *f.v, l.Choices)
		}
	}
	switch best := r.Best(); {
	case best < r.Choices():
		return NewError(CodeInvalidValue, "best_of", "best_of is %d: it must be at least n, which is %d", best, r.Choices())
	case best > r.Choices() && r.Stream:
		return NewError(CodeInvalidValue, "best_of", "best_of above n cannot be streamed: which answers are best is known at their end")
	case len(r.Prompt) > l.Answers:
		return NewError(CodeInvalidValue, "prompt", "prompt has more than %d entries: so many answers are allowed in a request", l.Answers)
	case best*len(r.Prompt) > l.Answers:
		return NewError(CodeInvalidValue, "prompt", "prompt has %d entries, for %d answers each: at most %d answers are allowed in a request", len(r.Prompt), best, l.Answers)
	case r.Logprobs != nil && (*r.Logprobs < 0 || *r.Logprobs > maxCompletionLogprobs):
		return NewError(CodeInvalidValue, "logprobs", "logprobs is %d: it must be between 0 and %d", *r.Logprobs, maxCompletionLogprobs)
	case r.Suffix != nil && r.Echo:
		return NewError(CodeInvalidValue, "echo", "echo cannot be combined with suffix: the answer stands between prompt and suffix")
	}
	return nil
}

func (r *CompletionRequest) validateRefused(Limits) *Error {
	if e := CompletionParameters.Refuse(r.Rest); e != nil {
		return e
	}
	return CompletionParameters.refuseStream(r.StreamOptions)
}

// Choices is n, 1 when absent.
func (r *CompletionRequest) Choices() int {
	if r.N == nil {
		return 1
	}
	return int(*r.N)
}

// Best is best_of: the answers made of each prompt, of which the n best are given.
func (r *CompletionRequest) Best() int {
	if r.BestOf == nil {
		return r.Choices()
	}
	return int(*r.BestOf)
}

// Cap is max_tokens.
func (r *CompletionRequest) Cap() int {
	if r.MaxTokens == nil {
		return defaultCompletionTokens
	}
	return int(min(*r.MaxTokens, maxTokenID))
}

// IncludeUsage tells whether a stream ends with a usage chunk.
func (r *CompletionRequest) IncludeUsage() bool {
	return r.Stream && r.StreamOptions != nil && r.StreamOptions.IncludeUsage
}

// Generate makes the station request of one of a prompt's answers; nil where none
// is asked for.
func (r *CompletionRequest) Generate(prompt wire.Prompt, i, contextLength int) *wire.GenerateRequest {
	if r.Cap() == 0 {
		return nil
	}
	q := &wire.GenerateRequest{Prompt: prompt, Sampling: r.Sampling.Wire(i), Stop: r.Stop,
		MaxTokens: Within(int64(r.Cap()), contextLength), IgnoreEOG: r.IgnoreEOS}
	q.Sampling.Logprobs = r.Logprobs != nil || r.Best() > r.Choices() // the best are found by them
	if r.Logprobs != nil {
		q.Sampling.TopLogprobs = int(*r.Logprobs)
	}
	return q
}
