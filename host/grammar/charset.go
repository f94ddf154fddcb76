package grammar

import (
	"slices"
	"strings"
	"unicode"
)

// interval is code points from lo to hi, both included.
type interval struct{ lo, hi rune }

// charset is a set of code points: sorted intervals that neither overlap nor
// touch. Surrogates are in no set, they are no characters.
type charset []interval

// anyChar is every code point.
var anyChar = charset{{0, 0xd7ff}, {0xe000, unicode.MaxRune}}

// newCharset is the set of all code points in the intervals.
func newCharset(in ...interval) charset {
	in = slices.DeleteFunc(slices.Clone(in), func(i interval) bool { return i.hi < i.lo })
	slices.SortFunc(in, func(a, b interval) int { return int(a.lo) - int(b.lo) })
	var out charset
	for _, i := range in {
		if n := len(out); n > 0 && i.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, i.hi)
		} else {
			out = append(out, i)
		}
	}
	return out.intersect(anyChar)
}

// chars is the set of the text's characters.
func chars(text string) charset {
	var in []interval
	for _, c := range text {
		in = append(in, interval{c, c})
	}
	return newCharset(in...)
}

// fromTable is the set of a Unicode table.
func fromTable(t *unicode.RangeTable) charset {
	var in []interval
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			in = append(in, interval{lo, hi})
			return
		}
		for c := lo; c <= hi; c += stride {
			in = append(in, interval{c, c})
		}
	}
	for _, r := range t.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range t.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	return newCharset(in...)
}

// union is all sets together; of one it is that one itself.
func union(all []charset) charset {
	if len(all) == 1 {
		return all[0]
	}
	var in []interval
	for _, s := range all {
		in = append(in, s...)
	}
	return newCharset(in...)
}

func (s charset) intersect(t charset) charset {
	// Mostly one of them is any character: then nothing new is made.
	switch {
	case s.full():
		return t
	case t.full():
		return s
	}
	var out charset
	for i, j := 0, 0; i < len(s) && j < len(t); {
		if lo, hi := max(s[i].lo, t[j].lo), min(s[i].hi, t[j].hi); lo <= hi {
			out = append(out, interval{lo, hi})
		}
		if s[i].hi < t[j].hi {
			i++
		} else {
			j++
		}
	}
	return out
}

// full tells whether every character is in the set.
func (s charset) full() bool { return len(s) == 2 && s[0] == anyChar[0] && s[1] == anyChar[1] }

// minus is s without t.
func (s charset) minus(t charset) charset {
	var rest charset
	next := rune(0)
	for _, i := range t {
		if i.lo > next {
			rest = append(rest, interval{next, i.lo - 1})
		}
		next = i.hi + 1
	}
	if next <= unicode.MaxRune {
		rest = append(rest, interval{next, unicode.MaxRune})
	}
	return s.intersect(rest)
}

func (s charset) contains(c rune) bool {
	for _, i := range s {
		if c <= i.hi {
			return c >= i.lo
		}
	}
	return false
}

// rule is the class of the set; a literal when it has one member only. Classes
// are never written with ^: the engine would refuse a token that ends inside a
// character as soon as it might become one that is left out.
func (s charset) rule() Rule {
	if len(s) == 1 && s[0].lo == s[0].hi {
		return quote(string(s[0].lo))
	}
	var out strings.Builder
	out.WriteByte('[')
	for _, i := range s {
		writeChar(&out, i.lo, `\[]^-`)
		switch {
		case i.hi > i.lo+1:
			out.WriteByte('-')
			fallthrough
		case i.hi > i.lo:
			writeChar(&out, i.hi, `\[]^-`)
		}
	}
	out.WriteByte(']')
	return Rule(out.String())
}
