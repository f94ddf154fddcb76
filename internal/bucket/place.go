package bucket

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// InCache makes the folder of a store that nobody gave a place, in the cache
// directory, or says why it cannot be there. setting is where a place is given, and
// what is kept there, in a word.
func InCache(cache, folder, setting, what string) (dir, why string) {
	if cache == "" {
		return "", "there is no cache directory: set THOTH_CACHE or " + setting
	}
	dir = filepath.Join(cache, folder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Sprintf("the cache directory cannot be used: %v", err)
	}
	if OnMemory(dir) {
		return "", "the cache directory is kept in memory, which would fill it: set " + setting + " to keep " + what + " there all the same"
	}
	return dir, ""
}

// KeyBytes is the length of a key that seals what is stored.
const KeyBytes = 32

// ParseKey reads a key as settings give it; "" is none, and nil.
func ParseKey(text string) ([]byte, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	if k, err := hex.DecodeString(text); err == nil && len(k) == KeyBytes {
		return k, nil
	}
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if k, err := e.DecodeString(text); err == nil && len(k) == KeyBytes {
			return k, nil
		}
	}
	return nil, errors.New("want 32 bytes, as 64 hex digits or in base64 (openssl rand -hex 32 makes such a key)")
}
