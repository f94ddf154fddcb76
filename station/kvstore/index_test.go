package kvstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

func TestIndex_ShowsTheEndsThatSavedMost(t *testing.T) {
	s := open(t, Options{Identity: named, WarmBytes: blocks(64)})
	uses := func(i int) int { return (i*7)%30 + 1 } // in no order
	for i := range 30 {
		tokens := text(64, int32(i+1))
		save(t, s, Scope{}, tokens, SaveOptions{})
		for range uses(i) {
			m := find(s, Scope{}, tokens)
			m.Used(64)
			m.Release()
		}
	}
	save(t, s, Scope{}, text(64, 40), SaveOptions{Name: "new"}) // has saved nothing yet
	x := s.Index()
	require.Len(t, x.Top, 20)
	for i, p := range x.Top {
		require.EqualValues(t, 64*(30-i), p.TokensSaved)
	}
	require.Equal(t, 31, x.Warm.Blocks)

	_, _, err := s.Delete(t.Context(), &wire.KVDeleteRequest{Keys: []string{x.Top[0].Key}})
	require.NoError(t, err)
	require.Equal(t, x.Top[1], s.Index().Top[0], "what has gone is not shown")
}

// big is a store of 5,000 conversations of ten blocks, each used once.
func big(tb testing.TB) *Store {
	s := New(Options{Identity: named, TokenBytes: tokenBytes, WarmBytes: blocks(50_000)})
	tb.Cleanup(s.Close)
	for i := range int32(5_000) {
		tokens := make([]int32, 640)
		for j := range tokens {
			tokens[j] = i*1000 + int32(j)
		}
		for _, f := range s.Reserve(Scope{}, tokens, SaveOptions{}).Fills {
			f.Done()
		}
		m := find(s, Scope{}, tokens)
		m.Used(m.Tokens())
		m.Release()
	}
	return s
}

func BenchmarkStore_Index50000(b *testing.B) {
	s := big(b)
	b.ReportAllocs()
	for b.Loop() {
		s.Index()
	}
}
