//go:build cgo

package native

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
)

// quantized writes the test model with other weights.
func quantized(t testing.TB, weights string) string {
	out := filepath.Join(t.TempDir(), weights+".gguf")
	require.NoError(t, Quantize(testModel(t), out, weights))
	return out
}

// lastLogits gives the logits of a prompt's last token, evaluated in chunks.
func lastLogits(t testing.TB, e *native, prompt []engine.Token, chunk int) []float32 {
	e.Reset()
	p, err := e.row(prefill(t, e, 0, prompt, 0, chunk), nil)
	require.NoError(t, err)
	return copyRow(e, p)
}

// logitsBeside gives the same, the last token decoded beside n other sequences.
func logitsBeside(t testing.TB, e *native, prompt []engine.Token, n int) []float32 {
	e.Reset()
	last := len(prompt) - 1
	prefill(t, e, 0, prompt[:last], 0, 512)
	for s := 1; s <= n; s++ {
		prefill(t, e, engine.SeqID(s), filler(5+s, s), 0, 512)
	}
	var b engine.Batch
	for s := 1; s <= n; s++ {
		b.Add(7, 5+s, engine.SeqID(s), true)
	}
	row := b.Add(prompt[last], last, 0, true)
	require.NoError(t, e.Decode(&b))
	p, err := e.row(row, nil)
	require.NoError(t, err)
	return copyRow(e, p)
}

// A token's logits are the same to the last bit however many tokens shared its
// batch: single dot products and the tiled kernels do the same operations in the
// same order. That is what lets an answer be the same alone and under load.
func TestKernels_RowsDoNotDependOnTheirNumber(t *testing.T) {
	for _, threads := range []int{1, 2} {
		e := open(t, func(o *Options) { o.Threads = threads })
		prompt := append(filler(61, 3), text(t, e, question)...)
		want := lastLogits(t, e, prompt, 1)
		for _, chunk := range []int{2, 3, 4, 5, 7, 8, 9, 16, 33, 64, 512} {
			require.Equal(t, want, lastLogits(t, e, prompt, chunk), "chunks of %d, %d threads", chunk, threads)
		}
	}
}

// The same holds for weights that are not quantized when exact results are asked
// for; without, llamafile's tiles for several rows sum in another order than the
// dot products for one.
func TestKernels_ExactMakesEveryTypeSo(t *testing.T) {
	for _, weights := range []string{"f16", "f32", "bf16", "q8_0", "q4_0", "q4_k_m"} {
		t.Run(weights, func(t *testing.T) {
			model := quantized(t, weights)
			for _, exact := range []bool{false, true} {
				e := open(t, func(o *Options) { o.Model, o.Exact = model, exact })
				prompt := append(filler(20, 3), text(t, e, question)...)
				alone := lastLogits(t, e, prompt, 1)
				same := true
				for _, chunk := range []int{2, 7, 512} {
					same = same && equalBits(alone, lastLogits(t, e, prompt, chunk))
				}
				for _, others := range []int{1, 7} {
					same = same && equalBits(alone, logitsBeside(t, e, prompt, others))
				}
				if exact {
					require.Contains(t, e.info.Backend.Features, "EXACT=1")
					require.True(t, same, "logits depend on the batch")
				} else {
					require.NotContains(t, e.info.Backend.Features, "EXACT=1")
					t.Logf("%s without exact: logits independent of the batch: %v", weights, same)
					if weights == "f16" {
						require.False(t, same, "nothing to be exact about: the test proves nothing")
					}
				}
				e.Close()
			}
		})
	}
}

func TestExact_ChoosesTheCPU(t *testing.T) {
	b, err := Probe(Options{LibraryDir: libraryDir(t), Exact: true, Poll: -1})
	require.NoError(t, err)
	require.Equal(t, BackendAuto, b.Requested)
	require.Equal(t, BackendCPU, b.Selected)
	require.Contains(t, b.Reason, "exact")
	_, err = Probe(Options{LibraryDir: libraryDir(t), Exact: true, Backend: BackendCUDA})
	require.Equal(t, engine.LoadBadSetting, loadErrorOf(t, err).Kind)
}

func TestQuantize_WritesAModelOrNothing(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out.gguf")
	for name, c := range map[string]struct{ in, out, weights string }{
		"type":      {testModel(t), out, "q9"},
		"no type":   {testModel(t), out, ""},
		"no model":  {filepath.Join(dir, "none.gguf"), out, "q8_0"},
		"no folder": {testModel(t), filepath.Join(dir, "none", "out.gguf"), "q8_0"},
		"a folder":  {testModel(t), dir, "q8_0"},
	} {
		loadErrorOf(t, Quantize(c.in, c.out, c.weights))
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left, name)
	}
	require.NoError(t, Quantize(testModel(t), out, "q8_0"))
	require.NoError(t, Quantize(out, out, "q4_0"), "onto itself")
	e := open(t, func(o *Options) { o.Model = out })
	require.Contains(t, e.info.Description, "Q4_0")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}
