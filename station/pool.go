package station

import (
	"fmt"
	"time"

	"thoth/station/engine"
)

// pool keeps the books of the engine's KV cells and gives sequences their place.
//
// Cells are taken upward only (see package engine). top counts those taken since
// the last reset; the sum of the residents' own cells is live, the rest is dead:
// cells of sequences that have left.
//
// A resident may share the cells of its first positions with another, its base:
// these are its base's own, or its base's base's. When a base leaves, the heir
// that shares most of its cells owns them from then on.
//
// Invariants: top = live + dead <= cells; a resident's cells ascend; shared <= pos;
// a base is a resident, shares fewer positions itself than its heir shares with
// it, and its cells lie below its heir's own. Those of stems stand there.
type pool struct {
	eng       engine.Engine
	cells     int
	top       int
	residents []*sequence
	free      []engine.SeqID

	rent int // what the dead cells have cost since the last compaction

	cellBytes    int
	swapBudget   int // bytes of KV that may lie in RAM
	swappedBytes int
	dropped      uint64 // positions for which there was no room in RAM
	losses       []loss // not yet dealt with by the loop

	compactions    uint64
	compactionTime time.Duration
	swaps          uint64
}

// moveCost is what moving a live cell costs (copied out and back) in units of
// scanning a dead one for one row: measured on CPU, a cell of 22.5 KiB moves in
// 20 to 30 microseconds and is skipped in a quarter of one.
const moveCost = 80

func newPool(eng engine.Engine, swapBudget int) *pool {
	info := eng.Info()
	p := &pool{eng: eng, cells: info.Cells, cellBytes: info.KVBytesToken, swapBudget: swapBudget}
	for id := info.Sequences - 1; id >= 0; id-- {
		p.free = append(p.free, engine.SeqID(id))
	}
	return p
}

func (p *pool) live() int {
	n := 0
	for _, s := range p.residents {
		n += s.pos - s.shared
	}
	return n
}

func (p *pool) dead() int { return p.top - p.live() }

// place gives a sequence its id, and its KV back if that was swapped out. It
// reports false when ids or cells do not suffice, or when the KV did not come
// back, which makes the sequence a loss.
func (p *pool) place(s *sequence) bool {
	n := p.takes(s)
	if len(p.free) == 0 || p.live()+n > p.cells {
		return false
	}
	if p.top+n > p.cells {
		p.compact()
	}
	s.id = p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.residents = append(p.residents, s)
	if err := p.comeBack(s); err != nil {
		p.lose(s, fmt.Errorf("swapped KV cannot be restored: %w", err))
		return false
	}
	return true
}

// join makes a resident without KV an heir of base's first n positions. No cell
// is taken.
func (p *pool) join(s, base *sequence, n int) {
	p.eng.Fork(base.id, s.id, n)
	for n <= base.shared {
		base = base.base
	}
	s.base, s.shared, s.pos = base, n, n
}

// leave takes a sequence's place away; the cells that only it had die. Cells that
// are still to be copied stay under a sequence that nobody calls, until copied.
func (p *pool) leave(s *sequence) {
	if s.id == noSeq {
		return
	}
	if s.dropCopies(s.pos); len(s.copies) > 0 { // beyond its KV there is nothing to copy
		p.park(s)
		return
	}
	p.secure(s)
	p.bequeath(s)
	p.eng.Retire(s.id) // also at position 0: a failed decode may have left cells
	p.forget(s)
	if len(p.residents) == 0 || p.live() == 0 {
		p.reset() // nothing lives: the pool is empty for free
	}
}

// park puts a sequence of its own in the place of one that leaves.
func (p *pool) park(s *sequence) {
	parked := &sequence{id: s.id, base: s.base, shared: s.shared, copies: s.copies, memory: s.memory, parked: true, evaluated: s.known()}
	parked.pos = max(s.shared, s.copies[len(s.copies)-1].end())
	if g := s.stem; g != nil && len(g.out) > 0 && s.pos >= g.n {
		parked.stem, parked.pos = g, max(parked.pos, g.n)
	}
	for i, r := range p.residents {
		switch {
		case r == s:
			p.residents[i] = parked
		case r.base == s:
			r.base = parked
			parked.pos = max(parked.pos, r.shared)
		}
	}
	s.id, s.base, s.shared, s.copies = noSeq, nil, 0, nil
}

// bequeath gives the cells that others share with a leaving sequence to the one
// that shares most of them.
func (p *pool) bequeath(s *sequence) {
	var heir *sequence
	for _, r := range p.residents {
		if r.base == s && (heir == nil || r.shared > heir.shared) {
			heir = r
		}
	}
	if heir == nil {
		return
	}
	for _, r := range p.residents {
		if r.base == s && r != heir {
			r.base = heir
		}
	}
	heir.base, heir.shared = s.base, s.shared
}

