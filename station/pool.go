package station

import (
	"errors"
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

	compactions    uint64
	compactionTime time.Duration
	swaps          uint64
}

// moveCost is what moving a live cell costs (copied out and back) in units of
// scanning a dead one for one row: measured on CPU, a cell of 22.5 KiB moves in
// 20 to 30 microseconds and is skipped in a quarter of one.
const moveCost = 80

var errNoRoom = errors.New("no room in the KV pool")

func newPool(eng engine.Engine) *pool {
	info := eng.Info()
	p := &pool{eng: eng, cells: info.Cells}
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
// fails with errNoRoom, changing nothing, when ids or cells do not suffice.
func (p *pool) place(s *sequence) error {
	if len(p.free) == 0 || p.live()+s.pos > p.cells {
		return errNoRoom
	}
	if p.top+s.pos > p.cells {
		if err := p.compact(); err != nil {
			return err
		}
	}
	s.id = p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.residents = append(p.residents, s)
	if s.swapped == nil {
		return nil
	}
	if err := p.eng.Restore(s.id, s.swapped); err != nil {
		at := s.pos
		s.pos = 0 // nothing of it is in the pool
		p.leave(s)
		s.pos = at
		return fmt.Errorf("swapped sequence cannot be restored: %w", err)
	}
	p.top += s.pos
	s.swapped.Free()
	s.swapped = nil
	return nil
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

// swapOut moves a resident's KV to RAM.
func (p *pool) swapOut(s *sequence) error {
	if s.pos > 0 {
		st, err := p.eng.Save(s.id, 0, s.pos)
		if err != nil {
			return err
		}
		s.swapped = st
	}
	p.swaps++
	p.leave(s)
	return nil
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

// compact moves the living together: save each, reset, restore in order.
// Sequences that cannot be brought back are reported by lost.
func (p *pool) compact() error {
	start := time.Now()
	type saved struct {
		seq *sequence
		st  engine.State
	}
	var all []saved
	defer func() {
		for _, s := range all {
			s.st.Free()
		}
	}()
	for _, s := range p.residents {
		if s.pos == 0 {
			continue
		}
		st, err := p.eng.Save(s.id, 0, s.pos)
		if err != nil {
			return fmt.Errorf("compaction: %w", err)
		}
		all = append(all, saved{s, st})
	}
	p.reset()
	for _, s := range all {
		if err := p.eng.Restore(s.seq.id, s.st); err != nil {
			// What is not back is lost; the caller ends every sequence.
			return &lostError{err}
		}
		p.top += s.seq.pos
	}
	p.compactions++
	p.compactionTime += time.Since(start)
	return nil
}

func (p *pool) reset() {
	p.eng.Reset()
	p.top, p.rent = 0, 0
}

// lostError says that KV is gone: every resident must end.
type lostError struct{ cause error }

func (e *lostError) Error() string { return "KV was lost in compaction: " + e.cause.Error() }
func (e *lostError) Unwrap() error { return e.cause }
