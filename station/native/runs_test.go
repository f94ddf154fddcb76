package native

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestCutRuns_LeavesOrdinaryTextWhole(t *testing.T) {
	for _, text := range []string{
		"Hello, world.", "日本語のテキスト", strings.Repeat("word ", 100000), strings.Repeat("ab12 ,\n", 10000), strings.Repeat("x", maxRun),
	} {
		require.Equal(t, []piece{{text: text}}, cutRuns(text))
	}
	require.Empty(t, cutRuns(""))
}

func TestCutRuns_CutsLongRuns(t *testing.T) {
	for _, unit := range []string{"a", "7", " ", "\n", "é", "!", "ש", "aé"} {
		pieces := cutRuns(strings.Repeat(unit, 1<<20/len(unit)))
		require.Greater(t, len(pieces), 100)
		for _, p := range pieces {
			require.LessOrEqual(t, utf8.RuneCountInString(p.text), maxRun)
		}
	}
}

func TestCutRuns_PartsRawBytes(t *testing.T) {
	require.Equal(t, []piece{{text: "a"}, {text: "\xff\xfe", raw: true}, {text: "b\x00c"}, {text: "\xe2\x82", raw: true}}, cutRuns("a\xff\xfeb\x00c\xe2\x82"))
}

func FuzzCutRuns(f *testing.F) {
	f.Add("abc\xffdef", 3)
	f.Add("é1 ", 5000)
	f.Fuzz(func(t *testing.T, s string, n int) {
		text := strings.Repeat(s, 1+max(n, 0)%1000)
		var b strings.Builder
		for _, p := range cutRuns(text) {
			require.Equal(t, !p.raw, utf8.ValidString(p.text))
			require.NotEmpty(t, p.text)
			b.WriteString(p.text)
		}
		require.Equal(t, text, b.String())
	})
}
