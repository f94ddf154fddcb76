package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a waiting pull tries the lock again; flock has no wait
// that a signal's context could end.
const lockPoll = 200 * time.Millisecond

// CacheDir is the folder models are kept in: dir if given, else $THOTH_CACHE,
// else thoth below the user's cache folder.
func CacheDir(dir string) (string, error) {
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache folder: %w; set THOTH_CACHE or --dir", err)
		}
		dir = filepath.Join(base, "thoth")
	}
	return filepath.Abs(dir)
}

// ModelPath is where a spec's file lies, or will lie, in a cache folder.
func ModelPath(cacheDir string, s *Spec) string {
	if s.Kind == KindPath {
		return s.Path
	}
	return filepath.Join(cacheDir, "models", s.Rel)
}

// meta is what is remembered of a file that was once checked.
type meta struct {
	Source  string    `json:"source"`
	SHA256  string    `json:"sha256"`
	From    string    `json:"from_sha256,omitempty"` // of the weights it was converted from
	Size    int64     `json:"size"`
	ModTime time.Time `json:"mod_time"`
	Trusted bool      `json:"trusted"` // the digest was compared with one known from elsewhere
}

// wanted is the digest that a spec's checksum speaks of.
func (m meta) wanted(s *Spec) string {
	if s.Converts() {
		return m.From
	}
	return m.SHA256
}

func metaPath(file string) string { return file + ".meta.json" }

func readMeta(file string) (meta, bool) {
	var m meta
	b, err := os.ReadFile(metaPath(file))
	if err != nil || json.Unmarshal(b, &m) != nil || !hexDigest.MatchString(m.SHA256) {
		return meta{}, false
	}
	return m, true
}

func writeMeta(file string, m meta) error {
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	m.Size, m.ModTime = st.Size(), st.ModTime()
	return writeJSON(metaPath(file), m)
}

// writeJSON replaces a small file as a whole.
func writeJSON(file string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	tmp := file + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}

// publish gives a checked file its final name, so that it is there as a whole or
// not at all, also after a power cut.
func publish(tmp, file string, m meta) error {
	f, err := os.Open(tmp)
	if err != nil {
		return err
	}
	err = errors.Join(f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("write %s to disk: %w", filepath.Base(file), err)
	}
	if err := os.Rename(tmp, file); err != nil {
		return err
	}
	if d, err := os.Open(filepath.Dir(file)); err == nil {
		_ = d.Sync() // some file systems cannot sync a folder; the file itself is safe
		_ = d.Close()
	}
	return writeMeta(file, m)
}

// lock holds FILE.lock until release is called. wait is told once when another
// process has it.
func lock(ctx context.Context, file string, wait func()) (release func(), err error) {
	f, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for told := false; ; told = true {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			// The lock file stays: removing it would let two pulls hold two files
			// of one name.
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", file, err)
		}
		if !told {
			wait()
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			_ = f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// spaceMargin is left free on the disk beside the model.
const spaceMargin = 64 << 20

// FreeBytes is what an unprivileged process may still write below a folder.
func FreeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// checkSpace refuses a download that cannot end well before it starts.
func checkSpace(dir string, need int64, free func(string) (int64, error)) error {
	if need <= 0 {
		return nil
	}
	have, err := free(dir)
	if err != nil {
		return err
	}
	if have < need+spaceMargin {
		return permanent(fmt.Errorf("not enough disk space in %s: %s needed (with a margin of %s), %s free; free some, or choose another folder with THOTH_CACHE or --dir",
			dir, size(need+spaceMargin), size(spaceMargin), size(have)))
	}
	return nil
}

// contextReader ends a long read of a local file when ctx ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}
