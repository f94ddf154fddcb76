package host

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func granted(t *ticket) bool {
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

func TestAdmission_FirstInFirstOutByWeight(t *testing.T) {
	a := newAdmission(4, 2)
	first := a.enter(3)
	require.True(t, granted(first))
	wide, narrow := a.enter(2), a.enter(1)
	require.False(t, granted(wide))
	require.False(t, granted(narrow), "it would fit, and must not overtake")
	require.Nil(t, a.enter(1), "the backlog is full")
	first.leave()
	first.leave() // twice does nothing
	require.True(t, granted(wide))
	require.True(t, granted(narrow))
	wide.leave()
	narrow.leave()
	inFlight, waiting := a.counts()
	require.Zero(t, inFlight)
	require.Zero(t, waiting)
}

func TestAdmission_TooWideRunsAlone(t *testing.T) {
	a := newAdmission(4, 2)
	all := a.enter(16)
	require.True(t, granted(all))
	next := a.enter(1)
	require.False(t, granted(next))
	all.leave()
	require.True(t, granted(next))
}

func TestAdmission_LeavingTheFirstInLineLetsTheNextIn(t *testing.T) {
	a := newAdmission(2, 2)
	busy := a.enter(1)
	wide, narrow := a.enter(2), a.enter(1)
	require.True(t, granted(busy))
	wide.leave()
	require.False(t, granted(wide))
	require.True(t, granted(narrow))
}

func TestAdmission_NoBacklogMeansNow(t *testing.T) {
	a := newAdmission(1, 0)
	one := a.enter(1)
	require.Nil(t, a.enter(1))
	one.leave()
	require.NotNil(t, a.enter(1))
}

func TestAdmission_InvariantsHoldUnderRandomUse(t *testing.T) {
	a := newAdmission(7, 5)
	r := rand.New(rand.NewPCG(1, 2))
	var live []*ticket
	for range 20000 {
		if len(live) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(live))
			live[i].leave()
			live = append(live[:i], live[i+1:]...)
		} else if tk := a.enter(1 + r.IntN(9)); tk != nil {
			live = append(live, tk)
		}
		weight, waiting := 0, 0
		for _, tk := range live {
			if granted(tk) {
				weight += tk.weight
			} else {
				waiting++
			}
		}
		inFlight, queued := a.counts()
		require.Equal(t, weight, inFlight)
		require.Equal(t, waiting, queued)
		require.LessOrEqual(t, inFlight, 7)
		require.LessOrEqual(t, queued, 5)
		if queued > 0 {
			a.mu.Lock()
			first := a.mu.waiting.Front().Value.(*ticket)
			a.mu.Unlock()
			require.Greater(t, inFlight+first.weight, 7, "nobody waits who fits")
		}
	}
}
