package kvstore

import (
	"context"
	"time"

	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// Gate is what waiting for the cold tier may cost.
type Gate struct {
	TokenSeconds float64       // of evaluating one token, as measured; 0: not known yet
	Wait         time.Duration // a longest wait; 0: as long as it pays
}

// Parts of the predicted computing time that waiting may take.
const (
	probeShare  = 0.03        // asking for a prompt of which nothing is known to be stored: most are not
	probeShort  = 0.01        // the same for a short prompt, where asking is most of what liquid memory costs
	shortPrompt = 128         // tokens
	waitShare   = 0.5         // reading what is stored
	blindWait   = time.Second // while the computing time is not known
	graceOnRead = 20 * time.Millisecond
	maxChases   = 64 // fetches at once: more means that the store hangs
	relearn     = 16 // one of so many fetches that do not pay is made all the same, for nobody: the store may be faster by now
)

// prediction is what Cold.Predict says.
type prediction struct {
	d  time.Duration
	ok bool
}

// plan is what a gate makes of predictions.
type plan struct {
	pays  bool          // reading takes less time than computing
	probe time.Duration // longest wait for the first answer; 0: look, but do not wait
	stall time.Duration // longest wait from one block to the next
	limit time.Duration // longest wait in all
}

// plan weighs reading what may be stored of so many positions (all) against
// computing them. known says that it is stored; else to ask (ask) must cost
// next to nothing.
func (g Gate) plan(positions int, known bool, ask, all prediction) plan {
	compute := time.Duration(g.TokenSeconds * float64(positions) * float64(time.Second))
	limit, probe := time.Duration(waitShare*float64(compute)), time.Duration(probeShare*float64(compute))
	if positions < shortPrompt {
		probe = time.Duration(probeShort * float64(compute))
	}
	if g.TokenSeconds <= 0 {
		compute, limit, probe = time.Hour, blindWait, blindWait
	}
	if g.Wait > 0 {
		limit = min(limit, g.Wait)
	}
	stall := limit
	if all.ok {
		if all.d > compute {
			return plan{}
		}
		// A read that takes longer than predicted but comes along is worth waiting for.
		stall = min(limit, 2*all.d+graceOnRead)
	}
	switch {
	case known:
		probe = stall
	case ask.ok && ask.d > probe:
		probe = 0
	}
	return plan{pays: true, probe: min(probe, stall), stall: stall, limit: limit}
}

// Fetch brings into RAM what the cold tier has beyond the match, and extends it.
// It reads in parallel, stops at the first block that is missing, and gives up when waiting
// stops paying; what comes later is still taken into RAM, for the next.
func (m *Match) Fetch(ctx context.Context, g Gate) {
	s := m.s
	if m.pos == len(m.tokens) || s.cold == nil {
		return
	}
	whole := m.whole * block.Tokens
	rest := m.tokens[whole:]
	gain := len(m.tokens) - m.pos
	bytes := int64(len(rest)) * int64(s.o.TokenBytes)
	all := predict(s.cold, (len(rest)+block.Tokens-1)/block.Tokens, bytes)
	ask := predict(s.cold, 1, 0)

	s.mu.Lock()
	if m.over || s.off() != "" || !s.named || s.ctx.Err() != nil {
		s.mu.Unlock()
		return
	}
	at := s.rootOf(m.scope).top
	if m.whole > 0 {
		if at = m.parts[m.whole-1].n; !at.durable {
			s.mu.Unlock()
			return // what follows a block that is not in the cold tier is not there either
		}
	}
	l, known := s.gone.find(at.key, rest, m.pos-whole)
	known = known && l.durable && l.reason == wire.KVEvicted || s.listed(at, m.text[whole:])
	p := g.plan(gain, known, ask, all)
	if !p.pays {
		s.skips++
	}
	var c *chase
	if p.pays || s.skips%relearn == 0 {
		c = s.chase(at, m.text[whole:], len(rest), g)
	}
	s.prune(at) // of a root made for nothing
	s.mu.Unlock()

	late := wire.KVStoreSlow
	if c != nil && p.probe > 0 {
		start := time.Now()
		if c.wait(ctx, p) {
			late = c.reason
		} else if ctx.Err() == nil {
			late = s.missed(c, time.Since(start), ask, all)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.over {
		return
	}
	if c != nil {
		m.brought = c.broughtNow()
		s.extend(m)
	}
	// Where RAM knows how the prompt leaves what is stored, that says more than
	// that the store is slow; most prompts begin with the same few tokens.
	m.short = s.why(m)
	broken := late == wire.KVDamaged || late == wire.KVStoreFails
	if m.short.Reason != "" && late != "" && (broken || m.short.DiffersAt < 0) {
		m.short.Reason = late
	}
}

// listed says whether the cold tier knows the next whole block of a text, or its
// end, to be there.
func (s *Store) listed(at *node, text []int32) bool {
	if len(text) > block.Tokens {
		text = text[:block.Tokens]
	}
	return s.cold.Has(block.Name{Root: at.root.top.key, Parent: at.key, Key: at.key.Child(text)})
}

// wait is true when the chase has ended, false when waiting stopped paying.
func (c *chase) wait(ctx context.Context, p plan) bool {
	start := time.Now()
	timer := time.NewTimer(p.probe)
	defer timer.Stop()
	for {
		select {
		case <-c.done:
			return true
		case <-c.came: // it is stored, and comes: waiting pays
			timer.Reset(min(p.stall, p.limit-time.Since(start)))
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// missed tells the cold tier that it kept a request waiting in vain, if it took
// longer than it had predicted, and says which reason that makes.
func (s *Store) missed(c *chase, waited time.Duration, ask, all prediction) wire.KVReason {
	promised := ask
	select {
	case <-c.found:
		promised = all
	default:
	}
	if !promised.ok || waited >= promised.d {
		s.cold.Missed(waited)
	}
	if promised.ok && !predict(s.cold, 1, 0).ok {
		return wire.KVStoreFails
	}
	return wire.KVStoreSlow
}

func predict(c Cold, blocks int, bytes int64) prediction {
	d, ok := c.Predict(blocks, bytes)
	return prediction{d, ok}
}
