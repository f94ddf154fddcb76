package host

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/dialect"
	"thoth/station/wire"
)

// choice takes the frames of one choice apart and tells the sink what they hold:
// text, reasoning, calls. Without a parser all text is content, as it comes.
//
// Invariant: the log-probabilities told are those of all tokens, in order. They
// go with the event whose text their tokens made, or, where a token holds half a
// character or the parser waits for more, with the next one.
type choice struct {
	out    sink
	index  int
	parser dialect.Parser // nil: all text is content

	pending []wire.TokenLogprob // not yet told
	raw     *strings.Builder    // all text, for the log; nil: not logged

	last      voice
	waiting   int // tokens since the last event
	reasoning int // tokens of reasoning, its markers included
	calls     int
	arguments strings.Builder // of the last call
}

// voice is what a choice has told last.
type voice int

const (
	mute    voice = iota
	thought       // reasoning
	spoken        // content or a call
)

func (c *choice) frame(f *wire.Frame) {
	c.out.open(c.index)
	if c.raw != nil {
		c.raw.WriteString(f.Text)
	}
	if len(f.Logprobs) > 0 {
		c.pending = append(c.pending, f.Logprobs...)
	}
	if c.parser == nil {
		if f.Text != "" {
			c.out.write(c.index, dialect.Event{Text: f.Text}, c.logprobs())
		}
		return
	}
	c.tell(c.parser.Add(f.Text), len(f.Tokens))
}

func (c *choice) done(d *wire.Done) {
	c.out.open(c.index)
	if c.parser != nil {
		c.tell(c.parser.End(d.Reason == wire.ReasonLength), 0)
		if c.last != spoken {
			c.reasoning += c.waiting // of a marker and nothing else
		}
		c.reasoning = min(c.reasoning, d.CompletionTokens) // what ends the turn does not count
	}
	if len(c.pending) > 0 {
		c.out.write(c.index, dialect.Event{}, c.logprobs())
	}
	c.out.done(c.index, d, c.called())
}

// tell passes events on and counts. Tokens that made no event held a marker, or
// text the parser was not sure of: they count with the event after them, and
// between reasoning and what follows it they held the marker that ends it.
func (c *choice) tell(events []dialect.Event, tokens int) {
	if len(events) == 0 {
		c.waiting += tokens
		return
	}
	switch {
	case events[0].Kind == dialect.Reasoning:
		c.reasoning += c.waiting + tokens
	case c.last == thought:
		c.reasoning += c.waiting
	}
	c.waiting = 0
	for _, e := range events {
		c.last = spoken
		switch e.Kind {
		case dialect.Reasoning:
			c.last = thought
		case dialect.Call:
			c.calls++
			c.arguments.Reset()
		case dialect.Arguments:
			c.arguments.WriteString(e.Text)
		}
		c.out.write(c.index, e, c.logprobs())
	}
}

// called tells whether the answer made a call and its last one is whole: a stop
// string may have cut it.
func (c *choice) called() bool {
	return c.calls > 0 && jsontext.Value(c.arguments.String()).IsValid()
}

// logprobs takes those not yet told, for the sink's next event; nil for none.
func (c *choice) logprobs() []wire.TokenLogprob {
	if len(c.pending) == 0 {
		return nil
	}
	lp := c.pending
	c.pending = c.pending[:0]
	return lp
}
