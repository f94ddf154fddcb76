package cold

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/internal/bucket"
	"thoth/internal/bucket/buckettest"
	"thoth/station/kvstore"
	"thoth/station/kvstore/block"
)

func age(t *testing.T, path string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	require.NoError(t, os.Chtimes(path, at, at))
}

func write(t *testing.T, path string, size int) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, make([]byte, size), 0o600))
	return path
}

func TestSweep_DropsOldStraysOfOursAlone(t *testing.T) {
	dir := t.TempDir()
	blocks := chain(root(""), 64*2+5, 1)
	first := openTier(t, dir, opts())
	settled(t, first)
	put(t, first, blocks...)

	r := filepath.Join(dir, blocks[0].Root.String())
	old := []string{
		write(t, fileOf(dir, blocks[0])+".18a1b2c3d4.tmp", 1000),
		write(t, filepath.Join(r, "README"), 10),
		write(t, filepath.Join(r, blocks[1].Parent.String(), "deeper", "x"), 10),
		write(t, filepath.Join(dir, ".thoth-probe-0123"), 64),
	}
	for _, f := range old {
		age(t, f, 2*time.Hour)
	}
	young := write(t, fileOf(dir, blocks[1])+".18a1b2c3d5.tmp", 777)
	theirs := []string{ // of somebody who keeps other things in that folder
		write(t, filepath.Join(dir, "model.gguf"), 10), write(t, filepath.Join(dir, "photos", "cat.jpg"), 10),
	}
	for _, f := range theirs {
		age(t, f, 1000*time.Hour)
	}
	empty := filepath.Join(dir, root("gone").String(), blocks[0].Parent.String())
	require.NoError(t, os.MkdirAll(empty, 0o700))
	age(t, empty, 2*time.Hour)
	age(t, filepath.Dir(empty), 2*time.Hour)

	tier := openTier(t, dir, opts())
	settled(t, tier)
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Dir(empty)); return os.IsNotExist(err) }, 5*time.Second, time.Millisecond)
	for _, f := range old {
		require.NoFileExists(t, f)
	}
	require.FileExists(t, young)
	for _, f := range theirs {
		require.FileExists(t, f)
	}
	require.DirExists(t, filepath.Join(r, blocks[0].Parent.String()))
	st := tier.Stats(all)
	require.Equal(t, map[string]uint64{"stray": 4}, st.Drops)
	require.Equal(t, 3, st.Blocks)
	require.Equal(t, first.Stats(all).Bytes+777, st.Bytes, "a temporary file counts")
	require.Equal(t, first.Stats(all).Bytes, st.UsableBytes)
	require.Equal(t, []bool{true, true, true}, stored(t, tier, blocks))
}

func TestSweep_CountsOldModelsAndEvictsThemFirst(t *testing.T) {
	dir := t.TempDir()
	before, now := chain(root("old model"), 64*3, 1), chain(root("model"), 64*3, 2)
	big := openTier(t, dir, opts())
	settled(t, big)
	put(t, big, before...)
	for i, b := range before {
		age(t, fileOf(dir, b), time.Duration(100-i)*time.Hour)
	}
	put(t, big, now...)

	o := opts()
	size := block.ObjectSize(now[0], false)
	o.BudgetBytes = 4 * size
	tier := openTier(t, dir, o)
	settled(t, tier)
	require.Eventually(t, func() bool {
		return len(buckettest.Files(t, dir)) == 4 && tier.Stats(all).Blocks == 4 && tier.Stats(all).Evictions == 2
	}, 5*time.Second, time.Millisecond)
	require.Equal(t, []bool{true, true, true}, stored(t, tier, now))
	require.Equal(t, []bool{true, false, false}, stored(t, tier, before))
	st := tier.Stats(func(k block.Key) bool { return k == root("model") })
	require.Equal(t, 4*size, st.Bytes)
	require.Equal(t, 3*size, st.UsableBytes)
	require.EqualValues(t, 2, st.Evictions)
}

func TestSweep_DropsOldOrphans(t *testing.T) {
	dir := t.TempDir()
	tier := openTier(t, dir, opts())
	settled(t, tier)
	blocks := chain(root(""), 64*3+5, 1)
	put(t, tier, blocks...)
	require.NoError(t, os.Remove(fileOf(dir, blocks[1])))
	require.NoError(t, tier.sweep(t.Context()))
	st := tier.Stats(all)
	require.Equal(t, 3, st.Blocks, "its parent may be written yet")
	require.Equal(t, block.ObjectSize(blocks[0], false), st.UsableBytes)

	for _, b := range blocks[2:] {
		age(t, fileOf(dir, b), 2*time.Hour)
	}
	later := openTier(t, dir, opts())
	require.Eventually(t, func() bool { return later.Stats(all).Drops["orphan"] == 2 }, 5*time.Second, time.Millisecond)
	settled(t, later)
	require.Equal(t, []string{ObjectName(blocks[0].Name, 64)}, buckettest.Files(t, dir))
}

