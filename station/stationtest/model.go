package stationtest

import (
	"bytes"
	"math"
	"sort"
	"unicode/utf8"

	"thoth/station/engine"
)

const (
	sayMark = "say:"
	// sayEnd ends the text of a plain prompt; in a chat the end of the user's
	// turn does.
	sayEnd = "\x04"
	// forced is added to the logit of a token the model is made to choose: far
	// above the others at any temperature of the wire.
	forced = 100
)

// Say is a plain prompt that the fake answers with exactly text and the end of
// its turn. In a chat, the user's message "say:"+text does the same.
func Say(text string) string { return sayMark + text + sayEnd }

// model gives logits as a pure function of a token history.
type model struct {
	v        *vocabulary
	eogEvery uint64
	next     func([]engine.Token) (engine.Token, bool)
}

// logits of the token after the cells. The scale is that of a real model: likely
// tokens lie within a few units of each other, the rest far below.
func (m *model) logits(cells []kv) []float32 {
	h := read(cells)
	history := make([]engine.Token, len(cells))
	for i, k := range cells {
		history[i] = k.token
	}
	out := make([]float32, m.v.size())
	for t := range out {
		u := float32(mix(h^mix(uint64(t)+1))>>40) / (1 << 24)
		if m.likely(engine.Token(t)) {
			out[t] = 2 + 8*u
		} else {
			out[t] = -14 + 4*u
		}
	}
	if t, ok := m.chosen(history, h); ok {
		out[t] += forced
	}
	return out
}

// chosen is the token that must come next, if any: by order, by "say:", to end
// a character that was begun, or because the turn is over.
func (m *model) chosen(history []engine.Token, h uint64) (engine.Token, bool) {
	if m.next != nil {
		if t, ok := m.next(history); ok {
			return t, true
		}
	}
	if t, ok := m.said(history); ok {
		return t, true
	}
	if tail := m.openCharacter(history); len(tail) > 0 {
		if len(tail) == 2 && tail[0] == 0xf0 && h&1 == 0 {
			return m.v.byText["\x98\x80"], true
		}
		return engine.Token(0x80 | h>>8&0x3f), true
	}
	if m.eogEvery > 0 && len(history) > 0 && h%m.eogEvery == 0 {
		return m.v.special[textIMEnd], true
	}
	return 0, false
}

// likely tokens make up the model's own text: letters, blanks, whole pieces
// and such first parts of characters as any continuation byte completes.
func (m *model) likely(t engine.Token) bool {
	if m.v.isControl(t) {
		return false
	}
	s := m.v.text[t]
	if len(s) == 1 {
		c := s[0]
		return c >= 'a' && c <= 'z' || c == ' ' || c == '.' || c == 0xc3
	}
	return s == "\xf0\x9f" || utf8.ValidString(s)
}

// openCharacter is the unfinished character at the end of history.
func (m *model) openCharacter(history []engine.Token) []byte {
	var b []byte
	for i := len(history) - 1; i >= 0 && len(b) < utf8.UTFMax && !m.v.isControl(history[i]); i-- {
		b = append([]byte(m.v.text[history[i]]), b...)
	}
	for i := len(b) - 1; i >= 0 && i >= len(b)-3; i-- {
		if utf8.RuneStart(b[i]) {
			if b[i] >= 0xc2 && !utf8.FullRune(b[i:]) {
				return b[i:]
			}
			return nil
		}
	}
	return nil
}

// said gives the next token of the text after the last "say:". Control tokens
// are written as two bytes no text has, so that text cannot end a turn.
func (m *model) said(history []engine.Token) (engine.Token, bool) {
	var b []byte
	for _, t := range history {
		if m.v.isControl(t) {
			b = append(b, 0xff, byte(t-m.v.control))
		} else {
			b = append(b, m.v.text[t]...)
		}
	}
	i := bytes.LastIndex(b, []byte(sayMark))
	if i < 0 {
		return 0, false
	}
	b = b[i+len(sayMark):]
	end := []byte{0xff, byte(m.v.special[textIMEnd] - m.v.control)}
	start := []byte{0xff, byte(m.v.special[textIMStart] - m.v.control)}

	var text, answer []byte
	if at := bytes.Index(b, []byte(sayEnd)); at >= 0 {
		text, answer = b[:at], b[at+len(sayEnd):]
	} else if at := bytes.Index(b, end); at >= 0 {
		text, answer = b[:at], b[at+len(end):]
	} else {
		return 0, false
	}
	if at := bytes.Index(answer, append(start, "assistant\n"...)); at >= 0 {
		answer = answer[at+len(start)+len("assistant\n"):]
	} else {
		answer = bytes.TrimPrefix(answer, end)
	}
	rest, ok := bytes.CutPrefix(text, answer)
	if !ok {
		return 0, false
	}
	if len(rest) == 0 {
		return m.v.special[textIMEnd], true
	}
	return m.v.tokenize(string(rest), false)[0], true
}

// logprobs is log-softmax of one token and the top most likely, best first.
func logprobs(logits []float32, t engine.Token, top int) engine.TokenLogprob {
	best := logits[argmax(logits)]
	var sum float64
	for _, l := range logits {
		sum += math.Exp(float64(l - best))
	}
	norm := float64(best) + math.Log(sum)
	of := func(t engine.Token) float32 { return float32(math.Min(0, float64(logits[t])-norm)) }
	out := engine.TokenLogprob{Token: t, Logprob: of(t)}
	if top > 0 {
		for _, id := range ranked(logits)[:min(top, len(logits))] {
			out.Top = append(out.Top, engine.TokenLogprob{Token: id, Logprob: of(id)})
		}
	}
	return out
}

// argmax is the most likely token, the lowest id among equals.
func argmax(logits []float32) engine.Token {
	best := 0
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	return engine.Token(best)
}

// ranked is all tokens, most likely first, lower ids first among equals.
func ranked(logits []float32) []engine.Token {
	ids := make([]engine.Token, len(logits))
	for i := range ids {
		ids[i] = engine.Token(i)
	}
	sort.SliceStable(ids, func(i, j int) bool { return logits[ids[i]] > logits[ids[j]] })
	return ids
}

// read is what the model makes of a sequence's cells: a hash of their tokens. KV
// of the right token that was computed behind another text changes it for good,
// as it would in a real model.
func read(cells []kv) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, k := range cells {
		if k.past != h {
			h = mix(h ^ k.past)
		}
		h = after(h, k.token)
	}
	return h
}

// after is the hash of a past with one more token.
func after(past uint64, t engine.Token) uint64 { return mix(past ^ uint64(uint32(t))) }

// mix is the finaliser of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
