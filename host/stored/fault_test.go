package stored

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/internal/bucket"
	"thoth/internal/bucket/buckettest"
)

func value(t testing.TB, s *Store, name string) float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(s))
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Fatalf("no series %s", name)
	return 0
}

func TestGet_DropsADamagedRecord(t *testing.T) {
	flip := func(at func(int) int) func([]byte) []byte {
		return func(p []byte) []byte { p[at(len(p))] ^= 4; return p }
	}
	for name, tt := range map[string]struct {
		change func([]byte) []byte
		reason fault
	}{
		"empty":        {func([]byte) []byte { return nil }, faultFormat},
		"header alone": {func(p []byte) []byte { return p[:headerBytes] }, faultFormat},
		"half":         {func(p []byte) []byte { return p[:len(p)/2] }, faultChecksum},
		"a byte short": {func(p []byte) []byte { return p[:len(p)-1] }, faultChecksum},
		"a byte more":  {func(p []byte) []byte { return append(p, 0) }, faultChecksum},
		"flip in time": {flip(func(int) int { return 17 }), faultChecksum},
		"flip in body": {flip(func(n int) int { return n / 2 }), faultChecksum},
		"flip at end":  {flip(func(n int) int { return n - 1 }), faultChecksum},
		"foreign":      {func(p []byte) []byte { clear(p); return p }, faultFormat},
		"next version": {func(p []byte) []byte { p[8] = 2; return p }, faultVersion},
	} {
		for sealed, key := range map[string][]byte{"": nil, "/sealed": make([]byte, 32)} {
			t.Run(name+sealed, func(t *testing.T) {
				dir := t.TempDir()
				o := options(dir)
				o.Key = key
				s := openStore(t, o)
				swept(t, s)
				put(t, s, record("a", "", 100), record("b", "a", 100))
				file := fileOf(s, dir, "a")
				p, err := os.ReadFile(file)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(file, tt.change(p), 0o600))
				_, err = s.Chain(t.Context(), scope, "b", 5)
				var m *Missing
				require.ErrorAs(t, err, &m)
				require.Equal(t, "a", m.ID)
				require.NoFileExists(t, file)
				missing(t, s, "a")
				st := s.State()
				require.Equal(t, map[string]uint64{string(tt.reason): 1}, st.Drops)
				require.True(t, st.On(), "a damaged record is not a failing bucket")
				require.Zero(t, st.Failures)
				require.Equal(t, 1, st.Records)
				put(t, s, record("a", "", 100))
				_, err = s.Get(t.Context(), scope, "a")
				require.NoError(t, err)
			})
		}
	}
}

func TestGet_DropsARecordUnderAnothersName(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, options(dir))
	swept(t, s)
	put(t, s, record("mine", "", 1))
	other := record("theirs", "", 1)
	other.Scope = "another key"
	put(t, s, other)
	theirs := filepath.Join(dir, folder, s.codec.name(other.Scope, other.ID).String())
	require.NoError(t, os.Rename(theirs, fileOf(s, dir, "mine")))
	missing(t, s, "mine")
	require.Equal(t, map[string]uint64{"checksum": 1}, s.State().Drops)
}

func TestStore_SaysWhyABucketCannotBeUsedAndTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := buckettest.New(t)
		f.Set(buckettest.Fault{Err: errors.New("403 forbidden")})
		s := over(t, f, Options{Log: zerolog.Nop()})
		defer func() { require.NoError(t, s.Close()) }()
		st := s.State()
		require.Equal(t, "failing", st.State)
		require.Equal(t, "the store cannot be used: it answers with errors", st.Reason)
		require.ErrorIs(t, s.Put(t.Context(), record("a", "", 1)), ErrFailing)
		_, err := s.Get(t.Context(), scope, "a")
		require.ErrorIs(t, err, ErrFailing, "it may be there: no ErrNotFound")
		require.NotErrorIs(t, err, ErrNotFound)

		calls := f.Calls.Load()
		time.Sleep(10 * time.Minute)
		require.Less(t, f.Calls.Load()-calls, int64(40), "with growing pauses")
		f.Set(buckettest.Fault{})
		time.Sleep(2 * lastRetry)
		synctest.Wait()
		require.True(t, s.State().On())
		put(t, s, record("a", "", 1))
	})
}

