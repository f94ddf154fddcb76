package cold

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/internal/bucket"
	"thoth/station/kvstore"
	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// fails wants a tier that is not open to fail at once, whatever is asked.
func fails(t *testing.T, l *Later, b *block.Block) {
	t.Helper()
	start := time.Now()
	require.ErrorIs(t, l.Put(t.Context(), b), kvstore.ErrFailing)
	_, err := l.Get(t.Context(), b.Name, memory)
	require.ErrorIs(t, err, kvstore.ErrFailing)
	_, err = l.GetTail(t.Context(), b.Name, 3, memory)
	require.ErrorIs(t, err, kvstore.ErrFailing)
	_, err = l.Tails(t.Context(), b.Root, b.Parent)
	require.ErrorIs(t, err, kvstore.ErrFailing)
	_, _, err = l.Delete(t.Context(), kvstore.Which{})
	require.ErrorIs(t, err, kvstore.ErrFailing)
	_, ok := l.Predict(1, 1)
	require.False(t, ok)
	l.Touch(b.Name)
	l.Missed(time.Second)
	require.Zero(t, time.Since(start))
}

func stats(l *Later) wire.KVTier { return l.Stats(func(block.Key) bool { return true }) }

func TestLater_IsTriedUntilItIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var healthy atomic.Bool
		var tries atomic.Int32
		const path = "/secret/place"
		start := time.Now()
		l := OpenLater("s3", func(ctx context.Context) (*Tier, error) {
			tries.Add(1)
			if !healthy.Load() {
				return nil, fmt.Errorf("opening: %w", &os.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR})
			}
			return open(ctx, memStore(t), "mem", "", opts())
		}, zerolog.New(&log))
		require.Zero(t, time.Since(start), "the first try has ended")
		b := chain(root(""), 64, 1)[0]
		fails(t, l, b)
		require.Equal(t, wire.KVTier{State: "failing", Store: "s3", Reason: "the store cannot be used: not a directory", Failures: 1}, stats(l))

		time.Sleep(time.Hour)
		synctest.Wait()
		require.Greater(t, tries.Load(), int32(30))
		require.Less(t, tries.Load(), int32(150), "with pauses that grow")
		require.Equal(t, 1, strings.Count(log.String(), path), "the log has the place, once")

		healthy.Store(true)
		failures := stats(l).Failures
		time.Sleep(2 * lastReopen)
		synctest.Wait()
		require.Contains(t, log.String(), "the KV store is open")
		require.NoError(t, l.Put(t.Context(), b))
		got, err := l.Get(t.Context(), b.Name, memory)
		require.NoError(t, err)
		require.Equal(t, b, got)
		require.Equal(t, "on", stats(l).State)
		require.GreaterOrEqual(t, stats(l).Failures, failures)
		require.NoError(t, l.Close())
	})
}

func TestLater_AStoreThatHangsIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := OpenLater("gs", func(ctx context.Context) (*Tier, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, zerolog.Nop())
		require.Equal(t, openGrace, time.Since(start))
		fails(t, l, chain(root(""), 64, 1)[0])
		require.Equal(t, wire.KVTier{State: "failing", Store: "gs", Reason: Opening}, stats(l))
		require.NoError(t, l.Close(), "nor at the end")
		require.Equal(t, openGrace, time.Since(start))
	})
}

func TestLater_AFolderIsOpenAtOnce(t *testing.T) {
	dir := t.TempDir()
	l := OpenLater("file", func(ctx context.Context) (*Tier, error) { return Open(ctx, dir, opts()) }, zerolog.Nop())
	require.Eventually(t, func() bool { return stats(l).State == "on" }, 10*time.Second, time.Millisecond)
	require.NoError(t, l.Close())
}

// What is opened while the station stops is closed all the same.
func TestLater_ClosesWhatOpensMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Bool
		l := OpenLater("mem", func(ctx context.Context) (*Tier, error) {
			<-ctx.Done()
			return open(context.WithoutCancel(ctx), &closing{memStore(t), &closed}, "mem", "", opts())
		}, zerolog.Nop())
		require.NoError(t, l.Close())
		require.True(t, closed.Load())
	})
}

// closing is a store that notes its end.
type closing struct {
	bucket.Objects
	closed *atomic.Bool
}

func (c *closing) Close() error {
	if c.closed.Swap(true) {
		return errors.New("closed twice")
	}
	return c.Objects.Close()
}