func (p *pool) forget(s *sequence) {
	for i, r := range p.residents {
		if r == s {
			p.residents = append(p.residents[:i], p.residents[i+1:]...)
			break
		}
	}
	p.free = append(p.free, s.id)
	s.id, s.base, s.shared = noSeq, nil, 0
	p.bereave(s.stem)
}

// frees is the number of cells that die when s leaves.
func (p *pool) frees(s *sequence) int {
	kept := s.shared
	for _, r := range p.residents {
		if r.base == s {
			kept = max(kept, r.shared)
		}
	}
	return s.pos - kept
}

// swapOut takes a resident's place away and keeps its KV in RAM, within the
// budget; of a branch, what lies behind its stem. Beyond the budget that KV is
// dropped: the tokens will be evaluated again.
func (p *pool) swapOut(s *sequence) {
	p.swaps++
	if s.pos == 0 {
		p.leave(s)
		return
	}
	own := 0 // the first position that s keeps itself
	if s.stem != nil && s.pos >= s.stem.n {
		own = s.stem.n
	}
	if p.swappedBytes+(s.pos-own)*p.cellBytes > p.swapBudget {
		if own > 0 {
			p.goOut(s)
		}
		p.leave(s)
		if s.pos > 0 { // else it is bereft, too
			p.dropped += uint64(s.pos - own)
			s.pos = own
		}
		return
	}
	if s.pos > own {
		st, err := p.eng.Save(s.id, own, s.pos)
		if err != nil {
			p.lose(s, fmt.Errorf("KV cannot be copied out: %w", err))
			return
		}
		s.swapped = st
		p.swappedBytes += st.Bytes()
	}
	if own > 0 {
		p.goOut(s)
	}
	p.leave(s)
}

// lose gives up a sequence's KV after a fault of the engine.
func (p *pool) lose(s *sequence, err error) {
	s.dropCopies(0)
	if s.id != noSeq {
		p.leave(s)
	}
	p.dropSwapped(s)
	s.forgetRow()
	s.pos, s.stem = 0, nil
	p.losses = append(p.losses, loss{s, err})
}

// took records n cells taken by a decode or an import.
func (p *pool) took(n int) { p.top += n }

// charge adds what a batch of so many rows paid for scanning dead cells, and
// says whether compacting has become the cheaper choice. Renting until the rent
// has reached the price costs at most twice the best choice in hindsight (the
// ski-rental rule, Karlin et al. 1988).
func (p *pool) charge(rows int) bool {
	dead := p.dead()
	if dead == 0 {
		return false
	}
	p.rent += dead * rows
	return p.rent > moveCost*p.live()
}

// compact moves the living together: save the own cells of each, reset, restore
// them, bases before their heirs, so that shared cells are there once. A sequence
// that cannot be saved or restored is a loss, and so are its heirs; the others
// are not touched by it. Afterwards nothing is dead.
func (p *pool) compact() {
	start := time.Now()
	states := make(map[*sequence]engine.State, len(p.residents))
	failed := map[*sequence]error{}
	for _, s := range p.residents {
		if s.pos == s.shared {
			continue
		}
		st, err := p.eng.Save(s.id, s.shared, s.pos)
		if err != nil {
			failed[s] = fmt.Errorf("compaction: %w", err)
			continue
		}
		states[s] = st
	}
	p.reset()
	put := make(map[*sequence]bool, len(p.residents))
	for _, s := range p.residents {
		p.putBack(s, states, failed, put)
	}
	for _, st := range states {
		st.Free()
	}
	for s, err := range failed {
		s.dropCopies(0)
		s.pos = 0 // of it nothing is in the pool
		p.forget(s)
		p.lose(s, err)
	}
	p.compactions++
	p.compactionTime += time.Since(start)
}

// putBack restores a sequence after its base.
func (p *pool) putBack(s *sequence, states map[*sequence]engine.State, failed map[*sequence]error, put map[*sequence]bool) {
	if put[s] {
		return
	}
	put[s] = true
	if s.base != nil {
		p.putBack(s.base, states, failed, put)
		if err := failed[s.base]; err != nil {
			failed[s] = err
		}
	}
	if failed[s] != nil {
		return
	}
	if s.shared > 0 {
		p.eng.Fork(s.base.id, s.id, s.shared)
	}
	if st := states[s]; st != nil {
		if err := p.eng.Restore(s.id, st); err != nil {
			failed[s] = fmt.Errorf("compaction: %w", err)
			p.eng.Retire(s.id)
			return
		}
		p.top += s.pos - s.shared
	}
}

func (p *pool) reset() {
	p.eng.Reset()
	p.top, p.rent = 0, 0
}

// loss is a sequence whose KV is gone, and why.
type loss struct {
	seq *sequence
	err error
}