func TestStore_ABucketThatHangsHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := buckettest.New(t)
		f.Set(buckettest.Fault{Hang: true})
		began := time.Now()
		s := over(t, f, Options{Timeout: 2 * time.Second, Log: zerolog.Nop()})
		defer func() { require.NoError(t, s.Close()) }()
		require.Equal(t, openGrace, time.Since(began), "a start waits a moment, no more")
		require.Equal(t, "it is being opened", s.State().Reason)
		began = time.Now()
		require.ErrorIs(t, s.Put(t.Context(), record("a", "", 1)), ErrFailing)
		require.Zero(t, time.Since(began))
		time.Sleep(3 * time.Second)
		require.Equal(t, "the store cannot be used: it does not answer in time", s.State().Reason)

		f.Set(buckettest.Fault{})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.True(t, s.State().On())
		put(t, s, record("a", "", 1))

		f.Set(buckettest.Fault{Hang: true})
		for range bucket.TripAfter {
			began := time.Now()
			_, err := s.Get(t.Context(), scope, "a")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 2*time.Second, time.Since(began))
		}
		began = time.Now()
		_, err := s.Get(t.Context(), scope, "a")
		require.ErrorIs(t, err, ErrFailing)
		require.Zero(t, time.Since(began))
		require.Equal(t, "reading: it does not answer in time", s.State().Reason)
		f.Set(buckettest.Fault{})
		time.Sleep(2 * lastRetry)
		synctest.Wait()
		require.True(t, s.State().On())
		_, err = s.Get(t.Context(), scope, "a")
		require.NoError(t, err)
	})
}

// An operating system that hangs in a file call does not hear that the time of it is over.
func TestStore_AnOperatingSystemThatHangsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := buckettest.New(t)
		s := over(t, f, Options{Timeout: 2 * time.Second, Log: zerolog.Nop()})
		synctest.Wait()
		put(t, s, record("a", "", 1))
		freeze := make(chan struct{})
		f.Set(buckettest.Fault{Freeze: freeze})
		for range bucket.TripAfter {
			began := time.Now()
			_, err := s.Get(t.Context(), scope, "a")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 2*time.Second, time.Since(began))
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		require.LessOrEqual(t, len(s.calls), mostCalls, "trying again takes no more than there is")
		require.Equal(t, "failing", s.State().State)
		began := time.Now()
		require.ErrorContains(t, s.Close(), "have not come back")
		require.Equal(t, 2*time.Second, time.Since(began))
		close(freeze)
	})
}

func TestStore_AFullDiskStillReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := buckettest.New(t)
		s := over(t, f, Options{Log: zerolog.Nop()})
		defer func() { require.NoError(t, s.Close()) }()
		synctest.Wait()
		put(t, s, record("a", "", 1))
		full := &os.PathError{Op: "write", Path: "/secret/place", Err: syscall.ENOSPC}
		f.Set(buckettest.Fault{Write: full})
		for range bucket.TripAfter {
			require.ErrorIs(t, s.Put(t.Context(), record("b", "a", 1)), syscall.ENOSPC)
		}
		require.ErrorIs(t, s.Put(t.Context(), record("b", "a", 1)), ErrFailing)
		st := s.State()
		require.Equal(t, "failing", st.State)
		require.Equal(t, "writing: the disk is full", st.Reason)
		require.Equal(t, 1, st.Records, "what was not written takes no room")
		require.EqualValues(t, 4096, st.Bytes)
		time.Sleep(10 * time.Minute)
		_, err := s.Get(t.Context(), scope, "a")
		require.NoError(t, err)
		f.Set(buckettest.Fault{})
		time.Sleep(2 * lastRetry)
		synctest.Wait()
		require.True(t, s.State().On())
		put(t, s, record("b", "a", 1))
	})
}

func TestPut_WhatCouldNotBeEvictedIsStillCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := buckettest.New(t)
		s := over(t, f, Options{BudgetBytes: 4096, RecordBytes: 4096, Log: zerolog.Nop()})
		defer func() { require.NoError(t, s.Close()) }()
		synctest.Wait()
		put(t, s, record("a", "", 1))
		f.Set(buckettest.Fault{Err: errors.New("500")})
		require.Error(t, s.Put(t.Context(), record("b", "", 1)))
		f.Set(buckettest.Fault{})
		require.Equal(t, 1, s.State().Records)
		require.EqualValues(t, 4096, s.State().Bytes)
		require.Zero(t, s.State().Evictions)
		put(t, s, record("b", "", 1))
		missing(t, s, "a")
	})
}

func TestStore_WhatItsCallerGaveUpIsNoFailure(t *testing.T) {
	s := openStore(t, options(t.TempDir()))
	put(t, s, record("a", "", 1))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 * bucket.TripAfter {
		require.ErrorIs(t, s.Put(gone, record("b", "", 1)), context.Canceled)
		_, err := s.Get(gone, scope, "a")
		require.ErrorIs(t, err, context.Canceled)
	}
	require.True(t, s.State().On())
	require.Zero(t, s.State().Failures)
}

func FuzzDecode(f *testing.F) {
	for _, c := range []codec{newCodec(nil), newCodec(make([]byte, 32))} {
		n := c.name(scope, "a")
		f.Add(c.encode(n, record("a", "b", 10)))
	}
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, c := range []codec{newCodec(nil), newCodec(make([]byte, 32))} {
			n := c.name(scope, "a")
			r, err := c.decode(n, p)
			if err == nil && c.seal == nil {
				require.Equal(t, p, c.encode(n, r), "one form a record")
			}
			// The same with a checksum that is right.
			if len(p) >= headerBytes {
				sum := checksum(n, p)
				_, _ = c.decode(n, append(append([]byte{}, p...), sum[:]...))
			}
		}
	})
}
