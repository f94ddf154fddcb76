package cold

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/internal/bucket"
	"thoth/internal/bucket/buckettest"
	"thoth/station/kvstore"
)

// state waits until the tier says of itself what it should.
func state(t *testing.T, tier *Tier, want string) {
	t.Helper()
	require.Eventually(t, func() bool { return tier.Stats(all).State == want }, 20*time.Second, 5*time.Millisecond)
}

func TestTier_AFailingStoreIsLeftAloneAndTriedBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := buckettest.New(t)
		well := buckettest.Fault{Latency: time.Millisecond}
		s.Set(well)
		tier, err := open(context.Background(), s, "mem", "", opts())
		require.NoError(t, err)
		defer func() { require.NoError(t, tier.Close()) }()
		b := chain(root(""), 64, 1)[0]
		put(t, tier, b)
		time.Sleep(time.Second)
		synctest.Wait()
		_, ok := tier.Predict(1, 1)
		require.True(t, ok, "the first probe has measured it")

		s.Set(buckettest.Fault{Latency: time.Millisecond, Err: errors.New("500 internal error")})
		for range bucket.TripAfter - 1 {
			_, err = tier.Get(t.Context(), b.Name, memory)
			require.ErrorContains(t, err, "500")
			_, ok = tier.Predict(1, 1)
			require.True(t, ok)
		}
		_, err = tier.Get(t.Context(), b.Name, memory)
		require.ErrorContains(t, err, "500")
		_, ok = tier.Predict(1, 1)
		require.False(t, ok)
		st := tier.Stats(all)
		require.Equal(t, "failing", st.State)
		require.Equal(t, "reading: it answers with errors", st.Reason)
		require.EqualValues(t, bucket.TripAfter, st.Failures)

		calls := s.Calls.Load()
		_, err = tier.Get(t.Context(), b.Name, memory)
		require.ErrorIs(t, err, kvstore.ErrFailing)
		_, err = tier.Tails(t.Context(), b.Root, b.Parent)
		require.ErrorIs(t, err, kvstore.ErrFailing)
		require.Equal(t, calls, s.Calls.Load(), "a failing store is not called for a request")

		// Ten minutes of failure are tens of probes, not thousands.
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, "failing", tier.Stats(all).State)
		require.Less(t, s.Calls.Load()-calls, int64(60))

		s.Set(well)
		time.Sleep(maxProbeDelay + time.Second)
		synctest.Wait()
		require.Equal(t, "on", tier.Stats(all).State)
		_, ok = tier.Predict(1, 1)
		require.True(t, ok)
		_, err = tier.Get(t.Context(), b.Name, memory)
		require.NoError(t, err)
	})
}

func TestTier_AStoreThatHangsIsGivenUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := buckettest.New(t)
		o := opts()
		o.Timeout = 2 * time.Second
		tier, err := open(context.Background(), s, "mem", "", o)
		require.NoError(t, err)
		defer func() { require.NoError(t, tier.Close()) }()
		synctest.Wait()
		b := chain(root(""), 64, 1)[0]
		s.Set(buckettest.Fault{Hang: true})
		for range bucket.TripAfter {
			began := time.Now()
			require.ErrorIs(t, tier.Put(t.Context(), b), context.DeadlineExceeded)
			require.Equal(t, o.Timeout, time.Since(began))
		}
		require.ErrorIs(t, tier.Put(t.Context(), b), kvstore.ErrFailing)
		require.Equal(t, "writing: it does not answer in time", tier.Stats(all).Reason)
		for range bucket.TripAfter {
			_, err := tier.Get(t.Context(), b.Name, memory)
			require.Error(t, err)
		}
		_, ok := tier.Predict(1, 1)
		require.False(t, ok)
		s.Set(buckettest.Fault{})
		time.Sleep(2 * maxProbeDelay)
		synctest.Wait()
		put(t, tier, b)
	})
}

func TestTier_AFullDiskStillReads(t *testing.T) {
	dir := t.TempDir()
	real, err := bucket.Open(t.Context(), dir, true, time.Second)
	require.NoError(t, err)
	s := &buckettest.Faulty{Objects: real}
	tier := over(t, s, opts())
	settled(t, tier)
	blocks := chain(root(""), 64*8, 1)
	put(t, tier, blocks[0])
	full := &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	s.Set(buckettest.Fault{Write: full})
	for i := range bucket.TripAfter {
		require.ErrorIs(t, tier.Put(t.Context(), blocks[1+i]), syscall.ENOSPC)
	}
	require.ErrorIs(t, tier.Put(t.Context(), blocks[5]), kvstore.ErrFailing)
	st := tier.Stats(all)
	require.Equal(t, "failing", st.State)
	require.Equal(t, "writing: the disk is full", st.Reason)
	require.GreaterOrEqual(t, st.Failures, uint64(bucket.TripAfter))
	require.Equal(t, []string{ObjectName(blocks[0].Name, 64)}, buckettest.Files(t, dir), "half files are gone")
	got, err := tier.Get(t.Context(), blocks[0].Name, memory)
	require.NoError(t, err)
	require.Equal(t, blocks[0], got)
	_, ok := tier.Predict(1, 1)
	require.True(t, ok)
	s.Set(buckettest.Fault{})
	state(t, tier, "on")
	put(t, tier, blocks[1])
}

