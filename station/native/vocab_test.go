//go:build cgo

package native

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTokenize_GivesTheTextBack(t *testing.T) {
	e := open(t, nil)
	for _, s := range []string{
		"Hello, world.", " leading", "trailing ", "日本語のテキスト 🙂", "tab\there\nline\r\n", "a\x00b", "\x00", "\xe2\x82", "\xf0\x9f\x99", "a\x80\x81 b",
		"<|im_start|>user", strings.Repeat(" ", 3000), "mixed \xc3\x28 bytes ü",
	} {
		tokens, err := e.Tokenize(s, false)
		require.NoError(t, err)
		require.Equal(t, s, detokenize(e, tokens), "%q", s)
	}
	require.Empty(t, must(e.Tokenize("", false)))
	// No token of this vocabulary holds 0xff, which no UTF-8 text has.
	require.Equal(t, "a\uFFFD\uFFFDb", detokenize(e, must(e.Tokenize("a\xff\xffb", false))))
}

func TestTokenize_ControlTokensOnlyWhenAsked(t *testing.T) {
	e := open(t, nil)
	start := must(e.Tokenize("<|im_start|>", true))
	require.Len(t, start, 1)
	require.Greater(t, len(must(e.Tokenize("<|im_start|>", false))), 1)
	require.Empty(t, e.Piece(start[0], false))
	require.Equal(t, "<|im_start|>", string(e.Piece(start[0], true)))
	require.Nil(t, e.Piece(-1, true))
	require.Nil(t, e.Piece(1<<30, true))
}

func TestTokenize_LongRunsDoNotEndTheProcess(t *testing.T) {
	e := open(t, nil)
	for _, unit := range []string{"a", "7", " ", "\n", "é", "!", "\x80"} {
		s := strings.Repeat(unit, 1<<20/len(unit))
		tokens, err := e.Tokenize(s, false)
		require.NoError(t, err)
		require.Equal(t, len(s), len(detokenize(e, tokens)))
	}
	_, err := e.Tokenize(strings.Repeat("a b ", maxText/4+1), false)
	require.ErrorContains(t, err, "longer")
}

func TestTokenize_FromManyGoroutines(t *testing.T) {
	e := open(t, nil)
	want := must(e.Tokenize(question, true))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				got, err := e.Tokenize(question, true)
				if err != nil || len(got) != len(want) {
					t.Errorf("%v %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}
