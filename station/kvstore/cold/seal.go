package cold

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"thoth/internal/bucket"
	"thoth/station/kvstore/block"
)

// KeyBytes is the length of a master key.
const KeyBytes = bucket.KeyBytes

// ParseKey reads a master key as THOTH_KV_KEY gives it; "" is none, and nil.
func ParseKey(text string) ([]byte, error) {
	key, err := bucket.ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("THOTH_KV_KEY: %w", err)
	}
	return key, nil
}

// Fingerprint names a master key without telling it, for block.Identity.Sealed;
// "" for none.
func Fingerprint(master []byte) string {
	if len(master) == 0 {
		return ""
	}
	k, err := hkdf.Key(sha256.New, master, nil, "thoth kv fingerprint", 16)
	if err != nil {
		panic(err) // only for more output than a hash can give
	}
	return hex.EncodeToString(k)
}

// Sealer gives each root its own key: HKDF-SHA256 of the master key. A nil Sealer
// stores in the clear.
type Sealer struct {
	master []byte

	mu   sync.Mutex
	keys map[block.Key]cipher.AEAD
}

// sealerKeys bounds the keys that are kept; the next is derived again.
const sealerKeys = 256

// NewSealer is a sealer with this master key; nil without one.
func NewSealer(master []byte) *Sealer {
	if len(master) == 0 {
		return nil
	}
	return &Sealer{master: master, keys: map[block.Key]cipher.AEAD{}}
}

// For is the seal of a root's blocks: nil for none.
func (s *Sealer) For(root block.Key) cipher.AEAD {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.keys[root]; a != nil {
		return a
	}
	if len(s.keys) >= sealerKeys {
		clear(s.keys)
	}
	a := newSeal(s.master, root)
	s.keys[root] = a
	return a
}

func newSeal(master []byte, root block.Key) cipher.AEAD {
	key, err := hkdf.Key(sha256.New, master, nil, string(root[:]), KeyBytes)
	if err != nil {
		panic(err) // only for more output than a hash can give
	}
	c, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // only for a key of another length
	}
	a, err := cipher.NewGCM(c)
	if err != nil {
		panic(err) // only for a cipher with other blocks than AES
	}
	return a
}
