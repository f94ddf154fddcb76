package liquid

import (
	"context"
	"time"

	"thoth/station/wire"
)

// Report is what this process knows of liquid memory, for GET /liquid.
type Report struct {
	State
	Requests   map[Memory]uint64 `json:"requests"` // choices by outcome
	Reasons    map[Reason]uint64 `json:"reasons"`  // of those that were not plain hits
	Tokens     Tokens            `json:"tokens"`
	Loads      uint64            `json:"loads"` // that restored something
	LoadMS     float64           `json:"load_ms"`
	Mismatches uint64            `json:"mismatches"` // loads that restored another length than they said
	HeadTokens int               `json:"head_tokens"`
	Misses     []Shortfall       `json:"last_misses"` // newest first
	Warm       []WarmState       `json:"warm_prompts"`
}

// Shortfall is a choice that restored less than it might have, or was not kept.
type Shortfall struct {
	Time         time.Time `json:"time"`
	RequestID    string    `json:"request_id"`
	Memory       Memory    `json:"liquid_memory"`
	Reason       string    `json:"reason"`
	PromptTokens int       `json:"prompt_tokens"`
	PrefixTokens int       `json:"prefix_tokens"`
	DiffersAt    int       `json:"differs_at"`       // -1: nothing stored goes on from there
	Prompt       *string   `json:"prompt,omitempty"` // text of the prompt's token there
	Stored       *string   `json:"stored,omitempty"` // and of the stored one
}

// Report gathers the numbers and asks the station for the texts of tokens that
// nobody has asked for yet, as far as ctx allows.
func (m *Manager) Report(ctx context.Context) Report {
	c, last := m.tell.snapshot()
	return Report{State: m.State(), Requests: c.outcomes, Reasons: c.reasons, Tokens: c.tokens, Loads: c.loads,
		LoadMS: float64(c.load.Microseconds()) / 1000, Mismatches: c.mismatches, HeadTokens: int(m.head.Load()),
		Misses: m.texts(ctx, last), Warm: m.warm.states()}
}

// texts gives shortfalls with the texts of their tokens, each asked for once. A
// station that does not answer leaves them out.
func (m *Manager) texts(ctx context.Context, misses []*miss) []Shortfall {
	asked := map[int32]*string{}
	text := func(token *int32) *string {
		if token == nil {
			return nil
		}
		if t, ok := asked[*token]; ok {
			return t
		}
		var t *string
		if ctx.Err() == nil {
			if r, err := m.o.Station.Detokenize(ctx, &wire.DetokenizeRequest{Tokens: []int32{*token}, Special: true}); err == nil {
				t = &r.Text
			}
		}
		asked[*token] = t
		return t
	}
	out := make([]Shortfall, len(misses))
	for i, k := range misses {
		m.tell.mu.Lock()
		token, stored := k.token, k.stored
		out[i] = k.Shortfall
		m.tell.mu.Unlock()
		if token == nil && stored == nil {
			continue
		}
		p, s := text(token), text(stored)
		if p == nil && s == nil {
			continue
		}
		out[i].Prompt, out[i].Stored = p, s
		m.tell.mu.Lock()
		k.Prompt, k.Stored, k.token, k.stored = p, s, nil, nil
		m.tell.mu.Unlock()
	}
	return out
}
