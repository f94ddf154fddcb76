package stationtest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// kvScopes: what one scope stores no other can see, not even while its session
// lives in the pool.
func (s *suite) kvScopes(t *testing.T) {
	mine, other, prompt := s.scope(t), s.scope(t), s.words(t, "scopes", 130)
	session := s.kvStored(t, mine, prompt, nil)
	for _, scope := range []string{other, ""} {
		l := s.kvLoad(t, scope, prompt, 0)
		require.Zero(t, l.Position)
		s.requireReason(t, l.Reason, wire.KVNothing)
		s.kvEnd(t, l.Session)
		found, err := s.c.KVLookup(s.ctx(t), &wire.KVLookupRequest{Prompt: wire.Prompt{Tokens: prompt}, Scope: scope})
		require.NoError(t, err)
		require.Zero(t, found.Position)
		require.Empty(t, found.Keys)
	}
	s.kvEnd(t, session)
	require.Equal(t, len(prompt)-1, s.kvPosition(t, mine, prompt))
	require.Zero(t, s.kvPosition(t, other, prompt))

	// A key of one scope is none of another's.
	s.kvStored(t, other, prompt, &wire.KVSaveRequest{Release: true})
	a, b := s.kvKeys(t, mine, prompt), s.kvKeys(t, other, prompt)
	require.Len(t, a, 3)
	require.Len(t, b, 3)
	for i := range a {
		require.NotEqual(t, a[i], b[i])
	}
}

// kvPosition is what a load restores of a prompt now.
func (s *suite) kvPosition(t *testing.T, scope string, prompt []int32) int {
	t.Helper()
	l := s.kvLoad(t, scope, prompt, 0)
	s.kvEnd(t, l.Session)
	return l.Position
}

func (s *suite) kvKeys(t *testing.T, scope string, prompt []int32) []string {
	t.Helper()
	s.kvSettle(t)
	a, err := s.c.KVLookup(s.ctx(t), &wire.KVLookupRequest{Prompt: wire.Prompt{Tokens: prompt}, Scope: scope})
	require.NoError(t, err)
	return a.Keys
}

