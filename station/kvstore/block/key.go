package block

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Tokens is the number of positions of a full block.
const Tokens = 64

// Key names a block by all that its KV depends on: SHA-256 over the parent's key
// and the block's token ids. It is never computed from sizes, counts, names,
// paths or times.
type Key [sha256.Size]byte

// String is the key in hex.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// ParseKey reads what String wrote.
func ParseKey(s string) (Key, error) {
	var k Key
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(k) {
		return k, fmt.Errorf("%.80q is not a block key: want %d hex digits", s, 2*len(k))
	}
	copy(k[:], b)
	return k, nil
}

// Child is the key of the block of tokens below parent.
func (k Key) Child(tokens []int32) Key {
	b := make([]byte, 0, len(k)+4*len(tokens))
	b = append(b, k[:]...)
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return sha256.Sum256(b)
}

// Identity is all that a block's numbers depend on besides its tokens. Two
// stations with one identity compute the same KV for the same tokens.
type Identity struct {
	Digest         string // SHA-256 of the weights
	ABI            string // engine module version, patches and block format
	KVTypeK        string
	KVTypeV        string
	FlashAttention bool
	RoPE           string // what of RoPE the weights do not tell
	Kernel         string // kernel libraries in use
	Strict         bool   // Kernel is part of the identity; else it only stands in a block's header
	Sealed         string // of the encryption key, its fingerprint; "" when blocks are stored in the clear
}

// Root is the key that a scope's first blocks have as parent. adapters is the
// adapter set, digests and scales, "" for none.
func (i Identity) Root(scope, adapters string) Key {
	h := sha256.New()
	kernel := ""
	if i.Strict {
		kernel = i.Kernel
	}
	for _, s := range []string{"thoth kv 1", i.Digest, i.ABI, i.KVTypeK, i.KVTypeV, fmt.Sprint(i.FlashAttention), i.RoPE, kernel, i.Sealed, adapters, scope} {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:]) // lengths first, or two fields could trade a byte
		h.Write([]byte(s))
	}
	var k Key
	h.Sum(k[:0])
	return k
}

// Common is the length of the longest common prefix of two texts.
func Common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
