package kvstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
	"thoth/station/wire"
)

// clock is a time that tests set.
type clock struct{ t time.Time }

func (c *clock) now() time.Time          { return c.t }
func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }

func newClock() *clock { return &clock{time.Unix(1_800_000_000, 0)} }

func TestStore_WithoutMemoryNothingIsStored(t *testing.T) {
	for name, o := range map[string]Options{
		"0 is off":            {WarmBytes: 0},
		"below 0 too":         {WarmBytes: -1},
		"less than one block": {WarmBytes: blocks(1) - 1},
		"no KV to store":      {WarmBytes: blocks(9), TokenBytes: -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, o)
			c := s.Reserve(Scope{}, text(10, 1), SaveOptions{})
			require.Zero(t, c.Tokens)
			require.NotEmpty(t, c.Reason)
			require.Empty(t, c.Fills)
			require.Zero(t, found(t, s, Scope{}, text(10, 1)))
			x := s.Index()
			require.Equal(t, "off", x.Warm.State)
			require.Equal(t, c.Reason, x.Warm.Reason)
			require.Zero(t, x.Warm.Bytes)
		})
	}
}

func TestStore_WhatDoesNotFitIsLeftOut(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(3)})
	tokens := text(300, 1)
	c := save(t, s, Scope{}, tokens, SaveOptions{})
	require.Equal(t, 192, c.Tokens)
	require.Equal(t, 192, c.New)
	require.Contains(t, c.Reason, "192 of 300 tokens")
	require.Equal(t, 192, found(t, s, Scope{}, tokens))
	require.Zero(t, s.Index().Warm.Evictions, "nothing of its own went for it")
}

func TestStore_LeavesGoBeforeTheirParentsOldestFirst(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(6)})
	a, b := text(192, 1), text(192, 2)
	save(t, s, Scope{}, a, SaveOptions{})
	save(t, s, Scope{}, b, SaveOptions{})
	m := find(s, Scope{}, a)
	m.Used(192) // now b is the older one
	m.Release()
	save(t, s, Scope{}, text(64, 3), SaveOptions{})
	require.Equal(t, 192, found(t, s, Scope{}, a))
	require.Equal(t, 128, found(t, s, Scope{}, b))
	save(t, s, Scope{}, text(128, 4), SaveOptions{})
	require.Equal(t, 192, found(t, s, Scope{}, a))
	require.Zero(t, found(t, s, Scope{}, b))
	require.EqualValues(t, 3, s.Index().Warm.Evictions)
}

func TestStore_WhatIsSharedInThePoolIsUsedToo(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(6)})
	a, b := text(192, 1), text(192, 2)
	save(t, s, Scope{}, a, SaveOptions{})
	save(t, s, Scope{}, b, SaveOptions{})
	s.Shared(Scope{}, a[:150], nil)
	save(t, s, Scope{}, text(192, 3), SaveOptions{})
	require.Equal(t, 192, found(t, s, Scope{}, a))
	require.Zero(t, found(t, s, Scope{}, b), "nobody asked for it since")
	require.EqualValues(t, 150, s.Index().Top[0].TokensSaved)

	c := s.Reserve(Scope{}, text(192, 4), SaveOptions{})
	s.Shared(Scope{}, text(192, 4)[:190], c.Fills[2])
	require.Empty(t, s.Index().Top, "its rows are not there yet, and those of a have made room")
	for _, f := range c.Fills {
		f.Done()
	}
	require.EqualValues(t, 190, s.Index().Top[0].TokensSaved)
	require.EqualValues(t, 1, s.Index().Top[0].Hits)
	s.invariants(t)
}

