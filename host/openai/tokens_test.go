package openai

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allocated is how many bytes f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

func TestTokens_AListTakesAFewTimesItsBody(t *testing.T) {
	const n = 1 << 18
	ids := "[7" + strings.Repeat(",8", n-1) + "]"
	for _, prompt := range []string{ids, "[" + ids + "]"} {
		body := []byte(`{"model":"m","prompt":` + prompt + `}`)
		used := allocated(func() {
			r, e := DecodeCompletion(body, Limits{})
			require.Nil(t, e)
			require.Len(t, r.Prompt, 1)
			require.Len(t, r.Prompt[0].Tokens, n)
			require.Equal(t, []int32{7, 8, 8}, r.Prompt[0].Tokens[:3])
		})
		require.Less(t, used, 8*len(body))

		body = []byte(`{"model":"m","input":` + prompt + `}`)
		used = allocated(func() {
			r, e := DecodeEmbedding(body, Limits{})
			require.Nil(t, e)
			require.Len(t, r.Tokens, 1)
			require.Len(t, r.Tokens[0], n)
			require.Equal(t, []int32{7, 8, 8}, r.Tokens[0][:3])
		})
		require.Less(t, used, 8*len(body))
	}
}
