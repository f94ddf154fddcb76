package responses

import (
	"encoding/base64"
	"encoding/binary"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// A client that keeps nothing on the server replays reasoning by encrypted_content, and
// drops its text. That text is no secret from this client, who reads it in content, so
// it is not encrypted: the token is the text and its checksum, and is read back by every
// server, after a restart too. It is no proof that a model wrote the text.

const (
	sealPrefix = "thoth1."
	sealSum    = 8 // bytes of the checksum, ahead of the text
)

// seal is the token of a reasoning's text.
func seal(text string) string {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, sealSum+len(text)), xxhash.Sum64String(text))
	return sealPrefix + base64.RawURLEncoding.EncodeToString(append(b, text...))
}

// unseal is the text of a token, if it is one of ours and whole.
func unseal(token string) (text string, ok bool) {
	raw, found := strings.CutPrefix(token, sealPrefix)
	b, err := base64.RawURLEncoding.DecodeString(raw)
	if !found || err != nil || len(b) < sealSum {
		return "", false
	}
	text = string(b[sealSum:])
	return text, binary.LittleEndian.Uint64(b) == xxhash.Sum64String(text)
}
