package openai

import (
	"strconv"

	"thoth/station/wire"
)

// Generate makes the station request of choice i. A given seed counts up over
// the choices: the same seed twice would give the same answer n times.
// contextLength and defaultCap bound max_tokens; 0 means unknown and none.
func (r *ChatRequest) Generate(prompt []wire.Segment, i, contextLength, defaultCap int) *wire.GenerateRequest {
	limit := r.Cap()
	if limit == 0 {
		limit = int64(defaultCap)
	}
	if contextLength > 0 && limit >= int64(contextLength) {
		limit = 0 // the station ends the answer where the context does
	}
	return &wire.GenerateRequest{
		Prompt:    wire.Prompt{Segments: prompt},
		Sampling:  r.sampling(i),
		Stop:      r.Stop,
		MaxTokens: int(limit),
		IgnoreEOG: r.IgnoreEOS,
	}
}

func (r *ChatRequest) sampling(i int) wire.Sampling {
	s := wire.Sampling{
		Temperature:      narrow(r.Temperature),
		TopP:             narrow(r.TopP),
		MinP:             narrow(r.MinP),
		RepeatPenalty:    narrow(r.RepeatPenalty),
		FrequencyPenalty: narrow(r.FrequencyPenalty),
		PresencePenalty:  narrow(r.PresencePenalty),
		Logprobs:         r.Logprobs,
	}
	if r.TopK != nil {
		k := int(*r.TopK)
		s.TopK = &k
	}
	if r.TopLogprobs != nil {
		s.TopLogprobs = int(*r.TopLogprobs)
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

// FinishReason is the public word for why an answer ended; called tells that it
// made a call, and that its last one is whole.
func FinishReason(r wire.Reason, called bool) string {
	switch {
	case r == wire.ReasonLength:
		return "length"
	case called:
		return "tool_calls"
	}
	return "stop"
}

// Logprobs converts the station's entries.
func Logprobs(in []wire.TokenLogprob) *ChoiceLogprobs {
	out := &ChoiceLogprobs{Content: make([]TokenLogprob, len(in))}
	for i, t := range in {
		e := TokenLogprob{alternative: newAlternative(t), Top: make([]alternative, len(t.Top))}
		for j, a := range t.Top {
			e.Top[j] = newAlternative(a)
		}
		out.Content[i] = e
	}
	return out
}
