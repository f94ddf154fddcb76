//go:build cgo

package native

import (
	"encoding/binary"
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
)

// positions reads the positions a saved state lists, in the order of its cells.
func positions(t testing.TB, s engine.State) []int {
	st := s.(*state)
	b := unsafe.Slice((*byte)(st.ptr), st.size)
	require.EqualValues(t, 1, binary.LittleEndian.Uint32(b))
	n := binary.LittleEndian.Uint32(b[4:])
	var out []int
	for i := range n {
		out = append(out, int(int32(binary.LittleEndian.Uint32(b[8+12*i:]))))
	}
	return out
}

func kvVariants(t *testing.T, run func(t *testing.T, change func(*Options))) {
	for _, kv := range []string{"f16", "q8_0"} {
		t.Run(kv, func(t *testing.T) {
			run(t, func(o *Options) { o.KVTypeK, o.KVTypeV = kv, kv })
		})
	}
}

func TestState_RestoredAnswersAsComputed(t *testing.T) {
	kvVariants(t, func(t *testing.T, change func(*Options)) {
		e := open(t, change)
		prompt := append(filler(100, 1), text(t, e, question)...)
		last := len(prompt) - 1

		prefill(t, e, 0, prompt[:last], 0, 64)
		whole, err := e.Save(0, 0, last)
		require.NoError(t, err)
		defer whole.Free()
		require.Equal(t, last, whole.Len())
		var blocks []engine.State
		for from := 0; from < last; from += 64 {
			s, err := e.Save(0, from, min(from+64, last))
			require.NoError(t, err)
			defer s.Free()
			blocks = append(blocks, s)
		}
		row := prefill(t, e, 0, prompt[last:], last, 1)
		want := greedy(t, e, 0, len(prompt), row, 24)

		again := func(name string, junk int, seq engine.SeqID, restore ...engine.State) {
			e.Reset()
			if junk > 0 {
				prefill(t, e, 9, filler(junk, 9), 0, 512)
			}
			for _, s := range restore {
				require.NoError(t, e.Restore(seq, s))
			}
			row := prefill(t, e, seq, prompt[last:], last, 1)
			require.Equal(t, want, greedy(t, e, seq, len(prompt), row, 24), name)
		}
		again("whole", 0, 0, whole)
		again("whole behind others", 333, 5, whole)
		again("by blocks", 0, 3, blocks...)
		again("by blocks behind others", 500, 3, blocks...)
	})
}

func TestPool_CellsAscendThroughARequestsLife(t *testing.T) {
	kvVariants(t, func(t *testing.T, change func(*Options)) {
		e := open(t, change)
		// Neighbours come and go while one sequence grows by small steps.
		var grown []engine.Token
		all := filler(150, 2)
		for i := range 15 {
			neighbour := engine.SeqID(1 + i%3)
			prefill(t, e, neighbour, filler(17+i, i), 0, 512)
			prefill(t, e, 0, all[i*10:(i+1)*10], i*10, 10)
			grown = append(grown, all[i*10:(i+1)*10]...)
			e.Retire(neighbour)
		}
		s, err := e.Save(0, 0, len(grown))
		require.NoError(t, err)
		defer s.Free()
		for i, p := range positions(t, s) {
			require.Equal(t, i, p)
		}
		row := prefill(t, e, 0, all[:1], len(all), 1)
		want := greedy(t, e, 0, len(all)+1, row, 16)

		e.Reset()
		prefill(t, e, 0, all, 0, 512)
		row = prefill(t, e, 0, all[:1], len(all), 1)
		require.Equal(t, greedy(t, e, 0, len(all)+1, row, 16), want, "grown beside others and computed alone must agree")
	})
}

func TestState_PartialSavesHoldTheirRange(t *testing.T) {
	e := open(t, func(o *Options) { o.Cells = 512 })
	prefill(t, e, 0, filler(300, 3), 0, 512)
	for _, r := range [][2]int{{0, 300}, {0, 1}, {299, 300}, {64, 128}, {100, 233}} {
		s, err := e.Save(0, r[0], r[1])
		require.NoError(t, err)
		got := positions(t, s)
		require.Len(t, got, r[1]-r[0])
		require.Equal(t, r[0], got[0])
		require.Equal(t, r[1]-1, got[len(got)-1])
		require.Positive(t, s.Bytes())
		s.Free()
		s.Free() // harmless
	}
	for _, r := range [][2]int{{0, 301}, {5, 5}, {7, 3}, {-1, 4}} {
		_, err := e.Save(0, r[0], r[1])
		require.Error(t, err, "%v", r)
	}
	_, err := e.Save(4, 0, 1)
	require.Error(t, err, "a sequence without cells")
	// None of it took or freed a cell.
	prefill(t, e, 1, filler(512-300, 4), 0, 512)
	require.ErrorIs(t, e.Decode(&engine.Batch{Tokens: []int32{1}, Pos: []int32{300}, Seq: []int32{0}, Output: []bool{true}}), engine.ErrPoolFull)
}

