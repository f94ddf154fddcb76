package bucket

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A file is written here and not by the driver, which asks the system more than twice as
// often for the same.

// path is where the file of a name lies.
func (s *Bucket) path(name string) string { return filepath.Join(s.Dir, filepath.FromSlash(name)) }

// writeFile gives a file its name when fill has written all of it, and synced it, where
// sync is given. It leaves nothing where that fails, or ctx has ended by then: its caller
// may have given the file up.
func writeFile(ctx context.Context, path string, fill func(io.Writer) error, sync func(*os.File) error) error {
	f, err := createBeside(path, os.MkdirAll)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil && sync != nil {
		err = sync(f)
	}
	if cerr := f.Close(); err == nil {
		err = cerr // a disk of the network says only now that it is full
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// mostSwept is how often a folder may be swept in the moment before there is a file in it.
const mostSwept = 10

// createBeside makes a temporary file beside a path, and the folders where there are none,
// by mkdirAll. Another process may sweep those, empty as they are: the last before the file
// is in it, and one before it while the next is made.
func createBeside(path string, mkdirAll func(string, fs.FileMode) error) (*os.File, error) {
	dir, name := filepath.Split(path)
	for swept := 0; ; swept++ {
		f, err := os.CreateTemp(dir, name+".*.tmp")
		if !errors.Is(err, fs.ErrNotExist) || swept == mostSwept {
			return f, err
		}
		if err := mkdirAll(dir, 0o700); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}
