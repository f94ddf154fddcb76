package kvstore

import (
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"thoth/station/kvstore/block"
)

// state is what of a block is in RAM.
type state uint8

const (
	hollow   state = iota // nothing: a place in the tree, for what is below it or on its way from the cold tier
	reserved              // memory, its rows are not in yet: nobody but its Fill may see it
	filled                // the rows: readers may have it
)

// root is the tree of one scope and adapter set.
type root struct {
	scope Scope
	top   *node // no block: its children are the first ones
}

// node is a block's place in the tree. All fields are guarded by Store.mu, but
// mem's content: it is written by the Fill or the read that owns it, and never
// changes once the node is filled.
type node struct {
	root   *root
	parent *node // nil: the top of a root
	key    block.Key
	tokens []int32
	start  int // position of the first token

	state  state
	mem    []byte // a slab: longer than the block's data
	refs   int    // readers, writers, fills and flights: memory and place stay
	gone   bool   // no longer in the tree; the memory goes with the last ref
	cover  *node  // the longer sibling that took its place
	kids   map[block.Key]*node
	ready  []*node // filled children, by tokens
	tails  []*node // those of ready that are not full
	lruAt  int
	tick   uint64 // of the last use
	landed uint64 // tick at which it came from the cold tier; 0: it was computed here
	used   time.Time
	pinned bool
	until  time.Time // of the ttl; zero: none

	group, name string
	fills       []*Fill // of a reserved node: who may bring its rows
	mark        mark
	endAt       int
	filler      *Fill  // the one that is writing them
	hits, saved uint64 // loads that ended here, tokens they did not compute

	durable bool // the cold tier has it
	refused bool // the cold tier has no room for it, or for a parent: not written before it is saved anew
	writing bool
	urgent  bool // to be written before it is evicted
	deleted bool // on request: a write that ends later must be undone
	due     time.Time
	retry   *backoff.ExponentialBackOff
	writeAt int
	waitAt  int
}

func (n *node) end() int     { return n.start + len(n.tokens) }
func (n *node) full() bool   { return len(n.tokens) == block.Tokens }
func (n *node) isTop() bool  { return n.parent == nil }
func (n *node) isHeld() bool { return n.pinned || !n.until.IsZero() }
func (n *node) blockName() block.Name {
	return block.Name{Root: n.root.top.key, Parent: n.parent.key, Key: n.key}
}

// below lists the nodes below n, children before their parents.
func (n *node) below() (l []*node) {
	for _, k := range n.kids {
		l = k.belowAnd(l)
	}
	return l
}

func (n *node) belowAnd(l []*node) []*node {
	for _, k := range n.kids {
		l = k.belowAnd(l)
	}
	return append(l, n)
}

// rename computes the keys below n again, n being key.
func (n *node) rename(key block.Key) {
	n.key = key
	kids := make(map[block.Key]*node, len(n.kids))
	for _, k := range n.kids {
		k.rename(key.Child(k.tokens))
		kids[k.key] = k
	}
	n.kids = kids
}

// longest is the filled child of n that shares most tokens with rest, and how
// many: in sorted order it stands next to where rest would. With none that
// shares, it is some child, and 0; nil without children.
func (n *node) longest(rest []int32) (*node, int) {
	i, _ := n.place(rest)
	var best *node
	most := 0
	for _, j := range []int{i, i - 1} {
		if j < 0 || j >= len(n.ready) {
			continue
		}
		if c := block.Common(n.ready[j].tokens, rest); best == nil || c > most {
			best, most = n.ready[j], c
		}
	}
	return best, most
}

// covering is the filled child of n that goes on from tokens; nil for none. In
// sorted order it stands right after them.
func (n *node) covering(tokens []int32) *node {
	i, same := n.place(tokens)
	if same {
		i++
	}
	if i < len(n.ready) && block.Common(n.ready[i].tokens, tokens) == len(tokens) {
		return n.ready[i]
	}
	return nil
}

// place is where tokens stand or would stand in ready.
func (n *node) place(tokens []int32) (int, bool) {
	return slices.BinarySearchFunc(n.ready, tokens, func(k *node, t []int32) int { return slices.Compare(k.tokens, t) })
}

// rootOf is the root of a scope, made when it is not there. The caller pins or fills it.
func (s *Store) rootOf(sc Scope) *root {
	r := s.roots[sc]
	if r == nil {
		r = &root{scope: sc}
		r.top = &node{root: r, key: s.rootKey(sc), kids: map[block.Key]*node{}}
		s.roots[sc] = r
	}
	return r
}

// grow adds a hollow child to p. The caller pins or fills it.
func (s *Store) grow(p *node, key block.Key, tokens []int32) *node {
	n := &node{root: p.root, parent: p, key: key, tokens: slices.Clone(tokens), start: p.end()}
	if n.full() {
		n.kids = map[block.Key]*node{}
	}
	p.kids[key] = n
	s.settle(p)
	return n
}

