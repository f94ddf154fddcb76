package kv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"thoth/internal/bucket"
	"thoth/station/kvstore/block"
)

// Verdict is what verify found.
type Verdict struct {
	Blocks  int   // decoded whole and right
	Bytes   int64 // of these
	Damaged int
	Dropped int // of the damaged
	Strays  int // temporary and foreign files, which a station sweeps
	Alone   int // right, but a parent is missing: a station may write it yet, else sweeps them
	Sealed  int // of the damaged: sealed with another key, or not read for want of one
}

// Verify decodes every block of a root, or of all, and says of each damaged one its
// place and reason. fix drops them; but what only does not open with this key is
// never dropped, for the key may be the wrong one.
func (s *Store) Verify(ctx context.Context, root string, fix bool, out io.Writer) (v Verdict, err error) {
	type place struct{ root, key block.Key }
	parents := map[place]block.Key{}
	var right []block.Name
	var mu sync.Mutex
	err = s.work(ctx, root, func(ctx context.Context, o stored) (err error) {
		if !o.stray {
			err = s.read(ctx, o.Object.Name, -1, func(r io.Reader, size int64) error { return s.check(r, size, o) })
		}
		mu.Lock()
		defer mu.Unlock()
		var f *block.Fault
		switch {
		case o.stray:
			v.Strays++
			return nil
		case errors.Is(err, bucket.ErrNotFound):
			return nil // it was evicted meanwhile
		case errors.As(err, &f):
			v.Damaged++
			fmt.Fprintf(out, "%s\t%s\t%s\n", o.Object.Name, f.Reason, f.Detail)
			if f.Reason == block.Sealed {
				v.Sealed++
				return nil
			}
			if fix {
				if err := s.delete(ctx, o.Object.Name); err != nil {
					return err
				}
				v.Dropped++
			}
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", o.Object.Name, err)
		}
		v.Blocks, v.Bytes = v.Blocks+1, v.Bytes+o.Size
		right = append(right, o.Name)
		if o.tokens == block.Tokens {
			parents[place{o.Root, o.Key}] = o.Parent
		}
		return nil
	})
	// Keys are hashes of what is above them, checked above: there are no rings.
	for _, n := range right {
		for n.Parent != n.Root {
			up, ok := parents[place{n.Root, n.Parent}]
			if !ok {
				v.Alone++
				break
			}
			n.Parent = up
		}
	}
	return v, err
}
