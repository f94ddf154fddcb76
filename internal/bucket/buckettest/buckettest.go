// Package buckettest has what the tests of stores need: a bucket that is slow, hangs and
// fails as it is told, and a look at the files of a folder.
package buckettest

import (
	"context"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/internal/bucket"
)

var _ bucket.Objects = (*Faulty)(nil)

// Fault is what is wrong with a bucket; nothing is where it is zero.
type Fault struct {
	Latency time.Duration   // of each call, and a millisecond of each piece that is read
	Hang    bool            // calls last until their context ends
	Freeze  <-chan struct{} // calls wait for it and hear of no context, as in a system that hangs
	Err     error           // of all calls
	Write   error           // of writes, which have written some bytes by then
	Top     <-chan struct{} // listings of the top wait for it
}

// Faulty is a bucket with a fault, and counts its calls.
type Faulty struct {
	bucket.Objects
	Calls atomic.Int64

	mu    sync.Mutex
	fault Fault
}

// New makes a bucket in memory, to be set at fault.
func New(t testing.TB) *Faulty {
	t.Helper()
	b, err := bucket.Open(context.Background(), "mem://", true, time.Second)
	require.NoError(t, err)
	return &Faulty{Objects: b}
}

// Set sets what is wrong from the next call on.
func (f *Faulty) Set(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *Faulty) get() Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fault
}

func (f *Faulty) call(ctx context.Context) (Fault, error) {
	f.Calls.Add(1)
	fault := f.get()
	if fault.Latency > 0 {
		select {
		case <-ctx.Done():
			return fault, ctx.Err()
		case <-time.After(fault.Latency):
		}
	}
	if fault.Hang {
		<-ctx.Done()
		return fault, ctx.Err()
	}
	if fault.Freeze != nil {
		<-fault.Freeze
	}
	return fault, fault.Err
}

func (f *Faulty) Write(ctx context.Context, name string, fill func(io.Writer) error) error {
	fault, err := f.call(ctx)
	switch {
	case err != nil:
		return err
	case fault.Write != nil:
		return f.Objects.Write(ctx, name, func(w io.Writer) error { return fill(&half{w, fault.Write, 10}) })
	}
	return f.Objects.Write(ctx, name, fill)
}

func (f *Faulty) Put(ctx context.Context, name string, content []byte) error {
	fault, err := f.call(ctx)
	switch {
	case err != nil:
		return err
	case fault.Write != nil:
		return fault.Write
	}
	return f.Objects.Put(ctx, name, content)
}

func (f *Faulty) Read(ctx context.Context, name string, limit int64) (io.ReadCloser, int64, error) {
	fault, err := f.call(ctx)
	if err != nil {
		return nil, 0, err
	}
	r, size, err := f.Objects.Read(ctx, name, limit)
	if err == nil && fault.Latency > 0 {
		r = slow{r} // or in a test's own time there would be no rate
	}
	return r, size, err
}

func (f *Faulty) Stat(ctx context.Context, name string) (bucket.Object, error) {
	if _, err := f.call(ctx); err != nil {
		return bucket.Object{}, err
	}
	return f.Objects.Stat(ctx, name)
}

func (f *Faulty) Top(ctx context.Context, each func(bucket.Object) error) error {
	fault, err := f.call(ctx)
	if err != nil {
		return err
	}
	if fault.Top != nil {
		select {
		case <-fault.Top:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return f.Objects.Top(ctx, each)
}

func (f *Faulty) List(ctx context.Context, prefix string, each func(bucket.Object) error) error {
	if _, err := f.call(ctx); err != nil {
		return err
	}
	return f.Objects.List(ctx, prefix, each)
}

func (f *Faulty) Delete(ctx context.Context, name string) error {
	if _, err := f.call(ctx); err != nil {
		return err
	}
	return f.Objects.Delete(ctx, name)
}

// half writes some bytes and then fails, as a full disk does.
type half struct {
	w    io.Writer
	err  error
	left int
}

func (h *half) Write(p []byte) (int, error) {
	n, err := h.w.Write(p[:min(len(p), h.left)])
	if h.left -= n; err == nil && n < len(p) {
		err = h.err
	}
	return n, err
}

// slow is a reader that takes a millisecond for each piece.
type slow struct{ io.ReadCloser }

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return s.ReadCloser.Read(p)
}

// Files lists the files below a folder, relative to it.
func Files(t testing.TB, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		names = append(names, rel)
		return err
	}))
	return names
}
