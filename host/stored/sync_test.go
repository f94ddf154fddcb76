package stored

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/internal/bucket/buckettest"
)

func TestSync_IsOneForManyAndBehindThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := buckettest.New(t)
		s := over(t, f, Options{Log: zerolog.Nop()})
		defer func() { require.NoError(t, s.Close()) }()
		synctest.Wait()
		began := time.Now()
		for i := range 20 {
			put(t, s, record(fmt.Sprint(i), "", 1))
		}
		require.Zero(t, time.Since(began))
		require.Zero(t, f.Syncs.Load(), "nobody waits for it")
		time.Sleep(syncAfter)
		synctest.Wait()
		require.EqualValues(t, 1, f.Syncs.Load())
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, f.Syncs.Load(), "nothing is put, and nothing synced")
		put(t, s, record("a", "", 1))
		time.Sleep(syncAfter)
		synctest.Wait()
		require.EqualValues(t, 2, f.Syncs.Load())
	})
}

func TestSync_OneThatFailsOpensTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := buckettest.New(t)
		s := over(t, f, Options{Log: zerolog.Nop()})
		defer func() { require.NoError(t, s.Close()) }()
		synctest.Wait()
		f.Set(buckettest.Fault{Sync: func() error { return os.NewSyscallError("syncfs", syscall.EIO) }})
		put(t, s, record("a", "", 1))
		require.True(t, s.State().On())
		time.Sleep(syncAfter)
		synctest.Wait()
		st := s.State()
		require.Equal(t, "failing", st.State)
		require.Equal(t, "writing: input/output error", st.Reason)
		require.EqualValues(t, 2, st.Failures, "and it was tried again at once")
		require.ErrorIs(t, s.Put(t.Context(), record("b", "", 1)), ErrFailing)
		_, err := s.Get(t.Context(), scope, "a")
		require.NoError(t, err, "it still reads")
		time.Sleep(time.Hour)
		require.Equal(t, "failing", s.State().State, "it is tried, and fails")

		f.Set(buckettest.Fault{})
		time.Sleep(2 * lastRetry)
		synctest.Wait()
		require.True(t, s.State().On())
		put(t, s, record("b", "", 1))
	})
}

func TestSync_OneThatHangsHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := buckettest.New(t)
		s := over(t, f, Options{Timeout: 2 * time.Second, Log: zerolog.Nop()})
		synctest.Wait()
		freeze := make(chan struct{})
		f.Set(buckettest.Fault{Sync: func() error { <-freeze; return nil }})
		for i := range 10 {
			began := time.Now()
			put(t, s, record(fmt.Sprint(i), "", 1))
			_, err := s.Get(t.Context(), scope, fmt.Sprint(i))
			require.NoError(t, err)
			require.Zero(t, time.Since(began))
			time.Sleep(time.Minute)
		}
		require.EqualValues(t, 1, f.Syncs.Load(), "a second one is not begun over it")
		require.True(t, s.State().On(), "a disk may have gigabytes to write first")
		began := time.Now()
		require.ErrorContains(t, s.Close(), "have not come back")
		require.Equal(t, s.o.Timeout, time.Since(began))
		close(freeze)
	})
}

func TestClose_SyncsWhatWasPutLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := buckettest.New(t)
		s := over(t, f, Options{Log: zerolog.Nop()})
		synctest.Wait()
		require.NoError(t, s.Put(context.Background(), record("a", "", 1)))
		synctest.Wait() // it waits for others by now
		require.NoError(t, s.Close())
		require.EqualValues(t, 1, f.Syncs.Load())

		s = over(t, f, Options{Log: zerolog.Nop()})
		synctest.Wait()
		require.NoError(t, s.Close())
		require.EqualValues(t, 1, f.Syncs.Load(), "nothing was put")
	})
}

// What a loss of power leaves: names whose bytes never came to the disk.
func TestSweep_WhatIsTornEndsByTheTimeOfItsFile(t *testing.T) {
	dir := t.TempDir()
	first := openStore(t, options(dir))
	swept(t, first)
	put(t, first, record("long ago", "", 1), record("now", "", 1))
	for _, id := range []string{"long ago", "now"} {
		require.NoError(t, os.Truncate(fileOf(first, dir, id), 0))
	}
	age(t, fileOf(first, dir, "long ago"), first.TTL()+time.Hour)
	second := openStore(t, options(dir))
	swept(t, second)
	require.NoFileExists(t, fileOf(first, dir, "long ago"))
	require.FileExists(t, fileOf(first, dir, "now"))
	require.EqualValues(t, 1, second.State().Expired)
	missing(t, second, "now")
	require.NoFileExists(t, fileOf(first, dir, "now"))
	require.Equal(t, map[string]uint64{"format": 1}, second.State().Drops)
}
