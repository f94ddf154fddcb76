package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// digestRecord remembers a file's digest while its size and time stay the same:
// hashing a large model takes minutes.
type digestRecord struct {
	Size   int64     `json:"size"`
	Time   time.Time `json:"mtime"`
	Digest string    `json:"sha256"`
}

// digest gives the SHA-256 of a file, in hex, from the record kept in the cache
// folder where that is still true. A cache that cannot be used costs only time.
func digest(path string) (string, error) {
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
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", filepath.Base(abs), err)
	}
	r := digestRecord{Size: fi.Size(), Time: fi.ModTime(), Digest: hex.EncodeToString(h.Sum(nil))}
	if record != "" {
		keep(record, r)
	}
	return r.Digest, nil
}

func recordPath(abs string) string {
	dir := os.Getenv("THOTH_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(base, "thoth")
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
