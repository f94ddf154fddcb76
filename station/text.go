package station

import (
	"bytes"
	"unicode/utf8"

	"thoth/station/wire"
)

// textStream turns token pieces into the text that may leave: whole UTF-8
// characters, and nothing that is, or could become, a stop string.
//
// Bytes that can never become a character are U+FFFD in the text, one for each,
// so how pieces were cut does not show. Stop strings are looked for in the text
// as its reader sees it, those characters included.
//
// Invariant: after push, held is the longest end of the text that is a proper
// prefix of some stop string, and tail the first bytes of a character.
type textStream struct {
	stops    []string
	tail     []byte // at most 3 bytes, not yet text
	held     []byte // text not yet given out
	released int    // bytes of text given out before held

	logprobs []pendingLogprob // of tokens whose text has not left
}

type pendingLogprob struct {
	start int // where in the text the character of the token's first byte begins
	entry wire.TokenLogprob
}

// push adds a token's bytes. It returns what may leave now, and the stop string
// that ended the text, if one did; nothing may be pushed after that.
func (t *textStream) push(piece []byte) (text, stop string) {
	t.tail = append(t.tail, piece...)
	n := len(t.tail) - incompleteTail(t.tail)
	t.held = appendValid(t.held, t.tail[:n])
	t.tail = append(t.tail[:0], t.tail[n:]...)
	if at, s := firstStop(t.held, t.stops); at >= 0 {
		text = t.release(at)
		t.held, t.tail = nil, nil
		return text, s
	}
	keep := 0
	for _, s := range t.stops {
		keep = max(keep, overlap(t.held, s))
	}
	return t.release(len(t.held) - keep), ""
}

// finish returns what was held when the text ends without a stop string, and the
// first bytes of a character that did not come, which are not text.
func (t *textStream) finish() (text string, cut []byte) {
	text = t.release(len(t.held))
	cut, t.tail = t.tail, nil
	return text, cut
}

// note records the log-probability entry of the token about to be pushed.
func (t *textStream) note(e wire.TokenLogprob) {
	t.logprobs = append(t.logprobs, pendingLogprob{start: t.released + len(t.held), entry: e})
}

// takeLogprobs gives the entries of tokens whose first byte has left. At the
// end (final), tokens whose bytes were all withheld go as well, unless a stop
// string cut them off.
func (t *textStream) takeLogprobs(final bool) []wire.TokenLogprob {
	n := 0
	for n < len(t.logprobs) && (t.logprobs[n].start < t.released || final) {
		n++
	}
	if n == 0 {
		return nil
	}
	out := make([]wire.TokenLogprob, n)
	for i := range out {
		out[i] = t.logprobs[i].entry
	}
	t.logprobs = t.logprobs[n:]
	return out
}

// dropCut forgets the entries of tokens behind a stop string's start.
func (t *textStream) dropCut() {
	n := 0
	for n < len(t.logprobs) && t.logprobs[n].start < t.released {
		n++
	}
	t.logprobs = t.logprobs[:n]
}

func (t *textStream) release(n int) string {
	s := string(t.held[:n])
	t.released += n
	t.held = append(t.held[:0], t.held[n:]...)
	return s
}

// firstStop finds the stop string that starts earliest; of two that start
// together the shorter, which was complete first.
func firstStop(b []byte, stops []string) (int, string) {
	at, found := -1, ""
	for _, s := range stops {
		i := bytes.Index(b, []byte(s))
		if i >= 0 && (at < 0 || i < at || i == at && len(s) < len(found)) {
			at, found = i, s
		}
	}
	return at, found
}

// overlap is the length of the longest suffix of b that is a proper prefix of s.
func overlap(b []byte, s string) int {
	for n := min(len(b), len(s)-1); n > 0; n-- {
		if string(b[len(b)-n:]) == s[:n] {
			return n
		}
	}
	return 0
}

// incompleteTail is the number of bytes at the end of b, 0 to 3, that begin a
// character which more bytes could complete.
func incompleteTail(b []byte) int {
	for n := 1; n <= min(3, len(b)); n++ {
		tail := b[len(b)-n:]
		if !utf8.RuneStart(tail[0]) {
			continue
		}
		if !utf8.FullRune(tail) {
			return n
		}
		return 0
	}
	return 0
}

// appendValid appends text, with each byte that is no part of a character
// written as U+FFFD.
func appendValid(text, b []byte) []byte {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		text = utf8.AppendRune(text, r)
		b = b[n:]
	}
	return text
}
