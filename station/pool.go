package station

import (
	"fmt"
	"time"

	"thoth/station/engine"
)

// pool keeps the books of the engine's KV cells and gives sequences their place.
//
// Cells are taken upward only (see package engine). top counts those taken since
// the last reset; the sum of the residents' positions is live, the rest is dead:
// cells of sequences that have left.
//
// Invariant: top = live + dead <= cells; a resident's cells ascend.
type pool struct {
	eng       engine.Engine
	cells     int
	top       int
	residents []*sequence // in the order they took their place
	free      []engine.SeqID

	rent int // what the dead cells have cost since the last compaction

	cellBytes    int
	swapBudget   int // bytes of KV that may lie in RAM
	swappedBytes int
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
		n += s.pos
	}
	return n
}

func (p *pool) dead() int { return p.top - p.live() }

// place gives a sequence its id, and its KV back if that was swapped out. It
// reports false when ids or cells do not suffice, or when the KV did not come
// back, which makes the sequence a loss.
func (p *pool) place(s *sequence) bool {
	if len(p.free) == 0 || p.live()+s.pos > p.cells {
		return false
	}
	if p.top+s.pos > p.cells {
		p.compact()
	}
	s.id = p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.residents = append(p.residents, s)
	if s.swapped == nil {
		return true
	}
	err := p.eng.Restore(s.id, s.swapped)
	p.dropSwapped(s)
	if err != nil {
		p.lose(s, fmt.Errorf("swapped KV cannot be restored: %w", err))
		return false
	}
	p.top += s.pos
	return true
}

// leave takes a sequence's place away; its cells die.
func (p *pool) leave(s *sequence) {
	if s.id == noSeq {
		return
	}
	p.eng.Retire(s.id) // also at position 0: a failed decode may have left cells
	p.forget(s)
	if len(p.residents) == 0 || p.live() == 0 {
		p.reset() // nothing lives: the pool is empty for free
	}
}

func (p *pool) forget(s *sequence) {
	for i, r := range p.residents {
		if r == s {
			p.residents = append(p.residents[:i], p.residents[i+1:]...)
			break
		}
	}
	p.free = append(p.free, s.id)
	s.id = noSeq
}

// swapOut takes a resident's place away and keeps its KV in RAM, within the
// budget. Beyond it the KV is dropped: the tokens will be evaluated again.
func (p *pool) swapOut(s *sequence) {
	p.swaps++
	if s.pos == 0 {
		p.leave(s)
		return
	}
	if p.swappedBytes+s.pos*p.cellBytes > p.swapBudget {
		p.leave(s)
		s.pos = 0
		return
	}
	st, err := p.eng.Save(s.id, 0, s.pos)
	if err != nil {
		p.lose(s, fmt.Errorf("KV cannot be copied out: %w", err))
		return
	}
	s.swapped = st
	p.swappedBytes += st.Bytes()
	p.leave(s)
}

func (p *pool) dropSwapped(s *sequence) {
	if s.swapped != nil {
		p.swappedBytes -= s.swapped.Bytes()
		s.swapped.Free()
		s.swapped = nil
	}
}

// lose gives up a sequence's KV after a fault of the engine.
func (p *pool) lose(s *sequence, err error) {
	if s.id != noSeq {
		p.leave(s)
	}
	p.dropSwapped(s)
	s.forgetRow()
	s.pos = 0
	p.losses = append(p.losses, loss{s, err})
}

// took records n cells taken by a decode.
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

// compact moves the living together: save each, reset, restore in order. A
// sequence that cannot be saved or restored is a loss; the others are not touched
// by it. Afterwards nothing is dead.
func (p *pool) compact() {
	start := time.Now()
	states := make(map[*sequence]engine.State, len(p.residents))
	failed := map[*sequence]error{}
	for _, s := range p.residents {
		if s.pos == 0 {
			continue
		}
		st, err := p.eng.Save(s.id, 0, s.pos)
		if err != nil {
			failed[s] = fmt.Errorf("compaction: %w", err)
			continue
		}
		states[s] = st
	}
	p.reset()
	for _, s := range p.residents {
		st := states[s]
		if st == nil {
			continue
		}
		if err := p.eng.Restore(s.id, st); err != nil {
			failed[s] = fmt.Errorf("compaction: %w", err)
		} else {
			p.top += s.pos
		}
		st.Free()
	}
	for s, err := range failed {
		s.pos = 0 // of it nothing is in the pool
		p.forget(s)
		p.lose(s, err)
	}
	p.compactions++
	p.compactionTime += time.Since(start)
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
