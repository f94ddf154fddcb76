package host

import (
	"container/list"
	"math"
	"sync"
)

// admission bounds the answers in flight and the requests that wait, first in
// first out.
//
// Invariants: inFlight is the weight of the granted tickets and at most
// capacity; nobody waits while the first in line would fit; a ticket counts in
// one of both until it is left, and a ticket left while waiting is never
// granted afterwards.
type admission struct {
	capacity int
	backlog  int

	mu struct {
		sync.Mutex
		inFlight int
		waiting  list.List // of *ticket
	}
}

// ticket is one request's place.
type ticket struct {
	a      *admission
	weight int
	ready  chan struct{} // closed when granted

	// Guarded by a.mu.
	element *list.Element // while waiting
	granted bool
}

func newAdmission(capacity, backlog int) *admission {
	a := &admission{capacity: capacity, backlog: backlog}
	a.mu.waiting.Init()
	return a
}

// enter asks for a place of some weight; nil when the backlog is full. The
// ticket must be left, granted or not.
func (a *admission) enter(weight int) *ticket { return a.queue(weight, a.backlog) }

// join is enter for one of those whose number is bounded elsewhere.
func (a *admission) join(weight int) *ticket { return a.queue(weight, math.MaxInt) }

func (a *admission) queue(weight, backlog int) *ticket {
	// A request wider than the whole runs alone rather than never.
	t := &ticket{a: a, weight: min(weight, a.capacity), ready: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.waiting.Len() == 0 && a.mu.inFlight+t.weight <= a.capacity {
		a.grant(t)
		return t
	}
	if a.mu.waiting.Len() >= backlog {
		return nil
	}
	t.element = a.mu.waiting.PushBack(t)
	return t
}

// leave gives the place back, or up.
func (t *ticket) leave() {
	a := t.a
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case t.granted:
		t.granted = false
		a.mu.inFlight -= t.weight
	case t.element != nil:
		a.mu.waiting.Remove(t.element)
		t.element = nil
	default:
		return // left before
	}
	for {
		first := a.mu.waiting.Front()
		if first == nil {
			return
		}
		next := first.Value.(*ticket)
		if a.mu.inFlight+next.weight > a.capacity {
			return
		}
		a.mu.waiting.Remove(first)
		next.element = nil
		a.grant(next)
	}
}

// grant is called with mu held.
func (a *admission) grant(t *ticket) {
	a.mu.inFlight += t.weight
	t.granted = true
	close(t.ready)
}

// counts gives the weight in flight and the number of requests waiting.
func (a *admission) counts() (inFlight, waiting int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.inFlight, a.mu.waiting.Len()
}