func TestSweep_ForgetsWhatOthersDeletedAndKeepsWhatIsPutMeanwhile(t *testing.T) {
	dir := t.TempDir()
	a, b := openTier(t, dir, opts()), openTier(t, dir, opts())
	settled(t, a)
	settled(t, b)
	blocks := chain(root(""), 64*3, 1)
	put(t, a, blocks...)
	n, _, err := b.Delete(t.Context(), kvstore.Which{Name: blocks[2].Name})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, 3, a.Stats(all).Blocks)
	a.index.begin()
	put(t, a, blocks[0])
	a.index.settle(0)
	require.Equal(t, 1, a.Stats(all).Blocks, "only what was seen since the sweep began")
	require.NoError(t, a.sweep(t.Context()))
	require.Equal(t, 2, a.Stats(all).Blocks)
}

func TestSweep_TellsTheFolderWhatWasUsed(t *testing.T) {
	dir := t.TempDir()
	tier := openTier(t, dir, opts())
	settled(t, tier)
	blocks := chain(root(""), 64*2, 1)
	put(t, tier, blocks...)
	for _, b := range blocks {
		age(t, fileOf(dir, b), 5*time.Hour)
	}
	tier.Touch(blocks[0].Name)
	require.NoError(t, tier.sweep(t.Context()))
	i, err := os.Stat(fileOf(dir, blocks[0]))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), i.ModTime(), time.Minute, "so a restart knows it too")
	i, err = os.Stat(fileOf(dir, blocks[1]))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(-5*time.Hour), i.ModTime(), time.Minute)
}

func TestSweep_FollowsOwnWrites(t *testing.T) {
	dir := t.TempDir()
	blocks := chain(root(""), 64*8, 1)
	o := opts()
	o.BudgetBytes = 32 * block.ObjectSize(blocks[0], false)
	tier := openTier(t, dir, o)
	settled(t, tier)
	foreign := write(t, filepath.Join(dir, blocks[0].Root.String(), "x"), 5000)
	put(t, tier, blocks...) // a quarter of the budget
	require.Eventually(t, func() bool {
		return tier.Stats(all).Bytes == 8*block.ObjectSize(blocks[0], false)+5000
	}, 5*time.Second, time.Millisecond, "the interval is an hour")
	require.FileExists(t, foreign)
}

func TestSweep_PagesThroughABucket(t *testing.T) {
	if testing.Short() {
		t.Skip("2,500 objects over HTTP")
	}
	f := newS3(t)
	s, err := bucket.Open(t.Context(), f.url, true, 10*time.Second)
	require.NoError(t, err)
	defer s.Close()
	r := root("").String()
	names := make([]string, 2*bucket.PageSize+500)
	for i := range names {
		names[i] = r + "/" + block.Key{byte(i), byte(i >> 8)}.String() + "/" + block.Key{1, byte(i), byte(i >> 8)}.String()
	}
	require.NoError(t, each(names, func(n string) error { return s.Write(t.Context(), n, bucket.Writing([]byte("x"))) }))
	var got []string
	require.NoError(t, s.List(t.Context(), r+"/", func(o bucket.Object) error { got = append(got, o.Name); return nil }))
	slices.Sort(names)
	require.Equal(t, names, got)
	tops := 0
	require.NoError(t, s.Top(t.Context(), func(o bucket.Object) error {
		tops++
		require.Equal(t, bucket.Object{Name: r, Folder: true}, o)
		return nil
	}))
	require.Equal(t, 1, tops)
}

// A start does not wait for what lies in the store.
func TestOpen_IsReadyWithTenThousandBlocksAsWithNone(t *testing.T) {
	s := buckettest.New(t)
	hold := make(chan struct{})
	s.Set(buckettest.Fault{Top: hold})
	tier := over(t, s, opts())
	b := chain(root(""), 64, 1)[0]
	put(t, tier, b)
	_, err := tier.Get(t.Context(), b.Name, memory)
	require.NoError(t, err)
	tier.index.mu.Lock()
	require.Zero(t, tier.index.swept)
	tier.index.mu.Unlock()
	close(hold)
	settled(t, tier)
	require.Equal(t, 1, tier.Stats(all).Blocks)
}
