package kvstore

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

func TestStore_MatchIsExactToTheToken(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(64)})
	long := text(200, 1)
	save(t, s, Scope{}, long, SaveOptions{})
	for n := 1; n <= 200; n++ { // another text that leaves at n
		require.Equal(t, n, found(t, s, Scope{}, text(250, 2, long[:n]...)), "common prefix of %d", n)
		require.Equal(t, n, found(t, s, Scope{}, long[:n]))
	}
	require.Equal(t, 200, found(t, s, Scope{}, text(300, 1)))
	require.Zero(t, found(t, s, Scope{}, text(200, 2)))
}

func TestStore_LongestOfManySiblingsIsTaken(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(512), Tails: 100})
	base := text(70, 1)
	for n := 71; n < 128; n++ { // one sibling for each place to leave
		save(t, s, Scope{}, text(150, int32(n), base[:n%58+10]...), SaveOptions{})
	}
	save(t, s, Scope{}, base, SaveOptions{})
	require.Equal(t, 70, found(t, s, Scope{}, text(100, 3, base...)))
	require.Equal(t, 66, found(t, s, Scope{}, text(100, 3, base[:66]...)))
	require.Equal(t, 30, found(t, s, Scope{}, text(100, 3, base[:30]...)))
}

func TestMatch_PiecesOfAnyRange(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(64)})
	tokens := text(150, 1)
	save(t, s, Scope{}, tokens, SaveOptions{})
	m := find(s, Scope{}, tokens)
	defer m.Release()
	for _, r := range [][2]int{{0, 150}, {0, 1}, {63, 65}, {64, 128}, {100, 149}, {149, 150}} {
		at := r[0]
		for _, p := range m.Pieces(r[0], r[1]) {
			for i := range p.Take {
				require.Equal(t, row(Scope{}, tokens[:at+1]), p.Data[(p.Skip+i)*tokenBytes:][:tokenBytes])
				at++
			}
		}
		require.Equal(t, r[1], at, "range %v", r)
	}
}

func TestStore_ScopesAndAdaptersDoNotSeeEachOther(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(64)})
	tokens := text(100, 1)
	all := []Scope{{}, {Name: "a"}, {Name: "b"}, {Adapters: "x"}, {Name: "a", Adapters: "x"}}
	for i, sc := range all {
		for _, other := range all[i:] {
			require.Zero(t, found(t, s, other, tokens))
		}
		save(t, s, sc, tokens, SaveOptions{})
		require.Equal(t, 100, found(t, s, sc, tokens)) // with this scope's rows
	}
	require.Equal(t, 3, s.Index().Scopes)
}

func TestStore_ReservedBlocksAreInvisibleAndNotReservedTwice(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(64)})
	tokens := text(150, 1)
	a := s.Reserve(Scope{}, tokens, SaveOptions{Owner: 1})
	require.Len(t, a.Fills, 3)
	require.Equal(t, 150, a.Tokens)
	require.EqualValues(t, 150*tokenBytes, a.Bytes)
	require.Zero(t, found(t, s, Scope{}, tokens))
	b := s.Reserve(Scope{}, tokens, SaveOptions{Owner: 1})
	require.Empty(t, b.Fills)
	require.Equal(t, 150, b.Tokens)
	require.Zero(t, b.New)

	export(Scope{}, tokens, a.Fills[1]) // out of order: its parent is not there yet
	a.Fills[1].Done()
	require.Zero(t, found(t, s, Scope{}, tokens))
	export(Scope{}, tokens, a.Fills[0])
	a.Fills[0].Done()
	require.Equal(t, 128, found(t, s, Scope{}, tokens))
	a.Fills[2].Drop()
	a.Fills[2].Drop()
	require.Equal(t, 128, found(t, s, Scope{}, tokens))
	c := save(t, s, Scope{}, tokens, SaveOptions{})
	require.Equal(t, 22, c.New)
	require.Equal(t, 150, found(t, s, Scope{}, tokens))
}

