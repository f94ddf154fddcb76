package kvstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"thoth/station/kvstore/block"
)

// Times of writing and reading cold blocks.
const (
	firstRetry   = 200 * time.Millisecond // after the first failure of a write, growing from there
	lastRetry    = 30 * time.Second
	readTimeout  = 30 * time.Second // of a block nobody waits for any more
	writeTimeout = time.Minute      // of a block: a store that hangs must give its writer back

	// Beside an engine that computes, a block is hashed and its bytes are copied by
	// the kernel on cores that the engine wants: that waits for a pause for a while,
	// and then takes one hundredth of the time. A block that must leave RAM does not
	// wait.
	besideWait  = time.Second
	besideShare = 100
	besideMost  = 2 * time.Second
	besideLook  = 20 * time.Millisecond
)

func newBackoff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = firstRetry, lastRetry
	return b
}

// writtenBefore orders by value: what must leave RAM first, then full blocks
// before tails, and of these the ones that most others hang below.
func writtenBefore(a, b *node) bool {
	switch {
	case a.urgent != b.urgent:
		return a.urgent
	case a.full() != b.full():
		return a.full()
	case a.start != b.start:
		return a.start < b.start
	}
	return a.due.Before(b.due)
}

func dueBefore(a, b *node) bool { return a.due.Before(b.due) }

// writable says that n is to be written and may be: its parent is in the cold tier or
// on its way, so that no block is there that cannot be reached.
func (s *Store) writable(n *node) bool {
	return s.cold != nil && s.named && n.state == filled && !n.gone && !n.durable && !n.refused && !n.writing &&
		(n.parent.isTop() || n.parent.durable || n.parent.writing)
}

// enqueue hands n to the writers, now or when it is due.
func (s *Store) enqueue(n *node) {
	s.toWrite.drop(n)
	s.waiting.drop(n)
	switch {
	case !s.writable(n):
	case n.urgent || !n.due.After(s.o.Now()):
		s.toWrite.set(n)
		s.rouse()
	default:
		s.waiting.set(n)
		s.rouse() // a writer that sleeps must know how long
	}
}

// rouse wakes a writer.
func (s *Store) rouse() {
	select {
	case s.wake <- struct{}{}:
	default: // they are all about to look
	}
}

// rush gives a block that only RAM has to an idle writer, and is false when there is
// none: then it is lost.
func (s *Store) rush(n *node) bool {
	if !s.writable(n) || s.urgent >= s.idle || s.o.Now().Before(s.paused) {
		return false
	}
	n.urgent = true
	s.urgent++
	s.settle(n)
	s.enqueue(n)
	return true
}

func (s *Store) calm(n *node) {
	if n.urgent {
		n.urgent = false
		s.urgent--
		s.settle(n)
	}
}

// writer writes blocks down until the store closes.
func (s *Store) writer() {
	for {
		n := s.next()
		if n == nil {
			return
		}
		s.write(s.ctx, n)
	}
}

// next waits for the block that is worth most, and marks it as being written;
// nil when the store closes.
func (s *Store) next() *node {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for s.ctx.Err() == nil {
		s.mu.Lock()
		n, wait := s.pick()
		if n == nil {
			s.idle++
		}
		s.mu.Unlock()
		if n != nil {
			return n
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-s.ctx.Done():
		}
		s.mu.Lock()
		s.idle--
		s.mu.Unlock()
	}
	return nil
}

// pick takes the best block that is due, or tells how long to wait for one.
func (s *Store) pick() (*node, time.Duration) {
	now := s.o.Now()
	if d := s.paused.Sub(now); d > 0 {
		return nil, d
	}
	for n := s.waiting.first(); n != nil && !n.due.After(now); n = s.waiting.first() {
		s.enqueue(n)
	}
	if n := s.toWrite.first(); n != nil && !n.urgent && s.o.Busy != nil && s.o.Busy() {
		if s.beside.After(now) || n.due.Add(besideWait).After(now) {
			return nil, besideLook
		}
		s.beside = now.Add(besideMost) // until this one has told how long it takes
	}
	for n := s.toWrite.first(); n != nil; n = s.toWrite.first() {
		s.toWrite.drop(n)
		if s.writable(n) { // else it comes again when its parent is written
			s.begin(n)
			return n, 0
		}
		s.calm(n)
	}
	if n := s.waiting.first(); n != nil {
		return nil, n.due.Sub(now)
	}
	return nil, time.Hour
}

