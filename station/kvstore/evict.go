package kvstore

import (
	"errors"
	"time"

	"thoth/station/wire"
)

// errNoRoom: all of the budget is held by readers, by pins or by what is on its way.
var errNoRoom = errors.New("the memory for stored KV is all in use now")

// usedBefore orders what may go: blocks under a ttl after all others, then the
// least recently used first.
func usedBefore(a, b *node) bool {
	if a.isHeld() != b.isHeld() {
		return !a.isHeld()
	}
	return a.tick < b.tick
}

// alloc gives memory for so many positions, evicting what it must.
func (s *Store) alloc(positions int) ([]byte, error) {
	size := s.slabs.size(positions)
	if size > s.slabs.budget {
		return nil, errNoRoom // before anything is evicted in vain
	}
	for {
		m, err := s.slabs.take(size)
		if !errors.Is(err, errFull) {
			return m, err
		}
		if !s.evictOne() {
			return nil, errNoRoom
		}
	}
}

// evictOne takes the block that is worth least out of RAM. One that only RAM has
// goes to a writer first, where one is idle; it stays then, and another goes.
func (s *Store) evictOne() bool {
	s.expire()
	for {
		n := s.lru.first()
		if n == nil {
			return false
		}
		if !s.rush(n) {
			s.evict(n)
			return true
		}
	}
}

// evict takes n out of RAM, whoever reads it.
func (s *Store) evict(n *node) {
	s.counts.evictions++
	if !n.durable && !n.refused && s.cold != nil { // a refused one is counted already
		s.counts.drops["unwritten"]++
	}
	s.forget(n, wire.KVEvicted)
	s.remove(n)
}

// settle puts n where it belongs after a change: among what may go, or not.
func (s *Store) settle(n *node) {
	s.reckon(n)
	if n.state == filled && !n.gone && n.refs == 0 && len(n.kids) == 0 && !n.pinned && !n.urgent {
		s.lru.set(n)
	} else {
		s.lru.drop(n)
	}
}

// hold keeps n from eviction: for good, or until a time. It is false when pins
// and ttls hold their share already.
func (s *Store) hold(n *node, pinned bool, until time.Time) bool {
	if !pinned && until.IsZero() {
		return true
	}
	s.expire()
	if !n.isHeld() {
		size := s.slabs.size(len(n.tokens))
		if float64(s.heldBytes+size) > s.o.HeldShare*float64(s.slabs.budget) {
			return false
		}
		s.heldBytes += size
		s.held[n] = struct{}{}
	}
	n.pinned = n.pinned || pinned
	if until.After(n.until) {
		n.until = until
		if s.expiry.IsZero() || until.Before(s.expiry) {
			s.expiry = until
		}
	}
	s.settle(n)
	return true
}

func (s *Store) unhold(n *node) {
	if !n.isHeld() {
		return
	}
	delete(s.held, n)
	s.heldBytes -= s.slabs.size(len(n.tokens))
	n.pinned, n.until = false, time.Time{}
	s.settle(n)
}

// expire ends the ttls whose time has come.
func (s *Store) expire() {
	now := s.o.Now()
	if s.expiry.IsZero() || now.Before(s.expiry) {
		return
	}
	s.expiry = time.Time{}
	for n := range s.held {
		switch {
		case n.until.IsZero():
		case !n.until.After(now) && n.pinned:
			n.until = time.Time{}
		case !n.until.After(now):
			s.unhold(n)
		case s.expiry.IsZero() || n.until.Before(s.expiry):
			s.expiry = n.until
		}
	}
}
