package stored

import (
	"context"
	"sync"
	"sync/atomic"
)

const (
	// mostCalls bounds the calls that run at once, those that an operating system
	// does not give back included.
	mostCalls = 64
	// parallel is how many objects are read or deleted at once.
	parallel = 8
)

// call gives f the time of one call.
func call[T any](ctx context.Context, s *Store, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	return run(ctx, s, f)
}

// run gives f until ctx ends. Where the operating system hangs in a file call, f does not
// hear of that end: it is left behind then, with its place, until it comes back.
func run[T any](ctx context.Context, s *Store, f func(context.Context) (T, error)) (none T, err error) {
	if err := ctx.Err(); err != nil {
		return none, err // not every driver looks
	}
	select {
	case s.calls <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-s.calls }() // Close waits for all places
		v, err := f(ctx)
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-done: // both, and it is done
		return r.v, r.err
	default:
		return none, ctx.Err()
	}
}

// each runs f over a list, a few at a time, and gives the first error; it goes to
// the end all the same.
func each[T any](list []T, f func(T) error) (first error) {
	var (
		next  atomic.Int64
		once  sync.Once
		group sync.WaitGroup
	)
	for range min(parallel, len(list)) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(list); i = int(next.Add(1)) - 1 {
				if err := f(list[i]); err != nil {
					once.Do(func() { first = err })
				}
			}
		})
	}
	group.Wait()
	return first
}
