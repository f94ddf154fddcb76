package station

import "slices"

// Room in the pool: for a call that wants in, and by moving others out.

// reserve is the room left for each running answer when a new call is let in, so
// that letting it in does not at once push somebody out.
const reserve = 32

// enter makes room for a call and places its sequence. A load that restores
// nothing needs no place.
func (l *loop) enter(c *call) bool {
	if c.restore != nil && !c.restores() {
		return true
	}
	l.pool.adopt(c.seq)
	if !l.makeRoom(c) {
		return false
	}
	if c.seq.id == noSeq && !l.pool.place(c.seq) {
		l.reap()
		return false
	}
	return true
}

// regains says whether a running call evaluates the beginning that a waiting one has
// lost with it.
func (l *loop) regains(c *call) bool {
	return c.restore == nil && c.seq.bereft() && slices.ContainsFunc(l.running, func(r *call) bool {
		return r.seq.stem == c.seq.stem && r.seq.pos < c.seq.stem.n && r.missing() > 0
	})
}

// makeRoom says whether a call's prompt fits beside what is running, after
// moving to RAM what does not run.
func (l *loop) makeRoom(c *call) bool {
	others := 0
	for _, r := range l.running {
		others += r.missing() + reserve
	}
	// What it needs itself may grow: who is moved away may have had what it was to share.
	need := func() int { return l.pool.takes(c.seq) + c.missing() + reserve + others }
	for l.pool.live()+need() > l.pool.cells || c.seq.id == noSeq && len(l.pool.free) == 0 {
		if !l.relieve(c) {
			// Alone it always fits: a sequence is at most context_length, the pool at least that.
			return len(l.running) == 0 && (c.seq.id != noSeq || len(l.pool.free) > 0)
		}
	}
	return true
}

// relieve takes something out of the pool that does not run, but not c: first what
// is there only to be copied.
func (l *loop) relieve(c *call) bool {
	if s := l.parked(); s != nil {
		l.copyOut(s, len(s.copies))
		return true
	}
	return l.swapOutIdle(c)
}

// swap moves a sequence's KV to RAM, after copying what a save has promised of it.
func (l *loop) swap(s *sequence) {
	l.copyOut(s, len(s.copies))
	l.pool.swapOut(s)
	l.reap()
}

// swapOutIdle moves the KV of a sequence that does not run to RAM: of the session
// that was idle longest, else of the call that waits last, but not of c.
func (l *loop) swapOutIdle(c *call) bool {
	for _, s := range l.idle {
		if s.id != noSeq {
			l.swap(s)
			return true
		}
	}
	for _, w := range slices.Backward(l.waiting) {
		if w.seq.id != noSeq && w != c {
			l.swap(w.seq)
			return true
		}
	}
	return false
}

// swapOutYoungest moves the call that came last out of the batch, to the front
// of the queue. Its state is kept exactly, so its answer does not change.
func (l *loop) swapOutYoungest() bool {
	if len(l.running) < 2 {
		return false
	}
	youngest := l.running[0]
	for _, c := range l.running {
		if c.younger(youngest) {
			youngest = c
		}
	}
	l.running = without(l.running, youngest)
	l.waiting = slices.Insert(l.waiting, 0, youngest)
	l.swap(youngest.seq)
	return true
}
