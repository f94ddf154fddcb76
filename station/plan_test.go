package station

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
)

func prompting(missing int) *call {
	return &call{seq: &sequence{tokens: make([]engine.Token, missing)}, target: missing, dec: &decoding{}}
}

func answering() *call {
	c := prompting(1)
	c.firstToken = time.Unix(1, 0)
	return c
}

func sizes(plan []share) map[*call]int {
	m := map[*call]int{}
	for _, s := range plan {
		m[s.call] += s.n
	}
	return m
}

func TestPlanStep_DecodingFirstThenPrompts(t *testing.T) {
	a, b, p := answering(), answering(), prompting(500)
	got := sizes(planStep([]*call{a, p, b}, 64, 32))
	require.Equal(t, map[*call]int{a: 1, b: 1, p: 32}, got)
	got = sizes(planStep([]*call{a, p, b}, 20, 32))
	require.Equal(t, 18, got[p], "the batch bounds it too")
}

func TestPlanStep_ShortPromptsPassLongOnesWithoutStarvingThem(t *testing.T) {
	long, short, mid := prompting(2000), prompting(10), prompting(100)
	got := sizes(planStep([]*call{long, mid, short}, 512, 64))
	require.Equal(t, map[*call]int{long: 32, short: 10, mid: 22}, got)
	got = sizes(planStep([]*call{long}, 512, 64))
	require.Equal(t, map[*call]int{long: 64}, got, "alone it has all")
}

func TestPlanStep_OneAdapterSetABatch(t *testing.T) {
	a, b := answering(), answering()
	b.seq.adapter = "lora"
	calls := []*call{a, b}
	require.Equal(t, map[*call]int{a: 1}, sizes(planStep(calls, 8, 8)))
	calls = rotate(calls)
	require.Equal(t, map[*call]int{b: 1}, sizes(planStep(calls, 8, 8)))
	require.Equal(t, []*call{a, b}, rotate(calls), "and the other in turn")
}

func TestPlanStep_EveryTokenOnce(t *testing.T) {
	for missing := range 130 {
		p, q := prompting(missing), prompting(130-missing)
		total := 0
		for range 10 {
			for _, s := range planStep([]*call{p, q}, 16, 16) {
				s.call.seq.pos += s.n
				total += s.n
				require.LessOrEqual(t, s.call.seq.pos, s.call.target)
			}
		}
		require.Equal(t, 130, total)
	}
}

func TestPace_SizesChunksToTheTime(t *testing.T) {
	var p pace
	require.Equal(t, startChunk, p.chunk(0.1))
	p.saw(1, 5) // a decode step teaches nothing
	require.Equal(t, startChunk, p.chunk(0.1))
	p.saw(100, 0.4)
	require.Equal(t, 25, p.chunk(0.1))
	require.Equal(t, minChunk, p.chunk(0.001))
}
