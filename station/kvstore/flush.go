package kvstore

import (
	"context"
	"slices"
	"sync"

	"thoth/station/wire"
)

// Flush writes down all that only RAM has, most valuable first, until ctx ends.
// Each block is tried once. Blocks that come later are not its own.
func (s *Store) Flush(ctx context.Context) wire.KVFlushResponse {
	s.mu.Lock()
	left := make([]*node, 0, len(s.dirty))
	for n := range s.dirty {
		left = append(left, n)
		s.pin(n) // until it is written, nothing pushes it out
	}
	slices.SortFunc(left, func(a, b *node) int {
		switch {
		case writtenBefore(a, b):
			return -1
		case writtenBefore(b, a):
			return 1
		}
		return 0
	})
	able := s.cold != nil && s.named && !s.closed
	s.mu.Unlock()
	if able {
		s.writeAll(ctx, left)
	}

	var r wire.KVFlushResponse
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range left {
		switch {
		case n.durable:
			r.Kept++
			r.Bytes += int64(len(n.tokens)) * int64(s.o.TokenBytes)
		case !n.gone: // else deleted, or covered by a longer one
			r.Lost++
		}
		s.unpin(n)
	}
	return r
}

// writeAll writes blocks in their order, a few at once, beside the writers: these
// may sleep after a failure, or hang.
func (s *Store) writeAll(ctx context.Context, nodes []*node) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	i := 0
	for range s.o.Writers {
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				if i == len(nodes) {
					mu.Unlock()
					return
				}
				n := nodes[i]
				i++
				s.mu.Lock()
				ok := s.writable(n)
				if ok {
					s.begin(n)
				}
				s.mu.Unlock()
				mu.Unlock() // only now: a child may begin when its parent has
				if ok {
					s.write(ctx, n)
				}
			}
		})
	}
	wg.Wait()
	s.awaitWriters(ctx, nodes)
}

// awaitWriters waits for the writers that had some of these in hand.
func (s *Store) awaitWriters(ctx context.Context, nodes []*node) {
	for {
		s.mu.Lock()
		busy := slices.ContainsFunc(nodes, func(n *node) bool { return n.writing })
		wrote := s.wrote
		s.mu.Unlock()
		if !busy {
			return
		}
		select {
		case <-wrote:
		case <-ctx.Done():
			return
		}
	}
}
