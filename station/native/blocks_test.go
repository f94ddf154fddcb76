//go:build cgo

package native

import (
	"bytes"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
)

// slab is memory outside Go's heap, as blocks are to have.
func slab(t testing.TB, size int) []byte {
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Munmap(b) })
	return b
}

// emptyBlocks has room for n positions, in blocks of size.
func emptyBlocks(t testing.TB, e *native, n, size int) []engine.Piece {
	var out []engine.Piece
	for ; n > 0; n -= size {
		rows := min(n, size)
		out = append(out, engine.Piece{Data: slab(t, rows*e.info.KVBytesToken), Rows: rows, Take: rows})
	}
	return out
}

// export copies positions [from, to) out, in blocks of size, by one call.
func export(t testing.TB, e *native, s engine.SeqID, from, to, size int) []engine.Piece {
	pieces := emptyBlocks(t, e, to-from, size)
	require.NoError(t, e.Export(s, from, pieces))
	return pieces
}

// cut gives the pieces' positions [from, to).
func cut(pieces []engine.Piece, from, to int) []engine.Piece {
	var out []engine.Piece
	for _, p := range pieces {
		lo, hi := max(from, 0), min(to, p.Rows)
		if lo < hi {
			out = append(out, engine.Piece{Data: p.Data, Rows: p.Rows, Skip: lo, Take: hi - lo})
		}
		from, to = from-p.Rows, to-p.Rows
	}
	return out
}

// logitsAfter evaluates tokens from a position on and gives the last one's logits.
func logitsAfter(t testing.TB, e *native, s engine.SeqID, tokens []engine.Token, from int) []float32 {
	p, err := e.row(prefill(t, e, s, tokens, from, 512), nil)
	require.NoError(t, err)
	return copyRow(e, p)
}

func copyRow(e *native, p *_Ctype_float) []float32 {
	return slices.Clone(unsafe.Slice((*float32)(unsafe.Pointer(p)), e.info.Vocabulary))
}

func equalBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

func requireSameLogits(t testing.TB, want, got []float32, what string) {
	t.Helper()
	require.True(t, equalBits(want, got), "%s: logits differ", what)
}

func requireSameBlocks(t testing.TB, want, got []engine.Piece, what string) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.True(t, bytes.Equal(want[i].Data, got[i].Data), "%s: block %d differs", what, i)
	}
}

// moverModels runs a test for the KV types of the test model and for the random
// model with a sliding window, whose state has two caches. tokens gives n tokens
// of the model's vocabulary.
func moverModels(t *testing.T, run func(t *testing.T, e *native, tokens func(n, seed int) []engine.Token)) {
	kvVariants(t, func(t *testing.T, change func(*Options)) {
		run(t, open(t, func(o *Options) { change(o); o.Cells = 1536 }), filler)
	})
	t.Run("window", func(t *testing.T) {
		run(t, open(t, func(o *Options) { o.Model, o.Cells = windowModel(t), 1536 }), small)
	})
}

func TestMover_DescribesItsParts(t *testing.T) {
	for _, c := range []struct {
		kv    string
		parts int
		row   int
	}{{"f16", 60, 384}, {"q8_0", 60, 204}} {
		e := open(t, func(o *Options) { o.KVTypeK, o.KVTypeV = c.kv, c.kv })
		require.Equal(t, slices.Repeat([]int{c.row}, c.parts), e.info.KVRows)
		require.Equal(t, c.parts*c.row, e.info.KVBytesToken)
		require.Empty(t, e.info.KVRowsReason)
		require.Empty(t, e.info.RoPE)
	}
	e := open(t, func(o *Options) { o.Model = windowModel(t) })
	require.Equal(t, slices.Repeat([]int{64}, 12), e.info.KVRows, "one head of 32 in six layers, of both caches")
}

func TestMover_ImportedAnswersAsComputed(t *testing.T) {
	moverModels(t, func(t *testing.T, e *native, tokens func(n, seed int) []engine.Token) {
		prompt := tokens(301, 1)
		last := len(prompt) - 1
		prefill(t, e, 0, prompt[:last], 0, 64)
		blocks := export(t, e, 0, 0, last, 64)
		want := logitsAfter(t, e, 0, prompt[last:], last)

		junk := func() {
			e.Reset()
			prefill(t, e, 9, tokens(333, 9), 0, 512)
			prefill(t, e, 8, tokens(17, 8), 0, 512)
			e.Retire(9)
		}
		check := func(s engine.SeqID, what string) {
			t.Helper()
			requireSameBlocks(t, blocks, export(t, e, s, 0, last, 64), what)
			requireSameLogits(t, want, logitsAfter(t, e, s, prompt[last:], last), what)
			got := export(t, e, s, 0, last, 64)
			requireSameBlocks(t, blocks, got, what+", after decode")
		}

		e.Reset()
		require.NoError(t, e.Import(0, 0, blocks))
		check(0, "one run")

		junk()
		require.NoError(t, e.Import(5, 0, blocks))
		check(5, "behind others")

		junk()
		for i := range blocks {
			require.NoError(t, e.Import(3, 64*i, blocks[i:i+1]))
			prefill(t, e, 8, tokens(3, i), 17+3*i, 3) // holes between the blocks
		}
		check(3, "block by block")

		junk()
		for from, ends := 0, []int{1, 64, 101, 102, 229, last}; len(ends) > 0; from, ends = ends[0], ends[1:] {
			require.NoError(t, e.Import(3, from, cut(blocks, from, ends[0])))
		}
		check(3, "cut at odd rows")

		junk()
		prefill(t, e, 4, prompt[:77], 0, 77)
		prefill(t, e, 6, tokens(5, 6), 0, 5)
		require.NoError(t, e.Import(4, 77, cut(blocks, 77, last)))
		check(4, "behind computed positions")

		junk()
		require.NoError(t, e.Import(3, 0, cut(blocks, 0, 200)))
		e.Fork(3, 4, 200)
		e.Fork(3, 5, 130)
		e.Retire(3)
		require.NoError(t, e.Import(4, 200, cut(blocks, 200, last)))
		require.NoError(t, e.Import(5, 130, cut(blocks, 130, last)))
		check(4, "shared with others")
		check(5, "shared in part")
	})
}

