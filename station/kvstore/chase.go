package kvstore

import (
	"context"
	"errors"
	"maps"
	"slices"

	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// chase follows one prompt through the cold tier, on a goroutine of its own: whole
// blocks by their names, a window of them at once, then the tails of the last.
type chase struct {
	s      *Store
	at     *node   // the last block that is in RAM, pinned
	text   []int32 // tokens after it
	rest   []int32 // the first ones of text: those that are wanted
	gate   Gate
	found  chan struct{} // closed when the first block is in
	came   chan struct{} // buffered 1: another block is in
	done   chan struct{} // closed at the end
	reason wire.KVReason // valid after done: why it ended short; "" when the cold tier has no more

	pins    []*node            // of this goroutine
	brought map[*node]struct{} // guarded by s.mu
}

// mostTails bounds the tails that one prompt has read: of those that only a read
// can tell, most are of no use.
const mostTails = 4

// chase starts one; nil when there are too many.
func (s *Store) chase(at *node, text []int32, wanted int, g Gate) *chase {
	if s.chases >= maxChases {
		return nil
	}
	s.chases++
	c := &chase{s: s, at: at, text: slices.Clone(text), gate: g,
		found: make(chan struct{}), came: make(chan struct{}, 1), done: make(chan struct{}), brought: map[*node]struct{}{}}
	c.rest = c.text[:wanted]
	c.pin(at)
	s.wg.Go(c.run)
	return c
}

func (c *chase) pin(n *node) {
	c.s.pin(n)
	c.pins = append(c.pins, n)
}

func (c *chase) broughtNow() map[*node]struct{} { return maps.Clone(c.brought) }

func (c *chase) run() {
	at, rest, err := c.blocks()
	if err == nil || errors.Is(err, ErrNotFound) {
		err = c.tails(at, rest)
	}
	s := c.s
	s.mu.Lock()
	c.reason = reasonOf(err)
	s.chases--
	for i := len(c.pins) - 1; i >= 0; i-- {
		s.unpin(c.pins[i])
	}
	s.mu.Unlock()
	close(c.done)
}

// blocks brings the whole blocks, and says where it ended and what is left.
func (c *chase) blocks() (at *node, rest []int32, err error) {
	at, rest = c.at, c.rest
	n, window := len(rest)/block.Tokens, c.s.o.Readers
	var flights []*flight
	last := at
	for i := 0; i < n; i++ {
		for len(flights) < min(n, i+window) {
			from := len(flights) * block.Tokens
			var f *flight
			if f, last = c.block(last, c.rest[from:from+block.Tokens]); last == nil {
				n = len(flights) + 1 // what is before it is missing, or was deleted meanwhile
			}
			flights = append(flights, f)
		}
		f := flights[i]
		<-f.done
		err := f.err
		if err == nil {
			err = c.took(f)
		}
		switch {
		case err == nil:
			at, rest = f.node, rest[block.Tokens:]
		case errors.Is(err, errNoRoom) && window > 1:
			// Later blocks may have taken the room of this one: now one after another.
			for _, f := range flights[i:] {
				<-f.done
			}
			window, flights, last, n = 1, flights[:i], at, len(c.rest)/block.Tokens
			i--
		default:
			return at, rest, err
		}
	}
	return at, rest, nil
}

// took notes that a block is in, and pins it; errNoRoom when it had to go already.
func (c *chase) took(f *flight) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if f.node.gone {
		return errNoRoom
	}
	c.pin(f.node)
	if f.parent != nil { // else RAM had it
		c.brought[f.node] = struct{}{}
	}
	select {
	case <-c.found:
	default:
		close(c.found)
	}
	select {
	case c.came <- struct{}{}:
	default:
	}
	return nil
}

// block starts to read the child of parent that has these tokens, or joins a
// read of it. It gives the child's place too; nil when parent is gone.
func (c *chase) block(parent *node, tokens []int32) (*flight, *node) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if parent.gone {
		return ended(nil, ErrNotFound), nil
	}
	key := parent.key.Child(tokens)
	n := parent.kids[key]
	if n == nil {
		n = s.grow(parent, key, tokens)
	}
	if n.state == filled {
		return ended(n, nil), n
	}
	f := s.fly(parent, key, len(tokens), tokens, n)
	s.prune(n) // the store is closing: there is no flight to keep the place
	return f, n
}

