package native

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"thoth/station/engine"
)

// maxWordRunes is the length from which on a word is unknown as a whole.
const maxWordRunes = 100

// wordPiece is the tokeniser of BERT's uncased models, as they were trained with
// it: words without case and accents, each cut into the longest known pieces
// from the left (Devlin et al. 2018; the details are those of Hugging Face's
// BertNormalizer, BertPreTokenizer and WordPiece). llama.cpp's own keeps combining
// accents, takes Hangul for whole syllables and cuts words of any length, so its
// tokens are others for some texts.
type wordPiece struct {
	starts, inner map[string]engine.Token // pieces that begin a word, and that go on in one
	longest       int                     // bytes of a piece
	unknown       engine.Token
}

// newWordPiece takes the pieces of a vocabulary of n tokens, where a space stands
// before those that begin a word; piece gives nil for control tokens, which are
// no pieces.
func newWordPiece(n int, piece func(t int) []byte, unknown engine.Token) *wordPiece {
	w := &wordPiece{starts: map[string]engine.Token{}, inner: map[string]engine.Token{}, unknown: unknown}
	for t := range n {
		p := string(piece(t))
		if p == "" {
			continue
		}
		w.longest = max(w.longest, len(p))
		if start, ok := strings.CutPrefix(p, " "); ok {
			w.starts[start] = engine.Token(t)
		} else {
			w.inner[p] = engine.Token(t)
		}
	}
	return w
}

func (w *wordPiece) tokenize(text string) []engine.Token {
	var out []engine.Token
	for _, word := range words(text) {
		out = w.cut(out, word)
	}
	return out
}

// cut appends a word's pieces, or the unknown token when some of it is none.
func (w *wordPiece) cut(out []engine.Token, word string) []engine.Token {
	if utf8.RuneCountInString(word) > maxWordRunes {
		return append(out, w.unknown)
	}
	known, pieces := len(out), w.starts
	for rest := word; rest != ""; pieces = w.inner {
		n := min(len(rest), w.longest)
		t, ok := pieces[rest[:n]]
		for !ok && n > 1 {
			n--
			t, ok = pieces[rest[:n]]
		}
		if !ok {
			return append(out[:known], w.unknown)
		}
		out, rest = append(out, t), rest[n:]
	}
	return out
}

// words splits a text: at white space, and around every punctuation mark and
// Chinese character, each a word of its own.
func words(text string) []string {
	var out []string
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			out = append(out, word.String())
			word.Reset()
		}
	}
	for _, r := range norm.NFD.String(strings.ToValidUTF8(text, "\ufffd")) {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			end()
		case r == utf8.RuneError || unicode.Is(unicode.C, r) || unicode.Is(unicode.Mn, r): // also \f, \v and U+0085, before they count as white space
		case unicode.IsSpace(r):
			end()
		case punctuation(r) || chinese(r):
			end()
			out = append(out, string(r))
		default:
			for _, low := range strings.ToLower(string(r)) {
				word.WriteRune(low)
			}
		}
	}
	end()
	return out
}

// punctuation counts all of ASCII that is neither letter, digit, white space nor
// control.
func punctuation(r rune) bool {
	return r > ' ' && r < 0x7f && !(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') || unicode.IsPunct(r)
}

// chinese are the blocks BERT sets apart; Hangul and kana are no part of them.
func chinese(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B73F ||
		r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF || r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}
