//go:build cgo

package native

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/internal/gguf/gguftest"
	"thoth/station/engine"
)

// windowModel writes a gemma3 of random weights: five layers see a window, the sixth all.
func windowModel(t testing.TB) string {
	path := filepath.Join(t.TempDir(), "window.gguf")
	require.NoError(t, os.WriteFile(path, gguftest.Window(), 0o644))
	return path
}

// small are tokens of the small vocabulary.
func small(n, seed int) []engine.Token {
	out := filler(n, seed)
	for i := range out {
		out[i] = gguftest.WindowWords + out[i]%(gguftest.WindowVocabulary-gguftest.WindowWords)
	}
	return out
}

// TestWindow_CellsOutOfTheWindowStay: llama.cpp overwrites cells that fell out
// of the window of their only sequence; a save, and the order of cells, need them.
func TestWindow_CellsOutOfTheWindowStay(t *testing.T) {
	e := open(t, func(o *Options) { o.Model, o.Cells = windowModel(t), 768 })
	require.True(t, e.info.KVCut)
	prompt := small(200, 1)
	last := len(prompt) - 1

	prefill(t, e, 0, prompt[:last], 0, 50)
	row := prefill(t, e, 0, prompt[last:], last, 1)
	want := greedy(t, e, 0, len(prompt), row, 20)

	e.Reset()
	prefill(t, e, 1, small(30, 2), 0, 30)
	prefill(t, e, 0, prompt[:100], 0, 50)
	e.Retire(1)
	for i := range 5 { // others come, go, and would take what is masked
		prefill(t, e, 2, small(60, 3+i), 0, 60)
		e.Retire(2)
	}
	prefill(t, e, 0, prompt[100:last], 100, 50)
	prefill(t, e, 3, small(768-e.used-21, 4), 0, 64) // to the brim, but for the answer
	s, err := e.Save(0, 0, last)
	require.NoError(t, err, "every cell from the first on is there, in order")
	defer s.Free()
	var blocks []engine.State
	for from := 0; from < last; from += 64 {
		b, err := e.Save(0, from, min(from+64, last))
		require.NoError(t, err)
		defer b.Free()
		blocks = append(blocks, b)
	}
	row = prefill(t, e, 0, prompt[last:], last, 1)
	require.Equal(t, want, greedy(t, e, 0, len(prompt), row, 20), "beside others")

	for _, states := range [][]engine.State{{s}, blocks} {
		e.Reset()
		prefill(t, e, 1, small(77, 9), 0, 77)
		for _, b := range states {
			require.NoError(t, e.Restore(0, b))
		}
		prefill(t, e, 2, small(200, 8), 0, 100)
		row = prefill(t, e, 0, prompt[last:], last, 1)
		require.Equal(t, want, greedy(t, e, 0, len(prompt), row, 20), "restored")
	}
}

func TestWindow_PoolFillsExactly(t *testing.T) {
	e := open(t, func(o *Options) { o.Model, o.Cells = windowModel(t), 256 })
	prefill(t, e, 0, small(200, 1), 0, 50)
	e.Retire(0)
	prefill(t, e, 1, small(56, 1), 0, 56)
	require.ErrorIs(t, e.Decode(&engine.Batch{Tokens: []int32{300}, Pos: []int32{56}, Seq: []int32{1}, Output: []bool{true}}), engine.ErrPoolFull)
}

// llama.cpp would take cells that fell out of the window of their only sequence
// again, and then purge what lies before them; a sequence's first position moves
// up, and no range below it can be copied out. It looks for cells upward from the
// last one taken, though, and the pool never gives it reason to turn back: so
// every range stays what it was, without a second owner for its cells.
func TestWindow_RangesSurviveDecodeBeyondTheWindow(t *testing.T) {
	const n = 6 * gguftest.WindowSize
	e := open(t, func(o *Options) { o.Model, o.Cells = windowModel(t), 768 })
	prompt := small(n, 1)
	prefill(t, e, 0, prompt[:40], 0, 40)
	early := export(t, e, 0, 0, 40, 16)
	for at := 40; at < n; at += 8 {
		prefill(t, e, 1, small(20, at), 0, 20)
		prefill(t, e, 0, prompt[at:at+8], at, 8)
		e.Retire(1)
		requireSameBlocks(t, early, export(t, e, 0, 0, 40, 16), "while it grows")
	}
	whole := export(t, e, 0, 0, n, 16)
	prefill(t, e, 2, small(768-e.used-64, 5), 0, 64)
	require.NoError(t, e.Import(3, 0, cut(whole, 0, 64)), "to the brim")
	require.Equal(t, 768, e.used)
	require.ErrorIs(t, e.Decode(&engine.Batch{Tokens: []int32{300}, Pos: []int32{n}, Seq: []int32{0}, Output: []bool{true}}), engine.ErrPoolFull)
	require.ErrorIs(t, e.Import(4, 0, cut(whole, 0, 1)), engine.ErrPoolFull)
	for from := 0; from < n; from += 24 {
		to := min(from+24, n)
		got := export(t, e, 0, from, to, 24)
		want := emptyBlocks(t, e, to-from, 24)
		e.Fork(0, 5, to)
		require.NoError(t, e.Export(5, from, want))
		requireSameBlocks(t, want, got, "a range")
		s, err := e.Save(0, from, to)
		require.NoError(t, err)
		require.Equal(t, from, positions(t, s)[0])
		s.Free()
	}
	requireSameBlocks(t, whole, export(t, e, 0, 0, n, 16), "in a full pool")
	first, end := e.span(0)
	require.Equal(t, []int{0, n}, []int{first, end})

	// The same bytes as without any company.
	e.Reset()
	for at := 0; at < n; at += 8 {
		prefill(t, e, 0, prompt[at:at+8], at, 8)
	}
	requireSameBlocks(t, whole, export(t, e, 0, 0, n, 16), "alone")
}