func TestStore_AReaderPinsWhatItMatched(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(4)})
	a := text(192, 1)
	save(t, s, Scope{}, a, SaveOptions{})
	m := find(s, Scope{}, a)
	require.Equal(t, 3, s.Index().HeldByReader)
	for i := range int32(10) {
		save(t, s, Scope{}, text(128, 10+i), SaveOptions{})
		s.invariants(t)
	}
	verify(t, m, Scope{}, a)
	require.Equal(t, 192, m.Tokens())
	m.Release()
	require.Equal(t, 64, save(t, s, Scope{}, text(64, 90), SaveOptions{}).Tokens)
	save(t, s, Scope{}, text(256, 91), SaveOptions{})
	require.Zero(t, found(t, s, Scope{}, a))
}

func TestStore_ReservingNeverTakesThePrefixJustMatched(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(3)})
	a := text(192, 1)
	save(t, s, Scope{}, a[:128], SaveOptions{})
	save(t, s, Scope{}, text(64, 2), SaveOptions{}) // newer
	require.Equal(t, 192, save(t, s, Scope{}, a, SaveOptions{}).Tokens)
	require.Equal(t, 192, found(t, s, Scope{}, a))
}

func TestStore_TheBudgetCountsTheFreeListToo(t *testing.T) {
	// Tails take a quarter of a block here, so that free memory of one size is in the way of another.
	const bytes = 1024
	s := open(t, Options{Identity: named, TokenBytes: bytes, WarmBytes: 3 * 64 * bytes, Tails: 4})
	done := func(c *Capture) *Capture {
		for _, f := range c.Fills {
			f.Done()
		}
		s.invariants(t)
		return c
	}
	for i := range int32(12) {
		done(s.Reserve(Scope{}, text(16, i), SaveOptions{}))
	}
	require.EqualValues(t, 4*16*bytes, s.Index().Warm.Bytes, "four tails below one parent")
	require.Equal(t, 192, done(s.Reserve(Scope{}, text(192, 50), SaveOptions{})).Tokens)
	require.EqualValues(t, 3*64*bytes, s.Index().Warm.Bytes)
	for i := range int32(4) {
		require.Equal(t, 16, done(s.Reserve(Scope{}, text(16, 60+i), SaveOptions{})).Tokens)
	}
}

func TestSlabs_SizesAreWholePagesOfSixteenRows(t *testing.T) {
	a := newSlabs(1<<20, 1000)
	require.EqualValues(t, 16384, a.size(1))
	require.EqualValues(t, 16384, a.size(16))
	require.EqualValues(t, 32768, a.size(17))
	require.EqualValues(t, 65536, a.size(64))
	m, err := a.take(a.size(64))
	require.NoError(t, err)
	require.Len(t, m, 65536)
	_, err = a.take(1 << 20)
	require.ErrorIs(t, err, errFull)
	a.put(m)
	require.EqualValues(t, 65536, a.free)
	whole, err := a.take(1 << 20) // free memory of another size makes way
	require.NoError(t, err)
	require.Zero(t, a.free)
	a.put(whole)
	a.release()
	require.Zero(t, a.free+a.used)
}

func TestStore_PinAndTTLHold(t *testing.T) {
	c := newClock()
	s := open(t, Options{Identity: named, WarmBytes: blocks(8), Now: c.now})
	pinned, kept, loose := text(128, 1), text(128, 2), text(128, 3)
	require.Empty(t, save(t, s, Scope{}, pinned, SaveOptions{Pin: true, HoldTo: 65}).Reason)
	require.Empty(t, save(t, s, Scope{}, kept, SaveOptions{TTL: time.Minute, HoldTo: 64}).Reason)
	save(t, s, Scope{}, loose, SaveOptions{})
	require.Equal(t, 3, s.Index().Pinned)

	save(t, s, Scope{}, text(192, 4), SaveOptions{}) // room for two: of what nothing holds, oldest first
	require.Equal(t, 128, found(t, s, Scope{}, pinned))
	require.Equal(t, 64, found(t, s, Scope{}, kept))
	require.Equal(t, 128, found(t, s, Scope{}, loose))

	save(t, s, Scope{}, text(320, 5), SaveOptions{})
	require.Equal(t, 128, found(t, s, Scope{}, pinned))
	require.Equal(t, 64, found(t, s, Scope{}, kept), "a ttl goes after all others")
	save(t, s, Scope{}, text(6*64, 6), SaveOptions{})
	require.Zero(t, found(t, s, Scope{}, kept), "but it goes")
	require.Equal(t, 384, save(t, s, Scope{}, text(8*64, 7), SaveOptions{}).Tokens)
	require.Equal(t, 128, found(t, s, Scope{}, pinned), "a pin does not")
	s.invariants(t)
}

