package cold

import (
	"strings"
	"sync"
	"time"

	"thoth/internal/bucket"
	"thoth/station/kvstore/block"
)

// index is what the store was last seen to hold: from the sweeps, from listings,
// and from what was put here. It is never trusted for a block's being there, only for
// sizes, ages and the names of tails.
type index struct {
	mu       sync.Mutex
	roots    map[block.Key]*tree
	bytes    int64 // of all blocks
	blocks   int
	strays   int64               // bytes of temporary and foreign files, by the last sweep
	reserved int64               // bytes of puts under way
	puts     map[string]bool     // objects put during the current sweep, and whether still under way
	gone     map[block.Name]bool // blocks removed during the current sweep, and whether their objects still are to be
	sweep    uint64              // the current one
	swept    uint64              // the last that came to its end
}

// tree is the blocks of one root.
type tree struct {
	entries map[place]*entry
	bytes   int64
	usable  int64 // of blocks with all their parents; below 0: to be counted
}

// place is where a block is below its root. Its key alone would do, were it not
// for objects in wrong places.
type place struct{ parent, key block.Key }

type entry struct {
	size   int64
	tokens int
	used   time.Time
	fresh  bool   // used here since the store was last told
	seen   uint64 // the sweep it was last seen in
}

func newIndex() *index {
	return &index{roots: map[block.Key]*tree{}, puts: map[string]bool{}, gone: map[block.Name]bool{}}
}

// see notes a block that is there. Its time is the later one of the object's and our own.
func (x *index) see(n block.Name, tokens int, size int64, at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(n, tokens, size, at)
}

func (x *index) add(n block.Name, tokens int, size int64, at time.Time) {
	delete(x.gone, n)
	t := x.roots[n.Root]
	if t == nil {
		t = &tree{entries: map[place]*entry{}}
		x.roots[n.Root] = t
	}
	p := place{n.Parent, n.Key}
	e := t.entries[p]
	if e == nil {
		e = &entry{}
		t.entries[p] = e
		x.blocks++
	}
	x.bytes += size - e.size
	t.bytes += size - e.size
	t.usable = -1
	e.size, e.tokens, e.seen = size, tokens, x.sweep
	if at.After(e.used) {
		e.used = at
	}
}

// met notes a block that a sweep has met, unless it was deleted since the listing
// named it, or has just landed and is still reserved for.
func (x *index) met(n block.Name, tokens int, o bucket.Object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, gone := x.gone[n]; !gone && !x.puts[o.Name] {
		x.add(n, tokens, o.Size, o.Time)
	}
}

// touch notes a use.
func (x *index) touch(n block.Name, at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.find(n); e != nil && at.After(e.used) {
		e.used, e.fresh = at, true
	}
}

func (x *index) has(n block.Name) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.find(n) != nil
}

// tokens is the length of a block, as far as it is known; else a full one's.
func (x *index) tokens(n block.Name) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.find(n); e != nil {
		return e.tokens
	}
	return block.Tokens
}

func (x *index) find(n block.Name) *entry {
	if t := x.roots[n.Root]; t != nil {
		return t.entries[place{n.Parent, n.Key}]
	}
	return nil
}

// take removes a block whose object is then deleted, until deleted or restore.
func (x *index) take(n block.Name) {
	x.remove(n)
	x.gone[n] = true
}

// deleted ends a take.
func (x *index) deleted(n block.Name) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone[n] {
		x.gone[n] = false
	}
}

// forget notes that a block is gone.
func (x *index) forget(n block.Name) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(n)
}

func (x *index) remove(n block.Name) {
	t := x.roots[n.Root]
	if t == nil {
		return
	}
	p := place{n.Parent, n.Key}
	e := t.entries[p]
	if e == nil {
		return
	}
	delete(t.entries, p)
	x.gone[n] = false
	x.blocks--
	x.bytes -= e.size
	t.bytes -= e.size
	t.usable = -1
	if len(t.entries) == 0 {
		delete(x.roots, n.Root)
	}
}

// settle ends a sweep that began with begin: what it did not see is gone.
func (x *index) settle(strays int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.strays, x.swept = strays, x.sweep
	for root, t := range x.roots {
		for p, e := range t.entries {
			if e.seen < x.sweep {
				x.remove(block.Name{Root: root, Parent: p.parent, Key: p.key})
			}
		}
	}
}

// begin starts a sweep. What is put meanwhile counts as seen.
func (x *index) begin() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sweep++
	for n, underWay := range x.gone {
		if !underWay {
			delete(x.gone, n)
		}
	}
	for name, underWay := range x.puts {
		if !underWay {
			delete(x.puts, name)
		}
	}
}

// ours tells whether a file that the current sweep met is the temporary one of a put of
// ours: it is reserved for, or has its name by now, and must not count twice.
func (x *index) ours(file string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	object, _, temporary := strings.Cut(file, ".")
	_, put := x.puts[object]
	return temporary && put
}

// uses gives the blocks used here since the last call.
func (x *index) uses() (used []victim) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for root, t := range x.roots {
		for p, e := range t.entries {
			if e.fresh {
				e.fresh = false
				used = append(used, victim{block.Name{Root: root, Parent: p.parent, Key: p.key}, *e})
			}
		}
	}
	return used
}

// orphans takes the blocks not used since before whose parents are not all there.
func (x *index) orphans(before time.Time) (gone []victim) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for root, t := range x.roots {
		whole := t.whole(root)
		for p, e := range t.entries {
			if !whole(p.parent) && e.used.Before(before) {
				gone = append(gone, victim{block.Name{Root: root, Parent: p.parent, Key: p.key}, *e})
			}
		}
	}
	for _, v := range gone {
		x.take(v.Name)
	}
	return gone
}

// usable is the bytes of blocks with all their parents, of the roots that match.
func (x *index) usable(match func(root block.Key) bool) (bytes int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for root, t := range x.roots {
		if !match(root) {
			continue
		}
		if t.usable < 0 {
			t.usable = 0
			whole := t.whole(root)
			for p, e := range t.entries {
				if whole(p.parent) {
					t.usable += e.size
				}
			}
		}
		bytes += t.usable
	}
	return bytes
}

// whole gives a function that tells whether a key is the root, or a full block's
// whose parents are all there.
func (t *tree) whole(root block.Key) func(block.Key) bool {
	parent := map[block.Key]block.Key{}
	for p, e := range t.entries {
		if e.tokens == block.Tokens {
			parent[p.key] = p.parent
		}
	}
	known := map[block.Key]bool{root: true}
	return func(k block.Key) bool {
		var path []block.Key
		result := false
		for {
			if r, ok := known[k]; ok {
				result = r
				break
			}
			known[k] = false // also what a ring of forged names comes to
			path = append(path, k)
			up, ok := parent[k]
			if !ok {
				break
			}
			k = up
		}
		for _, k := range path {
			known[k] = result
		}
		return result
	}
}
