package cold

import (
	"container/heap"
	"time"

	"thoth/station/kvstore/block"
)

// victim is a block chosen to be deleted.
type victim struct {
	block.Name
	entry
}

// evict takes out of the index the blocks that must go for the store to hold add
// more bytes within budget: oldest use first, leaves before their parents, and
// never keep's parents, for it would be nothing without them. ok is false, and
// nothing is taken, when that cannot be done.
func (x *index) evict(add, budget int64, keep block.Name) (gone []victim, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.makeRoom(add, budget, keep)
}

// reserve evicts for an object of add bytes that is then put, until release.
func (x *index) reserve(object string, add, budget int64, keep block.Name) (gone []victim, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if gone, ok = x.makeRoom(add, budget, keep); ok {
		x.reserved += add
		x.puts[object] = true
	}
	return gone, ok
}

// release ends a reserve; with landed, the block is there and counts from the same
// moment on, or another put would find it twice and evict too much.
func (x *index) release(object string, n block.Name, tokens int, size int64, at time.Time, landed bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reserved -= size
	x.puts[object] = false
	if landed {
		x.add(n, tokens, size, at)
	}
}

func (x *index) makeRoom(add, budget int64, keep block.Name) (gone []victim, ok bool) {
	must := x.bytes + x.reserved + x.strays + add - budget
	if must > 0 {
		want := must
		if slack := budget / 64; add > 0 && slack > add {
			want += slack // or, once full, each put would look at all blocks
		}
		var freed int64
		if gone, freed = oldest(x.roots, want, keep); freed < must {
			return nil, false
		}
		for _, v := range gone {
			x.take(v.Name)
		}
	}
	return gone, true
}

// restore puts back what could not be deleted.
func (x *index) restore(v victim) { x.see(v.Name, v.tokens, v.size, v.used) }

// oldest chooses blocks of at least want bytes, or all it may.
func oldest(roots map[block.Key]*tree, want int64, keep block.Name) (gone []victim, freed int64) {
	type at struct{ root, key block.Key }
	full := map[at]*node{}
	var nodes []*node
	for root, t := range roots {
		for p, e := range t.entries {
			n := &node{victim: victim{block.Name{Root: root, Parent: p.parent, Key: p.key}, *e}}
			nodes = append(nodes, n)
			if e.tokens == block.Tokens {
				full[at{root, p.key}] = n
			}
		}
	}
	for _, n := range nodes {
		if parent := full[at{n.Root, n.Parent}]; parent != nil {
			parent.children++
		}
	}
	for n := full[at{keep.Root, keep.Parent}]; n != nil && !n.kept; n = full[at{n.Root, n.Parent}] {
		n.kept = true
	}
	var q leaves
	for _, n := range nodes {
		if n.children == 0 && !n.kept {
			q = append(q, n)
		}
	}
	heap.Init(&q)
	for len(q) > 0 && freed < want {
		n := heap.Pop(&q).(*node)
		gone, freed = append(gone, n.victim), freed+n.size
		if parent := full[at{n.Root, n.Parent}]; parent != nil {
			if parent.children--; parent.children == 0 && !parent.kept {
				heap.Push(&q, parent)
			}
		}
	}
	return gone, freed
}

// node is a block in the order of eviction.
type node struct {
	victim
	children int
	kept     bool
}

// leaves is a heap of blocks without children, the longest unused first.
type leaves []*node

func (q leaves) Len() int           { return len(q) }
func (q leaves) Less(i, j int) bool { return q[i].used.Before(q[j].used) }
func (q leaves) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *leaves) Push(n any)        { *q = append(*q, n.(*node)) }
func (q *leaves) Pop() any {
	old := *q
	n := old[len(old)-1]
	*q = old[:len(old)-1]
	return n
}
