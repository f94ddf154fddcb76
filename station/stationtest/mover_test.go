package stationtest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
)

func blockOf(rows int) engine.Piece {
	return engine.Piece{Data: make([]byte, rows*kvBytesToken), Rows: rows, Take: rows}
}

// exported evaluates a prompt in a sequence and gives its blocks of 4 rows.
func exported(t *testing.T, e *fake, s engine.SeqID, prompt []engine.Token) []engine.Piece {
	t.Helper()
	run(t, e, s, 0, prompt, 0, 3)
	var pieces []engine.Piece
	for left := len(prompt); left > 0; left -= 4 {
		pieces = append(pieces, blockOf(min(4, left)))
	}
	require.NoError(t, e.Export(s, 0, pieces))
	return pieces
}

func TestMover_InfoDescribesTheRows(t *testing.T) {
	i := NewEngine(Options{}).Info()
	sum := 0
	for _, n := range i.KVRows {
		sum += n
	}
	require.GreaterOrEqual(t, len(i.KVRows), 3)
	require.Equal(t, i.KVBytesToken, sum)
	require.True(t, i.KVCut)

	i = NewEngine(Options{CannotMove: "its state is recurrent"}).Info()
	require.Empty(t, i.KVRows)
	require.False(t, i.KVCut)
	require.Equal(t, "its state is recurrent", i.KVCutReason)
}

func TestMover_AnswerSurvivesExportImportAndCut(t *testing.T) {
	prompt := []engine.Token{10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110}
	o := Options{EOGEvery: -1}
	want := run(t, start(t, o, greedy()), 0, 0, prompt, 20, 8)
	for cut := 1; cut < len(prompt); cut++ {
		e := start(t, o, greedy())
		pieces := exported(t, e, 3, prompt)
		e.Retire(3)
		run(t, e, 4, 0, []engine.Token{1, 2}, 0, 2)

		pieces = pieces[:(cut+3)/4]
		pieces[len(pieces)-1].Take -= engine.Positions(pieces) - cut
		require.NoError(t, e.Import(6, 0, pieces))
		live, dead := e.Cells()
		require.Equal(t, []int{cut + 2, len(prompt)}, []int{live, dead}, "cells are taken upward")
		require.Equal(t, want, run(t, e, 6, cut, prompt[cut:], 20, 8))
		require.Empty(t, e.Violations())
		out, in := e.Moved()
		require.Equal(t, []int{len(prompt), cut}, []int{out, in})
	}
}

func TestMover_TakesAnyRunOfRows(t *testing.T) {
	prompt := []engine.Token{10, 20, 30, 40, 50, 60, 70}
	o := Options{EOGEvery: -1}
	want := run(t, start(t, o, greedy()), 0, 0, prompt, 20, 8)

	e := start(t, o, greedy())
	run(t, e, 0, 0, prompt, 0, 8)
	b := blockOf(6) // its rows 1 to 4 are positions 2 to 5, filled by two calls
	b.Skip, b.Take = 1, 2
	require.NoError(t, e.Export(0, 2, []engine.Piece{b}))
	b.Skip, b.Take = 3, 2
	require.NoError(t, e.Export(0, 4, []engine.Piece{b}))
	run(t, e, 1, 0, prompt[:3], 0, 8)
	b.Skip, b.Take = 2, 3
	require.NoError(t, e.Import(1, 3, []engine.Piece{b}))
	require.Equal(t, want, run(t, e, 1, 6, prompt[6:], 20, 8))
	require.Empty(t, e.Violations())
}

// KV of the right token at the right place, computed behind another text, is
// what no check of bytes can see.
func TestMover_AnotherTextsKVChangesTheAnswer(t *testing.T) {
	prompt := []engine.Token{10, 20, 30, 40, 50, 60, 70, 80}
	other := append([]engine.Token{11}, prompt[1:]...)
	o := Options{EOGEvery: -1}
	want := run(t, start(t, o, greedy()), 0, 0, append(slices.Clone(prompt), 90), 20, 8)

	answer := func(o Options, first, second []engine.Token) []engine.Token {
		e := start(t, o, greedy())
		a, b := exported(t, e, 0, first), exported(t, e, 1, second)
		require.NoError(t, e.Import(2, 0, []engine.Piece{a[0], b[1]}))
		got := run(t, e, 2, 8, []engine.Token{90}, 20, 8)
		require.Empty(t, e.Violations())
		return got
	}
	require.Equal(t, want, answer(o, prompt, prompt))
	require.NotEqual(t, want, answer(o, prompt, other), "a block whose parent is another")
	require.NotEqual(t, want, answer(o, other, other))
	o.ImportDrifts = true
	require.NotEqual(t, want, answer(o, prompt, prompt), "drift shows")
}