// What a sequence's KV is does not depend on where its cells lie: blocks taken
// while others come and go are those of the sequence alone, byte for byte.
func TestMover_ExportsTheSameBytesFromAnywhere(t *testing.T) {
	moverModels(t, func(t *testing.T, e *native, tokens func(n, seed int) []engine.Token) {
		all := tokens(200, 2)
		prefill(t, e, 0, all, 0, 512)
		want := export(t, e, 0, 0, 200, 64)

		e.Reset()
		for i := range 20 {
			prefill(t, e, engine.SeqID(1+i%3), tokens(17+i, i), 0, 512)
			prefill(t, e, 0, all[i*10:(i+1)*10], i*10, 10)
			e.Retire(engine.SeqID(1 + i%3))
		}
		e.Fork(0, 7, 150)
		requireSameBlocks(t, want, export(t, e, 0, 0, 200, 64), "with holes, and shared in part")

		// In another grouping, and by parts of a block: what is not taken stays.
		odd := emptyBlocks(t, e, 200, 64)
		for _, r := range [][2]int{{150, 200}, {0, 1}, {1, 90}, {90, 150}} {
			require.NoError(t, e.Export(0, r[0], cut(odd, r[0], r[1])))
		}
		requireSameBlocks(t, want, odd, "by odd ranges")
		requireSameBlocks(t, export(t, e, 7, 0, 150, 50), export(t, e, 0, 0, 150, 50), "a fork's")
	})
}

func TestMover_RefusesWhatDoesNotFit(t *testing.T) {
	e := open(t, func(o *Options) { o.Cells = 512 })
	prefill(t, e, 0, filler(200, 3), 0, 512)
	blocks := export(t, e, 0, 0, 200, 64)
	b := blocks[0]
	bad := map[string][]engine.Piece{
		"none":          nil,
		"too short":     {{Data: b.Data[:len(b.Data)-1], Rows: 64, Take: 64}},
		"too long":      {{Data: b.Data, Rows: 63, Take: 63}},
		"no data":       {{Rows: 64, Take: 64}},
		"no rows":       {{Data: b.Data, Rows: 0, Take: 1}},
		"takes nothing": {{Data: b.Data, Rows: 64, Take: 0}},
		"takes more":    {{Data: b.Data, Rows: 64, Take: 65}},
		"past the end":  {{Data: b.Data, Rows: 64, Skip: 63, Take: 2}},
		"before it":     {{Data: b.Data, Rows: 64, Skip: -1, Take: 2}},
		"overflow":      {{Data: b.Data, Rows: 64, Skip: 1, Take: 1<<63 - 1}},
		"second one":    {b, {Data: b.Data, Rows: 64, Take: 65}},
	}
	for name, pieces := range bad {
		require.Error(t, e.Export(0, 0, pieces), name)
		require.Error(t, e.Import(0, 200, pieces), name)
		require.Error(t, e.Import(1, 0, pieces), name)
	}
	for _, s := range []engine.SeqID{-1, 16, engine.SeqID(e.ballast), engine.SeqID(e.scratch), 1 << 20} {
		require.Error(t, e.Export(s, 0, blocks[:1]))
		require.Error(t, e.Import(s, 0, blocks[:1]))
	}
	require.Error(t, e.Export(0, 137, blocks[:1]), "beyond its end")
	require.Error(t, e.Export(0, -1, blocks[:1]))
	require.Error(t, e.Export(4, 0, blocks[:1]), "a sequence without cells")
	require.Error(t, e.Import(0, 0, blocks[:1]), "positions it has")
	require.Error(t, e.Import(0, 201, blocks[:1]), "a gap")
	require.Error(t, e.Import(4, 1, blocks[:1]), "a gap at the start")
	require.Error(t, e.Import(4, -1, blocks[:1]))

	// None of it took a cell: the pool has exactly 312 left.
	require.Equal(t, 200, e.used)
	require.NoError(t, e.Import(1, 0, blocks))
	prefill(t, e, 2, filler(51, 6), 0, 512)
	require.ErrorIs(t, e.Import(1, 200, blocks[:1]), engine.ErrPoolFull)
	require.ErrorIs(t, e.Import(3, 0, blocks[:1]), engine.ErrPoolFull)
	from, to := e.span(1)
	require.Equal(t, []int{0, 200}, []int{from, to})
	require.NoError(t, e.Import(1, 200, cut(blocks, 0, 61)), "exactly enough")
	require.ErrorIs(t, e.Decode(&engine.Batch{Tokens: []int32{1}, Pos: []int32{51}, Seq: []int32{2}, Output: []bool{true}}), engine.ErrPoolFull)
}

