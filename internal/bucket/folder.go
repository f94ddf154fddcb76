package bucket

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A folder is listed here and not by the driver, which walks all of it again for
// each page.

func (s *Bucket) top(ctx context.Context, each func(Object) error) error {
	return readDir(ctx, s.Dir, func(e fs.DirEntry, i fs.FileInfo) error {
		return each(Object{Name: e.Name(), Size: i.Size(), Time: i.ModTime(), Folder: e.IsDir()})
	})
}

// walk gives the files whose path below the folder begins with prefix.
func (s *Bucket) walk(ctx context.Context, prefix string, each func(Object) error) error {
	at, name := filepath.Split(prefix)
	var down func(at, name string) error
	down = func(at, name string) error {
		return readDir(ctx, filepath.Join(s.Dir, at), func(e fs.DirEntry, i fs.FileInfo) error {
			switch {
			case !strings.HasPrefix(e.Name(), name):
				return nil
			case e.IsDir():
				return down(at+e.Name()+"/", "")
			}
			return each(Object{Name: at + e.Name(), Size: i.Size(), Time: i.ModTime()})
		})
	}
	return down(at, name)
}

// readDir gives a folder's entries, so many at a time. What vanishes meanwhile
// was another process's to delete, and is no error.
func readDir(ctx context.Context, dir string, each func(fs.DirEntry, fs.FileInfo) error) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		list, err := d.ReadDir(PageSize)
		for _, e := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			i, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if err := each(e, i); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Used notes when an object was last used, where the store can: a folder, as the
// file's time, so that the order of eviction survives a restart.
func (s *Bucket) Used(name string, at time.Time) {
	if s.Dir != "" {
		_ = os.Chtimes(s.path(name), time.Time{}, at)
	}
}

// Prune removes the empty folders of a file store that have not changed since
// before, below and with those at the top that are ours. Removing one fails when
// another process has put a file in.
func (s *Bucket) Prune(ctx context.Context, before time.Time, ours func(folder string) bool) error {
	if s.Dir == "" {
		return nil
	}
	var down func(dir string) error
	down = func(dir string) error {
		return readDir(ctx, dir, func(e fs.DirEntry, i fs.FileInfo) error {
			if !e.IsDir() {
				return nil
			}
			path := filepath.Join(dir, e.Name())
			if err := down(path); err != nil {
				return err
			}
			if i.ModTime().Before(before) {
				_ = os.Remove(path)
			}
			return nil
		})
	}
	return readDir(ctx, s.Dir, func(e fs.DirEntry, i fs.FileInfo) error {
		if !e.IsDir() || !ours(e.Name()) {
			return nil
		}
		path := filepath.Join(s.Dir, e.Name())
		if err := down(path); err != nil {
			return err
		}
		if i.ModTime().Before(before) {
			_ = os.Remove(path)
		}
		return nil
	})
}
