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

	"thoth/internal/gguf"
)

// digestRecord remembers a file's digest while its size and time stay the same:
// hashing a large model takes minutes.
type digestRecord struct {
	Size   int64     `json:"size"`
	Time   time.Time `json:"mtime"`
	Digest string    `json:"sha256"`
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
	fi, err := os.Stat(abs)
	if err != nil {
		return "", err
	}
	record := recordPath(abs)
	if b, err := os.ReadFile(record); err == nil && record != "" {
		var r digestRecord
		if json.Unmarshal(b, &r) == nil && r.Size == fi.Size() && r.Time.Equal(fi.ModTime()) && r.Digest != "" {
			return r.Digest, nil
		}
	}
	f, err := os.Open(abs)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, stoppable{ctx, f}); err != nil {
		return "", fmt.Errorf("reading %s: %w", filepath.Base(abs), err)
	}
	r := digestRecord{Size: fi.Size(), Time: fi.ModTime(), Digest: hex.EncodeToString(h.Sum(nil))}
	if record != "" {
		keep(record, r)
	}
	return r.Digest, nil
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
	dir := cacheDir()
	if dir == "" {
		return ""
	}
	name := sha256.Sum256([]byte(abs))
	return filepath.Join(dir, "digests", hex.EncodeToString(name[:])+".json")
}

// cacheDir is where this program may leave files for its next start; "" when
// there is no such place.
func cacheDir() string {
	if dir := os.Getenv("THOTH_CACHE"); dir != "" {
		return dir
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(base, "thoth")
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
