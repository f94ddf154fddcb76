package listen

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClearSocket_RemovesOnlyADeadSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	require.NoError(t, ClearSocket(path), "nothing there")

	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	require.ErrorIs(t, ClearSocket(path), ErrInUse)
	require.FileExists(t, path)

	ln.(*net.UnixListener).SetUnlinkOnClose(false) // as a process that is killed leaves it
	require.NoError(t, ln.Close())
	require.FileExists(t, path, "or this test proves nothing")
	require.NoError(t, ClearSocket(path))
	require.NoFileExists(t, path)
}

func TestClearSocket_LeavesOtherFilesAlone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("kept"), 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(file, link))
	for _, path := range []string{file, link, dir} {
		require.ErrorContains(t, ClearSocket(path), path+" is there and is no socket")
	}
	b, err := os.ReadFile(link)
	require.NoError(t, err)
	require.Equal(t, "kept", string(b))
}
