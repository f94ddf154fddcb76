package cold

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"thoth/internal/bucket"
	"thoth/station/kvstore/block"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Idle connections of the test's own HTTP servers and of the cloud drivers.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("go.opencensus.io/stats/view.(*worker).start"))
}

const rowBytes = 1 << 10

func root(scope string) block.Key { return block.Identity{Digest: "weights"}.Root(scope, "") }

// chain makes the blocks of a sequence of n tokens below r; seed tells sequences apart.
func chain(r block.Key, n, seed int) (blocks []*block.Block) {
	parent := r
	for at := 0; at < n; at += block.Tokens {
		b := &block.Block{Group: "g", Kernel: "cpu-test"}
		for i := at; i < min(n, at+block.Tokens); i++ {
			b.Tokens = append(b.Tokens, int32(seed*1_000_000+i))
		}
		b.Name = block.Name{Root: r, Parent: parent, Key: parent.Child(b.Tokens)}
		b.Data = make([]byte, len(b.Tokens)*rowBytes)
		for i := range b.Data {
			b.Data[i] = byte(i*seed + i/256)
		}
		blocks = append(blocks, b)
		parent = b.Key
	}
	return blocks
}

func fileOf(dir string, b *block.Block) string {
	return filepath.Join(dir, ObjectName(b.Name, len(b.Tokens)))
}

func memory(n int) ([]byte, error) { return make([]byte, n*rowBytes), nil }

// opts are options under which nothing happens behind unless asked for.
func opts() Options {
	return Options{BudgetBytes: 1 << 30, TokenBytes: rowBytes, Sweep: time.Hour, Logger: zerolog.Nop()}
}

func openTier(t testing.TB, url string, o Options) *Tier {
	t.Helper()
	tier, err := Open(context.Background(), url, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tier.Close()) })
	return tier
}

// over opens a tier on a store of the test's own making.
func over(t testing.TB, s bucket.Objects, o Options) *Tier {
	t.Helper()
	tier, err := open(context.Background(), s, "mem", "", o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tier.Close()) })
	return tier
}

func memStore(t testing.TB) *bucket.Bucket {
	t.Helper()
	s, err := bucket.Open(context.Background(), "mem://", true, time.Second)
	require.NoError(t, err)
	return s
}

func put(t testing.TB, tier *Tier, blocks ...*block.Block) {
	t.Helper()
	for _, b := range blocks {
		require.NoError(t, tier.Put(t.Context(), b))
	}
}

// files lists the files below a folder, relative to it.
func files(t testing.TB, dir string) (names []string) {
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

// settled waits until what Open began behind has ended: the first probe and sweep.
func settled(t testing.TB, tier *Tier) {
	t.Helper()
	require.Eventually(t, func() bool {
		tier.index.mu.Lock()
		defer tier.index.mu.Unlock()
		return tier.probed.Load() > 0 && tier.index.swept > 0
	}, 10*time.Second, time.Millisecond)
}

// faulty is a store whose calls a test may delay, hang or fail.
type faulty struct {
	bucket.Objects
	latency time.Duration
	hang    atomic.Bool
	calls   atomic.Int64

	mu        sync.Mutex
	fail      error // of all calls
	failWrite error // of writes, after half the bytes
}

func (f *faulty) before(ctx context.Context) error {
	f.calls.Add(1)
	if f.latency > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(f.latency):
		}
	}
	if f.hang.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fail
}

func (f *faulty) set(fail, failWrite error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail, f.failWrite = fail, failWrite
}

func (f *faulty) Write(ctx context.Context, name string, fill func(io.Writer) error) error {
	if err := f.before(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	failWrite := f.failWrite
	f.mu.Unlock()
	if failWrite != nil {
		return f.Objects.Write(ctx, name, func(w io.Writer) error { return fill(&half{w, failWrite, 100}) })
	}
	return f.Objects.Write(ctx, name, fill)
}

func (f *faulty) Read(ctx context.Context, name string, limit int64) (io.ReadCloser, int64, error) {
	if err := f.before(ctx); err != nil {
		return nil, 0, err
	}
	r, size, err := f.Objects.Read(ctx, name, limit)
	if err == nil && f.latency > 0 {
		r = slow{r} // or in a test's own time there would be no rate
	}
	return r, size, err
}

// slow is a reader that takes a millisecond for each call.
type slow struct{ io.ReadCloser }

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return s.ReadCloser.Read(p)
}

func (f *faulty) Stat(ctx context.Context, name string) (bucket.Object, error) {
	if err := f.before(ctx); err != nil {
		return bucket.Object{}, err
	}
	return f.Objects.Stat(ctx, name)
}

func (f *faulty) List(ctx context.Context, prefix string, each func(bucket.Object) error) error {
	if err := f.before(ctx); err != nil {
		return err
	}
	return f.Objects.List(ctx, prefix, each)
}

func (f *faulty) Top(ctx context.Context, each func(bucket.Object) error) error {
	if err := f.before(ctx); err != nil {
		return err
	}
	return f.Objects.Top(ctx, each)
}

func (f *faulty) Delete(ctx context.Context, name string) error {
	if err := f.before(ctx); err != nil {
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

func damage(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	p, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, change(p), 0o600))
}

func temporary(names []string) (found []string) {
	for _, n := range names {
		if strings.HasSuffix(n, ".tmp") {
			found = append(found, n)
		}
	}
	return found
}

// held is a store whose listing of the top waits.
type held struct {
	bucket.Objects
	until chan struct{}
}

func (h *held) Top(ctx context.Context, each func(bucket.Object) error) error {
	<-h.until
	return h.Objects.Top(ctx, each)
}
