package native

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
)

func TestWords_AreThoseOfBERT(t *testing.T) {
	for text, want := range map[string][]string{
		"":                            nil,
		" two\twords\n":               {"two", "words"},
		"Don't stop!":                 {"don", "'", "t", "stop", "!"},
		"Crème e\u0301 \u1ebf Zürich": {"creme", "e", "e", "zurich"},
		"我喜欢a茶":                       {"我", "喜", "欢", "a", "茶"},
		"한":                           {"\u1112\u1161\u11ab"},
		"a\u200db\u0000c\u0007":       {"abc"},
		"a\x0cb\x0bc\u0085d e\rf":     {"abcd", "e", "f"}, // controls go before white space is looked for
		"x^2=$5~":                     {"x", "^", "2", "=", "$", "5", "~"},
		"❤\ufe0f 🍕":                   {"❤", "🍕"},
		"\u3000wide\u00a0space":       {"wide", "space"},
		"bad\xffbyte":                 {"badbyte"},
	} {
		require.Equal(t, want, words(text), "%q", text)
	}
}

func TestWordPiece_TakesTheLongestPieces(t *testing.T) {
	pieces := []string{"", "?", " un", "aff", "able", " unaff", "a", " a", "b", " é"}
	w := newWordPiece(len(pieces), func(i int) []byte { return []byte(pieces[i]) }, 1)
	for text, want := range map[string][]engine.Token{
		"unaffable":                    {5, 4},
		"UN unab":                      {2, 2, 6, 8},
		"unx a":                        {1, 7}, // a word with an unknown rest is unknown as a whole
		"á":                            {7},    // the accent goes before the pieces are looked at
		"ab" + strings.Repeat("a", 98): append([]engine.Token{7, 8}, repeat(6, 98)...),
		"ab" + strings.Repeat("a", 99): {1},
		"":                             nil,
	} {
		require.Equal(t, want, w.tokenize(text), "%q", text)
	}
}

func repeat(t engine.Token, n int) []engine.Token {
	out := make([]engine.Token, n)
	for i := range out {
		out[i] = t
	}
	return out
}

func FuzzWordPiece(f *testing.F) {
	f.Add("Crème 我 \xff")
	pieces := []string{" a", "a", " b", "b"}
	w := newWordPiece(len(pieces), func(i int) []byte { return []byte(pieces[i]) }, 9)
	f.Fuzz(func(t *testing.T, text string) {
		for _, word := range words(text) {
			require.NotEmpty(t, word)
		}
		require.LessOrEqual(t, len(w.tokenize(text)), 4*len(text)+1)
	})
}
