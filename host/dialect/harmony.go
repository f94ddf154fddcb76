package dialect

import (
	"slices"
	"strings"
	"unicode"

	ollama "github.com/ollama/ollama/harmony"
)

// Marks of gpt-oss's format, harmony. An answer is a row of messages, each with
// a header that names its channel and, in a call, the function; the prompt ends
// behind the start of the first one. The marks of <|call|> and <|return|> end an
// answer and are not in its text.
const (
	harmonyStart     = "<|start|>"
	harmonyMessage   = "<|message|>"
	harmonyChannel   = "<|channel|>"
	harmonyConstrain = "<|constrain|>"
	harmonyEnd       = "<|end|>"
	harmonyCall      = "to=functions."
)

// harmonyEnds end a message.
var harmonyEnds = []string{harmonyEnd, "<|call|>", "<|return|>"}

// maxHeader bounds a header, so that text which begins like one is not held back.
const maxHeader = 320

// harmonyPlace is where in an answer the parser stands.
type harmonyPlace int

const (
	inHeader harmonyPlace = iota
	inMessage
	inArguments
	behindCall
)

// harmonyParser is gpt-oss's parser. Headers are read by ollama's.
type harmonyParser struct {
	out      *output
	parallel bool
	headOnly bool // the content follows a rule: all behind the header of the final channel is content
	final    bool // behind that header

	part  string // of a character
	feed  feed
	buf   string // not decided yet
	place harmonyPlace
	kind  Kind // of the message's text

	// In a call the buffer begins with its header.
	head   int
	name   string
	object object
}

func newHarmonyParser(out *output, ask Ask) *harmonyParser {
	p := &harmonyParser{out: out, parallel: ask.Parallel, headOnly: ask.Content != ""}
	if i := strings.LastIndex(ask.Tail, harmonyStart); i >= 0 {
		p.buf = strings.TrimRight(strings.TrimLeftFunc(ask.Tail[i+len(harmonyStart):], unicode.IsLetter), "\n")
	}
	return p
}

func (p *harmonyParser) Add(text string) []Event {
	text = p.part + text
	kept := whole(text)
	p.part = text[len(kept):]
	p.buf = p.feed.add(p.buf, kept)
	p.run(false)
	return p.out.take()
}

func (p *harmonyParser) End(cut bool) []Event {
	p.buf += p.part
	p.part = ""
	p.out.quiet = cut && p.out.enforced && (p.out.required || p.place == inHeader || p.place == inArguments)
	p.run(true)
	return p.out.take()
}

func (p *harmonyParser) run(over bool) {
	for {
		var again bool
		switch p.place {
		case inHeader:
			again = p.header(over)
		case inMessage:
			again = p.message(over)
		case inArguments:
			again = p.arguments(over)
		case behindCall:
			again = p.behind(over)
		}
		if !again {
			return
		}
	}
}

func (p *harmonyParser) header(over bool) bool {
	at := strings.Index(p.buf[:min(len(p.buf), maxHeader)], harmonyMessage)
	if at < 0 || !plausibleHeader(p.buf[:at+len(harmonyMessage)]) {
		if at < 0 && !over && plausibleHeader(p.buf) {
			return false
		}
		p.place, p.kind = inMessage, Content
		return p.buf != ""
	}
	h := readHeader(p.buf[:at])
	at += len(harmonyMessage)
	name, isCall := strings.CutPrefix(h.Recipient, "functions.")
	switch {
	case isCall && p.out.tool(name) != nil && (p.out.calls == 0 || p.parallel):
		p.place, p.head, p.name, p.object = inArguments, at, name, object{}
		return true
	case h.Recipient != "":
		p.kind = Content // a call that may not be: its header stays to be seen
	case h.Channel == "analysis":
		p.kind = Reasoning
		p.buf = p.buf[at:]
	default:
		p.kind, p.final = Content, p.headOnly && h.Channel == "final"
		p.buf = p.buf[at:]
	}
	p.place = inMessage
	return true
}

// plausibleHeader tells whether the text may be the beginning of a header.
func plausibleHeader(text string) bool {
	if len(text) >= maxHeader {
		return false
	}
	rest := strings.TrimLeft(text, spaces)
	if role, ok := strings.CutPrefix(rest, harmonyStart); ok {
		rest = strings.TrimLeft(strings.TrimLeftFunc(role, unicode.IsLetter), spaces)
	} else if strings.HasPrefix(harmonyStart, rest) {
		return true
	}
	return begins([]string{harmonyChannel, "to=", harmonyConstrain, harmonyMessage}, rest)
}

// readHeader is what ollama's parser makes of a header.
func readHeader(text string) ollama.HarmonyHeader {
	if role, ok := strings.CutPrefix(strings.TrimLeft(text, spaces), harmonyStart); ok {
		text = strings.TrimLeftFunc(role, unicode.IsLetter)
	}
	p := ollama.HarmonyParser{MessageStartTag: harmonyStart, MessageEndTag: harmonyEnd, HeaderEndTag: harmonyMessage}
	p.AddImplicitStart()
	for _, event := range p.AddContent(text + harmonyMessage) {
		if done, ok := event.(ollama.HarmonyEventHeaderComplete); ok {
			return done.Header
		}
	}
	return ollama.HarmonyHeader{}
}

func (p *harmonyParser) message(over bool) bool {
	at, end := -1, ""
	sure := len(p.buf)
	ends := harmonyEnds
	if p.final { // a mark in it would be the content's own
		ends = nil
	}
	for _, mark := range ends {
		if i := strings.Index(p.buf, mark); i >= 0 && (at < 0 || i < at) {
			at, end = i, mark
		}
		if !over {
			sure = min(sure, len(p.buf)-overlap(p.buf, mark))
		}
	}
	if at >= 0 {
		p.out.text(p.kind, p.buf[:at])
		p.buf = p.buf[at+len(end):]
		p.place = inHeader
		return true
	}
	p.out.text(p.kind, p.buf[:sure])
	p.buf = p.buf[sure:]
	return false
}

func (p *harmonyParser) arguments(over bool) bool {
	r := finish(&p.object, p.buf[p.head:], 0, p.name, nil)
	switch {
	case r.state == growing && !over:
		p.out.call(r)
		return false
	case r.state == complete && p.out.call(r):
		p.buf = p.buf[p.head+r.length:]
		p.place = behindCall
		return true
	case r.state == growing && p.out.call(r):
		p.out.close()
		p.buf = ""
		return false
	case r.state == broken && p.out.call(r): // against its grammar it goes on as something else
		p.out.close()
		p.buf = p.buf[p.head+r.length:]
	}
	p.place, p.kind = inMessage, Content
	return true
}

// behind drops a call's end.
func (p *harmonyParser) behind(over bool) bool {
	p.buf = strings.TrimLeftFunc(p.buf, unicode.IsSpace)
	if p.buf == "" {
		return false
	}
	i := slices.IndexFunc(harmonyEnds, func(end string) bool { return strings.HasPrefix(p.buf, end) })
	if i < 0 && !over && begins(harmonyEnds, p.buf) {
		return false
	}
	p.place, p.kind = inMessage, Content
	return true
}
