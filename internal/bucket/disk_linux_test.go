package bucket

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestOnMemory_KnowsADiskOfMemory(t *testing.T) {
	require.False(t, OnMemory("/proc/self"), "proc is neither")
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a tmpfs is not permitted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	require.True(t, OnMemory(dir))
	require.True(t, OnMemory(filepath.Join(dir, "not", "there")), "where a folder would come to be")
}