func TestTier_AFolderThatCannotBeReadIsFailing(t *testing.T) {
	dir := t.TempDir() + "/kv"
	tier := openTier(t, dir, opts())
	settled(t, tier)
	b := chain(root(""), 64, 1)[0]
	put(t, tier, b)
	require.NoError(t, os.Rename(dir, dir+".away"))
	require.NoError(t, os.WriteFile(dir, nil, 0o600)) // root reads any folder, but no file as one
	for range bucket.TripAfter {
		_, err := tier.Get(t.Context(), b.Name, memory)
		require.ErrorIs(t, err, syscall.ENOTDIR)
	}
	_, err := tier.Get(t.Context(), b.Name, memory)
	require.ErrorIs(t, err, kvstore.ErrFailing)
	require.Equal(t, "reading: not a directory", tier.Stats(all).Reason)
	require.NoError(t, os.Remove(dir))
	require.NoError(t, os.Rename(dir+".away", dir))
	state(t, tier, "on")
	_, err = tier.Get(t.Context(), b.Name, memory)
	require.NoError(t, err)
}

func TestTier_ABucketThatBreaksAndHeals(t *testing.T) {
	for name, breakIt := range map[string]func(*fakeS3){
		"answers 500": func(f *fakeS3) { f.status.Store(500) },
		"answers 403": func(f *fakeS3) { f.status.Store(403) },
		"hangs":       func(f *fakeS3) { f.hang.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newS3(t)
			o := opts()
			o.Timeout = 300 * time.Millisecond
			tier := openTier(t, f.url, o)
			settled(t, tier)
			blocks := chain(root(""), 100, 1)
			put(t, tier, blocks[0])
			breakIt(f)
			for range bucket.TripAfter {
				_, err := tier.Get(t.Context(), blocks[0].Name, memory)
				require.Error(t, err)
				require.NotErrorIs(t, err, kvstore.ErrNotFound)
				require.Error(t, tier.Put(t.Context(), blocks[1]))
			}
			require.Equal(t, "failing", tier.Stats(all).State)
			require.Empty(t, tier.Stats(all).Drops, "a store that fails has no damaged blocks")
			f.heal()
			state(t, tier, "on")
			got, err := tier.Get(t.Context(), blocks[0].Name, memory)
			require.NoError(t, err)
			require.Equal(t, blocks[0], got)
			put(t, tier, blocks[1])
		})
	}
}

func TestOpen_SaysWhyABucketCannotBeUsed(t *testing.T) {
	f := newS3(t)
	f.status.Store(403)
	_, err := Open(t.Context(), f.url, opts())
	require.ErrorContains(t, err, "THOTH_KV_STORE: the store cannot be used: writing")
	f.hang.Store(true)
	o := opts()
	o.Timeout = 50 * time.Millisecond
	_, err = Open(t.Context(), f.url, o)
	require.ErrorContains(t, err, "THOTH_KV_STORE: the store cannot be used: writing")
}

func TestTier_LearnsHowLongReadsTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := buckettest.New(t)
		s.Set(buckettest.Fault{Latency: 20 * time.Millisecond})
		tier, err := open(context.Background(), s, "mem", "", opts())
		require.NoError(t, err)
		defer func() { require.NoError(t, tier.Close()) }()
		_, ok := tier.Predict(1, 1)
		require.False(t, ok, "nothing is known yet")
		time.Sleep(time.Second)
		synctest.Wait()
		predict := func(blocks int) time.Duration {
			d, ok := tier.Predict(blocks, 0)
			require.True(t, ok)
			return d
		}
		require.Equal(t, 20*time.Millisecond, predict(1))
		require.Equal(t, 20*time.Millisecond, predict(parallel), "reads run together")
		require.Equal(t, 40*time.Millisecond, predict(parallel+1))
		some, _ := tier.Predict(1, 1<<20)
		more, _ := tier.Predict(1, 10<<20)
		require.Greater(t, more, some)

		tier.Missed(200 * time.Millisecond)
		require.Equal(t, 200*time.Millisecond, predict(1))
		tier.Missed(200 * time.Millisecond)
		require.Equal(t, 400*time.Millisecond, predict(1))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Less(t, predict(1), 45*time.Millisecond, "probes behind bring it down")
		calls := s.Calls.Load()
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		require.Less(t, s.Calls.Load()-calls, int64(20), "and then they end")
	})
}

func TestSpeed_CountsReadsThatRunTogether(t *testing.T) {
	var s speed
	const ms = time.Millisecond
	var began []int
	for range 4 {
		began = append(began, s.begin())
	}
	require.Equal(t, []int{1, 2, 3, 4}, began)
	s.end(4, 10*ms, 100*ms, 1<<20, true) // each of four gets 10 MB/s: the disk gives 40
	d, ok := s.predict(1, 4<<20)
	require.True(t, ok)
	require.InDelta(t, (10*ms + 100*ms).Seconds(), d.Seconds(), 0.001)
	before := d
	s.end(3, time.Minute, time.Minute, 5, false)
	d, _ = s.predict(1, 4<<20)
	require.Equal(t, before, d, "a failure is no measure")
}
