package native

import (
	"unicode"
	"unicode/utf8"
)

// maxRun is the longest run of one kind of character the tokeniser gets in one
// piece. Its regular expressions recurse once per character of a run: 26,000
// equal letters overflow the stack. Real text has no run a tenth as long, so
// its tokens are what they would be; only within a longer run a token ends
// where otherwise it might not.
const maxRun = 2048

// piece is a part of a text for the tokeniser: valid UTF-8, or, where raw, bytes
// that are not, which it would replace by U+FFFD.
type piece struct {
	text string
	raw  bool
}

// cutRuns parts text into pieces whose concatenation is the text.
func cutRuns(text string) []piece {
	var out []piece
	start, length := 0, 0
	kind := -1
	flush := func(end int, raw bool) {
		if end > start {
			out = append(out, piece{text: text[start:end], raw: raw})
			start = end
		}
		length = 0
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 {
			flush(i, false)
			for i < len(text) {
				if r, size := utf8.DecodeRuneInString(text[i:]); r != utf8.RuneError || size != 1 {
					break
				}
				i++
			}
			flush(i, true)
			kind = -1
			continue
		}
		k := runKind(r)
		if k != kind {
			kind, length = k, 0
		}
		if length == maxRun {
			flush(i, false)
		}
		length++
		i += size
	}
	flush(len(text), false)
	return out
}

// runKind sorts characters as the tokenisers' expressions do.
func runKind(r rune) int {
	switch {
	case r < 0x80 && ('a' <= r|0x20 && r|0x20 <= 'z'):
		return 0
	case unicode.IsSpace(r):
		return 1
	case unicode.IsLetter(r), unicode.IsMark(r):
		return 0
	case unicode.IsNumber(r):
		return 2
	}
	return 3
}
