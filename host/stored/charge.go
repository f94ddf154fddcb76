package stored

import (
	"context"
	"sync"
)

// Charge is told the bytes of an object before they are read, so that whoever asked for
// it pays for the memory. Its error ends the reading, and is what the call returns; it
// says nothing about the bucket.
//
// It is called by one goroutine at a time, and never after the call it was given to
// has returned: it may change what belongs to the caller.
type Charge func(bytes int64) error

// tab calls a charge while its caller waits.
type tab struct {
	mu     sync.Mutex
	charge Charge // nil: for nothing, or no longer
	closed bool
}

// take is the Charge of what is read for the caller.
func (t *tab) take(bytes int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed: // a call that hung and was left behind
		return context.Canceled
	case t.charge == nil:
		return nil
	}
	if err := t.charge(bytes); err != nil {
		return &refused{err}
	}
	return nil
}

func (t *tab) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// refused is the error of a charge, and no failure of the bucket.
type refused struct{ err error }

func (r *refused) Error() string { return r.err.Error() }
