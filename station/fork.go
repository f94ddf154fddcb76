package station

import (
	"slices"

	"thoth/station/engine"
	"thoth/station/wire"
)

// maxFork bounds the answers of one prefill: each is a sequence, and a row of
// every batch. More than fit in the pool at once wait for each other.
const maxFork = 64

// fork is a call of several answers, its branches. The first is the trunk: the
// call that was submitted, and evaluates the prompt. When its last row is there,
// every branch draws its first token from that; then each goes its way as a call
// of its own, admitted like any other, sharing the cells of the prompt (see stem).
//
// Invariants: branches have one output, and end with a done frame each or all
// together with one error frame; nobody but the trunk is in the loop's lists
// before the split.
type fork struct {
	branches []*call // by choice
	split    bool
	width    int     // branches that go on at once after the split
	held     []*call // until one of those has ended
}

// forks is the most answers that may share a prefill, 0 for a model whose KV has
// no beginning to share.
func (l *loop) forks() int {
	if !l.info.KVCut {
		return 0
	}
	return maxFork
}

// branches are the calls that one request made: a fork's, or the call alone.
func (c *call) branches() []*call {
	if c.fork == nil {
		return []*call{c}
	}
	return c.fork.branches
}

// trunk is the call that was submitted.
func (c *call) trunk() *call {
	if c.fork == nil {
		return c
	}
	return c.fork.branches[0]
}

// put sends a frame of the call's answer.
func (c *call) put(f wire.Frame) {
	f.Choice = c.choice
	c.out.put(f)
}

// grow makes a call the trunk of the branches that are asked for; each is made by
// the function it is given, which an error ends.
func (c *call) grow(asked *wire.Later, make func(choice int) (*call, *wire.Error)) *wire.Error {
	n := asked.Answers()
	if n < 2 {
		return nil
	}
	f := &fork{branches: []*call{c}, width: n}
	if w := asked.ForkWidth; w > 0 {
		f.width = min(n, w)
	}
	for i := 1; i < n; i++ {
		b, e := make(i)
		if e != nil {
			c.fork = f
			return e
		}
		b.choice, b.fork, b.out, b.arrived = i, f, c.out, c.arrived
		f.branches = append(f.branches, b)
	}
	c.fork = f
	c.out.expect(n)
	return nil
}

// dropSamplers frees what a call that was never submitted has brought.
func (c *call) dropSamplers() {
	for _, b := range c.branches() {
		if b.dec != nil && b.dec.fresh != nil {
			b.dec.fresh.Free()
			b.dec.fresh = nil
		}
	}
}

// branch is the sampling of one branch of a fork: seeds count up from the one
// that was given.
func branch(s *wire.Sampling, choice int) *wire.Sampling {
	b := *s
	if b.Seed != nil {
		seed := *b.Seed + uint64(choice)
		b.Seed = &seed
	}
	return &b
}

// split parts the branches from the trunk, whose tokens are all evaluated.
func (l *loop) split(c *call) {
	c.fork.split = true
	var seqs []*sequence
	for _, b := range c.fork.branches[1:] {
		s := b.seq
		s.tokens = slices.Clone(c.seq.tokens)
		s.adapter = c.seq.adapter
		if m := c.seq.memory; m != nil {
			// Not kept unsaved: the trunk keeps the prompt, and of several answers to it
			// at most one is ever gone on with.
			s.memory = &memory{scope: m.scope, group: m.group}
		}
		b.target, b.from = c.target, c.from
		b.queued, b.started, b.prefilled, b.engine = c.queued, c.started, c.prefilled, c.engine
		seqs = append(seqs, s)
	}
	l.pool.fork(c.seq, seqs)
}

// parted lets the branches that have not ended with their first token go on, as
// many as may.
func (l *loop) parted(c *call) {
	f := c.fork
	f.held = slices.DeleteFunc(slices.Clone(f.branches[1:]), func(b *call) bool { return b.over })
	now := f.width
	if !c.over {
		now--
	}
	l.follow(f, now)
}

// follow lets n of the branches that are held wait for their place, ahead of all
// who came later.
func (l *loop) follow(f *fork, n int) {
	n = min(n, len(f.held))
	l.waiting = slices.Insert(l.waiting, 0, f.held[:n]...)
	f.held = f.held[n:]
}

// soleTrunk is the call that all of a plan is for, nil when there are several.
func soleTrunk(plan []share) *call {
	c := plan[0].call.trunk()
	for _, s := range plan[1:] {
		if s.call.trunk() != c {
			return nil
		}
	}
	return c
}

// drawFrom adds a call to those that draw a token, with the branches that draw
// their first one with it. They go ahead of it: what they need of the trunk, it
// must not leave before.
func (l *loop) drawFrom(c *call, row int, held engine.Held) {
	if c.fork != nil && !c.fork.split {
		l.split(c)
		l.parting = append(l.parting, c)
		for _, b := range c.fork.branches[1:] {
			l.draw(b, row, held)
		}
	}
	l.draw(c, row, held)
}

func (l *loop) draw(c *call, row int, held engine.Held) {
	l.who = append(l.who, c)
	l.reqs = append(l.reqs, engine.SampleRequest{Row: row, Held: held, Sampler: c.seq.sampler,
		Logprobs: c.dec.logprobs, Top: c.dec.top, NoEOG: c.dec.ignoreEOG})
}
