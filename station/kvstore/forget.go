package kvstore

import (
	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// goneKeys is how many blocks that went are remembered, so that a short match can be explained.
const goneKeys = 8192

// gone remembers the blocks that went lately, and why. It is a ring: the
// oldest is overwritten.
type gone struct {
	ring    []lost
	next    int
	by      map[block.Key]int // place in ring
	parents map[block.Key]lengths
}

// lost is a block that went.
type lost struct {
	key, parent block.Key
	tokens      int
	text        []int32 // the tokens; nil when they are not known
	reason      wire.KVReason
	durable     bool // the cold tier had it
}

// lengths tells how long the children of one parent were that went: bit n-1 for
// n tokens. So only those keys need be computed to find them.
type lengths struct {
	count int
	bits  uint64
}

func newGone(size int) gone {
	return gone{ring: make([]lost, 0, size), by: map[block.Key]int{}, parents: map[block.Key]lengths{}}
}

func (g *gone) add(l lost) {
	if i, ok := g.by[l.key]; ok && g.ring[i].parent == l.parent {
		g.ring[i] = l
		return
	}
	i := g.next
	g.next = (g.next + 1) % cap(g.ring)
	if i < len(g.ring) {
		old := g.ring[i]
		if g.by[old.key] == i {
			delete(g.by, old.key)
		}
		if p := g.parents[old.parent]; p.count > 1 {
			g.parents[old.parent] = lengths{p.count - 1, p.bits}
		} else {
			delete(g.parents, old.parent)
		}
		g.ring[i] = l
	} else {
		g.ring = append(g.ring, l)
	}
	g.by[l.key] = i
	p := g.parents[l.parent]
	g.parents[l.parent] = lengths{p.count + 1, p.bits | 1<<(l.tokens-1)}
}

// find gives the longest block that went and that rest, which follows parent,
// begins with; of more than so many tokens.
func (g *gone) find(parent block.Key, rest []int32, more int) (lost, bool) {
	bits := g.parents[parent].bits
	for n := min(len(rest), block.Tokens); n > more && bits != 0; n-- {
		if bits&(1<<(n-1)) == 0 {
			continue
		}
		if i, ok := g.by[parent.Child(rest[:n])]; ok {
			return g.ring[i], true
		}
	}
	return lost{}, false
}

// text is the tokens of a block that went; nil when they are not known.
func (g *gone) text(key block.Key) []int32 {
	if i, ok := g.by[key]; ok {
		return g.ring[i].text
	}
	return nil
}

// forget remembers that n went. It must still have its place.
func (s *Store) forget(n *node, why wire.KVReason) {
	l := lost{key: n.key, parent: n.parent.key, tokens: len(n.tokens), text: n.tokens, reason: why, durable: n.durable}
	if why == wire.KVExpired {
		l.text = nil // deleted on request: no copy of the tokens stays
	}
	s.gone.add(l)
}
