package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/host"
	"thoth/host/openai"
)

func keyFile(t *testing.T, text string) string {
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestSettings_KeyFileMayHaveNamesScopesAndLimits(t *testing.T) {
	file := keyFile(t, `[{"name":"web","key":"secret-one","concurrent_requests":2},{"name":"ops","key":"secret-two","scopes":["admin"],"requests_per_minute":0}]`)
	o, err := parse(t, "--api-keys=plain", "--api-keys-file="+file, "--key-requests-per-minute=60").options(zerolog.Nop())
	require.NoError(t, err)
	require.Equal(t, []string{"plain"}, o.APIKeys)
	require.Equal(t, host.KeyLimits{RequestsPerMinute: 60}, o.KeyLimits)
	require.Len(t, o.Keys, 2)
	require.Equal(t, host.KeyLimits{RequestsPerMinute: 60, ConcurrentRequests: 2}, o.Keys[0].Limits)
	require.Equal(t, host.KeyLimits{}, o.Keys[1].Limits)
	require.Equal(t, []host.KeyScope{host.ScopeAdmin}, o.Keys[1].Scopes)
	_, err = host.New(o)
	require.NoError(t, err)
}

func TestSettings_KeysAndLimitsThatCannotBeAreRefusedByName(t *testing.T) {
	good := keyFile(t, `[{"name":"web","key":"secret-one"}]`)
	for want, args := range map[string][]string{
		"THOTH_API_KEYS_FILE":                      {"--api-keys-file=" + keyFile(t, `[{"name":"web","key":"secret-one","scope":"x"}]`)},
		"concurrent_requests is -1":                {"--api-keys-file=" + keyFile(t, `[{"name":"web","key":"secret-one","concurrent_requests":-1}]`)},
		"THOTH_ADMIN_KEYS_FILE":                    {"--admin-keys-file=" + good},
		"THOTH_KEY_TOKENS_PER_MINUTE is -1":        {"--api-keys=k", "--key-tokens-per-minute=-1"},
		"and there is none":                        {"--key-concurrent-requests=1"},
		"THOTH_MAX_STOPS is 17":                    {"--max-stops=17"},
		"THOTH_MAX_JSON_DEPTH is 7":                {"--max-json-depth=7"},
		"THOTH_MAX_TOOLS is 0: it must be above 0": {"--max-tools=0"},
	} {
		_, err := parse(t, args...).options(zerolog.Nop())
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestSettings_LimitsOfRequestsReachTheHost(t *testing.T) {
	o, err := parse(t, "--max-json-depth=9", "--max-messages=1", "--max-parts=8", "--max-choices=2", "--max-answers=7", "--max-stops=3", "--max-stop-bytes=4", "--max-tools=5", "--max-logit-bias=6").options(zerolog.Nop())
	require.NoError(t, err)
	require.Equal(t, openai.Limits{Depth: 9, Messages: 1, Parts: 8, Choices: 2, Stops: 3, StopBytes: 4, Tools: 5, LogitBias: 6, Answers: 7}, o.Limits)
	o, err = parse(t).options(zerolog.Nop())
	require.NoError(t, err)
	require.Equal(t, openai.Limits{}.WithDefaults(), o.Limits, "the settings' defaults are those of the package")
}
