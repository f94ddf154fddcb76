package cold

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"thoth/internal/bucket/buckettest"
	"thoth/station/kvstore/block"
)

// tmpfs mounts a disk of memory of so many bytes.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("mounting a tmpfs is not permitted here (%v): the full disk of a writer that fails is tested by TestTier_AFullDiskStillReads", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

func TestTier_OnADiskThatIsFull(t *testing.T) {
	dir := tmpfs(t, "size=512k")
	tier := openTier(t, dir, opts()) // the budget is larger than the disk
	settled(t, tier)
	blocks := chain(root(""), 64*12, 1)
	var err error
	written := 0
	for _, b := range blocks {
		if err = tier.Put(t.Context(), b); err != nil {
			break
		}
		written++
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.GreaterOrEqual(t, written, 5)
	require.Len(t, buckettest.Files(t, dir), written, "the half file is gone")
	require.Positive(t, tier.Stats(all).Failures)
	for _, b := range blocks[:written] {
		got, err := tier.Get(t.Context(), b.Name, memory)
		require.NoError(t, err)
		require.Equal(t, b, got)
	}
	_, err = tier.Get(t.Context(), blocks[written].Name, memory)
	require.Error(t, err)
	require.Empty(t, tier.Stats(all).Drops)
	require.Less(t, tier.Stats(all).FreeBytes, block.ObjectSize(blocks[0], false))
}
