package station

import (
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
)

// branched places a trunk of n positions and forks it.
func branched(t *testing.T, p *pool, n, branches int) (trunk *sequence, out []*sequence) {
	t.Helper()
	trunk = placed(t, p, n)
	for range branches {
		out = append(out, newSequence())
	}
	p.fork(trunk, out)
	return trunk, out
}

func TestStem_BranchesShareItsCellsInAndAfterTheirTimeInRAM(t *testing.T) {
	p, eng := newTestPool(t)
	p.swapBudget = 1 << 20
	trunk, b := branched(t, p, 100, 3)
	require.Equal(t, []int{100, 0}, []int{p.live(), p.takes(b[0])}, "who has no place yet takes no cell for what is there")
	for _, s := range b {
		require.True(t, p.place(s))
		require.Equal(t, 100, s.pos)
		grow(t, p, s, 10)
	}
	grow(t, p, trunk, 5)
	require.Equal(t, 135, p.live())

	p.swapOut(b[1])
	require.Equal(t, 10, b[1].swapped.Len(), "what it has for itself")
	require.Equal(t, 10*p.cellBytes, p.swappedBytes)
	p.leave(trunk)
	p.compact()
	require.Equal(t, []int{120, 120}, []int{p.live(), p.top})
	require.Equal(t, 10, p.takes(b[1]))
	require.True(t, p.place(b[1]))
	grow(t, p, b[1], 3)
	require.Equal(t, 133, p.live())
	require.Zero(t, p.swappedBytes)
	live, _ := eng.Cells()
	require.Equal(t, 133, live)
	for _, s := range b {
		p.leave(s)
	}
	require.Zero(t, p.top)
}

func TestStem_IsKeptForThoseWhoAreOutWhenItsLastLeaves(t *testing.T) {
	for name, budget := range map[string]int{"within the budget": 1 << 20, "beyond it": 0} {
		t.Run(name, func(t *testing.T) {
			p, _ := newTestPool(t)
			trunk, b := branched(t, p, 60, 2)
			require.True(t, p.place(b[0]))
			grow(t, p, b[0], 7)
			p.swapBudget = budget
			p.leave(trunk)
			require.Zero(t, p.swappedBytes, "a branch still has it")
			p.swapOut(b[0])
			if budget == 0 {
				require.Equal(t, []int{0, 0}, []int{b[0].pos, b[1].pos}, "they evaluate it again")
				require.False(t, b[1].away())
				return
			}
			require.Equal(t, 67*p.cellBytes, p.swappedBytes, "once")
			require.Equal(t, []int{67, 60}, []int{p.takes(b[0]), p.takes(b[1])})
			require.True(t, p.place(b[1]))
			require.Equal(t, 7, p.takes(b[0]), "it is in the pool again")
			require.True(t, p.place(b[0]))
			require.Zero(t, p.swappedBytes)
			require.Equal(t, 67, p.live())
			grow(t, p, b[0], 1)
			grow(t, p, b[1], 1)
			p.leave(b[0])
			p.leave(b[1])
		})
	}
}

func TestStem_ThatIsLostIsEvaluatedAgainByThoseWhoAreOut(t *testing.T) {
	p, eng := newTestPool(t)
	trunk, b := branched(t, p, 50, 1)
	p.eng = failing{eng, nil, map[engine.SeqID]bool{trunk.id: true}}
	p.compact()
	require.Len(t, p.losses, 1)
	require.Equal(t, trunk, p.losses[0].seq)
	require.Equal(t, []any{0, false}, []any{b[0].pos, b[0].away()})
	require.True(t, p.place(b[0]))
	grow(t, p, b[0], 50)
	p.leave(b[0])
}

func TestStem_ThatCannotBeCopiedOutIsEvaluatedAgain(t *testing.T) {
	p, eng := newTestPool(t)
	p.swapBudget = 1 << 20
	trunk, b := branched(t, p, 50, 1)
	p.eng = failing{eng, map[engine.SeqID]bool{trunk.id: true}, nil}
	p.leave(trunk)
	require.Len(t, p.losses, 1, "and it is told")
	require.Zero(t, b[0].pos)
}

