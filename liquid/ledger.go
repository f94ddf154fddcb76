package liquid

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"thoth/station/client"
	"thoth/station/wire"
)

// ledger counts outcomes and keeps the last misses. Each choice of a request
// counts; the tokens of a prompt that several share count once.
type ledger struct {
	seconds prometheus.Histogram // of loads that restored something

	mu struct {
		sync.Mutex
		counts
		last []*miss // at most keptMisses, oldest first
	}
}

const keptMisses = 64

// counts only grow.
type counts struct {
	outcomes   map[Memory]uint64
	reasons    map[Reason]uint64 // of all that were not plain hits
	tokens     Tokens
	loads      uint64
	load       time.Duration
	mismatches uint64
}

// Tokens counts prompt tokens of the liquid path.
type Tokens struct {
	Asked   uint64 `json:"asked"`
	Hot     uint64 `json:"hot"`
	Warm    uint64 `json:"warm"`
	Cold    uint64 `json:"cold"`
	Written uint64 `json:"written"` // newly stored, answers included
}

// miss is a Shortfall whose texts may not have been asked for yet.
type miss struct {
	Shortfall
	token, stored *int32
}

func newLedger() *ledger {
	l := &ledger{seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "thoth_liquid_load_seconds",
		Help: "Time to restore a stored prefix, waiting included.", Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60}})}
	l.mu.outcomes, l.mu.reasons = map[Memory]uint64{}, map[Reason]uint64{}
	return l
}

// record counts the choices of a prompt and, where its outcome is one to be understood, keeps it and
// logs it at debug level with the text of the first token that differs.
func (m *Manager) record(ctx context.Context, o *Outcome, choices int) {
	kept := m.tell.add(o, choices, client.RequestID(ctx))
	if kept == nil {
		return
	}
	e := m.o.Log.Debug()
	if !e.Enabled() {
		return
	}
	m.spawn(func() {
		ctx, cancel := m.behind(ctx, m.o.SaveTimeout)
		defer cancel()
		shown := m.texts(ctx, []*miss{kept})[0]
		e.Str("id", shown.RequestID).Str("liquid", string(shown.Memory)).Str("reason", shown.Reason).Int("prompt_tokens", shown.PromptTokens).
			Int("prefix_tokens", shown.PrefixTokens).Int("differs_at", shown.DiffersAt).Any("prompt", shown.Prompt).Any("stored", shown.Stored).Msg("prefix not restored")
	})
}

// add counts an outcome and gives what is kept of it: what is not a plain hit,
// and a hit that something cut short. A prompt that goes on where what is stored
// ends is how a conversation grows.
func (l *ledger) add(o *Outcome, choices int, request string) *miss {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.mu.counts
	c.outcomes[o.Memory] += uint64(choices)
	if o.asked > 0 {
		c.tokens.Asked += uint64(o.asked)
		c.tokens.Hot += uint64(o.Tiers.Hot)
		c.tokens.Warm += uint64(o.Tiers.Warm)
		c.tokens.Cold += uint64(o.Tiers.Cold)
		if o.PrefixTokens > 0 {
			c.loads++
			l.seconds.Observe(o.LoadMS / 1000)
			c.load += time.Duration(o.LoadMS * float64(time.Millisecond))
		}
	}
	if o.Memory != Hit {
		c.reasons[o.Reason] += uint64(choices)
	}
	if o.Memory == Disabled || o.Memory == Bypass || o.Memory == Hit && (o.Reason == "" || o.Reason == Reason(wire.KVEnds)) {
		return nil
	}
	k := &miss{Shortfall{Time: time.Now(), RequestID: request, Memory: o.Memory, Reason: o.Reason.Sentence(), PromptTokens: o.asked,
		PrefixTokens: o.PrefixTokens, DiffersAt: o.DiffersAt}, o.token, o.stored}
	if len(l.mu.last) == keptMisses {
		copy(l.mu.last, l.mu.last[1:])
		l.mu.last = l.mu.last[:keptMisses-1]
	}
	l.mu.last = append(l.mu.last, k)
	return k
}

// wrote counts tokens newly stored, also those of an answer that was told before
// they were.
func (l *ledger) wrote(tokens int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.tokens.Written += uint64(tokens)
}

// mismatch counts a station that restored another length than it said.
func (l *ledger) mismatch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.mismatches++
}

// forgetTokens drops token ids nobody has asked the text of: the station may
// have another model now.
func (l *ledger) forgetTokens() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.mu.last {
		k.token, k.stored = nil, nil
	}
}

// snapshot copies the numbers, and gives the misses, newest first.
func (l *ledger) snapshot() (counts, []*miss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.mu.counts
	c.outcomes, c.reasons = maps.Clone(c.outcomes), maps.Clone(c.reasons)
	last := make([]*miss, 0, len(l.mu.last))
	for i := len(l.mu.last) - 1; i >= 0; i-- {
		last = append(last, l.mu.last[i])
	}
	return c, last
}
