package bucket

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FreeBytes is what the disk of a folder has left for us.
func FreeBytes(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0
	}
	return int64(s.Bavail) * int64(s.Bsize)
}

// OnMemory tells whether a folder lies, or would lie, on a disk that is memory
// (tmpfs, ramfs): what is kept there takes what the model needs, and survives no machine.
func OnMemory(dir string) bool {
	for dir, _ = filepath.Abs(dir); ; dir = filepath.Dir(dir) {
		var s unix.Statfs_t
		err := unix.Statfs(dir, &s)
		if err == nil {
			return s.Type == unix.TMPFS_MAGIC || s.Type == unix.RAMFS_MAGIC
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return false
		}
	}
}
