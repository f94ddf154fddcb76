package liquid

import (
	"crypto/sha256"
	"encoding/hex"
)

// Scope names whose stored prefixes a request may use. keyDigest stands for the
// authenticated key, so that what one key's clients sent never shows in what
// another's get, nor in how fast they get it; salt is a client's own and only
// narrows that. Without either it is the common scope "".
func Scope(keyDigest, salt string) string {
	if keyDigest == "" && salt == "" {
		return ""
	}
	h := sha256.New()
	h.Write([]byte(keyDigest))
	h.Write([]byte{0}) // a digest is hex: no key and salt run together
	h.Write([]byte(salt))
	return hex.EncodeToString(h.Sum(nil))
}
