package bucket

import (
	"context"
	"errors"
	"sync"
	"syscall"
)

// TripAfter is how many failures in a row make a store failing.
const TripAfter = 3

// Breaker watches one kind of call, reads or writes: a full disk still reads.
type Breaker struct {
	mu       sync.Mutex
	row      int    // failures in a row
	reason   string // why it is open; "" when closed
	failures uint64 // of all time
}

// Record notes how a call went. A call that its caller gave up says nothing. It tells
// whether this failure opened the breaker.
func (b *Breaker) Record(ctx context.Context, err error) (tripped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.row, b.reason = 0, ""
		return false
	case ctx.Err() != nil:
		return false
	}
	b.failures++
	if b.row++; b.row < TripAfter {
		return false
	}
	tripped = b.reason == ""
	b.reason = Sentence(err)
	return tripped
}

// Open tells whether calls are refused, and why.
func (b *Breaker) Open() (reason string, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reason, b.reason != ""
}

// Count is how many calls have failed, of all time.
func (b *Breaker) Count() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures
}

// Sentence says of what kind a failure is. It holds no name of an object, so
// anyone may see it.
func Sentence(err error) string {
	var no syscall.Errno
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "the disk is full"
	case errors.Is(err, context.DeadlineExceeded):
		return "it does not answer in time"
	case errors.As(err, &no):
		return no.Error()
	}
	return "it answers with errors"
}
