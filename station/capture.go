package station

import (
	"slices"
	"time"

	"thoth/station/engine"
	"thoth/station/kvstore"
	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// Capturing: a save reserves blocks in the store at once and promises their rows.
// The rows are copied out of the pool behind the requests: first when the loop
// has nothing else to do, later in a small share of its time beside running calls, and
// in any case before the cells can go (see pool.park).

// copyWork is one block whose rows are still in the pool only.
type copyWork struct {
	fill  *kvstore.Fill
	since time.Time // when it was promised
}

func (w *copyWork) end() int { return w.fill.From + w.fill.N }

// promised is the last block within the first n positions that is still to be
// copied, or the one they end in; nil for none.
func (s *sequence) promised(n int) *kvstore.Fill {
	for _, w := range slices.Backward(s.copies) {
		if w.fill.From < n {
			return w.fill
		}
	}
	return nil
}

// dropCopies gives up what was to be copied and is not within the first n
// positions.
func (s *sequence) dropCopies(n int) {
	s.copies = slices.DeleteFunc(s.copies, func(w *copyWork) bool {
		if w.end() <= n {
			return false
		}
		w.fill.Drop()
		return true
	})
}

const (
	// copyWait is how long copies wait for the loop to be idle. After that they take
	// copyShare of its time beside running calls. Until then the cells hold what was
	// promised, and a copy would push the model's weights out of the cache for nothing.
	copyWait  = time.Second
	copyShare = 0.01
	// copyQuiet is how long the loop is idle before it copies at full speed: longer
	// than the gap between the calls of one request.
	copyQuiet = 5 * time.Millisecond
	// copyRun bounds the blocks of one export, so that a new request waits a few
	// milliseconds at most.
	copyRun = 4
)

// save captures what its caller chose; of the rest nothing is kept.
func (l *loop) save(s *sequence, n int, scope kvstore.Scope, o kvstore.SaveOptions) wire.KVSaveResponse {
	l.kv.saves++
	a := l.capture(s, n, scope, o)
	if m := s.memory; m != nil && m.scope == scope && a.Saved {
		m.group, m.keep = o.Group, false
	}
	return a
}

// kvLeft is why a session is not saved that was evaluated and has no KV.
const kvLeft = "the session's KV has left the pool, and RAM had no room for it"

// capture promises the store the blocks of a sequence's first n positions. Its
// rows must be in the pool, or come back there, unless all is stored already.
func (l *loop) capture(s *sequence, n int, scope kvstore.Scope, o kvstore.SaveOptions) wire.KVSaveResponse {
	o.Owner = s
	if l.store.Crowded(int64(n) * int64(l.pool.cellBytes)) {
		l.copyAll()
	}
	c := l.store.Reserve(scope, s.known()[:n], o)
	if len(c.Fills) > 0 {
		placed := s.id != noSeq || l.placeBack(s)
		if s.pos < n { // what it shared went to make room
			c.Drop()
			return wire.KVSaveResponse{Reason: kvLeft}
		}
		if !placed {
			c.Drop()
			return wire.KVSaveResponse{Reason: "the session has no place in the pool now"}
		}
	}
	now := time.Now()
	for _, f := range c.Fills {
		s.copies = append(s.copies, &copyWork{f, now})
	}
	slices.SortStableFunc(s.copies, func(a, b *copyWork) int { return a.end() - b.end() }) // park depends on it
	l.kv.written += uint64(c.New)
	return wire.KVSaveResponse{Saved: c.Tokens == n, Reason: c.Reason, Tokens: c.Tokens, Written: c.New, Bytes: c.Bytes, Durable: c.Durable()}
}

// keep captures the full blocks of a sequence that ends before it was saved: what
// was evaluated once need not be again.
func (l *loop) keep(s *sequence) {
	if m := s.memory; m != nil && m.keep {
		if n := s.pos / block.Tokens * block.Tokens; n > 0 {
			l.capture(s, n, m.scope, kvstore.SaveOptions{Group: m.group})
		}
	}
}

// placeBack gives a sequence its place again whose KV is in RAM, if there is room
// beside what else is in the pool. The KV of one that shares its beginning with
// others may be lost on the way.
func (l *loop) placeBack(s *sequence) bool {
	for p := l.parked(); p != nil && s.away(); p = l.parked() {
		l.copyOut(p, len(p.copies))
	}
	ok := s.away() && l.pool.place(s)
	l.reap()
	return ok
}

// parked finds a resident that is there only to be copied.
func (l *loop) parked() *sequence {
	for _, s := range l.pool.residents {
		if s.parked {
			return s
		}
	}
	return nil
}

// copying finds a resident with rows to copy, those that nobody calls first.
func (l *loop) copying() *sequence {
	var found *sequence
	for _, s := range l.pool.residents {
		if len(s.copies) > 0 && (found == nil || s.parked) {
			found = s
			if s.parked {
				break
			}
		}
	}
	return found
}

// copyOut copies at most so many of a resident's blocks, and gives up its place
// when it was parked and nothing is left.
func (l *loop) copyOut(s *sequence, most int) {
	for most > 0 && len(s.copies) > 0 {
		if w := s.copies[0]; !w.fill.Needed() { // another sequence has brought the block
			w.fill.Done()
			s.copies = slices.Delete(s.copies, 0, 1)
			continue
		}
		// A run: blocks one after another, without a gap.
		run := 1
		for run < min(most, copyRun, len(s.copies)) && s.copies[run].fill.From == s.copies[run-1].end() && s.copies[run].fill.Needed() {
			run++
		}
		pieces := make([]engine.Piece, run)
		for i := range pieces {
			pieces[i] = s.copies[i].fill.Piece()
		}
		from := s.copies[0].fill.From
		start := time.Now()
		if err := l.eng.Export(s.id, from, pieces); err != nil {
			l.opts.Logger.Error().Err(err).Msg("KV cannot be copied out; it is not stored")
			s.dropCopies(0)
			break
		}
		spent := time.Since(start).Seconds()
		l.kv.exportSeconds += spent
		l.kv.exportBytes += uint64(engine.Positions(pieces) * l.pool.cellBytes)
		l.kv.blockSeconds += 0.3 * (spent/float64(run) - l.kv.blockSeconds)
		for _, w := range s.copies[:run] {
			w.fill.Done()
		}
		s.copies = slices.Delete(s.copies, 0, run)
		most -= run
	}
	if len(s.copies) == 0 && s.parked {
		l.pool.leave(s)
	}
}

// copyAll copies everything out.
func (l *loop) copyAll() {
	for s := l.copying(); s != nil; s = l.copying() {
		l.copyOut(s, len(s.copies))
	}
}

// copyBeside spends a running loop's share of a step on copies.
func (l *loop) copyBeside(step time.Duration) {
	s := l.copying()
	if s == nil {
		l.kv.credit = min(l.kv.credit, 0) // nothing is saved up, a debt stays
		return
	}
	l.kv.credit += copyShare * step.Seconds()
	if l.kv.credit < l.kv.blockSeconds || time.Since(s.copies[0].since) < copyWait {
		return
	}
	start := time.Now()
	l.copyOut(s, 1)
	l.kv.credit -= time.Since(start).Seconds()
}
