//go:build cgo

package native

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
)

// Sharing sequences retire in any order, and the pool stays what it was.
func TestFork_SharersRetireInAnyOrder(t *testing.T) {
	e := open(t, nil)
	prompt := filler(64, 1)
	for _, order := range [][]engine.SeqID{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}} {
		e.Reset()
		prefill(t, e, 0, prompt, 0, 64)
		e.Fork(0, 1, 50)
		e.Fork(1, 2, 30)
		e.Fork(0, 3, 64)
		e.Fork(0, 3, 10) // what it had goes
		for s := range engine.SeqID(4) {
			prefill(t, e, s, filler(5, int(s)), []int{64, 50, 30, 10}[s], 5)
		}
		used := e.used
		for _, s := range order {
			e.Retire(s)
			from, to := e.span(_Ctype_int(s))
			require.Equal(t, []int{0, 0}, []int{from, to})
		}
		e.Retire(0)     // nothing left
		e.Fork(0, 1, 5) // of nothing
		prefill(t, e, 1, prompt, 0, 64)
		require.Equal(t, used+64, e.used)
		s, err := e.Save(1, 0, 64)
		require.NoError(t, err, "above all others, in order")
		s.Free()
	}
}

// The truth is a set of owners for each cell; the engine may be asked to give
// ballast a cell only once.
func TestSharing_AgreesWithOwnersOfCells(t *testing.T) {
	const sequences = 6
	r := rand.New(rand.NewPCG(1, 2))
	s := newSharing(sequences)
	cells := make([][]int, sequences) // of each sequence, by position
	ballast := map[int]bool{}
	next := 0
	for range 20_000 {
		q, other := r.IntN(sequences), r.IntN(sequences)
		switch r.IntN(4) {
		case 0, 1:
			for range r.IntN(4) {
				cells[q] = append(cells[q], next)
				next++
			}
		case 2:
			if n := min(r.IntN(12), len(cells[q])); q != other && len(cells[other]) == 0 && n > 0 {
				s.fork(engine.SeqID(q), engine.SeqID(other), n)
				cells[other] = append([]int(nil), cells[q][:n]...)
			}
		case 3:
			from := s.retire(engine.SeqID(q))
			for pos, c := range cells[q] {
				require.Equal(t, pos < from, ballast[c], "position %d", pos)
				ballast[c] = true
			}
			cells[q] = nil
		}
	}
}
