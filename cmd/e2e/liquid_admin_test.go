//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLiquidAdmin_LooksAndDeletes(t *testing.T) {
	s := start(t, "THOTH_API_KEYS=alice-key,bob-key", "THOTH_ADMIN_KEYS=root-key", storeIn(t.TempDir()))
	alice, bob, root := key("alice-key"), key("bob-key"), key("root-key")
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		path := "/liquid"
		if method == http.MethodDelete {
			path += "?all=true"
		}
		s.do(t, method, path, nil).Err(t, 401)
		require.Equal(t, "insufficient_permissions", s.do(t, method, path, nil, alice...).Err(t, 403)["code"])
	}
	pin := obj{"messages": []obj{user(words(66, 80))}, "prompt_cache_options": obj{"pin": true}}
	require.Equal(t, "prompt_cache_options.pin", s.do(t, http.MethodPost, chatPath, P(pin), alice...).Err(t, 403)["param"])

	look := func() obj {
		r := s.do(t, http.MethodGet, "/liquid", nil, root...)
		require.Equal(t, 200, r.Status, "%s", r.Body)
		require.NotContains(t, string(r.Body), "alice-key")
		return r.JSON(t)
	}
	q := func(seed uint64, group string) obj {
		return obj{"messages": []obj{user(words(seed, 100))}, "prompt_cache_key": group, "max_tokens": 4}
	}
	one, two := q(67, "one"), q(68, "two")
	answers := map[string]said{"one": s.say(t, one, alice...), "two": s.say(t, two, alice...), "bob": s.say(t, one, bob...)}
	s.restored(t, answers["one"], one, alice...)
	s.written(t)
	b, err := json.Marshal(look())
	require.NoError(t, err)
	for _, part := range []string{`"warm":{`, `"cold":{`, `"top":[`, `"tokens_saved":`} {
		require.Contains(t, string(b), part)
	}
	for _, bad := range []string{"", "?all=false", "?key=", "?all=true&key=one", "?al=true", "?key=one&key=two", "?%zz"} {
		s.do(t, http.MethodDelete, "/liquid"+bad, nil, root...).Err(t, 400)
	}
	remove := func(query string) int {
		r := s.do(t, http.MethodDelete, "/liquid?"+query, nil, root...)
		require.Equal(t, 200, r.Status, "%s", r.Body)
		return int(r.JSON(t)["blocks"].(float64))
	}
	require.Zero(t, remove("key=three"))
	require.Positive(t, remove("key=one"))
	for who, header := range map[string][]string{"alice": alice, "bob": bob} {
		a := s.say(t, one, header...)
		require.NoError(t, answers["one"].same(a))
		require.Equal(t, "miss", a.Gnosis.Memory, who)
		require.Equal(t, "prefix deleted", a.why(), who)
	}
	s.restored(t, answers["two"], two, alice...) // another key's are untouched
	s.written(t)
	require.Positive(t, remove("all=true"))
	x := s.kv(t)
	require.Zero(t, x.Warm.Blocks)
	require.Zero(t, x.Cold.Blocks)
	a := s.say(t, two, alice...)
	require.NoError(t, answers["two"].same(a))
	require.Equal(t, "miss", a.Gnosis.Memory)
}

// Why a prompt was not reused as far as one had thought is told to whoever asks:
// where it leaves what is stored, and with what words.
func TestLiquidAdmin_AMissCanBeUnderstood(t *testing.T) {
	s := start(t, "THOTH_ADMIN_KEYS=root-key", "THOTH_LOG_LEVEL=debug")
	root := key("root-key")
	beginning := words(71, 100)
	q := func(end string) obj { return obj{"messages": []obj{user(beginning + end)}, "max_tokens": 4} }
	s.say(t, q(" sugar is sweet"), root...)
	a := s.say(t, q(" salt is salty"), root...)
	require.Equal(t, "hit", a.Gnosis.Memory)
	require.Greater(t, a.Cached, 100)
	r := s.do(t, http.MethodGet, "/liquid", nil, root...)
	var report struct {
		Misses []struct {
			RequestID    string  `json:"request_id"`
			Reason       string  `json:"reason"`
			PrefixTokens int     `json:"prefix_tokens"`
			DiffersAt    int     `json:"differs_at"`
			Prompt       *string `json:"prompt"`
			Stored       *string `json:"stored"`
		} `json:"last_misses"`
	}
	require.NoError(t, json.Unmarshal(r.Body, &report), "%s", r.Body)
	require.Len(t, report.Misses, 2)
	m := report.Misses[0]
	require.Equal(t, a.Header.Get("X-Request-Id"), m.RequestID)
	require.Equal(t, "prompt differs from what is stored", m.Reason)
	require.Equal(t, a.Cached, m.PrefixTokens)
	require.Equal(t, a.Cached, m.DiffersAt)
	require.NotNil(t, m.Prompt)
	require.NotNil(t, m.Stored)
	require.Equal(t, "salt", strings.TrimSpace(*m.Prompt))
	require.Equal(t, "sugar", strings.TrimSpace(*m.Stored))
	eventually(t, "a line in the log", func() bool {
		return strings.Contains(s.log(), `"prefix not restored"`) && strings.Contains(s.log(), " sugar")
	})
}

// Prompts of a file are there before anybody asks, and again after the station
// has been away.
func TestLiquidAdmin_WarmPrompts(t *testing.T) {
	rules := words(72, 120)
	file := filepath.Join(t.TempDir(), "warm.json")
	b, err := json.Marshal([]obj{{"name": "rules", "messages": []obj{system(rules)}, "pin": true, "ttl": "1h"}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, b, 0o600))
	s := start(t, "THOTH_ADMIN_KEYS=root-key", "THOTH_API_KEYS=alice-key", "THOTH_LIQUID_WARM="+file, "THOTH_HEALTH_INTERVAL=200ms")
	for round := range 2 {
		eventually(t, "the warm prompt", func() bool {
			r := s.do(t, http.MethodGet, "/liquid", nil, key("root-key")...)
			return strings.Contains(string(r.Body), `"state":"stored"`)
		})
		q := obj{"messages": []obj{system(rules), user(fmt.Sprint("Question ", round))}, "max_tokens": 8}
		want := s.fresh(t, q, key("alice-key")...)
		a := s.restored(t, want, q, key("alice-key")...)
		require.Equal(t, "hit", a.Gnosis.Memory)
		require.Greater(t, a.Cached, 120)
		if round == 0 {
			pid := s.child(stationProgram)
			s.signalChild(t, stationProgram, 9)
			eventually(t, "another station", func() bool { now := s.child(stationProgram); return now != 0 && now != pid })
			s.readyAgain(t)
			eventually(t, "liquid memory", func() bool { return s.do(t, http.MethodGet, "/health", nil).JSON(t)["liquid_memory"] == true })
			// Until it is stored again /liquid says so.
			eventually(t, "its index", func() bool { return s.do(t, http.MethodGet, "/liquid", nil, key("root-key")...).Status == 200 })
		}
	}
}
