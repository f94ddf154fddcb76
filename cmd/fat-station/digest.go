package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"thoth/internal/env"
	"thoth/internal/gguf"
)

// digestRecord remembers a file's digest while the file stays the same: hashing a
// large model takes minutes. Size and modification time do not tell: tools that
// copy a file give the new one the old one's time. The time of its last change
// cannot be set.
type digestRecord struct {
	Size    int64     `json:"size"`
	Time    time.Time `json:"mtime"`
	Changed time.Time `json:"ctime"`
	Inode   uint64    `json:"inode"`
	Digest  string    `json:"sha256"`
}

// digest gives a model's SHA-256 in hex: of its file, or of a split model's list
// of such digests, a line for each file in order (sha256sum of it gives the same).
func digest(ctx context.Context, model string) (string, error) {
	files, err := gguf.Files(model)
	if err != nil {
		return "", err
	}
	list := sha256.New()
	for _, path := range files {
		d, err := fileDigest(ctx, path)
		if err != nil || len(files) == 1 {
			return d, err
		}
		fmt.Fprintln(list, d)
	}
	return hex.EncodeToString(list.Sum(nil)), nil
}

// fileDigest gives the SHA-256 of a file, in hex, from the record kept in the
// cache folder where that is still true. A cache that cannot be used costs only
// time.
func fileDigest(ctx context.Context, path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	f, err := os.Open(abs)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", fmt.Errorf("reading %s: %w", filepath.Base(abs), err)
	}
	r := digestRecord{Size: st.Size, Time: time.Unix(st.Mtim.Unix()), Changed: time.Unix(st.Ctim.Unix()), Inode: st.Ino}
	record := recordPath(abs)
	if b, err := os.ReadFile(record); err == nil && record != "" {
		var old digestRecord
		if json.Unmarshal(b, &old) == nil && old.of(&r) && old.Digest != "" {
			return old.Digest, nil
		}
	}
	h := sha256.New()
	if _, err := io.Copy(h, stoppable{ctx, f}); err != nil {
		return "", fmt.Errorf("reading %s: %w", filepath.Base(abs), err)
	}
	r.Digest = hex.EncodeToString(h.Sum(nil))
	if record != "" {
		keep(record, r)
	}
	return r.Digest, nil
}

// of tells whether two records are of the same bytes.
func (r *digestRecord) of(now *digestRecord) bool {
	return r.Size == now.Size && r.Inode == now.Inode && r.Time.Equal(now.Time) && r.Changed.Equal(now.Changed)
}

// stoppable is a reader that fails once ctx has ended.
type stoppable struct {
	ctx context.Context
	r   io.Reader
}

func (s stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

func recordPath(abs string) string {
	dir := env.CacheDir()
	if dir == "" {
		return ""
	}
	name := sha256.Sum256([]byte(abs))
	return filepath.Join(dir, "digests", hex.EncodeToString(name[:])+".json")
}

func keep(record string, r digestRecord) {
	if os.MkdirAll(filepath.Dir(record), 0o700) != nil {
		return
	}
	b, err := json.Marshal(r)
	if err != nil {
		return
	}
	tmp := fmt.Sprintf("%s.%d", record, os.Getpid())
	if os.WriteFile(tmp, b, 0o600) == nil {
		_ = os.Rename(tmp, record)
	}
}
