package host

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseKeys_ReadsScopesLimitsAndDefaults(t *testing.T) {
	sum := sha256.Sum256([]byte("secret-two"))
	keys, err := ParseKeys([]byte(`[
		{"name":"web","key":"secret-one"},
		{"name":"batch","sha256":"`+strings.ToUpper(hex.EncodeToString(sum[:]))+`","scopes":["inference","admin"],
		 "requests_per_minute":0,"tokens_per_minute":1000,"concurrent_requests":2}]`), KeyLimits{RequestsPerMinute: 60, ConcurrentRequests: 9})
	require.NoError(t, err)
	require.Equal(t, []Key{
		{"web", sha256.Sum256([]byte("secret-one")), []KeyScope{ScopeInference}, KeyLimits{RequestsPerMinute: 60, ConcurrentRequests: 9}},
		{"batch", sum, []KeyScope{ScopeInference, ScopeAdmin}, KeyLimits{TokensPerMinute: 1000, ConcurrentRequests: 2}},
	}, keys)
}

func TestParseKeys_RefusesByEntryAndFieldAndShowsNoKey(t *testing.T) {
	for give, want := range map[string]string{
		`{}`:             "JSON array",
		`[]`:             "no key",
		`["secret"]`:     "key 0: ",
		`[{"name":"a"}]`: "key 0: give exactly one of key and sha256",
		`[{"name":"a","key":"secret","sha256":"` + strings.Repeat("0", 64) + `"}]`: "exactly one",
		`[{"name":"a","key":" secret"}]`:                                           "padded",
		`[{"name":"a","key":""}]`:                                                  "empty",
		`[{"name":"a","sha256":"secret"}]`:                                         "64 hex digits",
		`[{"name":"a","key":"secret"},{"key":"secret2"}]`:                          "key 1: name is",
		`[{"name":"a b","key":"secret"}]`:                                          `name is "a b"`,
		`[{"name":"a","key":"secret","scopes":["root"]}]`:                          "allowed are inference and admin",
		`[{"name":"a","key":"secret","scopes":[]}]`:                                "the key a has no scope: allowed are inference and admin",
		`[{"name":"a","key":"secret","requests_per_minute":-1}]`:                   "requests_per_minute is -1",
		`[{"name":"a","key":"secret","requests_per_minut":1}]`:                     "requests_per_minut",
		`[{"name":"a","key":"secret","concurrent_requests":"4"}]`:                  "concurrent_requests",
	} {
		_, err := ParseKeys([]byte(give), KeyLimits{})
		require.ErrorContains(t, err, want, give)
		require.NotContains(t, err.Error(), "secret", give)
	}
	require.True(t, IsKeyFile([]byte(" \n[{}]")))
	require.False(t, IsKeyFile([]byte("# keys\nsk-1\n")))
}

func TestOptions_KeysMustDiffer(t *testing.T) {
	one := Key{"one", sha256.Sum256([]byte("k")), []KeyScope{ScopeInference}, KeyLimits{}}
	for want, o := range map[string]Options{
		"are the same key":  {APIKeys: []string{"k"}, Keys: []Key{one}},
		"the name one":      {Keys: []Key{one, {"one", sha256.Sum256([]byte("x")), one.Scopes, KeyLimits{}}}},
		"no scope":          {Keys: []Key{{"one", one.SHA256, nil, KeyLimits{}}}},
		"and no keys":       {KeyLimits: KeyLimits{RequestsPerMinute: 1}},
		"limit of a key is": {APIKeys: []string{"k"}, KeyLimits: KeyLimits{TokensPerMinute: -1}},
	} {
		_, err := o.allKeys()
		require.ErrorContains(t, err, want)
	}
}