// show makes the rows of n, which are in its memory, visible, unless a sibling
// covers it. Siblings that n covers go: a cut of n serves as well.
func (s *Store) show(n *node) {
	p := n.parent
	n.state = filled
	if by := p.covering(n.tokens); by != nil && !s.owed(n) {
		n.state = hollow
		s.replace(n, by)
		return
	}
	i, _ := p.place(n.tokens)
	p.ready = slices.Insert(p.ready, i, n)
	for _, t := range slices.Clone(p.tails) {
		switch {
		case t == n || block.Common(t.tokens, n.tokens) < len(t.tokens):
		case s.owed(t):
			t.due = s.o.Now()
			s.enqueue(t)
		case t.refs == 0:
			s.replace(t, n)
		}
	}
	if !n.full() {
		p.tails = append(p.tails, n)
		s.trimTails(p, n)
	}
	switch {
	case n.durable:
		s.written(n)
	case n.parent.refused:
		s.refuse(n)
	default:
		s.soil(n)
	}
	s.use(n)
	s.rank(n) // loads may have shared it in the pool already
}

// leastOwed is the least length of a tail that is written down though a longer
// sibling covers it: below it, computing is as good.
const leastOwed = 16

// owed says that a tail must stay until the cold tier has it, covered or not.
// There blocks are found by the name of their whole text only: the block that
// covers a prompt's end holds an answer too, and the next to ask the same cannot
// know its name.
func (s *Store) owed(n *node) bool {
	return s.cold != nil && n.state == filled && !n.full() && !n.durable && !n.refused && len(n.tokens) >= leastOwed && !s.failing
}

// replace drops n, whose rows are the first of by's, and hands on what it was kept for.
func (s *Store) replace(n, by *node) {
	n.cover = by
	by.hits += n.hits
	by.saved += n.saved
	if by.name == "" {
		by.name = n.name
	}
	s.rank(by)
	pinned, until := n.pinned, n.until
	s.remove(n)
	s.hold(by, pinned, until)
}

// trimTails keeps the number of tails below p: the least recently used goes.
func (s *Store) trimTails(p, fresh *node) {
	for len(p.tails) > s.o.Tails {
		var oldest *node
		for _, t := range p.tails {
			if t != fresh && t.refs == 0 && !t.isHeld() && (oldest == nil || t.tick < oldest.tick) {
				oldest = t
			}
		}
		if oldest == nil {
			return // all are read or held just now
		}
		s.evict(oldest)
	}
}

// remove takes n out of the tree; where it has children, a hollow node takes
// its place. Its memory goes with its last reader.
func (s *Store) remove(n *node) {
	p := n.parent
	s.unhold(n)
	s.clean(n)
	s.toWrite.drop(n)
	s.waiting.drop(n)
	s.calm(n)
	p.ready = without(p.ready, n)
	p.tails = without(p.tails, n)
	delete(p.kids, n.key)
	if len(n.kids) > 0 {
		h := s.grow(p, n.key, n.tokens)
		h.kids, h.ready, h.tails = n.kids, n.ready, n.tails
		for _, k := range h.kids {
			k.parent = h
			s.reckon(k)
		}
		n.kids, n.ready, n.tails = nil, nil, nil
	}
	n.gone = true
	s.settle(n)
	if n.refs == 0 {
		s.reclaim(n)
	}
	s.prune(p)
}

func (s *Store) pin(n *node) {
	n.refs++
	s.settle(n)
}

func (s *Store) unpin(n *node) {
	n.refs--
	switch {
	case n.gone && n.refs == 0:
		s.reclaim(n)
	case n.gone:
	case n.state == hollow:
		s.prune(n)
	default:
		s.settle(n)
		s.outlive(n)
	}
}

// outlive lets a tail go that only its reader kept.
func (s *Store) outlive(n *node) {
	if n.refs > 0 || n.state != filled || n.full() {
		return
	}
	if by := n.parent.covering(n.tokens); by != nil && !s.owed(n) {
		s.replace(n, by)
	} else {
		s.trimTails(n.parent, nil)
	}
}

// prune takes n, and then its parents, out of the tree while they are hollow and of no use.
func (s *Store) prune(n *node) {
	for n.state == hollow && len(n.kids) == 0 && n.refs == 0 {
		if n.isTop() {
			if s.roots[n.root.scope] == n.root {
				delete(s.roots, n.root.scope)
			}
			return
		}
		delete(n.parent.kids, n.key)
		n.gone = true
		n = n.parent
	}
	s.settle(n)
}

func (s *Store) reclaim(n *node) {
	if n.mem != nil {
		s.slabs.put(n.mem)
		n.mem = nil
		if s.closed {
			s.slabs.release()
		}
	}
}

// use notes that n was used now.
func (s *Store) use(n *node) {
	s.tick++
	n.tick = s.tick
	n.used = s.o.Now()
	s.settle(n)
	if s.ends.has(n) {
		s.rank(n)
	}
}

// data is the rows of a block.
func (s *Store) data(n *node) []byte { return n.mem[:len(n.tokens)*s.o.TokenBytes] }

func without(l []*node, n *node) []*node {
	if i := slices.Index(l, n); i >= 0 {
		return slices.Delete(l, i, i+1)
	}
	return l
}
