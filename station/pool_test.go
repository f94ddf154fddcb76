package station

import (
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
	"thoth/station/stationtest"
)

// grow evaluates n tokens of a resident, as the loop does.
func grow(t *testing.T, p *pool, s *sequence, n int) {
	t.Helper()
	var b engine.Batch
	for range n {
		b.Add(engine.Token(s.pos%200), s.pos, s.id, false)
		s.pos++
	}
	require.NoError(t, p.eng.Decode(&b))
	p.took(n)
}

func newTestPool(t *testing.T) (*pool, *stationtest.Engine) {
	eng := stationtest.NewEngine(stationtest.Options{Cells: 256, ContextLength: 256, Sequences: 4, BatchSize: 256})
	t.Cleanup(func() { eng.Check(t) })
	return newPool(eng), eng
}

func placed(t *testing.T, p *pool, n int) *sequence {
	t.Helper()
	s := newSequence()
	require.NoError(t, p.place(s))
	if n > 0 {
		grow(t, p, s, n)
	}
	return s
}

func TestPool_EmptiesForFreeWhenNothingLives(t *testing.T) {
	p, _ := newTestPool(t)
	a, b := placed(t, p, 50), placed(t, p, 30)
	p.leave(a)
	require.Equal(t, 50, p.dead())
	p.leave(b)
	require.Zero(t, p.top)
	require.Zero(t, p.compactions)
}

func TestPool_CompactsWhenTheRentReachesThePrice(t *testing.T) {
	p, eng := newTestPool(t)
	a, b := placed(t, p, 40), placed(t, p, 60)
	require.False(t, p.charge(1), "nothing is dead")
	p.leave(a)
	price, rows := moveCost*60, 0
	for !p.charge(8) {
		rows += 8
	}
	require.Equal(t, price/40/8*8, rows, "forty dead cells, scanned by each row")
	require.NoError(t, p.compact())
	live, dead := eng.Cells()
	require.Equal(t, []int{60, 0, 60, 0}, []int{live, dead, p.top, p.rent})
	grow(t, p, b, 5)
	p.leave(b)
}

func TestPool_SwapsOutAndBack(t *testing.T) {
	p, _ := newTestPool(t)
	a, b := placed(t, p, 100), placed(t, p, 100)
	require.NoError(t, p.swapOut(a))
	require.Equal(t, noSeq, a.id)
	require.Equal(t, 100, a.swapped.Len())
	grow(t, p, b, 40)
	require.NoError(t, p.place(a), "by compacting")
	require.EqualValues(t, 1, p.compactions)
	grow(t, p, a, 10) // the engine checks that its positions go on
	c := newSequence()
	c.pos = 20
	require.ErrorIs(t, p.place(c), errNoRoom)
	p.leave(a)
	p.leave(b)
}

func TestPool_GivesIDsBack(t *testing.T) {
	p, _ := newTestPool(t)
	for range 20 {
		var all []*sequence
		for range 4 {
			all = append(all, placed(t, p, 3))
		}
		require.ErrorIs(t, p.place(newSequence()), errNoRoom)
		for _, s := range all {
			p.leave(s)
		}
	}
}