func TestStore_ADroppedParentIsFilledAgain(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(64)})
	tokens := text(192, 1)
	a := s.Reserve(Scope{}, tokens[:128], SaveOptions{Owner: 1})
	save(t, s, Scope{}, tokens, SaveOptions{Owner: 1}) // builds on what was promised
	export(Scope{}, tokens, a.Fills[0])
	a.Fills[0].Done()
	a.Fills[1].Drop()
	s.invariants(t)
	require.Equal(t, 64, found(t, s, Scope{}, tokens))
	c := save(t, s, Scope{}, tokens, SaveOptions{})
	require.Equal(t, 64, c.New, "only the hole is filled")
	require.Equal(t, 192, found(t, s, Scope{}, tokens))
}

func TestStore_ATailGoesWhenALongerSiblingCoversIt(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(64)})
	tokens := text(150, 1)
	prompt := save(t, s, Scope{}, tokens[:80], SaveOptions{Name: "p"})
	require.Equal(t, 2, s.Index().Warm.Blocks)
	save(t, s, Scope{}, tokens, SaveOptions{})
	require.Equal(t, 3, s.Index().Warm.Blocks, "two full ones and a tail")
	require.Equal(t, 80, found(t, s, Scope{}, tokens[:80]))
	require.Equal(t, "p", s.Index().Top[0].Name)
	again := s.Reserve(Scope{}, tokens[:80], SaveOptions{})
	require.Equal(t, 80, again.Tokens)
	require.Empty(t, again.Fills)
	require.Equal(t, 3, s.Index().Warm.Blocks, "what is covered is not stored again")
	require.False(t, prompt.Durable())
}

func TestStore_AReaderKeepsACoveredTail(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(64)})
	tokens := text(100, 1)
	save(t, s, Scope{}, tokens[:80], SaveOptions{})
	m := find(s, Scope{}, tokens[:80])
	save(t, s, Scope{}, tokens, SaveOptions{})
	verify(t, m, Scope{}, tokens[:80])
	require.Equal(t, 3, s.Index().Warm.Blocks)
	m.Release()
	require.Equal(t, 2, s.Index().Warm.Blocks, "it goes with its reader")
	require.Equal(t, 80, found(t, s, Scope{}, tokens[:80]))
}

func TestStore_AParentKeepsAFewTails(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(64), Tails: 3})
	base := text(64, 1)
	for i := range int32(6) {
		save(t, s, Scope{}, text(80, 10+i, base...), SaveOptions{})
		if i >= 1 {
			m := find(s, Scope{}, text(80, 11, base...)) // the second is in use
			m.Used(80)
			m.Release()
		}
	}
	for i, want := range []int{64, 80, 64, 64, 80, 80} {
		require.Equal(t, want, found(t, s, Scope{}, text(80, 10+int32(i), base...)), "tail %d", i)
	}
}

func TestMatch_ShortSaysWhy(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(64)})
	a := text(100, 1)
	save(t, s, Scope{}, a, SaveOptions{})
	short := func(tokens []int32) Short {
		m := find(s, Scope{}, tokens)
		defer m.Release()
		return m.Short()
	}
	none := Short{DiffersAt: -1, Prompt: -1, Stored: -1}
	require.Equal(t, none, short(a))
	require.Equal(t, none, short(a[:70]))

	ends := none
	ends.Reason = wire.KVEnds
	require.Equal(t, ends, short(text(120, 1)))

	b := text(100, 2, a[:80]...)
	require.Equal(t, Short{wire.KVDiffers, 80, b[80], a[80]}, short(b))
	b = text(100, 2, a[:64]...)
	require.Equal(t, Short{wire.KVDiffers, 64, b[64], a[64]}, short(b), "at the edge of a block")
	b = text(100, 2)
	require.Equal(t, Short{wire.KVNothing, 0, b[0], a[0]}, short(b))

	m := find(s, Scope{Name: "other"}, a)
	defer m.Release()
	nothing := none
	nothing.Reason = wire.KVNothing
	require.Equal(t, nothing, m.Short())
}

