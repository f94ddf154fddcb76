package station

import (
	"fmt"
	"slices"

	"thoth/station/engine"
)

// stem is the beginning that the branches of a fork have in common: one
// sequence has evaluated it, and no other will.
//
// A branch that is out of the pool, because it has had no place yet or because it
// was moved to RAM, keeps none of these positions itself. It takes them from a
// resident that has them, sharing its cells. When the last such resident leaves
// while branches are out, the stem is copied to RAM for them, once for all. Where
// RAM has no room for that, they are bereft: one of them evaluates the stem again,
// and the others share it then (see adopt).
//
// Invariants: a branch that is out finds its stem in a resident or in state;
// state is there only while somebody is out; who names a stem has its tokens, and
// has it when it has so many positions.
type stem struct {
	n     int          // positions
	out   []*sequence  // branches without a place
	state engine.State // the positions in RAM; nil: a resident has them
}

// fork makes sequences that have no place branches of a resident, at all of its
// positions.
func (p *pool) fork(trunk *sequence, branches []*sequence) {
	p.secure(trunk)
	earlier := trunk.stem
	g := &stem{n: trunk.pos, out: slices.Clone(branches)}
	trunk.stem = g
	p.bereave(earlier) // unless they have found another
	for _, b := range branches {
		b.pos, b.stem, b.out = g.n, g, true
	}
}

// source finds a resident but one that has a stem's positions to share.
func (p *pool) source(g *stem, but *sequence) *sequence {
	for _, r := range p.residents {
		if r.stem == g && r != but && !r.out && r.pos >= g.n {
			return r
		}
	}
	return nil
}

// takes is the number of cells that placing a sequence takes.
func (p *pool) takes(s *sequence) int {
	switch {
	case s.id != noSeq:
		return 0
	case s.out && p.source(s.stem, s) != nil:
		return s.pos - s.stem.n
	}
	return s.pos
}

// secure sees to it that those who are out find their stem when a resident is
// about to leave it.
func (p *pool) secure(s *sequence) {
	if g := s.stem; g != nil && len(g.out) > 0 && g.state == nil && s.pos >= g.n && p.source(g, s) == nil {
		p.copyStem(s)
	}
}

// copyStem copies a resident's stem to RAM, if the budget allows it.
func (p *pool) copyStem(s *sequence) {
	g := s.stem
	if p.swappedBytes+g.n*p.cellBytes > p.swapBudget {
		return
	}
	st, err := p.eng.Save(s.id, 0, g.n)
	if err != nil {
		p.losses = append(p.losses, loss{nil, fmt.Errorf("the beginning of a fork cannot be copied out: %w", err)})
		return
	}
	g.state = st
	p.swappedBytes += st.Bytes()
}

// bereave leaves those who are out without KV whose stem is nowhere any more.
func (p *pool) bereave(g *stem) {
	if g == nil || len(g.out) == 0 || g.state != nil || p.source(g, nil) != nil {
		return
	}
	p.dropped += uint64(g.n)
	for _, s := range g.out {
		p.dropped += uint64(s.pos - g.n)
		p.freeState(&s.swapped)
		s.pos, s.out = 0, false
	}
	g.out = nil
}

// bereft says whether a sequence has nothing, and had a stem.
func (s *sequence) bereft() bool { return s.id == noSeq && s.stem != nil && s.pos == 0 }

// adopt lets one who is bereft share the stem where a resident has it.
func (p *pool) adopt(s *sequence) {
	if s.bereft() && p.source(s.stem, s) != nil {
		s.pos = s.stem.n
		p.goOut(s)
	}
}

// goOut notes that a branch will need its stem when it comes back.
func (p *pool) goOut(s *sequence) {
	s.out = true
	s.stem.out = append(s.stem.out, s)
}

// comeIn gives a placed branch its stem.
func (p *pool) comeIn(s *sequence) error {
	g, pos := s.stem, s.pos
	if base := p.source(g, s); base != nil {
		p.join(s, base, g.n)
		s.pos = pos
		return nil
	}
	if err := p.eng.Restore(s.id, g.state); err != nil {
		return err
	}
	p.top += g.n
	return nil
}

// comeBack gives a placed sequence the KV that it has elsewhere.
func (p *pool) comeBack(s *sequence) (err error) {
	defer p.dropSwapped(s)
	if s.out {
		err = p.comeIn(s)
	}
	if s.swapped != nil && err == nil {
		if err = p.eng.Restore(s.id, s.swapped); err == nil {
			p.top += s.swapped.Len()
		}
	}
	return err
}

// dropSwapped lets go of what a sequence has outside the pool.
func (p *pool) dropSwapped(s *sequence) {
	p.freeState(&s.swapped)
	if s.out {
		s.out = false
		if s.stem.out = without(s.stem.out, s); len(s.stem.out) == 0 {
			p.freeState(&s.stem.state)
		}
	}
}

// freeState frees KV in RAM.
func (p *pool) freeState(st *engine.State) {
	if *st != nil {
		p.swappedBytes -= (*st).Bytes()
		(*st).Free()
		*st = nil
	}
}