func TestRestore_RefusedLeavesTheSequenceAsItWas(t *testing.T) {
	e := open(t, func(o *Options) { o.Cells = 512 })
	prefill(t, e, 0, filler(256, 5), 0, 512)
	block, err := e.Save(0, 64, 128)
	require.NoError(t, err)
	defer block.Free()

	require.Error(t, e.Restore(0, block), "positions it already has")

	prefill(t, e, 1, filler(64, 5), 0, 512)
	st := block.(*state)
	size := st.size
	for _, cut := range []int{4, 100, size / 2, size - 1} {
		st.size = cut
		require.Error(t, e.Restore(1, block), "cut to %d", cut)
		from, to := e.span(1)
		require.Equal(t, []int{0, 64}, []int{from, to})
		from, to = e.span(e.scratch)
		require.Equal(t, []int{0, 0}, []int{from, to}, "scratch is empty")
	}
	st.size = size
	require.NoError(t, e.Restore(1, block))
	from, to := e.span(1)
	require.Equal(t, []int{0, 128}, []int{from, to})
	whole, err := e.Save(1, 0, 128)
	require.NoError(t, err, "restored cells lie behind the others, in order")
	whole.Free()

	prefill(t, e, 2, filler(512-256-64-64-63, 6), 0, 512)
	require.ErrorIs(t, e.Restore(3, block), engine.ErrPoolFull)
	block.Free()
	require.Error(t, e.Restore(3, block), "freed")
}

func TestFork_SharesCells(t *testing.T) {
	e := open(t, nil)
	prompt := text(t, e, question)
	row := prefill(t, e, 0, prompt, 0, 64)
	before := e.used
	last := len(prompt) - 1
	e.Fork(0, 1, last)
	require.Equal(t, before, e.used)
	want := greedy(t, e, 0, len(prompt), row, 12)
	row = prefill(t, e, 1, prompt[last:], last, 1)
	require.Equal(t, want, greedy(t, e, 1, len(prompt), row, 12))
	e.Retire(0)
	s, err := e.Save(1, 0, last)
	require.NoError(t, err)
	s.Free()
}

func TestDecode_FullPool(t *testing.T) {
	e := open(t, func(o *Options) { o.Cells = 512 })
	prefill(t, e, 0, filler(300, 7), 0, 300)
	e.Retire(0) // retired cells stay taken
	prefill(t, e, 1, filler(200, 8), 0, 200)
	var b engine.Batch
	for i := range 13 {
		b.Add(5, 200+i, 1, false)
	}
	require.ErrorIs(t, e.Decode(&b), engine.ErrPoolFull)
	from, to := e.span(1)
	require.Equal(t, []int{0, 200}, []int{from, to}, "nothing was evaluated")
	prefill(t, e, 1, filler(12, 9), 200, 12)
	e.Reset()
	prefill(t, e, 1, filler(512, 9), 0, 512)
}

func TestDecode_RefusesBadBatches(t *testing.T) {
	e := open(t, func(o *Options) { o.BatchSize = 32 })
	for name, b := range map[string]engine.Batch{
		"empty":             {},
		"token":             {Tokens: []int32{49152}, Pos: []int32{0}, Seq: []int32{0}, Output: []bool{true}},
		"negative token":    {Tokens: []int32{-1}, Pos: []int32{0}, Seq: []int32{0}, Output: []bool{true}},
		"sequence":          {Tokens: []int32{1}, Pos: []int32{0}, Seq: []int32{16}, Output: []bool{true}},
		"ballast":           {Tokens: []int32{1}, Pos: []int32{0}, Seq: []int32{int32(e.ballast)}, Output: []bool{true}},
		"position":          {Tokens: []int32{1}, Pos: []int32{-3}, Seq: []int32{0}, Output: []bool{true}},
		"hole in positions": {Tokens: []int32{1, 2}, Pos: []int32{0, 2}, Seq: []int32{0, 0}, Output: []bool{true, true}},
		"lengths":           {Tokens: []int32{1, 2}, Pos: []int32{0}, Seq: []int32{0, 0}, Output: []bool{true, true}},
		"too large": {Tokens: make([]int32, 33), Pos: make([]int32, 33), Seq: make([]int32, 33),
			Output: make([]bool, 33)},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, e.Decode(&b), engine.ErrDecode)
		})
	}
	row := prefill(t, e, 0, filler(32, 1), 0, 32)
	require.Equal(t, 31, row)
	smp := must(e.NewSampler(plain(), nil))
	defer smp.Free()
	out := make([]engine.Sampled, 1)
	require.NoError(t, e.Sample([]engine.SampleRequest{{Row: 3, Sampler: smp}}, out))
	require.ErrorIs(t, out[0].Err, engine.ErrDecode, "no output was asked of this row")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestDecode_AbortLeavesNothing(t *testing.T) {
	e := open(t, nil)
	prefill(t, e, 0, filler(100, 1), 0, 100)
	used := e.used
	e.Abort()
	var b engine.Batch
	for i := range 200 {
		b.Add(filler(200, 2)[i], 100+i, 0, i == 199)
	}
	require.ErrorIs(t, e.Decode(&b), engine.ErrAborted)
	require.ErrorIs(t, e.Decode(&b), engine.ErrAborted, "in force until it is cleared")
	require.Equal(t, used, e.used)
	from, to := e.span(0)
	require.Equal(t, []int{0, 100}, []int{from, to})
	e.ClearAbort()

	// From another goroutine, while it runs.
	started := make(chan struct{})
	done := make(chan error)
	go func() {
		close(started)
		for {
			if err := e.Decode(&b); err != nil {
				done <- err
				return
			}
			e.Reset()
			prefill(t, e, 0, filler(100, 1), 0, 100)
		}
	}()
	<-started
	e.Abort()
	require.ErrorIs(t, <-done, engine.ErrAborted)
	e.ClearAbort()
	e.Reset()
	prompt := text(t, e, question)
	row := prefill(t, e, 0, prompt, 0, 64)
	require.Contains(t, fmt.Sprint(detokenize(e, greedy(t, e, 0, len(prompt), row, 16))), "sky")
}

func detokenize(e engine.Engine, tokens []engine.Token) string {
	var b []byte
	for _, tok := range tokens {
		b = append(b, e.Piece(tok, false)...)
	}
	return string(b)
}
