package stored

import "container/heap"

// share is what one scope has of the store.
type share struct {
	scope    [16]byte
	order    oldestFirst
	bytes    int64 // of those in order
	reserved int64 // of its puts under way
	at       int   // among all shares
}

// weight is what counts when room is needed: a share that has nothing to give counts not.
func (s *share) weight() int64 {
	if len(s.order) == 0 {
		return 0
	}
	return s.bytes + s.reserved
}

var (
	_ heap.Interface = (*mostFirst)(nil)
	_ heap.Interface = (*oldestFirst)(nil)
)

// mostFirst is a heap of shares, the largest first.
type mostFirst []*share

func (q mostFirst) Len() int           { return len(q) }
func (q mostFirst) Less(i, j int) bool { return q[i].weight() > q[j].weight() }
func (q mostFirst) Swap(i, j int)      { q[i], q[j] = q[j], q[i]; q[i].at, q[j].at = i, j }
func (q *mostFirst) Push(v any) {
	s := v.(*share)
	s.at = len(*q)
	*q = append(*q, s)
}
func (q *mostFirst) Pop() any { return pop((*[]*share)(q)) }

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
func (q *oldestFirst) Pop() any { return pop((*[]*entry)(q)) }

// pop takes the last out, and leaves nothing of it in the array behind.
func pop[T any](q *[]*T) *T {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}