// A trunk that forks again leaves its first fork.
func TestStem_OfAnEarlierForkIsKept(t *testing.T) {
	p, _ := newTestPool(t)
	p.swapBudget = 1 << 20
	trunk, first := branched(t, p, 30, 1)
	grow(t, p, trunk, 10)
	second := []*sequence{newSequence()}
	p.fork(trunk, second)
	require.Equal(t, 30*p.cellBytes, p.swappedBytes)
	for _, s := range []*sequence{second[0], first[0]} {
		require.True(t, p.place(s))
		grow(t, p, s, 2)
	}
	require.Equal(t, []int{42, 32}, []int{second[0].pos, first[0].pos})
	require.Zero(t, p.swappedBytes)
	for _, s := range []*sequence{trunk, first[0], second[0]} {
		p.leave(s)
	}
}

func TestStem_OfAnEarlierForkThatIsNotKeptIsEvaluatedAgain(t *testing.T) {
	p, _ := newTestPool(t)
	p.swapBudget = 0
	trunk, first := branched(t, p, 30, 1)
	grow(t, p, trunk, 10)
	second := newSequence()
	p.fork(trunk, []*sequence{second})
	require.Equal(t, []any{0, false}, []any{first[0].pos, first[0].away()})
	require.True(t, p.place(first[0]))
	grow(t, p, first[0], 32)
	require.True(t, p.place(second))
	require.Equal(t, 40, second.pos)
	for _, s := range []*sequence{trunk, first[0], second} {
		p.leave(s)
	}
	require.Zero(t, p.top)
}

func TestStem_ThatIsEvaluatedAgainIsSharedAgain(t *testing.T) {
	p, _ := newTestPool(t)
	p.swapBudget = 0
	trunk, b := branched(t, p, 60, 3)
	require.True(t, p.place(b[0]))
	grow(t, p, b[0], 7)
	p.leave(trunk)
	p.swapOut(b[0])
	require.Equal(t, uint64(67), p.dropped, "what they share once")
	for _, s := range b {
		require.True(t, s.bereft())
		p.adopt(s)
		require.True(t, s.bereft(), "nobody has it yet")
	}
	require.True(t, p.place(b[1]))
	grow(t, p, b[1], 40)
	p.adopt(b[0])
	require.True(t, b[0].bereft(), "half of it is not it")
	grow(t, p, b[1], 25)
	for _, s := range []*sequence{b[0], b[2]} {
		p.adopt(s)
		require.Equal(t, []int{60, 0}, []int{s.pos, p.takes(s)})
	}
	require.True(t, p.place(b[0]))
	grow(t, p, b[0], 7)
	require.Equal(t, 72, p.live())

	p.swapOut(b[0])
	require.Equal(t, []int{60, 0}, []int{b[0].pos, p.takes(b[0])}, "of what is in the pool it evaluates nothing again")
	require.Equal(t, uint64(74), p.dropped)
	p.leave(b[1])
	require.Equal(t, uint64(134), p.dropped)
	require.Equal(t, []bool{true, true}, []bool{b[0].bereft(), b[2].bereft()})
	require.Zero(t, p.top)
}

// Who had begun to evaluate it again and must leave keeps what it has.
func TestStem_HalfEvaluatedAgainIsItsOwn(t *testing.T) {
	p, _ := newTestPool(t)
	p.swapBudget = 0
	trunk, b := branched(t, p, 60, 2)
	p.leave(trunk)
	p.swapBudget = 1 << 20
	require.True(t, p.place(b[0]))
	grow(t, p, b[0], 20)
	p.swapOut(b[0])
	require.Equal(t, []int{20, 20}, []int{b[0].swapped.Len(), p.takes(b[0])})
	require.True(t, p.place(b[0]))
	grow(t, p, b[0], 41)
	p.adopt(b[1])
	require.True(t, p.place(b[1]))
	require.Equal(t, 61, p.live())
	p.leave(b[0])
	p.leave(b[1])
	require.Zero(t, p.top)
	require.Zero(t, p.swappedBytes)
}

func TestStem_NobodyWaitsForIsNotCopied(t *testing.T) {
	p, _ := newTestPool(t)
	p.swapBudget = 1 << 20
	trunk, b := branched(t, p, 40, 2)
	p.dropSwapped(b[0])
	p.dropSwapped(b[1])
	p.leave(trunk)
	require.Zero(t, p.swappedBytes)
	require.Zero(t, p.top)
}
