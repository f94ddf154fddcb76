package stored

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/internal/bucket"
	"thoth/internal/bucket/buckettest"
)

func TestChain_ChargesWhatItReadsBeforeItDoes(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, options(dir))
	swept(t, s)
	var want int64
	previous := ""
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		r := record(id, previous, 1000)
		put(t, s, r)
		want += int64(len(s.codec.encode(s.codec.name(scope, id), r)))
		previous = id
	}
	for _, s := range []*Store{s, openStore(t, options(dir))} {
		var sum int64
		chain, err := s.ChainCharged(t.Context(), scope, "5", 5, func(n int64) error { sum += n; return nil })
		require.NoError(t, err)
		require.Len(t, chain, 5)
		require.Equal(t, want, sum)
	}
	var got int64
	_, err := s.GetCharged(t.Context(), scope, "1", func(n int64) error { got += n; return nil })
	require.NoError(t, err)
	require.InDelta(t, want/5, got, 4, "their links alone differ")
	_, err = s.GetCharged(t.Context(), scope, "never", func(int64) error { t.Error("charged for nothing"); return nil })
	require.ErrorIs(t, err, ErrNotFound)
}

func TestChain_EndsWhereItIsNotPaidFor(t *testing.T) {
	s := openStore(t, options("mem://"))
	put(t, s, record("1", "", 1000), record("2", "1", 1000))
	poor := errors.New("too poor")
	for range 2 * bucket.TripAfter {
		paid := 0
		_, err := s.ChainCharged(t.Context(), scope, "2", 5, func(int64) error {
			if paid++; paid > 1 {
				return poor
			}
			return nil
		})
		require.Same(t, poor, err)
		_, err = s.GetCharged(t.Context(), scope, "2", func(int64) error { return poor })
		require.Same(t, poor, err)
	}
	require.True(t, s.State().On(), "which is no fault of the bucket's")
	require.Zero(t, s.State().Failures)
	_, err := s.Get(t.Context(), scope, "2")
	require.NoError(t, err)
}

// Whoever gave a charge may be gone when a call that hung comes back.
func TestGet_ChargesNobodyAfterItHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := buckettest.New(t)
		s := over(t, f, Options{Timeout: 2 * time.Second, Log: zerolog.Nop()})
		synctest.Wait()
		put(t, s, record("a", "", 1))
		freeze := make(chan struct{})
		f.Set(buckettest.Fault{Freeze: freeze})
		returned := false
		_, err := s.GetCharged(t.Context(), scope, "a", func(int64) error {
			if returned {
				t.Error("charged after the end")
			}
			return nil
		})
		returned = true
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(freeze)
		require.NoError(t, s.Close())
	})
}