func TestMatch_ShortRemembersWhatWent(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(4)})
	a := text(150, 1)
	save(t, s, Scope{}, a, SaveOptions{})
	save(t, s, Scope{}, text(100, 2), SaveOptions{}) // pushes the tail out
	m := find(s, Scope{}, a)
	require.Equal(t, 128, m.Tokens())
	require.Equal(t, wire.KVEvicted, m.Short().Reason)
	m.Release()

	n, bytes, err := s.Delete(t.Context(), &wire.KVDeleteRequest{All: true})
	require.NoError(t, err)
	require.Equal(t, 4, n)
	require.EqualValues(t, (128+100)*tokenBytes, bytes)
	m = find(s, Scope{}, a)
	defer m.Release()
	require.Equal(t, wire.KVExpired, m.Short().Reason)
}

func TestMatch_UsedCountsByTier(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(64)})
	a := text(150, 1)
	save(t, s, Scope{Name: "s"}, a, SaveOptions{Group: "g", Name: "n"})
	m := find(s, Scope{Name: "s"}, a)
	m.Pieces(100, 149) // 100 are shared with cells of the pool
	m.Used(149)
	m.Release()
	m.Release()
	m.Used(1) // too late: nothing
	x := s.Index()
	require.EqualValues(t, 1, x.Warm.Hits)
	require.EqualValues(t, 49, x.Warm.HitTokens)
	require.Len(t, x.Top, 1)
	top := x.Top[0]
	require.Equal(t, wire.KVPrefix{Key: top.Key, Name: "n", Scope: "s", Group: "g", Tokens: 150, Hits: 1, TokensSaved: 149, LastUsed: top.LastUsed}, top)
	require.Len(t, top.Key, 64)
}

func TestGone_IsARingAndFindsTails(t *testing.T) {
	g := newGone(4)
	parent := block.Key{1}
	tokens := text(64, 1)
	add := func(n int, seed int32) {
		l := text(n, seed)
		g.add(lost{key: parent.Child(l), parent: parent, tokens: n, reason: wire.KVEvicted})
	}
	add(10, 1)
	add(20, 1)
	l, ok := g.find(parent, tokens, 0)
	require.True(t, ok)
	require.Equal(t, 20, l.tokens, "the longest")
	_, ok = g.find(parent, tokens, 20)
	require.False(t, ok, "no more than RAM has anyway")
	_, ok = g.find(parent, tokens[:9], 0)
	require.False(t, ok)
	for i := range int32(4) {
		add(5, 7+i)
	}
	_, ok = g.find(parent, tokens, 0)
	require.False(t, ok, "overwritten")
	require.Len(t, g.by, 4)
	require.Len(t, g.parents, 1)
	for i := range byte(4) {
		g.add(lost{key: block.Key{9, i}, parent: block.Key{2, i}, tokens: 64})
	}
	require.Len(t, g.parents, 4, "parents without lost children are forgotten")
}

func TestStore_FindAndReserveAreQuickEnoughForTheLoop(t *testing.T) {
	// Not a speed test: work that grows with the number of siblings would show as
	// comparisons, so the tree must find its place by halving.
	s := open(t, Options{Identity: named, WarmBytes: blocks(3000)})
	base := text(64, 1)
	for i := range int32(1000) {
		save(t, s, Scope{}, text(128, 10+i, base...), SaveOptions{})
	}
	s.mu.Lock()
	top := s.roots[Scope{}].top.ready[0]
	require.Len(t, top.ready, 1000)
	require.True(t, slices.IsSortedFunc(top.ready, func(a, b *node) int { return slices.Compare(a.tokens, b.tokens) }))
	s.mu.Unlock()
	require.Equal(t, 100, found(t, s, Scope{}, text(128, 3, text(100, 500, base...)...)))
}

func BenchmarkStore_Find718(b *testing.B) {
	s := New(Options{Identity: named, TokenBytes: tokenBytes, WarmBytes: blocks(64)})
	defer s.Close()
	tokens := text(718, 1)
	save(b, s, Scope{}, tokens, SaveOptions{})
	for b.Loop() {
		find(s, Scope{}, tokens).Release()
	}
}

func BenchmarkStore_Reserve718(b *testing.B) {
	s := New(Options{Identity: named, TokenBytes: 23040, WarmBytes: 64 * 23040 * 40})
	defer s.Close()
	tokens := text(718, 1)
	for i := int32(0); b.Loop(); i++ {
		tokens[0] = i
		for _, f := range s.Reserve(Scope{}, tokens, SaveOptions{}).Fills {
			f.Done()
		}
	}
}
