package stationtest

import (
	"sort"

	"thoth/station/engine"
)

// Control tokens as text. Only Tokenize with special turns them into ids.
const (
	textBOS     = "<|bos|>"
	textEOS     = "<|eos|>"
	textIMStart = "<|im_start|>"
	textIMEnd   = "<|im_end|>"
	textPAD     = "<|pad|>"
)

// pieces follow the 256 single bytes. Some end or begin inside a character, as
// those of byte-level vocabularies do; "é" is left to its two bytes.
var pieces = []string{
	"\xf0\x9f",  // first half of most emoji
	"\x98\x80",  // second half of U+1F600
	"a\xf0\x9f", // a letter and half an emoji
	"\x80 ",     // end of a character and a space
	"\xe2\x80",  // of U+2019 and other quotes
	"日", "本",    // whole characters of three bytes
	"\n\n", "  ",
	"the", " the", " and", " of", "ing", "er", " river", "hello", " hello", " world",
	"user", "assistant", "system", "say",
	"0", "00", "10",
}

var controls = []string{textBOS, textEOS, textIMStart, textIMEnd, textPAD}

// vocabulary is the token table of the fake: bytes, pieces, control tokens.
type vocabulary struct {
	text    []string // by id
	byText  map[string]engine.Token
	longest int // bytes of the longest piece
	control engine.Token
	special map[string]engine.Token
	// byLength holds control texts, longest first, for the special parse.
	byLength []string
}

func newVocabulary() *vocabulary {
	v := &vocabulary{byText: map[string]engine.Token{}, special: map[string]engine.Token{}, longest: 1}
	for b := range 256 {
		v.add(string([]byte{byte(b)}))
	}
	for _, p := range pieces {
		if _, ok := v.byText[p]; !ok {
			v.add(p)
		}
	}
	v.control = engine.Token(len(v.text))
	for _, c := range controls {
		v.special[c] = engine.Token(len(v.text))
		v.text = append(v.text, c)
	}
	v.byLength = append(v.byLength, controls...)
	sort.Slice(v.byLength, func(i, j int) bool { return len(v.byLength[i]) > len(v.byLength[j]) })
	return v
}

func (v *vocabulary) add(s string) {
	v.byText[s] = engine.Token(len(v.text))
	v.text = append(v.text, s)
	v.longest = max(v.longest, len(s))
}

func (v *vocabulary) size() int { return len(v.text) }

func (v *vocabulary) isControl(t engine.Token) bool { return t >= v.control }

// tokenize takes the longest piece at each place.
func (v *vocabulary) tokenize(s string, special bool) []engine.Token {
	out := make([]engine.Token, 0, len(s))
next:
	for len(s) > 0 {
		if special && s[0] == '<' {
			for _, c := range v.byLength {
				if len(s) >= len(c) && s[:len(c)] == c {
					out = append(out, v.special[c])
					s = s[len(c):]
					continue next
				}
			}
		}
		for n := min(v.longest, len(s)); n >= 1; n-- {
			if t, ok := v.byText[s[:n]]; ok {
				out = append(out, t)
				s = s[n:]
				break
			}
		}
	}
	return out
}

// piece gives a token's bytes, none for a control token unless special.
func (v *vocabulary) piece(t engine.Token, special bool) []byte {
	if t < 0 || int(t) >= len(v.text) || (v.isControl(t) && !special) {
		return nil
	}
	return []byte(v.text[t])
}
