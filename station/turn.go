package station

import (
	"bytes"
	"context"
	"time"

	"thoth/station/kvstore"
	"thoth/station/wire"
)

// Turns: /generate with kv. Its call restores before it enters the batch like any
// other, saves its prompt behind the step that drew the first token, and each answer when
// that ends. It has no session: whatever ends it, nothing is left but what is stored.

const maxUnlessBytes = 64

// turn is what a call with kv saves and tells. Branches of a fork have one.
type turn struct {
	scope   kvstore.Scope
	options kvstore.SaveOptions
	answers bool
	unless  string // an answer with this in its text is not saved; "": any is

	queued time.Time            // handed to the loop; the call's own is that after the restore
	waited float64              // milliseconds that the restore waited for its place
	told   bool                 // the evaluated frame is out
	prompt *wire.KVSaveResponse // nil: not saved yet
}

// checkTurn refuses by name what a turn cannot have.
func (l *loop) checkTurn(q *wire.KVTurn) *wire.Error {
	if q == nil {
		return nil
	}
	if l.kvOff != "" {
		e := unsupported("kv")
		e.Message += ": " + l.kvOff
		return e
	}
	e := checkLoad(&q.KVLoadRequest)
	if e == nil {
		e = checkTTL(q.TTLSeconds)
	}
	if e == nil {
		e = checkBytes("unless", q.Unless, maxUnlessBytes)
	}
	if e != nil {
		e.Param, e.Message = "kv."+e.Param, "kv."+e.Message
	}
	return e
}

// makeTurn makes a call that is about to be submitted a turn. What it returns must be
// called when the loop has let go of the call.
func (l *loop) makeTurn(ctx context.Context, c *call, q *wire.KVTurn) (end func()) {
	c.restore = newRestore(c.seq, &q.KVLoadRequest, 0)
	t := &turn{scope: c.restore.scope, answers: q.Answers, unless: q.Unless,
		options: kvstore.SaveOptions{Group: q.Group, TTL: time.Duration(q.TTLSeconds) * time.Second, Pin: q.Pin}}
	for _, b := range c.branches() {
		b.kv = t
	}
	return l.find(ctx, c.restore, &q.KVLoadRequest, c.arrived)
}

// restored lets a turn go on as a call that evaluates what was not restored.
func (c *call) restored() {
	a := c.restore.answer
	c.kv.queued, c.kv.waited, c.queued = c.queued, a.QueueMS, time.Now()
	c.restore, c.target = nil, len(c.seq.tokens)
	c.out.put(wire.Frame{Type: wire.FrameRestored, Restored: &wire.KVRestored{PromptTokens: len(c.seq.tokens), KVLoadResponse: a}})
}

// tellEvaluated tells once, of all branches, that the prompt is evaluated.
func (c *call) tellEvaluated() {
	if c.kv != nil && !c.kv.told {
		c.kv.told = true
		c.out.put(wire.Frame{Type: wire.FrameEvaluated, Forward: c.forwarded(time.Now())})
	}
}

// settleTurn does what a turn has to do behind a step in which it drew its first token or
// its last: no other call's token of this step waits for it.
func (l *loop) settleTurn(c *call) {
	switch {
	case c.over: // with another branch
	case c.dec.ended != "":
		l.finish(c)
	default:
		l.savePrompt(c)
	}
}

// savePrompt saves a turn's prompt, if that is not done: for all branches, the trunk
// does.
func (l *loop) savePrompt(c *call) {
	if t := c.kv; c.choice == 0 && t.prompt == nil {
		a := l.save(c.seq, c.dec.prompt, t.scope, t.options)
		t.prompt = &a
	}
}

// saveTurn saves what is to be kept of a turn that ends well, and tells it. The
// token sampled last is not evaluated.
func (l *loop) saveTurn(c *call, told *wire.Done) {
	t := c.kv
	if c.choice == 0 {
		l.savePrompt(c)
		told.KVPrompt = t.prompt
	}
	if t.answers && c.seq.pos > c.dec.prompt && !l.wrote(c, t.unless) {
		a := l.save(c.seq, c.seq.pos, t.scope, t.options)
		told.KVAnswer = &a
	}
}

// wrote says whether a text is in a call's answer, control tokens written out.
func (l *loop) wrote(c *call, text string) bool {
	if text == "" {
		return false
	}
	var answer []byte
	for _, t := range c.seq.tokens[c.dec.prompt:][:c.dec.sampled] {
		answer = append(answer, l.eng.Piece(t, true)...)
	}
	return bytes.Contains(answer, []byte(text))
}
