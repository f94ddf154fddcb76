package stored

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"thoth/internal/bucket"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Idle connections of the test's own HTTP servers and of the cloud drivers.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("go.opencensus.io/stats/view.(*worker).start"))
}

const scope = "scope of a key"

func options(address string) Options {
	return Options{Address: address, Sweep: time.Hour, Log: zerolog.Nop()}
}

func openStore(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	eventually(t, s, func(st State) bool { return st.State == "on" })
	return s
}

func eventually(t testing.TB, s *Store, f func(State) bool) {
	t.Helper()
	require.Eventually(t, func() bool { return f(s.State()) }, 10*time.Second, time.Millisecond)
}

// swept waits for the first sweep.
func swept(t testing.TB, s *Store) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.index.mu.Lock()
		defer s.index.mu.Unlock()
		return s.index.sweep > 0 && !s.index.sweeping
	}, 10*time.Second, time.Millisecond)
}

// record is one of about so many bytes.
func record(id, previous string, bytes int) *Record {
	return &Record{ID: id, Scope: scope, Previous: previous, Created: time.Now().Round(0),
		Input:    jsontext.Value(fmt.Sprintf(`[{"role":"user","content":%q}]`, "input of "+id)),
		Response: jsontext.Value(fmt.Sprintf(`{"id":%q,"text":%q}`, id, strings.Repeat("x", bytes)))}
}

func put(t testing.TB, s *Store, records ...*Record) {
	t.Helper()
	for _, r := range records {
		require.NoError(t, s.Put(t.Context(), r))
	}
}

func requireRecord(t testing.TB, want, got *Record) {
	t.Helper()
	require.True(t, want.Created.Equal(got.Created))
	got.Created = want.Created
	require.Equal(t, want, got)
}

func missing(t testing.TB, s *Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		_, err := s.Get(t.Context(), scope, id)
		var m *Missing
		require.ErrorAs(t, err, &m, id)
		require.ErrorIs(t, err, ErrNotFound)
		require.Equal(t, id, m.ID)
	}
}

func fileOf(s *Store, dir, id string) string {
	return filepath.Join(dir, folder, s.codec.name(scope, id).String())
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

func age(t testing.TB, path string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	require.NoError(t, os.Chtimes(path, at, at))
}

// faulty is a bucket that a test may hang or fail, and that counts calls.
type faulty struct {
	bucket.Objects
	hang  atomic.Bool   // until the call's context ends
	list  chan struct{} // listings of the top wait for it; nil: they do not
	calls atomic.Int64

	mu        sync.Mutex
	fail      error         // of all calls
	failWrite error         // of writes
	freeze    chan struct{} // calls wait for it, whatever their context says; nil: none do
	sync      func() error  // nil: it works
	syncs     int
}

func newFaulty(t testing.TB) *faulty {
	b, err := bucket.Open(context.Background(), "mem://", true, time.Second)
	require.NoError(t, err)
	return &faulty{Objects: b}
}

func (f *faulty) set(fail, failWrite error, freeze chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail, f.failWrite, f.freeze = fail, failWrite, freeze
}

func (f *faulty) before(ctx context.Context) error {
	f.calls.Add(1)
	if f.hang.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	f.mu.Lock()
	fail, freeze := f.fail, f.freeze
	f.mu.Unlock()
	if freeze != nil {
		<-freeze
	}
	return fail
}

func (f *faulty) beforeWrite(ctx context.Context) error {
	if err := f.before(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failWrite
}

func (f *faulty) Write(ctx context.Context, name string, fill func(io.Writer) error) error {
	if err := f.beforeWrite(ctx); err != nil {
		return err
	}
	return f.Objects.Write(ctx, name, fill)
}

func (f *faulty) Put(ctx context.Context, name string, content []byte) error {
	if err := f.beforeWrite(ctx); err != nil {
		return err
	}
	return f.Objects.Put(ctx, name, content)
}

func (f *faulty) Sync() error {
	f.mu.Lock()
	f.syncs++
	sync := f.sync
	f.mu.Unlock()
	if sync != nil {
		return sync()
	}
	return f.Objects.Sync()
}

func (f *faulty) setSync(sync func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sync = sync
}

func (f *faulty) synced() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.syncs
}

func (f *faulty) Read(ctx context.Context, name string, limit int64) (io.ReadCloser, int64, error) {
	if err := f.before(ctx); err != nil {
		return nil, 0, err
	}
	return f.Objects.Read(ctx, name, limit)
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
	if f.list != nil {
		select {
		case <-f.list:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return f.Objects.Top(ctx, each)
}

func (f *faulty) Delete(ctx context.Context, name string) error {
	if err := f.before(ctx); err != nil {
		return err
	}
	return f.Objects.Delete(ctx, name)
}

// over starts a store on a bucket of the test's own; within synctest.
func over(t testing.TB, f *faulty, o Options) *Store {
	t.Helper()
	o.Address = "mem://"
	o, err := o.withDefaults()
	require.NoError(t, err)
	return start(context.Background(), o, func(ctx context.Context) (*opened, string, error) {
		if err := bucket.Try(ctx, f, "x"); err != nil {
			return nil, "", err
		}
		return &opened{Objects: f}, "", nil
	})
}
