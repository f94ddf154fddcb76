package stationtest

import "thoth/station/engine"

// The loop methods that move whole sequences.

// Retire turns a sequence's cells into ballast.
func (e *Engine) Retire(s engine.SeqID) {
	defer e.enter("Retire")()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.validSeq(s) {
		e.violate("Retire of sequence %d", s)
		return
	}
	e.pool.retire(s)
	delete(e.poisoned, s)
}

// Fork shares the cells of src's positions [0, n) with dst.
func (e *Engine) Fork(src, dst engine.SeqID, n int) {
	defer e.enter("Fork")()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !e.validSeq(src) || !e.validSeq(dst) || src == dst:
		e.violate("Fork of sequence %d to %d", src, dst)
	case e.pool.length[dst] > 0:
		e.violate("Fork to sequence %d, which holds %d tokens", dst, e.pool.length[dst])
	case n < 0 || n > e.pool.length[src]:
		e.violate("Fork of %d tokens, sequence %d holds %d", n, src, e.pool.length[src])
	default:
		e.pool.fork(src, dst, n)
	}
}

// Save copies positions [from, to) out.
func (e *Engine) Save(s engine.SeqID, from, to int) (engine.State, error) {
	defer e.enter("Save")()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.validSeq(s) || from < 0 || to <= from || to > e.pool.length[s] {
		e.violate("Save of sequence %d, positions %d to %d", s, from, to)
		return nil, engine.ErrDecode
	}
	h, err := e.pool.history(s, int32(to-1))
	if err != nil {
		e.violate("%v", err)
		return nil, engine.ErrDecode
	}
	st := &state{owned: &e.owned, from: from, cells: h[from:]}
	e.owned.add(st, "state")
	return st, nil
}

// Restore appends a state's cells to s.
func (e *Engine) Restore(s engine.SeqID, st engine.State) error {
	defer e.enter("Restore")()
	e.mu.Lock()
	defer e.mu.Unlock()
	saved, mine := st.(*state)
	switch {
	case !mine || !e.owned.has(saved):
		e.violate("Restore of a freed or foreign state")
		return engine.ErrDecode
	case !e.validSeq(s) || e.poisoned[s]:
		e.violate("Restore into sequence %d", s)
		return engine.ErrDecode
	case saved.from != e.pool.length[s]:
		e.violate("Restore of position %d into sequence %d, which holds %d tokens", saved.from, s, e.pool.length[s])
		return engine.ErrDecode
	case saved.Len() > e.pool.room():
		return engine.ErrPoolFull
	}
	for _, k := range saved.cells {
		e.pool.append(k, s)
	}
	return nil
}

// Reset empties the pool.
func (e *Engine) Reset() {
	defer e.enter("Reset")()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pool.reset()
	clear(e.poisoned)
	clear(e.rows)
	e.resets++
}
