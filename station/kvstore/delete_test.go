package kvstore

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

func TestDelete_ReachesTheColdTier(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		a, b := text(128, 1), text(128, 2)
		stock(t, c, Scope{Name: "x"}, b) // never seen by this store
		save(t, s, Scope{Name: "x"}, a, SaveOptions{Group: "g"})
		save(t, s, Scope{Name: "y"}, a, SaveOptions{Group: "g"})
		synctest.Wait()
		require.Equal(t, 6, c.len())

		x := "x"
		n, bytes, err := s.Delete(t.Context(), &wire.KVDeleteRequest{Scope: &x})
		require.NoError(t, err)
		require.Equal(t, 4, n, "a block that both tiers have counts once")
		require.Equal(t, blocks(4), bytes)
		require.Equal(t, 2, c.len())
		keys := s.Lookup(t.Context(), Scope{Name: "y"}, a).Keys
		n, _, err = s.Delete(t.Context(), &wire.KVDeleteRequest{Keys: keys[:1]})
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Zero(t, c.len())
	})
}

// The cold tier is listed whole for a key: once for all of them.
func TestDelete_ManyKeysInOnePass(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		a, b, other := text(192, 1), text(64, 2), text(64, 3)
		for _, l := range [][]int32{a, b} {
			save(t, s, Scope{}, l, SaveOptions{})
		}
		stocked := stock(t, c, Scope{Name: "x"}, other) // RAM does not have it
		synctest.Wait()
		keys := []string{s.Lookup(t.Context(), Scope{}, a).Keys[1], s.Lookup(t.Context(), Scope{}, b).Keys[0], stocked[0].String(), stocked[0].String()}
		n, bytes, err := s.Delete(t.Context(), &wire.KVDeleteRequest{Keys: keys})
		require.NoError(t, err)
		require.Equal(t, 4, n, "with what hangs below the first key")
		require.Equal(t, blocks(4), bytes)
		require.Len(t, c.deleted, 1)
		require.Equal(t, 1, c.len())
		require.Equal(t, 64, found(t, s, Scope{}, a))
	})
}

func TestDelete_UndoesAWriteThatEndsLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		free := make(chan struct{})
		c.onPut = func(context.Context, *block.Block) error { <-free; return nil }
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		save(t, s, Scope{}, text(64, 1), SaveOptions{})
		synctest.Wait()
		n, _, err := s.Delete(t.Context(), &wire.KVDeleteRequest{All: true})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		close(free)
		synctest.Wait()
		require.Len(t, c.names(), 1)
		require.Zero(t, c.len())
		require.Zero(t, s.Index().Warm.Bytes)
	})
}

func TestDelete_VoidsReadsThatAreOn(t *testing.T) {
	for _, have := range []int{0, 64} { // in RAM when it is deleted
		bubble(t, func(t *testing.T) {
			tokens := text(300, 1)
			c := newShelf()
			stock(t, c, Scope{}, tokens)
			s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
			if have > 0 {
				fetch(t, s, tokens[:have], gate)
			}
			gone := make(chan struct{})
			c.onRead = func(block.Name) { <-gone }
			go func() {
				synctest.Wait() // all are being read
				_, _, err := s.Delete(t.Context(), &wire.KVDeleteRequest{All: true})
				require.NoError(t, err)
				close(gone)
			}()
			m, _ := fetch(t, s, tokens, Gate{})
			require.Equal(t, have, m.Tokens(), "its reader goes on with what it had")
			require.Zero(t, found(t, s, Scope{}, tokens))
			m.Release()
		})
	}
}

func TestDelete_DropsWhatIsReadBeforeTheColdTierHasDroppedIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens := text(300, 1)
		c := newShelf()
		stock(t, c, Scope{}, tokens)
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		c.onDelete = func() {
			m, _ := fetch(t, s, tokens, gate)
			require.Equal(t, 300, m.Tokens())
		}
		_, _, err := s.Delete(t.Context(), &wire.KVDeleteRequest{Scope: new(string)})
		require.NoError(t, err)
		require.Zero(t, found(t, s, Scope{}, tokens))
	})
}
