//go:build cgo

package native

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A token's logits are the same to the last bit however many tokens shared its
// batch: single dot products and the tiled kernels do the same operations in the
// same order. That is what lets an answer be the same alone and under load.
func TestKernels_RowsDoNotDependOnTheirNumber(t *testing.T) {
	for _, threads := range []int{1, 2} {
		e := open(t, func(o *Options) { o.Threads = threads })
		prompt := append(filler(61, 3), text(t, e, question)...)
		logits := func(chunk int) []float32 {
			e.Reset()
			p, err := e.row(prefill(t, e, 0, prompt, 0, chunk), nil)
			require.NoError(t, err)
			return append([]float32(nil), unsafe.Slice((*float32)(unsafe.Pointer(p)), e.info.Vocabulary)...)
		}
		want := logits(1)
		for _, chunk := range []int{2, 3, 4, 5, 7, 8, 9, 16, 33, 64, 512} {
			require.Equal(t, want, logits(chunk), "chunks of %d, %d threads", chunk, threads)
		}
	}
}