// kvDelete drops by group, key, scope, and all; also what was captured a moment
// ago.
func (s *suite) kvDelete(t *testing.T) {
	drop := func(t *testing.T, q *wire.KVDeleteRequest) *wire.KVDeleteResponse {
		t.Helper()
		a, err := s.c.KVDelete(s.ctx(t), "", q)
		require.NoError(t, err)
		require.False(t, a.Session)
		return a
	}
	gone := func(t *testing.T, scope string, prompt []int32) {
		t.Helper()
		l := s.kvLoad(t, scope, prompt, 0)
		require.Zero(t, l.Position)
		s.requireReason(t, l.Reason, wire.KVExpired, wire.KVNothing)
		s.kvEnd(t, l.Session)
	}
	for _, settled := range []bool{false, true} {
		name := map[bool]string{false: "at once", true: "settled"}[settled]
		store := func(t *testing.T, scope, topic, group string) []int32 {
			prompt := s.words(t, topic, 100)
			s.kvStored(t, scope, prompt, &wire.KVSaveRequest{Group: group, Release: true})
			if settled {
				s.kvSettle(t)
			}
			return prompt
		}
		t.Run("group, "+name, func(t *testing.T) {
			scope, other, group := s.scope(t), s.scope(t), s.nonce+name
			a, b, c := store(t, scope, "a", group), store(t, scope, "b", group+"2"), store(t, other, "a", group)
			require.Equal(t, 2, drop(t, &wire.KVDeleteRequest{Scope: &scope, Group: group}).Blocks)
			gone(t, scope, a)
			require.Equal(t, 99, s.kvPosition(t, scope, b))
			require.Equal(t, 99, s.kvPosition(t, other, c), "only of that scope")

			store(t, scope, "a", group)
			require.Equal(t, 4, drop(t, &wire.KVDeleteRequest{Group: group}).Blocks, "of all scopes")
			gone(t, scope, a)
			gone(t, other, c)
			require.Equal(t, 99, s.kvPosition(t, scope, b))
		})
		t.Run("scope, "+name, func(t *testing.T) {
			scope, other := s.scope(t), s.scope(t)
			a, b := store(t, scope, "a", ""), store(t, other, "a", "")
			d := drop(t, &wire.KVDeleteRequest{Scope: &scope})
			require.Equal(t, 2, d.Blocks)
			require.Positive(t, d.Bytes)
			gone(t, scope, a)
			require.Equal(t, 99, s.kvPosition(t, other, b))
			require.Zero(t, drop(t, &wire.KVDeleteRequest{Scope: &scope}).Blocks)

			store(t, scope, "a", "")
			require.Equal(t, 99, s.kvPosition(t, scope, a), "it can be stored again")
		})
	}
	t.Run("key", func(t *testing.T) {
		scope, prompt := s.scope(t), s.words(t, "key", 150)
		s.kvStored(t, scope, prompt, &wire.KVSaveRequest{Release: true})
		keys := s.kvKeys(t, scope, prompt)
		require.Len(t, keys, 3)
		require.Equal(t, 1, drop(t, &wire.KVDeleteRequest{Keys: keys[2:]}).Blocks)
		require.Equal(t, 128, s.kvPosition(t, scope, prompt))
		drop(t, &wire.KVDeleteRequest{Keys: keys[:1]})
		require.Zero(t, s.kvPosition(t, scope, prompt), "nothing is reached without its parent")
	})
	t.Run("a session and blocks", func(t *testing.T) {
		scope, prompt := s.scope(t), s.words(t, "both", 70)
		session := s.kvStored(t, scope, prompt, nil)
		a, err := s.c.KVDelete(s.ctx(t), session, &wire.KVDeleteRequest{Scope: &scope})
		require.NoError(t, err)
		require.True(t, a.Session)
		require.Equal(t, 2, a.Blocks)
		s.requireGone(t, session)
		gone(t, scope, prompt)
	})
	t.Run("all", func(t *testing.T) {
		scope, prompt := s.scope(t), s.words(t, "all", 100)
		s.kvStored(t, scope, prompt, &wire.KVSaveRequest{Release: true})
		require.GreaterOrEqual(t, drop(t, &wire.KVDeleteRequest{All: true}).Blocks, 2)
		gone(t, scope, prompt)
		s.kvSettle(t)
		x := s.kvIndexNow(t)
		require.Zero(t, x.Warm.Blocks+x.Cold.Blocks+x.Pending+x.Dirty+x.Pinned)
		require.Zero(t, x.Warm.UsableBytes+x.Cold.UsableBytes)
		require.Empty(t, x.Top)
	})
}

// kvHold: pin and ttl hold blocks, up to the highest of the points.
func (s *suite) kvHold(t *testing.T) {
	for name, q := range map[string]wire.KVSaveRequest{"pin": {Pin: true}, "ttl": {TTLSeconds: 3600}, "points": {Pin: true, Points: []int{10, 64}, Group: "g", Name: "a name"}} {
		t.Run(name, func(t *testing.T) {
			scope, prompt := s.scope(t), s.words(t, "hold", 100)
			s.kvSettle(t)
			before := s.kvIndexNow(t).Pinned
			q.Release = true
			s.kvStored(t, scope, prompt, &q)
			s.kvSettle(t)
			held := 2
			if q.Points != nil {
				held = 1
			}
			require.Equal(t, before+held, s.kvIndexNow(t).Pinned)
			require.Equal(t, 99, s.kvPosition(t, scope, prompt))
			_, err := s.c.KVDelete(s.ctx(t), "", &wire.KVDeleteRequest{Scope: &scope})
			require.NoError(t, err)
			require.Equal(t, before, s.kvIndexNow(t).Pinned, "a pin is no shield against its owner")
		})
	}
}

