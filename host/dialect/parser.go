package dialect

import (
	"crypto/rand"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Parser returns a parser for one answer.
func (d *Dialect) Parser(ask Ask) Parser {
	out := newOutput(ask)
	if d.harmony {
		return newHarmonyParser(out, ask)
	}
	if d.bare != nil && ask.Content != "" {
		// JSON that the content's rule allows may begin like a call.
		out.enforced = false
	}
	return &parser{
		out:      out,
		dialect:  d,
		reasoner: newReasoner(d.think, ask.Tail),
		openers:  d.openers(),
		atHead:   true,
		parallel: ask.Parallel,
		headOnly: ask.Content != "",
	}
}

// output collects events and makes calls of readings.
type output struct {
	tools    []Tool
	allowed  []bool
	enforced bool // a grammar binds calls: what has begun as one is one
	required bool // and there is nothing but calls
	quiet    bool // what is left undecided is the beginning of a call, and no text for the user
	types    typesOf
	newID    func() string
	events   []Event
	calls    int
	open     bool // a call has been opened and not completed
	written  int  // bytes of its arguments written
}

func newOutput(ask Ask) *output {
	o := &output{tools: ask.Tools, allowed: ask.allowed(), enforced: ask.bindsCalls(), required: ask.Mode == ModeRequired, newID: newID}
	o.types = argumentTypes(o.tool)
	return o
}

// newID is a call's id: 120 random bits.
func newID() string { return "call_" + rand.Text()[:24] }

// tool is the tool of that name which may be called, or nil.
func (o *output) tool(name string) *Tool {
	for i := range o.tools {
		if o.allowed[i] && o.tools[i].Name == name {
			return &o.tools[i]
		}
	}
	return nil
}

// text adds to the last event if it is of the same kind.
func (o *output) text(kind Kind, text string) {
	if text == "" || o.quiet && kind == Content {
		return
	}
	if n := len(o.events); n > 0 && o.events[n-1].Kind == kind {
		o.events[n-1].Text += text
		return
	}
	o.events = append(o.events, Event{Kind: kind, Text: text})
}

// call writes what is known of a call. Before it is complete it is written only
// if a grammar binds it, for only then it cannot turn out to be text. It returns
// false when there is nothing that may be written.
func (o *output) call(r reading) bool {
	if !o.open {
		if r.state != complete && (!o.enforced || r.arguments == "") || o.tool(r.name) == nil {
			return false
		}
		o.events = append(o.events, Event{Kind: Call, Index: o.calls, ID: o.newID(), Name: r.name})
		o.open, o.written = true, 0
	}
	if r.state == growing {
		r.arguments = whole(r.arguments)
	}
	if len(r.arguments) > o.written {
		o.argue(r.arguments[o.written:])
		o.written = len(r.arguments)
	}
	if r.state == complete {
		o.close()
	}
	return true
}

func (o *output) argue(text string) {
	if n := len(o.events); n > 0 && o.events[n-1].Kind == Arguments && o.events[n-1].Index == o.calls {
		o.events[n-1].Text += text
		return
	}
	o.events = append(o.events, Event{Kind: Arguments, Index: o.calls, Text: text})
}

// close ends the open call.
func (o *output) close() {
	o.open = false
	o.calls++
}

func (o *output) take() []Event {
	events := o.events
	o.events = nil
	return events
}

// whole is the text without a character that has only begun.
func whole(text string) string {
	for i := 1; i <= utf8.UTFMax && i <= len(text); i++ {
		if c := text[len(text)-i]; utf8.RuneStart(c) {
			if !utf8.FullRuneInString(text[len(text)-i:]) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
}

// place is where in an answer a parser stands.
type place int

const (
	inText  place = iota
	inCall        // behind a marker or separator
	inBlock       // behind a call
)

// parser is the parser of all families whose calls stand in blocks.
//
// Its buffer holds what is not decided: in text, white space and what may become
// a marker; in a call, all from the white space before the marker on, of which
// the first head bytes precede the call's own text.
type parser struct {
	out      *output
	dialect  *Dialect
	reasoner *reasoner
	openers  []string
	parallel bool

	part  string // of a character
	feed  feed
	buf   string
	place place

	atHead   bool // no text yet: white space and calls at most
	headOnly bool // a call stands in place of the text: markers in that are its own
	skip     bool // white space that follows a call is dropped
	gap      bool // white space stood behind the last call
	blank    int  // bytes at the buffer's head known to be white space

	// In a call.
	block  *block
	reader reader
	head   int // bytes of buf before the call's own text; before what may be a lead
	mark   int // bytes of buf that are text for sure if this is no call
}

func (p *parser) Add(text string) []Event {
	text = p.part + text
	kept := whole(text)
	p.part = text[len(kept):]
	p.add(kept)
	return p.out.take()
}

func (p *parser) End(cut bool) []Event {
	p.add(p.part)
	p.part = ""
	p.out.quiet = cut && p.out.enforced && (p.out.required || p.place == inCall)
	if p.reasoner != nil {
		reasoning, rest := p.reasoner.end()
		p.out.text(Reasoning, reasoning)
		p.buf += rest
	}
	p.run(true)
	return p.out.take()
}

func (p *parser) add(text string) {
	if p.reasoner != nil {
		var reasoning string
		reasoning, text = p.reasoner.add(text)
		p.out.text(Reasoning, reasoning)
	}
	p.buf = p.feed.add(p.buf, text)
	p.run(false)
}

// run decides what can be decided.
func (p *parser) run(over bool) {
	for {
		var again bool
		switch p.place {
		case inText:
			again = p.text(over)
		case inCall:
			again = p.call(over)
		case inBlock:
			again = p.between(over)
		}
		if !again {
			return
		}
	}
}

// listens tells whether a call may come.
func (p *parser) listens() bool {
	return slices.Contains(p.out.allowed, true) && (p.out.calls == 0 || p.parallel) && (p.atHead || !p.headOnly)
}

// text looks for the next marker.
func (p *parser) text(over bool) bool {
	if p.skip {
		p.buf, p.blank = strings.TrimLeftFunc(p.buf, unicode.IsSpace), 0
		if p.buf == "" {
			return false
		}
		p.skip = false
	}
	if !p.listens() {
		p.release(len(p.buf))
		return false
	}
	for p.blank < len(p.buf) {
		c, n := utf8.DecodeRuneInString(p.buf[p.blank:])
		if !unicode.IsSpace(c) {
			break
		}
		p.blank += n
	}
	rest := p.buf[p.blank:]
	if p.dialect.bare != nil && p.atHead && strings.HasPrefix(rest, "{") && strings.Trim(p.buf[:p.blank], spaces) == "" {
		p.enter(p.dialect.bare, p.blank, p.blank+1)
		return true
	}
	at, marker := -1, ""
	for _, m := range p.openers {
		if i := strings.Index(rest, m); i >= 0 && (at < 0 || i < at) {
			at, marker = i, m
		}
	}
	if p.headOnly && at != 0 && rest != "" && (over || !begins(p.openers, rest)) {
		p.release(len(p.buf))
		return false
	}
	if at < 0 {
		if over {
			p.release(len(p.buf))
		} else {
			p.release(p.sure())
		}
		return false
	}
	before := strings.TrimRightFunc(rest[:at], unicode.IsSpace)
	space := p.blank + at
	if before != "" {
		p.release(p.blank + len(before))
		space = at - len(before)
	}
	p.mark = space + len(marker)
	p.head, p.block, p.reader = p.mark, nil, nil
	p.place = inCall
	return true
}

// sure is how many bytes of the buffer cannot belong to a marker, nor to the
// white space before one.
func (p *parser) sure() int {
	sure := len(p.buf)
	for _, m := range p.openers {
		sure = min(sure, len(p.buf)-overlap(p.buf[p.blank:], m))
	}
	text := strings.TrimRightFunc(p.buf[p.blank:sure], unicode.IsSpace)
	if text == "" {
		return 0
	}
	return p.blank + len(text)
}

// overlap is the length of the longest end of s that m begins with.
func overlap(s, m string) int {
	for i := min(len(s), len(m)-1); i > 0; i-- {
		if strings.HasSuffix(s, m[:i]) {
			return i
		}
	}
	return 0
}

// release makes the first n bytes content.
func (p *parser) release(n int) {
	if n == 0 {
		return
	}
	if strings.TrimSpace(p.buf[:n]) != "" {
		p.atHead = false
	}
	p.out.text(Content, p.buf[:n])
	p.buf, p.blank = p.buf[n:], 0
}

// enter begins a call of the block at head.
func (p *parser) enter(b *block, head, mark int) {
	p.place, p.block, p.head, p.mark = inCall, b, head, mark
	p.reader = b.call(p.out.types)
}

// call follows a call's text.
func (p *parser) call(over bool) bool {
	if p.reader == nil {
		b, head, wait := p.lead(over)
		switch {
		case wait:
			return false
		case b == nil:
			p.reject()
			return true
		}
		p.enter(b, head, p.mark)
	}
	r := p.reader.read(p.buf[p.head:], over)
	switch {
	case r.state == growing && !over:
		p.out.call(r)
		return false
	case r.state == complete && p.out.call(r):
		p.buf, p.blank = p.buf[p.head+r.length:], 0
		p.place, p.gap = inBlock, false
		return true
	case r.state == growing && p.out.call(r):
		// Cut in a call that is one for sure: its arguments stay as they stand, and
		// what has begun behind them is no text for the user.
		p.out.close()
		p.buf = ""
		return false
	case r.state == broken && p.out.call(r):
		// Against its grammar it goes on as something else.
		p.out.close()
		p.buf, p.blank = p.buf[p.head+r.length:], 0
		p.place = inText
		return true
	}
	p.reject()
	return true
}

// lead finds which block the marker opens.
func (p *parser) lead(over bool) (b *block, head int, wait bool) {
	rest := strings.TrimLeftFunc(p.buf[p.head:], unicode.IsSpace)
	p.head = len(p.buf) - len(rest)
	if rest == "" {
		return nil, 0, !over
	}
	marker := p.buf[:p.mark]
	for i := range p.dialect.blocks {
		b := &p.dialect.blocks[i]
		if !strings.HasSuffix(marker, b.open) {
			continue
		}
		if strings.HasPrefix(rest, b.lead) {
			return b, p.head + len(b.lead), false
		}
		if strings.HasPrefix(b.lead, rest) && !over {
			return nil, 0, true
		}
	}
	return nil, 0, false
}

// reject makes the marker text, and looks for the next one behind it.
func (p *parser) reject() {
	p.release(p.mark)
	p.place = inText
}

// between looks for a block's next call or its end.
func (p *parser) between(over bool) bool {
	rest := strings.TrimLeftFunc(p.buf, unicode.IsSpace)
	p.gap = p.gap || len(rest) < len(p.buf)
	p.buf = rest
	if p.listens() && p.block.between != "" {
		sep := p.block.between
		if sep == "\n" { // a line's end: white space that has been dropped
			if p.gap && rest != "" && !begins(p.block.close, rest) {
				p.enter(p.block, 0, 0)
				return true
			}
		} else if strings.HasPrefix(rest, sep) {
			at := skipSpaces(rest, len(sep))
			if at == len(rest) && !over {
				return false
			}
			p.enter(p.block, at, len(sep))
			return true
		} else if strings.HasPrefix(sep, rest) && !over {
			return false
		}
	}
	for _, end := range p.block.close {
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		if strings.HasPrefix(rest, end) {
			rest = rest[len(end):]
		} else if strings.HasPrefix(end, rest) && !over {
			return false
		}
	}
	p.buf = rest
	p.place, p.skip = inText, true
	return true
}

// begins tells whether the text begins with one of the markers, or may yet.
func begins(markers []string, text string) bool {
	return slices.ContainsFunc(markers, func(m string) bool {
		return strings.HasPrefix(text, m) || strings.HasPrefix(m, text)
	})
}
