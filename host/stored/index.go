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

// index is what the bucket was last seen to hold, in the order of last use.
type index struct {
	mu       sync.Mutex
	entries  map[name]*entry
	order    oldestFirst
	bytes    int64 // of all entries, as the budget counts them
	reserved int64 // of puts under way
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
	at       int       // in order
}

func newIndex() *index { return &index{entries: map[name]*entry{}, gone: map[name]bool{}} }

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
		heap.Push(&x.order, e)
	}
	x.bytes += bytes - e.bytes
	e.bytes, e.seen = bytes, x.sweep
	if used.After(e.used) {
		e.used = used
		heap.Fix(&x.order, e.at)
	}
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
		heap.Remove(&x.order, e.at)
		x.bytes -= e.bytes
	}
}

// restore puts back what could not be deleted.
func (x *index) restore(e *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(e.name, e.bytes, e.used, e.born)
}

// reserve makes room for an object that is then put, until release: it takes out those
// unused the longest, to be deleted. ok is false, and nothing is taken, when all
// others together are not enough.
func (x *index) reserve(n name, bytes, budget int64) (victims []*entry, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reserved+bytes > budget {
		return nil, false
	}
	victims = x.evict(x.bytes+x.reserved+bytes-budget, &n)
	x.reserved += bytes
	return victims, true
}

// release ends a reserve; a record that landed is there from the same moment on, or another
// put would find it twice and evict too much.
func (x *index) release(n name, bytes int64, landed *Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reserved -= bytes
	if landed != nil {
		x.add(n, bytes, time.Now(), landed.Created)
		x.link(n, landed.Previous)
	}
}

// over takes out what the budget does not hold.
func (x *index) over(budget int64) []*entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.evict(x.bytes+x.reserved-budget, nil)
}

func (x *index) evict(need int64, keep *name) (victims []*entry) {
	var kept *entry
	for need > 0 && len(x.order) > 0 {
		e := x.order[0]
		if keep != nil && e.name == *keep { // it is about to be replaced
			kept = heap.Pop(&x.order).(*entry)
			need -= e.bytes
			continue
		}
		need -= e.bytes
		x.take(e.name)
		victims = append(victims, e)
	}
	if kept != nil {
		heap.Push(&x.order, kept)
	}
	return victims
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

// oldestFirst is a heap of entries, the longest unused first.
type oldestFirst []*entry

func (q oldestFirst) Len() int { return len(q) }
func (q oldestFirst) Less(i, j int) bool {
	if !q[i].used.Equal(q[j].used) {
		return q[i].used.Before(q[j].used)
	}
	return q[i].born.Before(q[j].born)
}
func (q oldestFirst) Swap(i, j int) { q[i], q[j] = q[j], q[i]; q[i].at, q[j].at = i, j }
func (q *oldestFirst) Push(v any) {
	e := v.(*entry)
	e.at = len(*q)
	*q = append(*q, e)
}
func (q *oldestFirst) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return e
}
