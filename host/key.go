package host

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// KeyScope is what a key may be used for.
type KeyScope string

// The scopes. Every key may list the models and look at its own numbers.
const (
	ScopeInference KeyScope = "inference" // whatever asks the model
	ScopeAdmin     KeyScope = "admin"     // /liquid, the numbers of all keys, pinning
)

// Key is one API key. The key itself is not kept.
type Key struct {
	Name   string            // in logs, metrics and /stats; see [KeyName]
	SHA256 [sha256.Size]byte // of the key
	Scopes []KeyScope
	Limits KeyLimits
}

// KeyLimits bound what one key may use; 0: no limit.
type KeyLimits struct {
	RequestsPerMinute  int
	TokensPerMinute    int // of prompts and answers together
	ConcurrentRequests int
}

// KeyName is what the name of a key may look like: it is a label of metrics.
var KeyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// IsKeyFile tells a file for [ParseKeys] from one that has a key a line.
func IsKeyFile(b []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(b), []byte("[")) }

// Bounds of a file of keys.
const (
	maxKeyFileBytes = 4 << 20
	maxKeys         = 4096
)

// ReadKeyFile reads a file with keys whole.
func ReadKeyFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFileBytes+1))
	if err == nil && len(b) > maxKeyFileBytes {
		err = fmt.Errorf("%s is larger than %d bytes", file, maxKeyFileBytes)
	}
	return b, err
}

// keyEntry is one key as the file has it.
type keyEntry struct {
	Name               string     `json:"name"`
	Key                *string    `json:"key"`
	SHA256             *string    `json:"sha256"`
	Scopes             []KeyScope `json:"scopes"`
	RequestsPerMinute  *int       `json:"requests_per_minute"`
	TokensPerMinute    *int       `json:"tokens_per_minute"`
	ConcurrentRequests *int       `json:"concurrent_requests"`
}

// ParseKeys reads a JSON array of keys. What a key leaves out it has from
// defaults, and where scopes are absent it is for inference. An error names the entry and
// the field, and never shows a key.
func ParseKeys(b []byte, defaults KeyLimits) ([]Key, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, fmt.Errorf("it must be a JSON array of objects: %w", err)
	}
	switch {
	case len(raw) == 0:
		return nil, errors.New("it holds no key")
	case len(raw) > maxKeys:
		return nil, fmt.Errorf("it has %d keys: at most %d are allowed", len(raw), maxKeys)
	}
	keys := make([]Key, len(raw))
	for i := range raw {
		var err error
		if keys[i], err = parseKey(raw[i], defaults); err != nil {
			return nil, fmt.Errorf("key %d: %w", i, err)
		}
	}
	return keys, nil
}

func parseKey(raw []byte, defaults KeyLimits) (Key, error) {
	var e keyEntry
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields() // a misspelt limit would be none, in silence
	if err := dec.Decode(&e); err != nil {
		return Key{}, err
	}
	k := Key{Name: e.Name, Scopes: e.Scopes, Limits: defaults}
	switch {
	case (e.Key == nil) == (e.SHA256 == nil):
		return k, errors.New("give exactly one of key and sha256")
	case e.Key != nil:
		if !validKey(*e.Key) {
			return k, errors.New("key: it is empty or padded with white space")
		}
		k.SHA256 = sha256.Sum256([]byte(*e.Key))
	default:
		sum, err := hex.DecodeString(*e.SHA256)
		if err != nil || len(sum) != sha256.Size {
			return k, errors.New("sha256: it must be the SHA-256 of the key in 64 hex digits")
		}
		k.SHA256 = [sha256.Size]byte(sum)
	}
	if e.Scopes == nil { // an empty list would ask for a key that may do nothing, and is refused
		k.Scopes = []KeyScope{ScopeInference}
	}
	for _, f := range []struct {
		name string
		from *int
		to   *int
	}{
		{"requests_per_minute", e.RequestsPerMinute, &k.Limits.RequestsPerMinute},
		{"tokens_per_minute", e.TokensPerMinute, &k.Limits.TokensPerMinute},
		{"concurrent_requests", e.ConcurrentRequests, &k.Limits.ConcurrentRequests},
	} {
		if f.from == nil {
			continue
		}
		if *f.from < 0 {
			return k, fmt.Errorf("%s is %d: it must be above 0, or 0 for no limit", f.name, *f.from)
		}
		*f.to = *f.from
	}
	return k, k.check()
}

// check says what is wrong with a key, without showing it.
func (k Key) check() error {
	if !KeyName.MatchString(k.Name) {
		return fmt.Errorf("name is %q: it must have 1 to 64 of A-Z, a-z, 0-9, dot, dash and underscore", printable(k.Name))
	}
	if len(k.Scopes) == 0 {
		return fmt.Errorf("the key %s has no scope: allowed are %s and %s", k.Name, ScopeInference, ScopeAdmin)
	}
	for _, s := range k.Scopes {
		if s != ScopeInference && s != ScopeAdmin {
			return fmt.Errorf("scopes has %q: allowed are %s and %s", printable(string(s)), ScopeInference, ScopeAdmin)
		}
	}
	return k.Limits.check()
}

func (l KeyLimits) check() error {
	if least := min(l.RequestsPerMinute, l.TokensPerMinute, l.ConcurrentRequests); least < 0 {
		return fmt.Errorf("a limit of a key is %d: it must be above 0, or 0 for none", least)
	}
	return nil
}

func (k Key) may(s KeyScope) bool { return slices.Contains(k.Scopes, s) }

// allKeys are the keys of the options: those of the lists, named after list and
// place, and those with names of their own.
func (o Options) allKeys() ([]Key, error) {
	var keys []Key
	for _, list := range []struct {
		prefix string
		keys   []string
		scopes []KeyScope
	}{
		{"key", o.APIKeys, []KeyScope{ScopeInference}},
		{"admin", o.AdminKeys, []KeyScope{ScopeInference, ScopeAdmin}},
	} {
		for i, k := range list.keys {
			if !validKey(k) {
				return nil, errors.New("an API key is empty or padded with white space")
			}
			keys = append(keys, Key{fmt.Sprintf("%s-%d", list.prefix, i+1), sha256.Sum256([]byte(k)), list.scopes, o.KeyLimits})
		}
	}
	keys = append(keys, o.Keys...)
	names, sums := map[string]bool{}, map[[sha256.Size]byte]string{}
	for _, k := range keys {
		if err := k.check(); err != nil {
			return nil, err
		}
		if names[k.Name] {
			return nil, fmt.Errorf("two keys have the name %s", k.Name)
		}
		if other, twice := sums[k.SHA256]; twice {
			return nil, fmt.Errorf("%s and %s are the same key: give it once, with all its scopes", other, k.Name)
		}
		names[k.Name], sums[k.SHA256] = true, k.Name
	}
	if len(keys) == 0 && o.KeyLimits != (KeyLimits{}) {
		return nil, errors.New("there are limits of each key, and no keys")
	}
	if err := o.KeyLimits.check(); err != nil {
		return nil, err
	}
	return keys, nil
}

// validKey tells a key from a slip: padding would be lost on its way in a header.
func validKey(k string) bool { return k != "" && strings.TrimSpace(k) == k }
