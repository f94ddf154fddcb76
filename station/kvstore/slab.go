package kvstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"thoth/station/kvstore/block"
)

// slabRows is the step by which the memory of a tail is rounded up: few sizes
// make a free list that fits, and at most 15 rows are wasted.
const slabRows = 16

// errFull is the answer of slabs without room: something must be evicted first.
var errFull = errors.New("no memory of the budget is free")

// slabs gives out memory outside of Go's heap, as engine.Piece demands. What it
// has mapped, given out or on its free lists, never exceeds the budget.
type slabs struct {
	budget     int64
	tokenBytes int
	page       int64
	used       int64 // given out
	free       int64 // on the free lists
	lists      map[int64][][]byte
	fresh      chan []byte // mapped and not yet touched
}

func newSlabs(budget int64, tokenBytes int) slabs {
	return slabs{budget: max(budget, 0), tokenBytes: tokenBytes, page: int64(os.Getpagesize()), lists: map[int64][][]byte{},
		fresh: make(chan []byte, 64)}
}

// size is the memory that so many positions take: whole pages.
func (a *slabs) size(positions int) int64 {
	rows := min((positions+slabRows-1)/slabRows*slabRows, block.Tokens)
	n := int64(rows) * int64(a.tokenBytes)
	return (n + a.page - 1) / a.page * a.page
}

// take gives memory of that size: from the free list, else mapped, else in place of
// free memory of other sizes. errFull: all of the budget is in use.
func (a *slabs) take(size int64) ([]byte, error) {
	if l := a.lists[size]; len(l) > 0 {
		m := l[len(l)-1]
		a.lists[size] = l[:len(l)-1]
		a.free -= size
		a.used += size
		return m, nil
	}
	if a.used+size > a.budget {
		return nil, errFull
	}
	for s := range a.lists {
		for a.used+a.free+size > a.budget && len(a.lists[s]) > 0 {
			a.unmap(s)
		}
	}
	m, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("no memory for a block of stored KV: %w", err)
	}
	a.used += size
	select {
	case a.fresh <- m:
	default: // whoever writes first pays
	}
	return m, nil
}

// populate has the kernel find pages for fresh memory while the engine is idle,
// until ctx ends. Copying rows into memory never touched takes five times as long,
// and it is the engine's loop that copies; but the kernel's work would be on the
// engine's cores. Memory that was unmapped meanwhile is no harm: the call fails, or
// touches what is mapped there now.
func (a *slabs) populate(ctx context.Context, busy func() bool) {
	for {
		select {
		case m := <-a.fresh:
			for busy != nil && busy() && ctx.Err() == nil {
				time.Sleep(besideLook)
			}
			_ = unix.Madvise(m, unix.MADV_POPULATE_WRITE) // an older kernel does not know it
		case <-ctx.Done():
			return
		}
	}
}

// put takes memory back; what the budget allows is kept for the next take.
func (a *slabs) put(m []byte) {
	size := int64(len(m))
	a.used -= size
	a.free += size
	a.lists[size] = append(a.lists[size], m)
}

// release gives all free memory back to the system.
func (a *slabs) release() {
	for s := range a.lists {
		for len(a.lists[s]) > 0 {
			a.unmap(s)
		}
	}
}

func (a *slabs) unmap(size int64) {
	l := a.lists[size]
	m := l[len(l)-1]
	a.lists[size] = l[:len(l)-1]
	a.free -= size
	_ = unix.Munmap(m) // fails only for memory that was not mapped
}
