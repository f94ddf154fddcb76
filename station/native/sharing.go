package native

import "thoth/station/engine"

// sharing knows which sequences have cells in common, and which of a sequence's
// cells ballast owns by now. llama.cpp ends the process when a sequence is given
// a cell that it owns, and so the cells that two sequences share must go to
// ballast once, with the first of them that retires.
//
// Sequences share cells by Fork alone, which gives positions from 0 on. So what
// two have in common is the start of both, and what ballast owns of a sequence
// is its start.
type sharing struct {
	common [][]int // positions from 0 on whose cells two sequences share
	kept   []int   // positions from 0 on whose cells ballast owns
}

func newSharing(sequences int) sharing {
	s := sharing{common: make([][]int, sequences), kept: make([]int, sequences)}
	for i := range s.common {
		s.common[i] = make([]int, sequences)
	}
	return s
}

// fork notes that dst, which was empty, has src's first n cells.
func (s *sharing) fork(src, dst engine.SeqID, n int) {
	for other := range s.common {
		s.set(dst, engine.SeqID(other), min(n, s.common[src][other]))
	}
	s.set(dst, src, n)
	s.common[dst][dst] = 0
	s.kept[dst] = min(n, s.kept[src])
}

// retire notes that ballast owns all of q's cells, and gives the position from
// which on it does not yet.
func (s *sharing) retire(q engine.SeqID) (from int) {
	from = s.kept[q]
	for other, n := range s.common[q] {
		s.kept[other] = max(s.kept[other], n)
		s.set(q, engine.SeqID(other), 0)
	}
	s.kept[q] = 0
	return from
}

func (s *sharing) set(a, b engine.SeqID, n int) { s.common[a][b], s.common[b][a] = n, n }

// clear notes that no sequence has cells.
func (s *sharing) clear() {
	clear(s.kept)
	for _, row := range s.common {
		clear(row)
	}
}
