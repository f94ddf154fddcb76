package stored

import (
	"container/heap"
	"sync"
	"time"
)

// diskBlock is what the smallest file takes of a disk. Counting it also bounds how many
// records there can be, and so the index.
const diskBlock = 4 << 10

// cost is what an object of so many bytes takes of the budget.
func cost(size int64) int64 { return (size + diskBlock - 1) / diskBlock * diskBlock }

// index is what the bucket was last seen to hold, by scope and in the order of last use.
type index struct {
	mu       sync.Mutex
	entries  map[name]*entry
	shares   map[[16]byte]*share // of the scopes
	most     mostFirst           // all shares
	bytes    int64               // of all entries, as the budget counts them
	reserved int64               // of puts under way
	sweep    uint64
	sweeping bool
	gone     map[name]bool // removed during the current sweep, which may have listed them before
}

type entry struct {
	name     name
	bytes    int64
	used     time.Time
	told     time.Time // the use that the bucket was last told of
	born     time.Time // when its record was created; zero: not known
	previous string    // of its record
	linked   bool      // previous is known
	seen     uint64    // the sweep it was last seen in
	at       int       // in the order of its share
}

func newIndex() *index {
	return &index{entries: map[name]*entry{}, shares: map[[16]byte]*share{}, gone: map[name]bool{}}
}

// see notes an object that is there. Its use is the later of used and what is known.
func (x *index) see(n name, bytes int64, used, born time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(n, bytes, used, born)
}

func (x *index) add(n name, bytes int64, used, born time.Time) {
	delete(x.gone, n)
	e := x.entries[n]
	if e == nil {
		e = &entry{name: n, used: used}
		x.entries[n] = e
		heap.Push(&x.share(n).order, e)
	}
	of := x.share(n)
	x.bytes += bytes - e.bytes
	of.bytes += bytes - e.bytes
	e.bytes, e.seen = bytes, x.sweep
	if used.After(e.used) {
		e.used = used
		heap.Fix(&of.order, e.at)
	}
	x.weigh(of)
	if !born.IsZero() {
		e.born = born
	}
}

// met notes an object that a sweep was told of, unless it was removed since. It tells
// whether it is known when its record was created.
func (x *index) met(n name, bytes int64, used time.Time) (known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone[n] {
		return true
	}
	x.add(n, bytes, used, time.Time{})
	return !x.entries[n].born.IsZero()
}

// read notes a record that was read.
func (x *index) read(n name, bytes int64, r *Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(n, bytes, time.Now(), r.Created)
	x.link(n, r.Previous)
}

func (x *index) link(n name, previous string) {
	e := x.entries[n]
	e.previous, e.linked = previous, true
}

// previous is the record that one goes on from, where that is known.
func (x *index) previous(n name) (id string, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.entries[n]; e != nil {
		return e.previous, e.linked
	}
	return "", false
}

// tell decides whether the bucket is to be told of a use: once in a while will do.
func (x *index) tell(n name, at time.Time, every time.Duration) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.entries[n]
	if e == nil || at.Sub(e.told) < every {
		return false
	}
	e.told = at
	return true
}

// remove notes that an object is gone.
func (x *index) remove(n name) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.take(n)
}

func (x *index) take(n name) {
	if x.sweeping {
		x.gone[n] = true
	}
	if e := x.entries[n]; e != nil {
		delete(x.entries, n)
		of := x.share(n)
		heap.Remove(&of.order, e.at)
		x.bytes -= e.bytes
		of.bytes -= e.bytes
		x.weigh(of)
	}
}

// restore puts back what could not be deleted.
func (x *index) restore(e *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(e.name, e.bytes, e.used, e.born)
}

// reserve makes room for an object that is then put, until release: it takes out some,
// to be deleted. ok is false, and nothing is taken, when all others together are not
// enough.
func (x *index) reserve(n name, bytes, budget int64) (victims []*entry, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reserved+bytes > budget {
		return nil, false
	}
	of := x.share(n)
	of.reserved += bytes
	x.weigh(of)
	victims = x.evict(x.bytes+x.reserved+bytes-budget, &n)
	x.reserved += bytes
	return victims, true
}

// release ends a reserve; a record that landed is there from the same moment on, or another
// put would find it twice and evict too much.
func (x *index) release(n name, bytes int64, landed *Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	of := x.share(n)
	x.reserved -= bytes
	of.reserved -= bytes
	if landed != nil {
		x.add(n, bytes, time.Now(), landed.Created)
		x.link(n, landed.Previous)
	}
	x.weigh(of)
}

// over takes out what the budget does not hold.
func (x *index) over(budget int64) []*entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.evict(x.bytes+x.reserved-budget, nil)
}

// evict takes out the longest unused of the scope that has the most, again and again: a
// key that stores much loses its own, and not the conversations of the others. An entry
// that is about to be replaced makes room by itself, and stays until then.
func (x *index) evict(need int64, replaced *name) (victims []*entry) {
	var kept *entry
	if replaced != nil && need > 0 {
		if kept = x.entries[*replaced]; kept != nil {
			of := x.share(kept.name)
			heap.Remove(&of.order, kept.at)
			of.bytes -= kept.bytes
			x.weigh(of)
			need -= kept.bytes
			defer func() {
				of := x.share(kept.name)
				heap.Push(&of.order, kept)
				of.bytes += kept.bytes
				x.weigh(of)
			}()
		}
	}
	for need > 0 && len(x.most) > 0 && len(x.most[0].order) > 0 {
		e := x.most[0].order[0]
		need -= e.bytes
		x.take(e.name)
		victims = append(victims, e)
	}
	return victims
}

// share is what a scope has, made where it has none yet. Whoever changes it weighs it.
func (x *index) share(n name) *share {
	of := x.shares[n.scope]
	if of == nil {
		of = &share{scope: n.scope}
		x.shares[n.scope] = of
		heap.Push(&x.most, of)
	}
	return of
}

// weigh puts a share where it belongs after it has changed.
func (x *index) weigh(of *share) {
	if len(of.order) == 0 && of.reserved == 0 {
		delete(x.shares, of.scope)
		heap.Remove(&x.most, of.at)
		return
	}
	heap.Fix(&x.most, of.at)
}

// expired takes out the records created before.
func (x *index) expired(before time.Time) (victims []*entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.entries {
		if !e.born.IsZero() && e.born.Before(before) {
			victims = append(victims, e)
		}
	}
	for _, e := range victims {
		x.take(e.name)
	}
	return victims
}

// begin starts a sweep. What is put meanwhile counts as seen.
func (x *index) begin() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sweep++
	x.sweeping = true
}

// end ends a sweep; one that came to its end knows that what it did not see is gone.
func (x *index) end(whole bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sweeping = false
	clear(x.gone)
	if !whole {
		return
	}
	for n, e := range x.entries {
		if e.seen < x.sweep {
			x.take(n)
		}
	}
}

func (x *index) sums() (records int, bytes int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.entries), x.bytes
}
