//go:build e2e

package e2e

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ollama/ollama/fs/gguf"
	"github.com/stretchr/testify/require"
)

// vocabulary maps a token's bytes to its id. The test model's tokens are
// byte-level BPE: each byte is written as one printable character.
var vocabulary = sync.OnceValues(func() (map[string]int, error) {
	f, err := gguf.Open(model())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tokens := f.KeyValue("tokenizer.ggml.tokens").Strings()
	bytes := map[rune]byte{}
	spare := rune(256)
	for b := range 256 {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			bytes[rune(b)] = byte(b)
		} else {
			bytes[spare] = byte(b)
			spare++
		}
	}
	ids := make(map[string]int, len(tokens))
	for id, token := range tokens {
		var text strings.Builder
		for _, r := range token {
			text.WriteByte(bytes[r])
		}
		ids[text.String()] = id
	}
	return ids, nil
})

// tokenID is the id of the token with these bytes, as a key of logit_bias.
func tokenID(t *testing.T, text string) string {
	t.Helper()
	ids, err := vocabulary()
	require.NoError(t, err)
	id, ok := ids[text]
	require.True(t, ok, "the model has no token %q", text)
	return strconv.Itoa(id)
}

// bias is a logit_bias that makes one token win always, or never.
func bias(t *testing.T, text string, value float64) obj {
	t.Helper()
	return obj{"logit_bias": obj{tokenID(t, text): value}}
}
