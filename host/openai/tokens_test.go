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

// Eight megabytes of prompts, each of a few bytes, are refused before they are kept.
func TestPrompts_TooManyAreNotKept(t *testing.T) {
	for _, entry := range []string{`"a"`, `[1]`} {
		list := `[` + entry + strings.Repeat(","+entry, 1<<21) + `]`
		for name, decode := range map[string]func(body []byte) *Error{
			"prompt":    func(b []byte) *Error { _, e := DecodeCompletion(b, Limits{Answers: 70}); return e },
			"input":     func(b []byte) *Error { _, e := DecodeEmbedding(b, Limits{}); return e },
			"documents": func(b []byte) *Error { _, e := DecodeRerank(b, Limits{}); return e },
		} {
			if name == "documents" && entry != `"a"` {
				continue
			}
			body := []byte(`{"model":"m","query":"q","` + name + `":` + list + `}`)
			var e *Error
			used := allocated(func() { e = decode(body) })
			require.NotNil(t, e)
			require.Equal(t, name, *e.Param)
			require.Equal(t, CodeInvalidValue, e.Code)
			require.Contains(t, e.Message, map[string]string{"prompt": "more than 70 entries", "input": "more than 2048", "documents": "more than 2048"}[name])
			require.Less(t, used, len(body)*3/2, "%s of %s", name, entry)
		}
	}
	r, e := DecodeCompletion([]byte(`{"model":"m","prompt":["a"`+strings.Repeat(`,"a"`, 69)+`]}`), Limits{Answers: 70})
	require.Nil(t, e)
	require.Len(t, r.Prompt, 70)
	_, e = DecodeCompletion([]byte(`{"model":"m","n":2,"prompt":["a"`+strings.Repeat(`,"a"`, 35)+`]}`), Limits{Answers: 70})
	require.Contains(t, e.Message, "prompt has 36 entries, for 2 answers each: at most 70")
}
