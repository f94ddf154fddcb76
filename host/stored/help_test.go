package stored

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"thoth/internal/bucket"
	"thoth/internal/bucket/buckettest"
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

func age(t testing.TB, path string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	require.NoError(t, os.Chtimes(path, at, at))
}

// over starts a store on a bucket of the test's own; within synctest.
func over(t testing.TB, f *buckettest.Faulty, o Options) *Store {
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
