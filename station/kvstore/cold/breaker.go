package cold

import (
	"context"
	"errors"
	"sync"
	"syscall"
)

// tripAfter is how many failures in a row make a store failing.
const tripAfter = 3

// breaker watches one kind of call, reads or writes: a full disk still reads.
type breaker struct {
	mu       sync.Mutex
	row      int    // failures in a row
	reason   string // why it is open; "" when closed
	failures uint64 // of all time
}

// record notes how a call went. A call that its caller gave up says nothing. It tells
// whether this failure opened the breaker.
func (b *breaker) record(ctx context.Context, err error) (tripped bool) {
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
	if b.row++; b.row < tripAfter {
		return false
	}
	tripped = b.reason == ""
	b.reason = Sentence(err)
	return tripped
}

// open tells whether calls are refused, and why.
func (b *breaker) open() (reason string, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reason, b.reason != ""
}

func (b *breaker) count() uint64 {
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
