//go:build e2e

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The routes about text, and keys with limits, over the real programs.

func (s *server) tokens(t *testing.T, body obj) []any {
	t.Helper()
	r := s.do(t, "POST", "/tokenize", body)
	require.Equal(t, 200, r.Status, "%s", r.Body)
	return r.JSON(t)["tokens"].([]any)
}

func TestText_TokensMakeTheTextAgain(t *testing.T) {
	for _, text := range []string{"Hello there, world!", "  two  spaces\n\ttab", "naïve 本 🙂 ﷺ", "<|im_start|>user\nHi<|im_end|>\n", ""} {
		for _, special := range []bool{true, false} {
			ask := obj{"content": text, "parse_special": special}
			tokens := shared.tokens(t, ask)
			require.Equal(t, text, shared.do(t, "POST", "/detokenize", obj{"tokens": tokens}).JSON(t)["content"])
			ask["with_pieces"] = true
			var whole []byte
			for i, p := range shared.tokens(t, ask) {
				p := p.(obj)
				require.Equal(t, tokens[i], p["id"])
				switch piece := p["piece"].(type) {
				case string:
					whole = append(whole, piece...)
				case []any:
					for _, b := range piece {
						whole = append(whole, byte(b.(float64)))
					}
				}
			}
			require.Equal(t, text, string(whole))
		}
	}
	control := obj{"content": "<|im_end|>"}
	require.Len(t, shared.tokens(t, control), 1)
	control["parse_special"] = false
	require.Greater(t, len(shared.tokens(t, control)), 1, "as text it is many tokens")
	require.Contains(t, shared.do(t, "POST", "/detokenize", obj{"tokens": []int{1 << 30}}).Err(t, 400)["message"], "this model's ids run from 0 to")
}

func TestText_AppliedTemplateHasTheTokensOfTheChat(t *testing.T) {
	for _, messages := range [][]obj{
		{{"role": "user", "content": "Say hi"}},
		{{"role": "system", "content": "Be kind."}, {"role": "user", "content": rivers}, {"role": "assistant", "content": "They flow."}, {"role": "user", "content": "Where?"}},
	} {
		r := shared.do(t, "POST", "/apply-template", obj{"messages": messages})
		require.Equal(t, 200, r.Status, "%s", r.Body)
		prompt := r.JSON(t)["prompt"].(string)
		require.Contains(t, prompt, messages[len(messages)-1]["content"])
		require.Len(t, shared.tokens(t, obj{"content": prompt}), promptTokens(t, messages...))
	}
}

func TestKeys_LimitsOfAKeyFile(t *testing.T) {
	sum := sha256.Sum256([]byte("secret-small"))
	file := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `[
		{"name":"small","sha256":%q,"requests_per_minute":2,"tokens_per_minute":1000000},
		{"name":"debtor","key":"secret-debtor","tokens_per_minute":20},
		{"name":"ops","key":"secret-ops","scopes":["admin"]}]`, hex.EncodeToString(sum[:])), 0o600))
	s := start(t, "THOTH_API_KEYS_FILE="+file)
	say := func(key string) reply {
		return s.do(t, "POST", chatPath, P(obj{"max_tokens": 4}), "Authorization", "Bearer "+key)
	}
	r := say("secret-small")
	require.Equal(t, 200, r.Status, "%s", r.Body)
	require.Equal(t, "1", r.Header.Get("x-ratelimit-remaining-requests"))
	require.Equal(t, 200, say("secret-small").Status)
	r = say("secret-small")
	require.Equal(t, "rate_limit_exceeded", r.Err(t, 429)["code"])
	after, err := strconv.Atoi(r.Header.Get("Retry-After"))
	require.NoError(t, err)
	require.InDelta(t, 20, after, 20)

	require.Equal(t, 200, say("secret-debtor").Status, "a prompt may cost more than a minute's worth")
	require.Contains(t, say("secret-debtor").Err(t, 429)["message"], "tokens per minute: this key may use 20")
	require.Equal(t, "insufficient_permissions", say("secret-ops").Err(t, 403)["code"])

	metrics := string(s.do(t, "GET", "/metrics", nil, "Authorization", "Bearer secret-ops").Body)
	require.Contains(t, metrics, `thoth_key_limited_total{key="small"} 1`)
	require.NotContains(t, string(s.do(t, "GET", "/metrics", nil, "Authorization", "Bearer secret-small").Body), "thoth_key_")
	require.NotContains(t, metrics+s.log(), "secret-")
	require.Equal(t, 3, strings.Count(metrics, "thoth_key_requests_total{"))
}
