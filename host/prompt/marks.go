package prompt

import (
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"thoth/station/wire"
)

// marks are characters that occur in none of a request's texts: around a text,
// around a soft text, and inside a span that must not become a token.
type marks struct{ open, close, softOpen, softClose, broken rune }

// Plane 15 of Unicode is private use: no model's template writes it.
const (
	privateFirst = 0xF0000
	privateCount = 0xFFFD
	privateByte  = 0xF3 // begins the UTF-8 of each of them
)

func newMarks(rendered string, texts []string) marks {
	free := freeRunes(5, rendered, texts)
	return marks{free[0], free[1], free[2], free[3], free[4]}
}

// freeRunes are n private characters that occur in none of the texts.
func freeRunes(n int, rendered string, texts []string) []rune {
	private := func(s string) bool { return strings.IndexByte(s, privateByte) >= 0 }
	unused := !private(rendered) && !slices.ContainsFunc(texts, private)
	var free []rune
	for r := rand.Int32N(privateCount); len(free) < n; r = (r + 1) % privateCount {
		c := privateFirst + r
		has := func(s string) bool { return strings.ContainsRune(s, c) }
		if unused || !has(rendered) && !slices.ContainsFunc(texts, has) {
			free = append(free, c)
		}
	}
	return free
}

// wrap is the marker of the first way.
func (m marks) wrap(s string, soft bool) string {
	core := strings.TrimFunc(s, unicode.IsSpace)
	if core == "" {
		return s
	}
	open, end := m.open, m.close
	if soft && harmless(core) {
		open, end = m.softOpen, m.softClose
	}
	at := strings.Index(s, core)
	return s[:at] + string(open) + core + string(end) + s[at+len(core):]
}

// harmless texts hold no control token, and begin none that what follows could
// end. Brackets may stand in them as JSON's arrays have them.
func harmless(s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '<', '>':
			return false
		case '[':
			next, _ := utf8.DecodeRuneInString(s[i+1:])
			if i+1 == len(s) || unicode.IsLetter(next) || strings.ContainsRune("/|_｜", next) {
				return false
			}
		}
	}
	return true
}

// opensToken tells whether text ends within what a control token can look like,
// so that the next text could be a part of it. A quote, an equals sign or white
// space after the bracket says that it is none: <function=, ["a", "b.
func opensToken(text string) bool {
	const most = 100
	text = text[max(0, len(text)-most):]
	closed := false // what follows a bracket says that it is none of a token
	for i, c := range slices.Backward([]byte(text)) {
		switch c {
		case '<', '[':
			return !closed
		case '>':
			if i > 0 && text[i-1] == '>' {
				return true
			}
			closed = true
		case '\n':
			return false
		case ']', '"', '\'', '=', ' ', '\t', '\r':
			closed = true
		}
	}
	return false
}

// cutWrapped cuts at the marks of wrap; false when they are not paired. A soft
// text stays in the template's segment unless the template opens a bracket
// before it: segments are tokenised one by one, and a model that wrote {"n":
// "x"} saw no border around x.
func (m marks) cutWrapped(got string) ([]wire.Segment, bool) {
	var segs []wire.Segment
	var own strings.Builder // of the segment at hand, in pieces
	cut := func(piece string) {
		if own.Len() > 0 {
			own.WriteString(piece)
			piece = own.String()
			own.Reset()
		}
		segs = append(segs, wire.Segment{Text: piece, Special: true})
	}
	until, from, plain := rune(0), 0, false
	for i := 0; i < len(got); i++ {
		next := strings.IndexByte(got[i:], privateByte)
		if next < 0 {
			break
		}
		i += next
		r, _ := utf8.DecodeRuneInString(got[i:])
		switch r {
		case m.open, m.softOpen:
			if until != 0 {
				return nil, false
			}
			until, plain = m.close, true
			if r == m.softOpen {
				until = m.softClose
				own.WriteString(got[from:i])
				from = i
				plain = opensToken(own.String())
			}
			if plain {
				cut(got[from:i])
			}
		case m.close, m.softClose:
			if until != r {
				return nil, false
			}
			until = 0
			if plain {
				segs = append(segs, wire.Segment{Text: got[from:i]})
			} else {
				own.WriteString(got[from:i])
			}
		default:
			continue
		}
		from = i + utf8.RuneLen(r)
	}
	if until != 0 {
		return nil, false
	}
	cut(got[from:])
	return segs, true
}