func TestStore_ATTLEnds(t *testing.T) {
	c := newClock()
	s := open(t, Options{Identity: named, WarmBytes: blocks(4), Now: c.now})
	a, b := text(128, 1), text(128, 2)
	save(t, s, Scope{}, a, SaveOptions{TTL: time.Minute})
	save(t, s, Scope{}, b, SaveOptions{})
	c.advance(time.Minute)
	require.Zero(t, s.Index().Pinned)
	save(t, s, Scope{}, text(64, 3), SaveOptions{})
	require.Equal(t, 64, found(t, s, Scope{}, a), "older than b, and not held any more")
	require.Equal(t, 128, found(t, s, Scope{}, b))
}

func TestStore_HoldsHaveAShare(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(8), HeldShare: 0.25})
	a := text(192, 1)
	c := save(t, s, Scope{}, a, SaveOptions{Pin: true})
	require.Equal(t, 192, c.Tokens, "it is stored all the same")
	require.Contains(t, c.Reason, "token 128 only")
	require.Equal(t, 2, s.Index().Pinned)
	require.NotEmpty(t, save(t, s, Scope{}, text(64, 2), SaveOptions{TTL: time.Hour}).Reason)
	require.Equal(t, 2, s.Index().Pinned)
}

func TestStore_ALongerSiblingTakesOverAHold(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(8)})
	a := text(128, 1)
	save(t, s, Scope{}, a[:80], SaveOptions{Pin: true})
	save(t, s, Scope{}, a, SaveOptions{})
	save(t, s, Scope{}, text(8*64, 2), SaveOptions{})
	require.Equal(t, 128, found(t, s, Scope{}, a))
}

func TestStore_DeleteDuringAFillAndARead(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(8)})
	a, b := text(100, 1), text(100, 2)
	save(t, s, Scope{}, a, SaveOptions{})
	m := find(s, Scope{}, a)
	c := s.Reserve(Scope{}, b, SaveOptions{})
	n, _, err := s.Delete(t.Context(), &wire.KVDeleteRequest{All: true})
	require.NoError(t, err)
	require.Equal(t, 2, n)
	verify(t, m, Scope{}, a) // its reader goes on
	require.Zero(t, found(t, s, Scope{}, a))
	for _, f := range c.Fills {
		export(Scope{}, b, f)
		f.Done()
	}
	require.Zero(t, found(t, s, Scope{}, b), "what was deleted does not come back")
	m.Release()
	require.Zero(t, s.Index().Warm.Bytes)
	require.Zero(t, s.Index().Scopes)
}

