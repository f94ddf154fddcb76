package station

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"thoth/station/engine"
	"thoth/station/wire"
)

// Limits of a request that have no setting: they bound the work one token costs.
const (
	maxStops        = 16
	maxStopBytes    = 4096
	maxTopLogprobs  = 20
	maxLogitBias    = 4096
	maxGrammarBytes = 256 << 10
	repeatLastN     = 64
)

// decodeBody reads a JSON body into v.
func decodeBody(w http.ResponseWriter, r *http.Request, limit int64, v any) *wire.Error {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	err := dec.Decode(v)
	if err == nil {
		if _, err := dec.Token(); err != io.EOF {
			return invalid("", "the body must be one JSON object")
		}
		return nil
	}
	var big *http.MaxBytesError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &big):
		return &wire.Error{Code: wire.CodeTooLarge, Message: fmt.Sprintf("the body is larger than %d bytes", limit)}
	case errors.As(err, &typ):
		field := fieldPath(typ.Field)
		return invalid(field, "%s cannot be %s; want %s", field, typ.Value, typ.Type)
	case errors.Is(err, io.EOF):
		return invalid("", "the body is empty; want a JSON object")
	}
	return invalid("", "the body is not valid JSON: %v", err)
}

// fieldPath is a field's path in the request. encoding/json also names the Go structs
// that are embedded on the way; the wire's own names begin with a small letter.
func fieldPath(path string) string {
	names := slices.DeleteFunc(strings.Split(path, "."), func(name string) bool {
		return name != "" && unicode.IsUpper(rune(name[0]))
	})
	return strings.Join(names, ".")
}

// tokenize turns a prompt into tokens. Text that is appended to a sequence gets
// no BOS.
func (l *loop) tokenize(p *wire.Prompt, appended bool) ([]engine.Token, *wire.Error) {
	given := 0
	for _, is := range []bool{p.Text != "", p.Segments != nil, p.Tokens != nil} {
		if is {
			given++
		}
	}
	if given > 1 {
		return nil, invalid("prompt", "prompt must be given once: as text, segments or tokens")
	}
	if p.Tokens != nil {
		return slices.Clone(p.Tokens), l.checkTokens("prompt.tokens", p.Tokens)
	}
	segments := p.Segments
	if p.Text != "" {
		segments = []wire.Segment{{Text: p.Text}}
	}
	var tokens []engine.Token
	for i, s := range segments {
		if s.Text == "" {
			continue
		}
		part, err := l.eng.Tokenize(s.Text, s.Special)
		if err != nil {
			return nil, invalid(fmt.Sprintf("prompt.segments[%d]", i), "the text cannot be tokenised: %v", err)
		}
		tokens = append(tokens, part...)
	}
	addBOS := l.info.AddBOS
	if p.AddBOS != nil {
		addBOS = *p.AddBOS
	}
	if addBOS && !appended && l.info.BOS >= 0 && (len(tokens) == 0 || tokens[0] != l.info.BOS) {
		tokens = slices.Insert(tokens, 0, l.info.BOS)
	}
	return tokens, nil
}

// checkTokens refuses ids that are not in the vocabulary.
func (l *loop) checkTokens(field string, tokens []int32) *wire.Error {
	for i, t := range tokens {
		if t < 0 || int(t) >= l.info.Vocabulary {
			return invalid(fmt.Sprintf("%s[%d]", field, i), "token %d is not in the vocabulary of %d", t, l.info.Vocabulary)
		}
	}
	return nil
}

// checkLater refuses by name what is not built.
func checkLater(r *wire.Later) *wire.Error {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"priority", r.Priority != nil}, {"deadline_ms", r.DeadlineMS != nil},
		{"prediction", r.Prediction != ""}, {"adapters", len(r.Adapters) > 0},
	} {
		if f.set {
			return unsupported(f.name)
		}
	}
	return nil
}

func checkStops(stops []string) *wire.Error {
	if len(stops) > maxStops {
		return invalid("stop", "stop has %d strings; at most %d are allowed", len(stops), maxStops)
	}
	for i, s := range stops {
		if s == "" || len(s) > maxStopBytes || !utf8.ValidString(s) {
			return invalid(fmt.Sprintf("stop[%d]", i), "a stop string must be valid UTF-8 of 1 to %d bytes", maxStopBytes)
		}
	}
	return nil
}