// kvLookup tells what a load would find, and moves nothing.
func (s *suite) kvLookup(t *testing.T) {
	scope, prompt := s.scope(t), s.words(t, "lookup", 130)
	s.kvStored(t, scope, prompt, &wire.KVSaveRequest{Release: true})
	s.kvSettle(t)
	before := s.kvStill(t)
	look := func(p []int32) *wire.KVLookupResponse {
		a, err := s.c.KVLookup(s.ctx(t), &wire.KVLookupRequest{Prompt: wire.Prompt{Tokens: p}, Scope: scope})
		require.NoError(t, err)
		require.Equal(t, len(p), a.Tokens)
		require.Equal(t, a.Position, a.Tiers.Hot+a.Tiers.Warm+a.Tiers.Cold)
		return a
	}
	all := look(prompt)
	require.Equal(t, len(prompt), all.Position)
	require.Empty(t, all.Reason)
	require.Len(t, all.Keys, 3)
	for _, k := range all.Keys {
		require.Len(t, k, 64)
		require.Equal(t, strings.ToLower(k), k)
	}
	part := look(s.forked(t, prompt, 100, 9))
	require.Equal(t, 100, part.Position)
	require.Equal(t, wire.KVDiffers, part.Reason)
	require.Equal(t, 100, part.DiffersAt)
	require.Equal(t, prompt[100], *part.StoredToken)
	require.Equal(t, all.Keys[:1], part.Keys[:1])
	longer := look(s.forked(t, prompt, 130, 9))
	require.Equal(t, 130, longer.Position)
	require.Equal(t, wire.KVEnds, longer.Reason)
	none := look(s.words(t, "none", 20))
	require.LessOrEqual(t, none.Position, 5)
	require.Equal(t, before, s.kvStill(t), "nothing is moved or counted")
}

// kvFlush writes down what only RAM has, where there is a store.
func (s *suite) kvFlush(t *testing.T) {
	scope, prompt := s.scope(t), s.words(t, "flush", 100)
	session := s.kvStored(t, scope, prompt, nil)
	a, err := s.c.KVFlush(s.ctx(t))
	require.NoError(t, err)
	require.GreaterOrEqual(t, min(a.Kept, a.Lost), 0)
	s.kvSettle(t)
	x := s.kvIndexNow(t)
	again := s.kvSave(t, session, len(prompt), &wire.KVSaveRequest{Scope: scope})
	require.Zero(t, again.Written)
	if x.Cold.State == "on" {
		require.Zero(t, a.Lost)
		require.Zero(t, x.Dirty)
		require.Zero(t, x.DirtyBytes)
		require.True(t, again.Durable)
		require.GreaterOrEqual(t, x.Cold.Blocks, 2)
	} else {
		require.Zero(t, a.Kept)
		require.False(t, again.Durable)
		require.NotEmpty(t, x.Cold.Reason)
	}
	s.kvEnd(t, session)
}

