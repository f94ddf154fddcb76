package cold

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"thoth/internal/bucket"
	"thoth/station/kvstore/block"
)

// sweepLoop looks at the whole store at first, at intervals, and when asked to.
func (t *Tier) sweepLoop(ctx context.Context) {
	tick := time.NewTicker(t.o.Sweep)
	defer tick.Stop()
	for {
		if err := t.sweep(ctx); err != nil && ctx.Err() == nil {
			t.o.Logger.Warn().Str("reason", bucket.Sentence(err)).Msg("the cold store could not be swept")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-t.sweeps:
		}
	}
}

// sweep counts what the store holds, drops what does not belong there, and evicts what the
// budget does not hold.
func (t *Tier) sweep(ctx context.Context) error {
	for _, v := range t.index.uses() {
		t.store.Used(ObjectName(v.Name, v.tokens), v.used)
	}
	before := t.o.Now().Add(-t.o.DropAfter)
	t.index.begin()
	var strays int64
	// One is dropped when it is met: a list of them would have no bound.
	stray := func(o bucket.Object) error {
		if !o.Time.Before(before) {
			if !bucket.ProbeName(o.Name) && !t.index.ours(o.Name) { // those come and go
				strays += o.Size
			}
			return nil
		}
		if err := t.delete(ctx, o.Name); err != nil {
			strays += o.Size
			return err
		}
		t.counts.drop("stray", 1)
		return nil
	}
	var roots []string
	err := t.store.Top(ctx, func(o bucket.Object) error {
		switch {
		case o.Folder && rootName(o.Name):
			roots = append(roots, o.Name)
		case !o.Folder && bucket.ProbeName(o.Name):
			return stray(o)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, root := range roots {
		err := t.store.List(ctx, root+"/", func(o bucket.Object) error {
			n, tokens, ok := ParseObjectName(o.Name)
			if !ok {
				return stray(o)
			}
			t.index.met(n, tokens, o)
			return nil
		})
		if err != nil {
			return err
		}
	}
	t.index.settle(strays)
	t.measureDisk()

	var n atomic.Int64
	lone := t.index.orphans(before)
	if err := t.drop(ctx, lone, &n); err != nil {
		return err
	}
	if n := n.Load(); n > 0 {
		t.counts.drop(string(block.Orphan), int(n))
	}
	if over, ok := t.index.evict(0, t.o.BudgetBytes, block.Name{}); ok {
		if err := t.drop(ctx, over, &t.counts.evictions); err != nil {
			return err
		}
	}
	return t.store.Prune(ctx, before, rootName)
}

// drop deletes blocks that were taken out of the index, and counts them; those that it
// could not delete are put back.
func (t *Tier) drop(ctx context.Context, gone []victim, count *atomic.Int64) error {
	return each(gone, func(v victim) error {
		if err := t.delete(ctx, ObjectName(v.Name, v.tokens)); err != nil {
			t.index.restore(v)
			return err
		}
		t.index.deleted(v.Name)
		count.Add(1)
		return nil
	})
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
			for {
				i := int(next.Add(1)) - 1
				if i >= len(list) {
					return
				}
				if err := f(list[i]); err != nil {
					once.Do(func() { first = err })
				}
			}
		})
	}
	group.Wait()
	return first
}