// tails brings the children of at that may share more with rest than RAM has.
func (c *chase) tails(at *node, rest []int32) error {
	s := c.s
	s.mu.Lock()
	if at.gone {
		s.mu.Unlock()
		return nil
	}
	_, have := at.longest(rest)
	root, parent := at.root.top.key, at.key
	s.mu.Unlock()
	most := min(len(rest), block.Tokens)
	gain := most - have
	if gain <= 0 {
		return nil
	}
	if p := predict(s.cold, 1, int64(most)*int64(s.o.TokenBytes)); p.ok && !c.gate.plan(gain, true, p, p).pays {
		return nil
	}
	if whole, err := c.wholeEnd(at, most); whole || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, readTimeout)
	list, err := s.cold.Tails(ctx, root, parent)
	cancel()
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	var flights []*flight
	s.mu.Lock()
	text := func(k block.Key) []int32 { // of those that RAM has, or had once
		if n := at.kids[k]; n != nil {
			return n.tokens
		}
		return s.gone.text(k)
	}
	for _, t := range promising(list, parent, rest, have, mostTails, text) {
		if k := at.kids[t.Key]; !at.gone && (k == nil || k.state == hollow) {
			flights = append(flights, s.fly(at, t.Key, t.Tokens, nil, nil))
		}
	}
	s.mu.Unlock()
	err = nil
	for _, f := range flights {
		<-f.done
		switch {
		case f.err == nil:
			err = errors.Join(err, c.took(f))
		case !errors.Is(f.err, ErrNotFound):
			err = f.err
		}
	}
	return err
}

// wholeEnd brings the tail that ends where the prompt does: who asked the same
// before has left it, and its name is known.
func (c *chase) wholeEnd(at *node, most int) (bool, error) {
	end := c.text[at.end()-c.at.end():]
	if len(end) >= block.Tokens || len(end) < leastOwed || len(end) < most {
		return false, nil
	}
	s := c.s
	s.mu.Lock()
	if at.gone {
		s.mu.Unlock()
		return true, nil
	}
	f := s.fly(at, at.key.Child(end), len(end), end, nil)
	s.mu.Unlock()
	<-f.done
	if f.err == nil {
		return true, c.took(f)
	}
	if errors.Is(f.err, ErrNotFound) {
		return false, nil
	}
	return false, f.err
}

// promising picks the tails worth reading, of those that may share more than
// have tokens with rest: the one that is known to share most, by its key or because RAM
// had it once (text), and longer ones that only a read can tell.
func promising(list []Tail, parent block.Key, rest []int32, have, most int, text func(block.Key) []int32) []Tail {
	best, shared := -1, have
	for i, t := range list {
		n := 0
		if known := text(t.Key); known != nil {
			n = block.Common(known, rest)
		} else if t.Tokens > 0 && t.Tokens <= min(len(rest), block.Tokens) && parent.Child(rest[:t.Tokens]) == t.Key {
			n = t.Tokens
		}
		if n > shared {
			best, shared = i, n
		}
	}
	var l []Tail
	if best >= 0 {
		l = append(l, list[best])
	}
	if shared == min(len(rest), block.Tokens) {
		return l // nothing can be better
	}
	for i, t := range list {
		if i != best && t.Tokens > shared && t.Tokens <= block.Tokens && len(l) < most && text(t.Key) == nil {
			l = append(l, t)
		}
	}
	return l
}

// reasonOf is what a request is told about an error of the cold tier.
func reasonOf(err error) wire.KVReason {
	var fault *block.Fault
	switch {
	case err == nil, errors.Is(err, ErrNotFound):
		return ""
	case errors.As(err, &fault):
		return wire.KVDamaged
	case errors.Is(err, errNoRoom):
		return wire.KVNoRoom
	case errors.Is(err, context.Canceled):
		return wire.KVStoreSlow
	}
	return wire.KVStoreFails
}