func TestMover_FailuresLeaveTheSequenceAsItWas(t *testing.T) {
	prompt := []engine.Token{10, 20, 30, 40, 50}
	o := Options{EOGEvery: -1, Cells: 32, ContextLength: 32}
	want := run(t, start(t, o, greedy()), 0, 0, prompt, 6, 8)
	e := start(t, o, greedy())
	pieces := exported(t, e, 0, prompt)
	boom := errors.New("boom")

	e.FailExport(2, boom)
	require.NoError(t, e.Export(0, 0, pieces))
	junk := []engine.Piece{blockOf(5)}
	require.ErrorIs(t, e.Export(0, 0, junk), boom)
	require.ErrorIs(t, e.Import(1, 0, junk), engine.ErrDecode, "what a failed export leaves is of no use")
	require.Contains(t, strings.Join(e.Violations(), "\n"), "is no row")

	e.FailImport(1, boom)
	require.ErrorIs(t, e.Import(1, 0, pieces), boom)
	e.FailImport(1, engine.ErrPoolFull)
	require.ErrorIs(t, e.Import(1, 0, pieces), engine.ErrPoolFull)
	require.NoError(t, e.Import(1, 0, pieces[:1]))
	run(t, e, 2, 0, make([]engine.Token, 20), 0, 20)
	require.ErrorIs(t, e.Import(3, 0, pieces), engine.ErrPoolFull, "three cells are left")
	require.Equal(t, want[:2], run(t, e, 1, 4, prompt[4:], 2, 8))
	require.Len(t, e.Violations(), 1)
}

func TestMover_SeesBrokenRules(t *testing.T) {
	prompt := []engine.Token{10, 20, 30, 40, 50, 60, 70, 80}
	cases := map[string]func(e *fake, p []engine.Piece){
		"row of position 4 where 0 belongs": func(e *fake, p []engine.Piece) { _ = e.Import(2, 0, p[1:]) },
		"row of position 1 where 0 belongs": func(e *fake, p []engine.Piece) { p[0].Skip, p[0].Take = 1, 3; _ = e.Import(2, 0, p) },
		"part 0 of row 2 is no row":         func(e *fake, p []engine.Piece) { p[0].Data[40] ^= 1; _ = e.Import(2, 0, p) },
		"part 2 of row 3 is no row":         func(e *fake, p []engine.Piece) { p[0].Data[len(p[0].Data)-1] ^= 0x80; _ = e.Import(2, 0, p) },
		"part 0 of row 0 is no row":         func(e *fake, p []engine.Piece) { clear(p[0].Data); _ = e.Import(2, 0, p) },
		"part 1 of row 0 is no row": func(e *fake, p []engine.Piece) {
			p[0].Data, p[0].Rows, p[0].Take = p[0].Data[:3*kvBytesToken], 3, 3
			_ = e.Import(2, 0, p)
		},
		"part 1 of row 0 is another token's":  func(e *fake, p []engine.Piece) { copy(p[0].Data[80:108], p[0].Data[108:136]); _ = e.Import(2, 0, p) },
		"287 bytes for 4 rows":                func(e *fake, p []engine.Piece) { p[0].Data = p[0].Data[1:]; _ = e.Import(2, 0, p) },
		"piece 1: rows 3 to 5 of 4":           func(e *fake, p []engine.Piece) { p[1].Skip, p[1].Take = 3, 2; _ = e.Import(2, 0, p) },
		"piece 0: rows 0 to 0 of 4":           func(e *fake, p []engine.Piece) { p[0].Take = 0; _ = e.Export(0, 0, p) },
		"Import of no pieces":                 func(e *fake, p []engine.Piece) { _ = e.Import(2, 0, nil) },
		"Import of sequence 9":                func(e *fake, p []engine.Piece) { _ = e.Import(9, 0, p) },
		"Import of position 0 into":           func(e *fake, p []engine.Piece) { _ = e.Import(0, 0, p) },
		"Import up to position 15":            func(e *fake, p []engine.Piece) { _ = e.Import(0, 8, p) },
		"Export of sequence 0, positions 1":   func(e *fake, p []engine.Piece) { _ = e.Export(0, 1, p) },
		"Export of sequence 0, positions -1":  func(e *fake, p []engine.Piece) { _ = e.Export(0, -1, p) },
		"Export of sequence 1, positions 0":   func(e *fake, p []engine.Piece) { _ = e.Export(1, 0, p) },
		"Export of sequence 0, which was not": func(e *fake, p []engine.Piece) { fail(e, 0, 8); _ = e.Export(0, 0, p) },
		"Import of sequence 1, which was not": func(e *fake, p []engine.Piece) { fail(e, 1, 0); _ = e.Import(1, 0, p) },
		"Export was called after Close":       func(e *fake, p []engine.Piece) { e.Close(); _ = e.Export(0, 0, p) },
	}
	for want, breach := range cases {
		t.Run(want, func(t *testing.T) {
			e := start(t, Options{Sequences: 4, ContextLength: 12}, greedy())
			pieces := exported(t, e, 0, prompt)
			live, _ := e.Cells()
			breach(e, pieces)
			require.Contains(t, strings.Join(e.Violations(), "\n"), want)
			after, _ := e.Cells()
			require.Equal(t, live, after, "nothing was appended")
		})
	}
	t.Run("an engine that cannot", func(t *testing.T) {
		e := NewEngine(Options{CannotMove: "no"})
		require.ErrorIs(t, e.Import(0, 0, []engine.Piece{blockOf(1)}), engine.ErrDecode)
		require.Contains(t, e.Violations()[0], "cannot move KV")
	})
}

// fail leaves a sequence as a failed decode does.
func fail(e *fake, s engine.SeqID, pos int) {
	e.FailDecode(1, engine.ErrDecode)
	b := &engine.Batch{}
	b.Add(1, pos, s, true)
	_ = e.Decode(b)
}