// kvIndex: the numbers add up.
func (s *suite) kvIndex(t *testing.T) {
	_, err := s.c.KVDelete(s.ctx(t), "", &wire.KVDeleteRequest{All: true})
	require.NoError(t, err)
	s.kvSettle(t)
	before := s.kvIndexNow(t)
	scope, prompt := s.scope(t), s.words(t, "index", 130)
	first := s.kvLoad(t, scope, prompt, 0)
	s.forward(t, first.Session, 0)
	s.kvSave(t, first.Session, len(prompt), &wire.KVSaveRequest{Scope: scope, Name: "a name", Group: "a group", Release: true})
	s.kvSettle(t)
	var loads []*wire.KVLoadResponse
	asked, found, hits := len(prompt), wire.KVTiers{}, wire.KVTiers{}
	for _, shared := range []int{50, 64, 130} {
		p := s.forked(t, prompt, shared, 9)
		l := s.kvLoad(t, scope, p, 0)
		s.kvEnd(t, l.Session)
		loads = append(loads, l)
		asked += len(p)
		for _, tier := range []struct{ tokens, sum, hits *int }{
			{&l.Tiers.Hot, &found.Hot, &hits.Hot}, {&l.Tiers.Warm, &found.Warm, &hits.Warm}, {&l.Tiers.Cold, &found.Cold, &hits.Cold},
		} {
			*tier.sum += *tier.tokens
			*tier.hits += min(1, *tier.tokens)
		}
	}
	s.kvSettle(t)
	x := s.kvIndexNow(t)
	require.Equal(t, 64, x.BlockTokens)
	require.Equal(t, s.model.KVBytesToken, x.TokenBytes)
	m, err := s.c.Model(s.ctx(t))
	require.NoError(t, err)
	require.True(t, m.Digest == "" || x.Root != "", "keys have a root once the weights are known")
	require.Equal(t, 1, x.Scopes)
	require.Equal(t, uint64(4), x.Loads-before.Loads)
	require.Equal(t, uint64(1), x.Saves-before.Saves)
	require.Equal(t, uint64(asked), x.TokensAsked-before.TokensAsked)
	require.Equal(t, uint64(len(prompt)), x.TokensWritten-before.TokensWritten)
	require.Equal(t, uint64(len(prompt)*s.model.KVBytesToken), x.ExportBytes-before.ExportBytes)
	require.Equal(t, uint64((found.Warm+found.Cold)*s.model.KVBytesToken), x.ImportBytes-before.ImportBytes)
	for _, reason := range []wire.KVReason{first.Reason, loads[0].Reason, loads[1].Reason, loads[2].Reason} {
		before.Short[string(reason)]++
	}
	require.Equal(t, before.Short, x.Short)
	require.Equal(t, 244, found.Hot+found.Warm+found.Cold)
	for _, tier := range []struct {
		name         string
		now, then    wire.KVTier
		tokens, hits int
	}{
		{"hot", x.Hot, before.Hot, found.Hot, hits.Hot}, {"warm", x.Warm, before.Warm, found.Warm, hits.Warm}, {"cold", x.Cold, before.Cold, found.Cold, hits.Cold},
	} {
		require.Equal(t, uint64(tier.tokens), tier.now.HitTokens-tier.then.HitTokens, tier.name)
		require.Equal(t, uint64(tier.hits), tier.now.Hits-tier.then.Hits, tier.name)
		require.Contains(t, []string{"on", "off", "failing"}, tier.now.State, tier.name)
		require.Equal(t, tier.now.State != "on", tier.now.Reason != "", tier.name)
		require.LessOrEqual(t, tier.now.UsableBytes, tier.now.Bytes, tier.name)
		if tier.now.State == "on" {
			require.Positive(t, tier.now.BudgetBytes, tier.name)
		}
	}
	require.Equal(t, 3, x.Warm.Blocks)
	require.GreaterOrEqual(t, x.Warm.UsableBytes, int64(len(prompt)*s.model.KVBytesToken))
	require.NotContains(t, x.Cold.Store, "/", "no path leaves the station")

	require.NotEmpty(t, x.Top)
	top := x.Top[0]
	require.Equal(t, []any{scope, "a group", "a name", len(prompt)}, []any{top.Scope, top.Group, top.Name, top.Tokens})
	require.Equal(t, s.kvKeys(t, scope, prompt)[2], top.Key)
	require.Positive(t, top.TokensSaved)
	require.False(t, top.LastUsed.IsZero())

	resp, body := s.raw.do(t, http.MethodGet, wire.RouteKVSession, "")
	require.Equal(t, 200, resp.StatusCode)
	var index, stats map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &index))
	_, body = s.raw.do(t, http.MethodGet, wire.RouteStats, "")
	require.NoError(t, json.Unmarshal([]byte(body), &stats))
	delete(index, "top") // who uses what is not for everybody
	requireShape(t, "kv", index, stats["kv"])
}
