package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPromise_IsJudged(t *testing.T) {
	one := func(v, tokens, cached float64) map[metric]series {
		return map[metric]series{mTTFT: {v}, mDecode: {v}, mTokens: {tokens}, mCached: {cached}}
	}
	time := promise{of: mTTFT, unit: "ms", below: 20, restored: 0.8, beside: "peer"}
	turn := promise{of: mTTFT, unit: "ms", ratioBelow: 1, beside: "peer"}
	pace := promise{of: mDecode, unit: "tok/s", ratioAbove: 0.97, beside: "liquid off"}
	speed := promise{unit: "GB/s", above: 3}
	for _, c := range []struct {
		name    string
		p       promise
		sides   [2]map[metric]series
		changed int
		verdict string
		note    string
	}{
		{"in time", time, [2]map[metric]series{one(20, 718, 704), nil}, 0, verdictOK, "704 of 718 tokens restored"},
		{"too late", time, [2]map[metric]series{one(20.1, 718, 704), one(25, 718, 717)}, 0, verdictMissed, "704 of 718 tokens restored"},
		{"computed after all", time, [2]map[metric]series{one(5, 718, 64), nil}, 0, verdictMissed, "64 of 718 tokens restored"},
		{"other text", time, [2]map[metric]series{one(5, 718, 704), nil}, 2, verdictMissed, "2 answers changed"},
		{"faster than the peer", turn, [2]map[metric]series{one(98, 1, 0), one(100, 1, 0)}, 0, verdictOK, ""},
		{"slower than the peer", turn, [2]map[metric]series{one(101, 1, 0), one(100, 1, 0)}, 0, verdictMissed, ""},
		{"no peer", turn, [2]map[metric]series{one(98, 1, 0), nil}, 0, verdictNone, "nothing beside it"},
		{"pace kept", pace, [2]map[metric]series{one(97, 1, 0), one(100, 1, 0)}, 0, verdictOK, ""},
		{"pace lost", pace, [2]map[metric]series{one(96, 1, 0), one(100, 1, 0)}, 0, verdictMissed, ""},
		{"fast enough", speed, [2]map[metric]series{{speed.of: {3}}}, 0, verdictOK, ""},
		{"not fast enough", speed, [2]map[metric]series{{speed.of: {2.9}}}, 0, verdictMissed, ""},
		{"never measured", speed, [2]map[metric]series{}, 0, verdictNone, ""},
	} {
		g := c.p.judge(c.sides, c.changed)
		require.Equal(t, c.verdict, g.Verdict, c.name)
		require.Equal(t, c.note, g.Note, c.name)
	}
	g := turn.judge([2]map[metric]series{{mTTFT: {50, 100}}, {mTTFT: {100, 100}}}, 0)
	require.Equal(t, 0.75, *g.Ratio, "the median of the samples' own")
	require.Equal(t, "at most 1.00 of peer", g.Must)
}

func TestScript_IsNewInEveryRoundAndTheSameForBothServers(t *testing.T) {
	z := sizer{base: 10, slope: 1}
	require.Equal(t, newScript(7, 3, z), newScript(7, 3, z))
	a, b := newScript(7, 0, z), newScript(7, 1, z)
	seen := map[string]bool{}
	for _, s := range []*script{a, b, newScript(8, 0, z)} {
		for _, p := range append(append([]string{s.system, s.chat}, s.repeats...), s.evict...) {
			require.False(t, seen[p[:8]], "two prompts begin alike")
			seen[p[:8]] = true
		}
	}
	for i := range 100 {
		for round := range 3 {
			for _, long := range []bool{true, false} {
				p := missMessages(7, round, i, long, z)[0].Content
				require.False(t, seen[p], "a miss was sent before")
				seen[p] = true
			}
		}
	}
}
