package station

import (
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"thoth/station/engine"
	"thoth/station/wire"
)

// sequence is tokens and, for the first pos of them, KV.
//
// tokens belongs to the holder of the session's busy mark, or to the loop while
// a call runs. The rest is the loop's alone.
type sequence struct {
	tokens []engine.Token

	working   bool           // a call runs: tokens is the loop's
	evaluated []engine.Token // else: the tokens whose KV it has, as the last call left them

	pos     int          // tokens evaluated: KV holds positions [0, pos)
	id      engine.SeqID // its place in the engine, noSeq when it has none
	swapped engine.State // its KV in RAM while it has no place, but for its stem's; nil if there is none
	held    engine.Held  // logits of the row at pos-1, kept between two calls
	sampler engine.Sampler
	written bool   // control tokens are written as text, in the whole turn: its grammar counts on it
	tail    []byte // of a character that a call's last token cut; the next call completes it
	adapter string // adapter set; only sequences of one set share a batch

	base   *sequence // whose cells its first shared positions are; see pool
	shared int
	stem   *stem       // of the fork it is a branch of, or was the last trunk of
	out    bool        // it has no place, and its stem's positions are not in swapped
	memory *memory     // its part in liquid memory; nil for none
	copies []*copyWork // rows to be copied out before its cells may go, by position
	parked bool        // nobody's any more, but for copies
}

const noSeq engine.SeqID = -1

func newSequence() *sequence { return &sequence{id: noSeq} }

// drop frees what the sequence holds outside the pool's books.
func (s *sequence) drop() {
	s.forgetRow()
	if s.sampler != nil {
		s.sampler.Free()
		s.sampler = nil
	}
}

// known are the tokens whose KV the sequence has.
func (s *sequence) known() []engine.Token {
	if s.working {
		return s.tokens[:s.pos]
	}
	return s.evaluated[:min(s.pos, len(s.evaluated))]
}

// away says whether it has KV, but no place.
func (s *sequence) away() bool { return s.swapped != nil || s.out }

// forgetRow frees the held logits.
func (s *sequence) forgetRow() {
	if s.held != nil {
		s.held.Free()
		s.held = nil
	}
}

// call is work on a sequence: evaluate its tokens up to target, then, with dec,
// sample. A sampled token is appended to the tokens and moves target by one, so
// a decoding call is simply one that lacks one token.
type call struct {
	seq      *sequence
	target   int
	from     int // pos at the start
	dec      *decoding
	sampling *wire.Sampling // of a session's decode call
	restore  *restore       // the call restores stored KV: only that, or, of a turn, that first
	kv       *turn          // nil: it is none
	release  bool           // the sequence ends with the call
	leave    bool           // the last sampled token stays staged
	session  string
	home     *session // held busy for the call, until its end; nil for none
	settled  bool     // home has been given back; the handler's, as home is
	fork     *fork    // it is a branch of; nil for a call of one answer
	choice   int      // which branch
	over     bool     // its last frame is out

	rows      bool // /forward: log-probabilities of the evaluated tokens
	rowsTop   int
	logprobs  []wire.TokenLogprob
	progress  bool
	place     int // in the queue, as last told
	out       *output
	cancelled atomic.Bool

	arrived    time.Time // at the station's door
	queued     time.Time // decoded, tokenised and handed to the loop
	started    time.Time // first time in a batch
	prefilled  time.Time // prompt evaluated
	firstToken time.Time
	engine     time.Duration // the engine's own share of the time to the first token
}

// decoding is the sampling half of a call.
type decoding struct {
	fresh     engine.Sampler // takes the place of the sequence's sampler at the start; nil keeps it
	text      textStream
	max       int // tokens to sample at most
	sampled   int // tokens sampled, end of generation not counted
	prompt    int // position before the first sampled token
	logprobs  bool
	top       int
	ignoreEOG bool
	written   bool        // control tokens are written as text
	ended     wire.Reason // set when sampling is over; "" before
	stop      string
	tokens    []engine.Token // sampled, not yet told in a frame
}

// begin takes over what the request brought, or goes on where the turn's last
// call stopped.
func (c *call) begin() {
	if c.dec.fresh == nil {
		c.dec.text.tail = c.seq.tail
		c.dec.written = c.dec.written || c.seq.written
	} else {
		if c.seq.sampler != nil {
			c.seq.sampler.Free()
		}
		c.seq.sampler, c.dec.fresh = c.dec.fresh, nil
		c.seq.written = c.dec.written
	}
	c.seq.tail = nil
}

// missing is the number of tokens to evaluate.
func (c *call) missing() int { return c.target - c.seq.pos }

// decodes says whether answer tokens are being made. A call whose KV was dropped
// evaluates its tokens like a prompt first.
func (c *call) decodes() bool { return c.dec != nil && !c.firstToken.IsZero() && c.missing() <= 1 }

// ready says whether a token can be sampled without a batch, from held logits.
func (c *call) ready() bool {
	return c.dec != nil && c.dec.ended == "" && c.missing() == 0 && c.seq.held != nil
}

// younger says whether it came later than another, of which it may be a sibling.
func (c *call) younger(than *call) bool {
	if c.arrived.Equal(than.arrived) {
		return c.choice > than.choice
	}
	return c.arrived.After(than.arrived)
}

// restores says whether a load has found something that takes a place.
func (c *call) restores() bool { return c.restore.hotN > 0 || c.restore.warm > 0 }

func (c *call) fail(e *wire.Error) { c.put(wire.Frame{Type: wire.FrameError, Error: e}) }

// sequences are all that may have KV, each once: residents, and those without a
// place of sessions between two calls and of calls, a fork's held branches too.
func (l *loop) sequences() iter.Seq[*sequence] {
	return func(yield func(*sequence) bool) {
		for _, s := range l.pool.residents {
			if !yield(s) {
				return
			}
		}
		for _, s := range l.idle {
			if s.id == noSeq && !yield(s) {
				return
			}
		}
		for _, c := range l.calls() {
			if c.seq.id == noSeq && !yield(c.seq) {
				return
			}
		}
	}
}

// calls are those that have come and not ended, but for branches of a fork that
// has not split.
func (l *loop) calls() []*call {
	all := slices.Concat(l.waiting, l.running)
	var forks []*fork
	for _, c := range all {
		if f := c.fork; f != nil && len(f.held) > 0 && !slices.Contains(forks, f) {
			forks = append(forks, f)
			all = append(all, f.held...)
		}
	}
	return all
}
