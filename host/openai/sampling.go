package openai

import (
	"math"
	"strconv"

	"thoth/station/wire"
)

// Sampling are the parameters that say how the next token is chosen. TopK, MinP
// and RepeatPenalty are common extensions.
type Sampling struct {
	Temperature      *float64           `json:"temperature"`
	TopP             *float64           `json:"top_p"`
	TopK             *Int               `json:"top_k"`
	MinP             *float64           `json:"min_p"`
	RepeatPenalty    *float64           `json:"repeat_penalty"`
	FrequencyPenalty *float64           `json:"frequency_penalty"`
	PresencePenalty  *float64           `json:"presence_penalty"`
	LogitBias        map[string]float64 `json:"logit_bias"`
	Seed             *Int               `json:"seed"`
}

// Wire is the station's sampling of choice i. A given seed counts up over the
// choices: the same seed twice would give the same answer n times.
func (r *Sampling) Wire(i int) wire.Sampling {
	s := wire.Sampling{
		Temperature:      narrow(r.Temperature),
		TopP:             narrow(r.TopP),
		MinP:             narrow(r.MinP),
		RepeatPenalty:    narrow(r.RepeatPenalty),
		FrequencyPenalty: narrow(r.FrequencyPenalty),
		PresencePenalty:  narrow(r.PresencePenalty),
	}
	if r.TopK != nil {
		k := int(*r.TopK)
		s.TopK = &k
	}
	if r.Seed != nil {
		seed := uint64(*r.Seed) + uint64(i)
		s.Seed = &seed
	}
	if len(r.LogitBias) > 0 {
		s.LogitBias = make(map[int32]float32, len(r.LogitBias))
		for k, v := range r.LogitBias {
			id, _ := strconv.ParseInt(k, 10, 32) // validated
			s.LogitBias[int32(id)] = float32(v)
		}
	}
	return s
}

func narrow(f *float64) *float32 {
	if f == nil {
		return nil
	}
	n := float32(*f)
	return &n
}

func (r *Sampling) validate(l Limits) *Error {
	for _, f := range []struct {
		name   string
		v      *float64
		lo, hi float64
		open   bool // lo itself is not allowed
	}{
		{"temperature", r.Temperature, 0, 2, false},
		{"top_p", r.TopP, 0, 1, false},
		{"min_p", r.MinP, 0, 1, false},
		{"repeat_penalty", r.RepeatPenalty, 0, 2, true},
		{"frequency_penalty", r.FrequencyPenalty, -2, 2, false},
		{"presence_penalty", r.PresencePenalty, -2, 2, false},
	} {
		if f.v == nil {
			continue
		}
		if *f.v < f.lo || *f.v > f.hi || (f.open && *f.v == f.lo) {
			word := "between"
			if f.open {
				word = "above"
				return NewError(CodeInvalidValue, f.name, "%s is %g: it must be %s %g and at most %g", f.name, *f.v, word, f.lo, f.hi)
			}
			return NewError(CodeInvalidValue, f.name, "%s is %g: it must be %s %g and %g", f.name, *f.v, word, f.lo, f.hi)
		}
	}
	if r.TopK != nil && (*r.TopK < 0 || *r.TopK > math.MaxInt32) {
		return NewError(CodeInvalidValue, "top_k", "top_k is %d: it must be 0 (off) or a positive number of tokens", *r.TopK)
	}
	return r.validateBias(l)
}

func (r *Sampling) validateBias(l Limits) *Error {
	if len(r.LogitBias) > l.LogitBias {
		return NewError(CodeInvalidValue, "logit_bias", "logit_bias has %d entries: at most %d are allowed", len(r.LogitBias), l.LogitBias)
	}
	for k, v := range r.LogitBias {
		id, err := strconv.ParseInt(k, 10, 32)
		switch {
		case err != nil || id < 0 || strconv.FormatInt(id, 10) != k: // "5" and "05" would be one token with two biases
			return NewError(CodeInvalidValue, "logit_bias", "logit_bias has the key %q: keys are token ids in plain digits, such as \"15\"", clip(k))
		case l.Vocabulary > 0 && id >= int64(l.Vocabulary):
			return NewError(CodeInvalidValue, "logit_bias", "logit_bias names token %d: this model's ids run from 0 to %d", id, l.Vocabulary-1)
		case v < -100 || v > 100:
			return NewError(CodeInvalidValue, "logit_bias", "logit_bias of token %d is %g: it must be between -100 and 100", id, v)
		}
	}
	return nil
}

func (s Stop) validate(l Limits) *Error {
	for _, one := range s {
		switch {
		case one == "":
			return NewError(CodeInvalidValue, "stop", "stop has an empty string")
		case len(one) > l.StopBytes:
			return NewError(CodeInvalidValue, "stop", "stop has a string of %d bytes: at most %d are allowed", len(one), l.StopBytes)
		}
	}
	return nil
}
