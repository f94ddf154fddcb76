package kvstore

import (
	"fmt"
	"slices"
	"time"

	"thoth/station/kvstore/block"
)

// SaveOptions label and hold what is saved.
type SaveOptions struct {
	Group  string        // a label for Delete; of blocks that are new
	Name   string        // shown in Index
	TTL    time.Duration // not evicted before, as far as HeldShare allows
	Pin    bool          // not evicted at all, as far as HeldShare allows
	HoldTo int           // TTL and Pin reach to this length; 0: to the end
	Owner  any           // whose rows they are; a block that this one has a Fill of gets no second one. nil: nobody's
}

// Capture is what Reserve did.
type Capture struct {
	Tokens int     // positions stored or reserved, from 0: all of them if they fit
	Reason string  // one sentence, when Tokens is less, or when pin or ttl could not be granted
	New    int     // positions newly reserved
	Bytes  int64   // of these
	Fills  []*Fill // by position; also of blocks that another capture has reserved and may yet drop

	s     *Store
	nodes []*node
}

// Reserve makes room for the blocks of tokens that are neither stored nor
// reserved, and returns them to be filled. It evicts what it must first; what
// does not fit is left out. What another capture has reserved is promised twice: the
// block comes if either brings it.
func (s *Store) Reserve(sc Scope, tokens []int32, o SaveOptions) *Capture {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Capture{s: s}
	if len(tokens) == 0 {
		return c
	}
	if c.Reason = s.off(); c.Reason != "" {
		return c
	}
	var until time.Time
	if o.TTL > 0 {
		until = s.o.Now().Add(o.TTL)
	}
	at := s.rootOf(sc).top
	pinned := []*node{at} // making room for the next block must not take the last one
	s.pin(at)
	for c.Tokens < len(tokens) {
		n, err := s.place(at, tokens[c.Tokens:min(len(tokens), c.Tokens+block.Tokens)], o, c)
		if err != nil {
			c.Reason = fmt.Sprintf("%d of %d tokens are stored: %v", c.Tokens, len(tokens), err)
			break
		}
		s.pin(n)
		pinned = append(pinned, n)
		c.nodes = append(c.nodes, n)
		if (o.HoldTo <= 0 || n.start < o.HoldTo) && !s.hold(n, o.Pin, until) {
			c.Reason = fmt.Sprintf("pin or ttl reaches to token %d only: no more than %.0f %% of the memory for stored KV may be held", n.start, 100*s.o.HeldShare)
			o.Pin, until = false, time.Time{}
		}
		c.Tokens = min(len(tokens), n.end())
		at = n
	}
	if o.Name != "" && c.Tokens == len(tokens) {
		at.name = o.Name
		s.rank(at)
	}
	for i := len(pinned) - 1; i >= 0; i-- {
		s.unpin(pinned[i])
	}
	return c
}

// promisedShare is the part of the budget, one in so many, that may be reserved and not
// yet filled before Crowded says so.
const promisedShare = 4

// Crowded tells whether to fill what is reserved before so many bytes more are: a
// reserve would have to evict, what is reserved cannot go, and it would be a large part
// of the budget, at whose cost all the rest went.
func (s *Store) Crowded(more int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slabs.budget-s.slabs.used >= more {
		return false
	}
	reserved := int64(s.sums.pending) * s.slabs.size(block.Tokens)
	return reserved > 0 && reserved+more > s.slabs.budget/promisedShare
}

// place finds the child of at that has these tokens, or makes it. A sibling that
// goes on from a tail has its rows too.
func (s *Store) place(at *node, tokens []int32, o SaveOptions, c *Capture) (*node, error) {
	key := at.key.Child(tokens)
	n := at.kids[key]
	switch {
	case n != nil && !slices.Equal(n.tokens, tokens):
		return nil, fmt.Errorf("block %s has other tokens", key)
	case n != nil && n.state == filled:
		s.use(n)
		s.retry(n)
		return n, nil
	case n != nil && n.state == reserved:
		if o.Owner == nil || !slices.ContainsFunc(n.fills, func(f *Fill) bool { return f.owner == o.Owner }) {
			s.fill(n, o.Owner, c).shared = true
		}
		return n, nil
	case len(tokens) < block.Tokens:
		if by := at.covering(tokens); by != nil {
			s.use(by)
			s.retry(by)
			return by, nil
		}
	}
	mem, err := s.alloc(len(tokens))
	if err != nil {
		return nil, err
	}
	if n = at.kids[key]; n == nil { // making room may have pruned a hollow one
		n = s.grow(at, key, tokens)
	}
	n.state, n.mem, n.group, n.durable = reserved, mem, o.Group, false
	s.fill(n, o.Owner, c)
	c.New += len(tokens)
	c.Bytes += int64(len(tokens)) * int64(s.o.TokenBytes)
	return n, nil
}

// Durable says that every block of the capture is in the cold tier.
func (c *Capture) Durable() bool {
	if c.s == nil || len(c.nodes) == 0 {
		return false
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for _, n := range c.nodes {
		for n.cover != nil {
			n = n.cover
		}
		if !n.durable {
			return false
		}
	}
	return true
}
