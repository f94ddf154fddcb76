package main

import (
	"fmt"
	"slices"
	"strings"

	"thoth/host"
)

// keys are the API keys of all settings, and the limits of each.
type keys struct {
	inference, admin []string
	named            []host.Key // of a JSON file
	limits           host.KeyLimits
}

// keys reads them. Errors name the variable and show no key.
func (s *settings) keys() (k keys, err error) {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"THOTH_KEY_REQUESTS_PER_MINUTE", s.KeyRequestsPerMinute}, {"THOTH_KEY_TOKENS_PER_MINUTE", s.KeyTokensPerMinute},
		{"THOTH_KEY_CONCURRENT_REQUESTS", s.KeyConcurrentRequests},
	} {
		if f.value < 0 {
			return k, fmt.Errorf("%s is %d: it must be above 0, or 0 for no limit", f.name, f.value)
		}
	}
	k.limits = host.KeyLimits{RequestsPerMinute: s.KeyRequestsPerMinute, TokensPerMinute: s.KeyTokensPerMinute, ConcurrentRequests: s.KeyConcurrentRequests}
	if k.inference, k.named, err = readKeys("THOTH_API_KEYS", s.APIKeys, s.APIKeysFile, k.limits); err != nil {
		return k, err
	}
	var named []host.Key
	if k.admin, named, err = readKeys("THOTH_ADMIN_KEYS", s.AdminKeys, s.AdminKeysFile, k.limits); err != nil {
		return k, err
	}
	if named != nil {
		return k, fmt.Errorf("THOTH_ADMIN_KEYS_FILE: %s is a JSON file: keys with scopes of their own belong into that of THOTH_API_KEYS_FILE", s.AdminKeysFile)
	}
	for _, key := range k.admin {
		if slices.Contains(k.inference, key) {
			return k, fmt.Errorf("THOTH_ADMIN_KEYS and THOTH_API_KEYS hold the same key: a key is of one kind, and an admin key may do all that an API key may")
		}
	}
	if k.limits != (host.KeyLimits{}) && len(k.inference)+len(k.admin)+len(k.named) == 0 {
		return k, fmt.Errorf("THOTH_KEY_REQUESTS_PER_MINUTE, THOTH_KEY_TOKENS_PER_MINUTE and THOTH_KEY_CONCURRENT_REQUESTS limit each key, and there is none: set THOTH_API_KEYS or THOTH_API_KEYS_FILE")
	}
	return k, nil
}

// readKeys joins the keys of a variable and of its twin with _FILE, which has a
// key a line or is JSON. A file that is named and holds no key is an error: it
// would open the server to everybody.
func readKeys(name string, given []string, file string, limits host.KeyLimits) (plain []string, named []host.Key, err error) {
	for _, k := range given {
		if k = strings.TrimSpace(k); k != "" {
			plain = append(plain, k)
		}
	}
	if len(given) > 0 && len(plain) == 0 {
		return nil, nil, fmt.Errorf("%s holds no key", name)
	}
	if file == "" {
		return plain, nil, nil
	}
	b, err := host.ReadKeyFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%s_FILE: %w", name, err)
	}
	if host.IsKeyFile(b) {
		if named, err = host.ParseKeys(b, limits); err != nil {
			return nil, nil, fmt.Errorf("%s_FILE: %s: %w", name, file, err)
		}
		return plain, named, nil
	}
	before := len(plain)
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			plain = append(plain, line)
		}
	}
	if len(plain) == before {
		return nil, nil, fmt.Errorf("%s_FILE: %s holds no key", name, file)
	}
	return plain, named, nil
}