// begin marks n as being written, and lets its children follow.
func (s *Store) begin(n *node) {
	n.writing = true
	s.pin(n)
	s.toWrite.drop(n)
	s.waiting.drop(n)
	for _, k := range n.ready {
		s.enqueue(k)
	}
}

// write writes a block down that begin marked. It is false when that failed.
func (s *Store) write(ctx context.Context, n *node) bool {
	s.mu.Lock()
	b := &block.Block{Name: n.blockName(), Tokens: n.tokens, Group: n.group, Kernel: s.identity.Kernel, Data: s.data(n)}
	s.mu.Unlock()

	start := s.o.Now()
	putCtx, cancel := context.WithTimeout(ctx, writeTimeout)
	err := s.cold.Put(putCtx, b)
	cancel()

	s.mu.Lock()
	now := s.o.Now()
	s.beside = now.Add(min(besideMost, besideShare*now.Sub(start)))
	n.writing = false
	s.calm(n)
	undo := err == nil && n.deleted
	if err == nil {
		n.retry = nil
		s.backoff.Reset()
		s.failing, s.paused = false, time.Time{}
		s.written(n)
	} else if errors.Is(err, ErrNoRoom) { // the store is well, and a retry would find the same
		s.backoff.Reset()
		s.failing, s.paused = false, time.Time{}
		s.refuse(n)
	} else if ctx.Err() == nil { // else it was cut short, the store is not to blame
		if n.retry == nil {
			n.retry = newBackoff()
		}
		n.due = now.Add(n.retry.NextBackOff())
		s.paused = now.Add(s.backoff.NextBackOff())
		if !s.failing { // without the error: it may hold a block's name, which tells of its text
			s.o.Logger.Warn().Msg("a block of stored KV could not be written down; it is tried again")
		}
		s.failing = true
	}
	s.unpin(n)
	s.enqueue(n)
	close(s.wrote)
	s.wrote = make(chan struct{})
	s.mu.Unlock()
	if undo { // deleted on request while it was written
		ctx, cancel := context.WithTimeout(s.ctx, writeTimeout)
		defer cancel()
		if _, _, err := s.cold.Delete(ctx, Which{Name: b.Name}); err != nil {
			s.o.Logger.Warn().Msg("a deleted block of stored KV could not be taken back from the cold tier")
		}
	}
	return err == nil
}

// written notes that the cold tier has n: it needs no writer, and its children may follow.
func (s *Store) written(n *node) {
	n.durable, n.refused = true, false
	s.clean(n)
	s.calm(n)
	s.enqueue(n)
	for _, k := range n.ready {
		s.enqueue(k)
	}
}

// refuse notes that the cold tier has no room for n, and so none for what is below: it
// would not be found there. They stay in RAM, and are tried again when they are saved anew.
func (s *Store) refuse(n *node) {
	if n.state == filled && !n.gone && !n.durable && !n.refused {
		n.refused = true
		s.clean(n)
		s.toWrite.drop(n)
		s.waiting.drop(n)
		s.calm(n)
		s.counts.drops["no_room"]++
		defer s.outlive(n) // nothing is owed any more
	}
	for _, k := range slices.Clone(n.ready) {
		s.refuse(k)
	}
}

// retry lets a refused block be written after all: it is saved anew.
func (s *Store) retry(n *node) {
	if n.refused {
		n.refused = false
		n.due = s.o.Now()
		s.soil(n)
		s.enqueue(n)
	}
}

// toucher passes uses on to the cold tier, away from the engine's loop.
func (s *Store) toucher() {
	for {
		select {
		case n := <-s.touches:
			s.cold.Touch(n)
		case <-s.ctx.Done():
			return
		}
	}
}
