package station

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"thoth/station/wire"
)

// textStream turns token pieces into the text that may leave: whole UTF-8
// characters, and nothing that is, or could become, a stop string.
//
// Invariant: held is the text not yet given out. After push it is the shortest
// suffix that must wait: a proper prefix of some stop string, or the first bytes
// of a character. Bytes that can never become a character leave as U+FFFD, one
// for each, so how pieces were cut does not show in the text.
type textStream struct {
	stops    []string
	held     []byte
	released int // bytes of raw text given out before held
	raw      int // bytes of raw text pushed in all

	logprobs []pendingLogprob // of tokens whose text has not left
}

type pendingLogprob struct {
	start int // raw offset of the token's first byte
	entry wire.TokenLogprob
}

// push adds a token's bytes. It returns what may leave now, and the stop string
// that ended the text, if one did; nothing may be pushed after that.
func (t *textStream) push(piece []byte) (text, stop string) {
	t.held = append(t.held, piece...)
	t.raw += len(piece)
	if len(t.stops) > 0 {
		if at, s := firstStop(t.held, t.stops); at >= 0 {
			text = t.release(at)
			t.held = t.held[:0]
			return text, s
		}
	}
	keep := incompleteTail(t.held)
	for _, s := range t.stops {
		keep = max(keep, overlap(t.held, s))
	}
	return t.release(len(t.held) - keep), ""
}

// finish returns what was held when the text ends without a stop string, and the
// first bytes of a character that did not come, which are not text.
func (t *textStream) finish() (text string, cut []byte) {
	text = t.release(len(t.held) - incompleteTail(t.held))
	cut, t.held = t.held, nil
	return text, cut
}

// note records the log-probability entry of the token about to be pushed.
func (t *textStream) note(e wire.TokenLogprob) {
	t.logprobs = append(t.logprobs, pendingLogprob{start: t.raw, entry: e})
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
	if n == 0 {
		return ""
	}
	s := validUTF8(t.held[:n])
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

// validUTF8 writes each byte that is no part of a character as U+FFFD.
func validUTF8(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var sb strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		sb.WriteRune(r)
		b = b[n:]
	}
	return sb.String()
}