func TestStore_DeleteSelects(t *testing.T) {
	base := text(64, 1)
	x, y := text(128, 2, base...), text(128, 3, base...)
	setup := func(t *testing.T) *Store {
		s := open(t, Options{Identity: named, WarmBytes: blocks(16)})
		save(t, s, Scope{Name: "a"}, x, SaveOptions{Group: "gx"})
		save(t, s, Scope{Name: "a"}, y, SaveOptions{Group: "gy"})
		save(t, s, Scope{Name: "b"}, x, SaveOptions{Group: "gx"})
		return s
	}
	check := func(t *testing.T, s *Store, ax, ay, bx int) {
		require.Equal(t, ax, found(t, s, Scope{Name: "a"}, x))
		require.Equal(t, ay, found(t, s, Scope{Name: "a"}, y))
		require.Equal(t, bx, found(t, s, Scope{Name: "b"}, x))
		s.invariants(t)
	}
	del := func(t *testing.T, s *Store, q wire.KVDeleteRequest) int {
		n, bytes, err := s.Delete(t.Context(), &q)
		require.NoError(t, err)
		require.EqualValues(t, blocks(n), bytes)
		return n
	}
	a := "a"
	t.Run("nothing", func(t *testing.T) {
		s := setup(t)
		require.Zero(t, del(t, s, wire.KVDeleteRequest{}))
		check(t, s, 128, 128, 128)
	})
	t.Run("scope", func(t *testing.T) {
		s := setup(t)
		require.Equal(t, 3, del(t, s, wire.KVDeleteRequest{Scope: &a}))
		check(t, s, 0, 0, 128)
	})
	t.Run("group", func(t *testing.T) {
		s := setup(t)
		require.Equal(t, 1, del(t, s, wire.KVDeleteRequest{Group: "gy"}))
		check(t, s, 128, 64, 128)
	})
	t.Run("group of a shared parent", func(t *testing.T) {
		s := setup(t)
		require.Equal(t, 2, del(t, s, wire.KVDeleteRequest{Scope: &a, Group: "gx"}))
		check(t, s, 0, 0, 128)
		require.Equal(t, 64, save(t, s, Scope{Name: "a"}, y, SaveOptions{}).New, "the other group's block is still there")
		check(t, s, 64, 128, 128)
	})
	t.Run("key with what hangs below", func(t *testing.T) {
		s := setup(t)
		m := find(s, Scope{Name: "a"}, base)
		key := s.Lookup(t.Context(), Scope{Name: "a"}, base).Keys[0]
		m.Release()
		require.Equal(t, 3, del(t, s, wire.KVDeleteRequest{Keys: []string{key}}))
		check(t, s, 0, 0, 128)
	})
	t.Run("bad key", func(t *testing.T) {
		s := setup(t)
		_, _, err := s.Delete(t.Context(), &wire.KVDeleteRequest{Keys: []string{"xyz"}, All: true})
		var bad *wire.Error
		require.ErrorAs(t, err, &bad)
		require.Equal(t, wire.CodeInvalid, bad.Code)
		require.Equal(t, "keys", bad.Param)
		check(t, s, 128, 128, 128)
	})
}

func TestStore_LookupMovesNothing(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(16)})
	a := text(150, 1)
	save(t, s, Scope{}, a, SaveOptions{})
	b := text(150, 2, a[:100]...)
	r := s.Lookup(t.Context(), Scope{}, b)
	require.Equal(t, 150, r.Tokens)
	require.Equal(t, 100, r.Position)
	require.Equal(t, wire.KVTiers{Warm: 100}, r.Tiers)
	require.Equal(t, wire.KVDiffers, r.Reason)
	require.Equal(t, 100, r.DiffersAt)
	require.Equal(t, b[100], *r.PromptToken)
	require.Equal(t, a[100], *r.StoredToken)
	require.Len(t, r.Keys, 2)
	x := s.Index()
	require.Zero(t, x.Warm.Hits)
	require.Zero(t, x.HeldByReader)
	require.Equal(t, named.Root("", "").String()[:16], x.Root)
}

func TestStore_CloseWithReadersAndFillsLeftReturnsTheMemoryLater(t *testing.T) {
	s := New(Options{Identity: named, TokenBytes: tokenBytes, WarmBytes: blocks(8)})
	a := text(100, 1)
	save(t, s, Scope{}, a, SaveOptions{})
	m := find(s, Scope{}, a)
	c := s.Reserve(Scope{}, text(64, 2), SaveOptions{})
	s.Close()
	verify(t, m, Scope{}, a)
	require.Equal(t, engine.Piece{Data: c.Fills[0].Piece().Data, Rows: 64, Take: 64}, c.Fills[0].Piece())
	m.Release()
	c.Fills[0].Done()
	require.Zero(t, s.slabs.used+s.slabs.free)
	require.Zero(t, find(s, Scope{}, a).Tokens())
	require.NotEmpty(t, s.Reserve(Scope{}, a, SaveOptions{}).Reason)
}

