package openai

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/station/wire"
)

const objectText = "text_completion"

// TextCompletion is an answer of /v1/completions, whole or an event of a stream.
type TextCompletion struct {
	Head
	Choices []TextChoice `json:"choices"`
	Usage   *Usage       `json:"usage,omitempty"`
	Gnosis  *Gnosis      `json:"_gnosis,omitempty"`
}

// TextChoice is one of an answer's choices, or what is new of it.
type TextChoice struct {
	Index        int           `json:"index"`
	Text         string        `json:"text"`
	Logprobs     *TextLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
}

// TextLogprobs are log-probabilities in the older shape: four lists, one entry a
// token. The first token of all has no distribution before it, so its entries in
// TokenLogprobs and TopLogprobs are null.
type TextLogprobs struct {
	Tokens        []string     `json:"tokens"`
	TokenLogprobs []*float32   `json:"token_logprobs"`
	TopLogprobs   []TextTokens `json:"top_logprobs"`
	TextOffset    []int        `json:"text_offset"` // in characters of the choice's text
}

// TextTokens are tokens with their log-probabilities: an object, most likely
// first.
type TextTokens []TextToken

// TextToken is one of them.
type TextToken struct {
	Text    string
	Logprob float32
}

// MarshalJSON implements json.Marshaler.
func (t TextTokens) MarshalJSON() ([]byte, error) {
	if t == nil {
		return []byte("null"), nil
	}
	var b strings.Builder
	b.WriteByte('{')
	seen := map[string]bool{}
	for _, one := range t {
		if seen[one.Text] {
			continue // two tokens may have one text; the likelier counts
		}
		seen[one.Text] = true
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(Encode(one.Text))
		b.WriteByte(':')
		b.Write(Encode(one.Logprob))
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

// NewTextLogprobs makes empty lists.
func NewTextLogprobs() *TextLogprobs {
	return &TextLogprobs{Tokens: []string{}, TokenLogprobs: []*float32{}, TopLogprobs: []TextTokens{}, TextOffset: []int{}}
}

// Add appends tokens, whose text begins at the character offset; it returns where
// it ends. A token that begins within a character has the offset after it.
func (l *TextLogprobs) Add(tokens []wire.TokenLogprob, offset int) int {
	for _, t := range tokens {
		lp := max(t.Logprob, lowestLogprob)
		top := make(TextTokens, 0, len(t.Top)+1)
		drawn := false
		for _, a := range t.Top {
			drawn = drawn || a.ID == t.ID
			top = append(top, TextToken{tokenText(a.Bytes), max(a.Logprob, lowestLogprob)})
		}
		if !drawn {
			top = append(top, TextToken{tokenText(t.Bytes), lp})
		}
		l.Tokens = append(l.Tokens, tokenText(t.Bytes))
		l.TokenLogprobs = append(l.TokenLogprobs, &lp)
		l.TopLogprobs = append(l.TopLogprobs, top)
		l.TextOffset = append(l.TextOffset, offset)
		for _, b := range t.Bytes {
			if utf8.RuneStart(b) {
				offset++
			}
		}
	}
	return offset
}

// First makes the first entry that of a token with nothing before it.
func (l *TextLogprobs) First() {
	if len(l.Tokens) > 0 {
		l.TokenLogprobs[0], l.TopLogprobs[0] = nil, nil
	}
}

// Append adds the entries of m.
func (l *TextLogprobs) Append(m *TextLogprobs) {
	l.Tokens = append(l.Tokens, m.Tokens...)
	l.TokenLogprobs = append(l.TokenLogprobs, m.TokenLogprobs...)
	l.TopLogprobs = append(l.TopLogprobs, m.TopLogprobs...)
	l.TextOffset = append(l.TextOffset, m.TextOffset...)
}

// tokenText writes a token; one that is no whole text is written by its bytes, as
// OpenAI does.
func tokenText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	s.WriteString("bytes:")
	for _, c := range b {
		fmt.Fprintf(&s, `\x%02x`, c)
	}
	return s.String()
}

// NewTextCompletion makes a whole answer.
func NewTextCompletion(h Head, choices []TextChoice, u Usage, g *Gnosis) *TextCompletion {
	h.Object = objectText
	return &TextCompletion{Head: h, Choices: choices, Usage: &u, Gnosis: g}
}

// TextEncoder writes the events of one stream of /v1/completions.
type TextEncoder struct {
	head   Head
	before []byte // data: {...,"choices":[{"index":
	usage  bool   // an event with the usage ends the stream
}

// NewTextEncoder makes an encoder; withUsage is stream_options.include_usage.
func NewTextEncoder(h Head, withUsage bool) *TextEncoder {
	h.Object = objectText
	b := append([]byte("data: "), Encode(h)...)
	return &TextEncoder{h, append(b[:len(b)-1], `,"choices":[{"index":`...), withUsage}
}

// Choice appends what is new of a choice; reason is "" until it ends, and g is set
// on the stream's last event of a choice.
func (e *TextEncoder) Choice(dst []byte, index int, text string, lp *TextLogprobs, reason string, g *Gnosis) []byte {
	dst = strconv.AppendInt(append(dst, e.before...), int64(index), 10)
	// The station sends whole characters; AppendQuote replaces anything else.
	dst, _ = jsontext.AppendQuote(append(dst, `,"text":`...), text)
	return endChoice(dst, lp, reason, e.usage, g)
}

// Usage appends the event with the token counts and no choices.
func (e *TextEncoder) Usage(dst []byte, u Usage, g *Gnosis) []byte {
	dst = append(dst, "data: "...)
	dst = append(dst, Encode(TextCompletion{Head: e.head, Choices: []TextChoice{}, Usage: &u, Gnosis: g})...)
	return append(dst, "\n\n"...)
}
