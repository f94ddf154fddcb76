package native

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/internal/gguf/gguftest"
	"thoth/station/engine"
)

// planFor plans a model of 22.5 KiB of KV a token, trained for 8192 tokens, with 90 MiB of weights.
func planFor(t testing.TB, o Options, free int64) (plan, error) {
	m := gguftest.File{Settings: []gguftest.Setting{
		gguftest.Set("general.architecture", "llama"), gguftest.Set("llama.context_length", uint32(8192)), gguftest.Set("llama.block_count", uint32(30)),
		gguftest.Set("llama.embedding_length", uint32(576)), gguftest.Set("llama.attention.head_count", uint32(9)), gguftest.Set("llama.attention.head_count_kv", uint32(3)),
		gguftest.Set("tokenizer.ggml.tokens", make([]string, 49152)),
	}}
	path := m.Write(t, filepath.Join(t.TempDir(), "m.gguf"))
	o.Model, o.LibraryDir = path, t.TempDir()
	o, err := o.fill()
	require.NoError(t, err)
	model, err := checkModel(path)
	require.NoError(t, err)
	model.weights = 90 << 20
	return makePlan(o, model, memory{total: free, free: free})
}

// Some models give each layer its own number of KV heads.
func TestKVBytesToken_CountsHeadsLayerByLayer(t *testing.T) {
	path := gguftest.Small(gguftest.Set("llama.attention.head_count_kv", []uint32{2, 1})).Write(t, filepath.Join(t.TempDir(), "m.gguf"))
	m, err := checkModel(path)
	require.NoError(t, err)
	const headBytes = 64 / 4 * 2 // of f16
	require.Equal(t, 2*(2+1)*headBytes, kvBytesToken(m.header, "f16", "f16"))
}

func TestMakePlan_FourContextsWhenMemoryIsPlenty(t *testing.T) {
	p, err := planFor(t, Options{}, 64<<30)
	require.NoError(t, err)
	require.Equal(t, 23040, p.kvBytesToken)
	require.Equal(t, 8192, p.contextLength)
	require.Equal(t, 4*8192, p.cells)
	require.Empty(t, p.reason)
}

func TestMakePlan_QuarterOfMemoryBoundsThePool(t *testing.T) {
	p, err := planFor(t, Options{}, 2<<30)
	require.NoError(t, err)
	require.Equal(t, 8192, p.contextLength)
	require.Greater(t, p.cells, 8192)
	require.LessOrEqual(t, int64(p.cells)*23040, int64(512<<20))
	require.Zero(t, p.cells%256)
}

func TestMakePlan_AutomaticContextShrinksAndSaysSo(t *testing.T) {
	p, err := planFor(t, Options{}, 350<<20)
	require.NoError(t, err)
	require.Less(t, p.contextLength, 8192)
	require.Equal(t, p.cells, p.contextLength)
	require.Contains(t, p.reason, "instead of 8192")
	require.Contains(t, p.reason, "free")

	p, err = planFor(t, Options{Cells: 1000}, 64<<30)
	require.NoError(t, err)
	require.Equal(t, 1024, p.cells)
	require.Equal(t, 1024, p.contextLength)
	require.Contains(t, p.reason, "the pool has 1024 cells")
}

func TestMakePlan_LongRopeFactorsStay(t *testing.T) {
	f := gguftest.Small(gguftest.Set("llama.rope.scaling.original_context_length", uint32(4096)))
	f.Tensors[0].Name = "rope_factors_long.weight"
	o := Options{Model: f.Write(t, filepath.Join(t.TempDir(), "m.gguf")), LibraryDir: t.TempDir()}
	o, err := o.fill()
	require.NoError(t, err)
	m, err := checkModel(o.Model)
	require.NoError(t, err)
	p, err := makePlan(o, m, memory{total: 64 << 30, free: 64 << 30})
	require.NoError(t, err)
	require.Equal(t, 4096, p.contextLength)
	require.Equal(t, 4096, p.cells)
	require.Contains(t, p.reason, "RoPE")
	require.Equal(t, "short factors", p.rope)

	o.ContextLength = 4097 // the long ones are wanted
	p, err = makePlan(o, m, memory{total: 64 << 30, free: 64 << 30})
	require.NoError(t, err)
	require.Greater(t, p.cells, 4096)
	require.Equal(t, "long factors", p.rope)

	plain, err := planFor(t, Options{}, 64<<30)
	require.NoError(t, err)
	require.Empty(t, plain.rope)
}

func TestMakePlan_RefusesWhatDoesNotFit(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		free int64
		says string
	}{
		"weights":        {Options{}, 100 << 20, "weights 90 MiB"},
		"budget":         {Options{MemoryBudget: 100 << 20}, 64 << 30, "100 MiB are free"},
		"asked cells":    {Options{Cells: 1 << 20}, 4 << 30, "1048576 cells"},
		"asked context":  {Options{ContextLength: 1 << 20}, 4 << 30, "a context of 1048576 tokens"},
		"largest cells":  {Options{Cells: math.MaxInt32 - 256}, 4 << 30, "cells fit"},
		"largest length": {Options{ContextLength: math.MaxInt32 - 256}, 4 << 30, "tokens fit"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := planFor(t, c.o, c.free)
			le := loadErrorOf(t, err)
			require.Equal(t, engine.LoadNoMemory, le.Kind)
			require.Contains(t, le.Msg, c.says)
		})
	}
}

func TestMakePlan_QuantisedKVIsSmaller(t *testing.T) {
	p, err := planFor(t, Options{KVTypeK: "q8_0", KVTypeV: "q8_0"}, 64<<30)
	require.NoError(t, err)
	require.Equal(t, 23040/2*34/32, p.kvBytesToken)
}

func TestOptions_Refused(t *testing.T) {
	for name, o := range map[string]Options{
		"sequences":     {Sequences: 255},
		"batch":         {BatchSize: -1},
		"cells":         {Cells: -1},
		"context":       {ContextLength: -1},
		"kv type":       {KVTypeK: "q4_0"},
		"v without fa":  {KVTypeV: "q8_0", NoFlashAttention: true},
		"backend":       {Backend: "metal"},
		"threads":       {Threads: -1},
		"poll":          {Poll: 101},
		"budget":        {MemoryBudget: -1},
		"gpu layers":    {GPULayers: -1},
		"context > all": {ContextLength: 2048, Cells: 1024},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := o.fill()
			require.Equal(t, engine.LoadBadSetting, loadErrorOf(t, err).Kind)
		})
	}
}

func TestGoMemoryLimit_IsWhatIsLeft(t *testing.T) {
	i := engine.Info{Cells: 1 << 10, KVBytesToken: 1 << 20, SizeBytes: 1 << 30, BatchSize: 1, Vocabulary: 1}
	left := goMemoryLimit(8<<30, i, 0)
	require.Less(t, left, int64(5<<30))
	require.Greater(t, left, int64(4<<30))
	require.EqualValues(t, minGoLimit, goMemoryLimit(1<<30, i, 0))
	require.EqualValues(t, math.MaxInt64, goMemoryLimit(math.MaxInt64, i, 0))
}
