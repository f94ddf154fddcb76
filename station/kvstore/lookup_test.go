package kvstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

func TestStore_LookupAsksTheColdTierByName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens := text(718, 1)
		c := newShelf()
		keys := stock(t, c, Scope{}, tokens)
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		fetch(t, s, tokens[:64], gate)
		r := s.Lookup(t.Context(), Scope{}, text(800, 1))
		require.Equal(t, 718, r.Position)
		require.Equal(t, wire.KVTiers{Warm: 64, Cold: 654}, r.Tiers)
		require.Equal(t, wire.KVEnds, r.Reason)
		require.Equal(t, -1, r.DiffersAt)
		require.Len(t, r.Keys, 12)
		for i, k := range keys {
			require.Equal(t, k.String(), r.Keys[i])
		}
		require.EqualValues(t, blocks(1), s.Index().Warm.Bytes, "nothing is moved")
		require.Zero(t, s.Lookup(t.Context(), Scope{Name: "b"}, tokens).Position)
	})
}