// samplerParams checks a request's sampling and fills what it leaves open.
func samplerParams(s *wire.Sampling, info engine.Info) (engine.SamplerParams, *wire.Error) {
	p := engine.SamplerParams{
		Temperature: 1, TopP: 1, TypicalP: 1, RepeatPenalty: 1, RepeatLastN: repeatLastN,
		LogitBias: s.LogitBias, Seed: rand.Uint64(), Grammar: s.Grammar,
	}
	var bad *wire.Error
	real := func(name string, v *float32, to *float32, low, high float32, open bool) {
		if v == nil || bad != nil {
			return
		}
		// The negated form also refuses NaN.
		if !(*v >= low && *v <= high) || open && *v == low {
			bracket := "["
			if open {
				bracket = "("
			}
			bad = invalid("sampling."+name, "%s is %v; allowed is %s%v, %v]", name, *v, bracket, low, high)
			return
		}
		*to = *v
	}
	whole := func(name string, v *int, to *int, high int) {
		if v == nil || bad != nil {
			return
		}
		if *v < 0 || *v > high {
			bad = invalid("sampling."+name, "%s is %d; allowed is 0 to %d", name, *v, high)
			return
		}
		*to = *v
	}
	real("temperature", s.Temperature, &p.Temperature, 0, 2, false)
	whole("top_k", s.TopK, &p.TopK, math.MaxInt32)
	p.TopK = min(p.TopK, info.Vocabulary)
	real("top_p", s.TopP, &p.TopP, 0, 1, false)
	real("min_p", s.MinP, &p.MinP, 0, 1, false)
	real("typical_p", s.TypicalP, &p.TypicalP, 0, 1, true)
	real("repeat_penalty", s.RepeatPenalty, &p.RepeatPenalty, 0, 2, true)
	whole("repeat_last_n", s.RepeatLastN, &p.RepeatLastN, info.ContextLength)
	real("frequency_penalty", s.FrequencyPenalty, &p.FrequencyPenalty, -2, 2, false)
	real("presence_penalty", s.PresencePenalty, &p.PresencePenalty, -2, 2, false)
	if bad != nil {
		return p, bad
	}
	if p.TopP == 0 { // the nucleus of mass 0 is the most likely token
		p.Temperature, p.TopP = 0, 1
	}
	if len(s.LogitBias) > maxLogitBias {
		return p, invalid("sampling.logit_bias", "logit_bias has %d entries; at most %d are allowed", len(s.LogitBias), maxLogitBias)
	}
	for t, b := range s.LogitBias {
		name := "sampling.logit_bias." + strconv.Itoa(int(t))
		if t < 0 || int(t) >= info.Vocabulary {
			return p, invalid(name, "token %d is not in the vocabulary of %d", t, info.Vocabulary)
		}
		if !(b >= -100 && b <= 100) {
			return p, invalid(name, "a bias is %v; allowed is [-100, 100]", b)
		}
	}
	if s.TopLogprobs < 0 || s.TopLogprobs > maxTopLogprobs {
		return p, invalid("sampling.top_logprobs", "top_logprobs is %d; allowed is 0 to %d", s.TopLogprobs, maxTopLogprobs)
	}
	if len(s.Grammar) > maxGrammarBytes {
		return p, invalid("sampling.grammar", "the grammar has %d bytes; at most %d are allowed", len(s.Grammar), maxGrammarBytes)
	}
	if s.Seed != nil {
		p.Seed = *s.Seed
	}
	return p, nil
}

// newSampler builds the chain; prompt feeds the repeat penalty. It runs on the
// handler's goroutine: a large grammar takes milliseconds.
func (l *loop) newSampler(s *wire.Sampling, prompt []engine.Token, controlText bool) (engine.Sampler, *wire.Error) {
	p, bad := samplerParams(s, l.info)
	if bad != nil {
		return nil, bad
	}
	p.ControlText = controlText
	sampler, err := l.eng.NewSampler(p, prompt)
	switch {
	case errors.Is(err, engine.ErrGrammar):
		return nil, invalid("sampling.grammar", "%v", err)
	case err != nil:
		return nil, &wire.Error{Code: wire.CodeInternal, Message: "the sampler cannot be built: " + err.Error()}
	}
	return sampler, nil
}

// checkLength refuses a prompt that leaves no room for one more token.
func (l *loop) checkLength(tokens int) *wire.Error {
	if tokens < l.info.ContextLength {
		return nil
	}
	return &wire.Error{Code: wire.CodeContextLength, Param: "prompt",
		Message: fmt.Sprintf("the prompt has %d tokens; the context length is %d and must leave room for an answer", tokens, l.info.ContextLength)}
}

func invalid(param, format string, args ...any) *wire.Error {
	return &wire.Error{Code: wire.CodeInvalid, Param: param, Message: fmt.Sprintf(format, args...)}
}

func unsupported(param string) *wire.Error {
	return &wire.Error{Code: wire.CodeUnsupported, Param: param, Message: param + " is not supported by this station"}
}
