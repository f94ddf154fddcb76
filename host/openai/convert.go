package openai

import "thoth/station/wire"

// Generate makes the station request of choice i. contextLength and defaultCap
// bound max_tokens; 0 means unknown and none.
func (r *ChatRequest) Generate(prompt []wire.Segment, i, contextLength, defaultCap int) *wire.GenerateRequest {
	limit := r.Cap()
	if limit == 0 {
		limit = int64(defaultCap)
	}
	q := &wire.GenerateRequest{
		Prompt:    wire.Prompt{Segments: prompt},
		Sampling:  r.Sampling.Wire(i),
		Stop:      r.Stop,
		MaxTokens: Within(limit, contextLength),
		IgnoreEOG: r.IgnoreEOS,
	}
	q.Sampling.Logprobs = r.Logprobs
	if r.TopLogprobs != nil {
		q.Sampling.TopLogprobs = int(*r.TopLogprobs)
	}
	return q
}

// Within is a cap for a station with this context, 0 where the context alone ends
// the answer.
func Within(limit int64, contextLength int) int {
	if contextLength > 0 && limit >= int64(contextLength) {
		return 0
	}
	return int(limit)
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