// A failure within the engine leaves the sequence, scratch and the pool as they were.
func TestMover_FailedImportLeavesNothing(t *testing.T) {
	e := open(t, func(o *Options) { o.Cells = 512 })
	prefill(t, e, 0, filler(100, 3), 0, 512)
	blocks := export(t, e, 0, 0, 64, 64)
	whole := export(t, e, 0, 0, 100, 64)

	e.used-- // the engine believes a cell free that is not: the check of the cells finds it
	require.ErrorContains(t, e.Import(0, 100, blocks), "cells")
	require.ErrorContains(t, e.Import(1, 0, blocks), "cells")
	e.used++
	for _, s := range []engine.SeqID{1, engine.SeqID(e.scratch)} {
		from, to := e.span(_Ctype_int(s))
		require.Equal(t, []int{0, 0}, []int{from, to})
	}
	requireSameBlocks(t, whole, export(t, e, 0, 0, 100, 64), "as it was")
	require.NoError(t, e.Import(1, 0, blocks))
	require.NoError(t, e.Import(0, 100, blocks))
	require.Equal(t, 100+64+64, e.used)
}

func TestMover_FiftyCyclesGiveOneAnswer(t *testing.T) {
	moverModels(t, func(t *testing.T, e *native, tokens func(n, seed int) []engine.Token) {
		prompt := tokens(130, 4)
		last := len(prompt) - 1
		prefill(t, e, 0, prompt[:last], 0, 50)
		blocks := export(t, e, 0, 0, last, 64)
		want := logitsAfter(t, e, 0, prompt[last:], last)
		e.Retire(0)
		for i := range 50 {
			s := engine.SeqID(i % 16)
			if e.used+2*len(prompt) > e.info.Cells {
				e.Reset()
			}
			require.NoError(t, e.Import(s, 0, blocks))
			again := export(t, e, s, 0, last, 64)
			requireSameBlocks(t, blocks, again, fmt.Sprint(i))
			requireSameLogits(t, want, logitsAfter(t, e, s, prompt[last:], last), fmt.Sprint(i))
			e.Retire(s)
			blocks = again
		}
	})
}

// A block has no header: whatever its bytes, they are only numbers.
func TestMover_AnyBytesAreOnlyNumbers(t *testing.T) {
	moverModels(t, func(t *testing.T, e *native, tokens func(n, seed int) []engine.Token) {
		smp := must(e.NewSampler(plain(), nil))
		defer smp.Free()
		prompt := tokens(40, 5)
		prefill(t, e, 0, prompt[:39], 0, 64)
		blocks := export(t, e, 0, 0, 39, 64)
		want := logitsAfter(t, e, 0, prompt[39:], 39)
		g := rand.New(rand.NewSource(1))
		for round := range 6 {
			e.Reset()
			b := emptyBlocks(t, e, 64, 64)
			switch round {
			case 0:
			case 1:
				copy(b[0].Data, bytes.Repeat([]byte{0xff}, len(b[0].Data))) // not numbers
			default:
				_, _ = g.Read(b[0].Data)
			}
			require.NoError(t, e.Import(0, 0, b))
			requireSameBlocks(t, b, export(t, e, 0, 0, 64, 64), "as it came")
			row := prefill(t, e, 0, tokens(1, round), 64, 1)
			out := make([]engine.Sampled, 1)
			require.NoError(t, e.Sample([]engine.SampleRequest{{Row: row, Sampler: smp}}, out))
		}
		// And they do not stay behind.
		e.Reset()
		require.NoError(t, e.Import(0, 0, blocks))
		requireSameLogits(t, want, logitsAfter(t, e, 0, prompt[39:], 39), "after it")
	})
}

func TestMover_WithoutFlashAttentionThereAreNoRows(t *testing.T) {
	e := open(t, func(o *Options) { o.NoFlashAttention = true })
	require.Empty(t, e.info.KVRows)
	require.Contains(t, e.info.KVRowsReason, "flash attention")
	require.Positive(t, e.info.KVBytesToken)
	prefill(t, e, 0, filler(64, 1), 0, 64)
	b := engine.Piece{Data: slab(t, 64*e.info.KVBytesToken), Rows: 64, Take: 64}
	require.ErrorContains(t, e.Export(0, 0, []engine.Piece{b}), "flash attention")
	require.ErrorContains(t, e.Import(1, 0, []engine.Piece{b}), "flash attention")
}