// What a save was promised does not depend on another session that ends or fails.
func TestFill_OfABlockThatAnotherHasReserved(t *testing.T) {
	tokens := text(300, 1)
	fill := func(t *testing.T, c *Capture) {
		t.Helper()
		for _, f := range c.Fills {
			export(Scope{}, tokens, f)
			f.Done()
		}
	}
	drop := func(c *Capture) {
		for _, f := range c.Fills {
			f.Drop()
		}
	}
	both := func(t *testing.T) (s *Store, a, b *Capture) {
		s = open(t, Options{Identity: named, WarmBytes: blocks(9)})
		a = s.Reserve(Scope{}, tokens[:192], SaveOptions{Owner: 1})
		b = s.Reserve(Scope{}, tokens, SaveOptions{Owner: 2})
		require.Equal(t, 192, a.New)
		require.Equal(t, 300, b.Tokens)
		require.Equal(t, 300-192, b.New, "the others were reserved before")
		require.Len(t, b.Fills, 5)
		return s, a, b
	}
	t.Run("the first gives up", func(t *testing.T) {
		s, a, b := both(t)
		drop(a)
		s.invariants(t)
		fill(t, b)
		require.Equal(t, 300, found(t, s, Scope{}, tokens))
	})
	t.Run("in the middle of a copy", func(t *testing.T) {
		s, a, b := both(t)
		a.Fills[0].Piece()
		drop(a)
		fill(t, b)
		require.Equal(t, 300, found(t, s, Scope{}, tokens))
	})
	t.Run("after the second has copied too", func(t *testing.T) {
		s, a, b := both(t)
		a.Fills[0].Piece()
		for _, f := range b.Fills {
			export(Scope{}, tokens, f)
		}
		drop(a)
		for _, f := range b.Fills {
			f.Done()
		}
		require.Equal(t, 300, found(t, s, Scope{}, tokens))
	})
	t.Run("the second gives up", func(t *testing.T) {
		s, a, b := both(t)
		drop(b)
		fill(t, a)
		require.Equal(t, 192, found(t, s, Scope{}, tokens))
	})
	t.Run("both give up", func(t *testing.T) {
		s, a, b := both(t)
		drop(b)
		drop(a)
		require.Zero(t, s.Index().Warm.Bytes)
		require.Empty(t, s.roots)
	})
	t.Run("the second is first, and what is shown is not written over", func(t *testing.T) {
		s, a, b := both(t)
		fill(t, b)
		m := find(s, Scope{}, tokens)
		for _, f := range a.Fills {
			require.False(t, f.Needed())
			clear(f.Piece().Data)
			f.Done()
		}
		verify(t, m, Scope{}, tokens)
		require.Equal(t, 300, m.Tokens())
		m.Release()
		require.EqualValues(t, 300, s.Index().TokensWritten, "each position once")
		require.Zero(t, s.Index().HeldByReader)
	})
	t.Run("an owner's next save", func(t *testing.T) {
		s, a, b := both(t)
		again := s.Reserve(Scope{}, tokens, SaveOptions{Owner: 1})
		require.Equal(t, 300, again.Tokens)
		require.Len(t, again.Fills, 2, "only of what it has not yet")
		require.True(t, again.Fills[0].Needed())
		drop(b)
		drop(again)
		require.EqualValues(t, 3, s.Index().Pending)
		fill(t, a)
		require.Equal(t, 192, found(t, s, Scope{}, tokens))
	})
	t.Run("deleted meanwhile", func(t *testing.T) {
		s, a, b := both(t)
		_, _, err := s.Delete(t.Context(), &wire.KVDeleteRequest{All: true})
		require.NoError(t, err)
		fill(t, a)
		fill(t, b)
		require.Zero(t, found(t, s, Scope{}, tokens))
		require.Zero(t, s.Index().Warm.Bytes)
	})
}
