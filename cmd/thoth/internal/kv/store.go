package kv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"thoth/internal/bucket"
	"thoth/station/kvstore/block"
	"thoth/station/kvstore/cold"
)

// Timeout bounds one call to the store.
const Timeout = time.Minute

// Store is a cold store with the key that its sealed blocks open with.
type Store struct {
	objects *bucket.Bucket
	seals   *cold.Sealer
}

// Open opens the store of a URL, or of a folder's path, which may be relative.
// key is as THOTH_KV_KEY has it, "" for none; create makes the folder.
func Open(ctx context.Context, address, key string, create bool) (*Store, error) {
	master, err := cold.ParseKey(key)
	if err != nil {
		return nil, err
	}
	if address != "" && !strings.Contains(address, "://") {
		if address, err = filepath.Abs(address); err != nil {
			return nil, err
		}
	}
	s, err := bucket.Open(ctx, address, create, Timeout)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return &Store{objects: s, seals: cold.NewSealer(master)}, nil
}

// Close ends the use of the store.
func (s *Store) Close() error { return s.objects.Close() }

// stored is an object with its place.
type stored struct {
	bucket.Object
	block.Name
	tokens int  // by its name
	stray  bool // no block: a temporary or foreign file
}

// each gives the objects of a root, or of all.
func (s *Store) each(ctx context.Context, root string, f func(stored) error) error {
	var roots []string
	if root == "" {
		var err error
		if roots, err = cold.Roots(ctx, s.objects); err != nil {
			return err
		}
	} else {
		k, err := block.ParseKey(root)
		if err != nil {
			return fmt.Errorf("--root: %w", err)
		}
		roots = []string{k.String()}
	}
	for _, r := range roots {
		err := s.objects.List(ctx, r+"/", func(o bucket.Object) error {
			n, tokens, ok := cold.ParseObjectName(o.Name)
			return f(stored{Object: o, Name: n, tokens: tokens, stray: !ok})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// together is how many objects are worked on at once: a bucket answers slowly, not rarely.
const together = 8

// work runs f for the objects of a root, or of all, some together, and ends at the
// first error.
func (s *Store) work(ctx context.Context, root string, f func(context.Context, stored) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan stored)
	var group sync.WaitGroup
	for range together {
		group.Go(func() {
			for o := range next {
				if err := f(ctx, o); err != nil {
					cancel(err)
				}
			}
		})
	}
	err := s.each(ctx, root, func(o stored) error {
		select {
		case next <- o:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(next)
	group.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// read opens an object and hands it on, within the time of one call.
func (s *Store) read(ctx context.Context, name string, limit int64, f func(r io.Reader, size int64) error) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	r, size, err := s.objects.Read(ctx, name, limit)
	if err != nil {
		return err
	}
	defer r.Close()
	return f(r, size)
}

// check decodes an object read from r, wherever it came from.
func (s *Store) check(r io.Reader, size int64, o stored) error {
	b, err := block.Decode(r, size, o.Name, 0, s.seals.For(o.Root), nil)
	if err == nil && len(b.Tokens) != o.tokens {
		err = &block.Fault{Reason: block.Misplaced, Detail: "it is of another length than its name says"}
	}
	return err
}

// delete removes an object; that another was first is as good.
func (s *Store) delete(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if err := s.objects.Delete(ctx, name); !errors.Is(err, bucket.ErrNotFound) {
		return err
	}
	return nil
}
