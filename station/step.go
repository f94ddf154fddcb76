package station

import (
	"errors"
	"slices"
	"time"

	"thoth/station/engine"
	"thoth/station/wire"
)

// step plans a batch, decodes it, samples and sends frames. It reports whether
// there was anything to do.
func (l *loop) step() bool {
	if len(l.running) == 0 {
		return false
	}
	plan := l.fit()
	if len(l.running) == 0 { // fit may have ended calls
		return true
	}
	if len(plan) > 0 && !l.decode(plan) {
		return true
	}
	l.sample(plan)
	l.running = rotate(l.running)
	if l.pool.charge(tokens(plan)) {
		l.pool.compact()
		l.reap()
	}
	return true
}

// fit plans the step and makes the pool hold it: compacting, then moving the
// youngest calls to RAM. The oldest alone always fits.
func (l *loop) fit() []share {
	for {
		plan := planStep(l.running, l.info.BatchSize, l.prefillBudget())
		n := tokens(plan)
		if l.pool.top+n <= l.pool.cells {
			return plan
		}
		if l.pool.live()+n <= l.pool.cells {
			l.pool.compact()
			l.reap()
			continue
		}
		if l.relieve(nil) || l.swapOutYoungest() {
			continue
		}
		// One call, whose next chunk is larger than what is left: take what fits.
		if room := l.pool.cells - l.pool.live(); len(plan) == 1 && room > 0 {
			if l.pool.dead() > 0 {
				l.pool.compact()
				l.reap()
				continue
			}
			plan[0].n = min(plan[0].n, room)
			return plan
		}
		l.fail(l.running[0], &wire.Error{Code: wire.CodeContextLength, Message: "the sequence has filled the whole KV pool"})
		return nil
	}
}

// prefillBudget is the number of prompt tokens of this step.
func (l *loop) prefillBudget() int {
	target := l.opts.PrefillTarget
	for _, c := range l.running {
		if c.decodes() {
			target = l.opts.StepTarget
			break
		}
	}
	return l.pace.chunk(target.Seconds())
}

// decode evaluates the plan. On failure it ends the calls concerned and reports
// false.
func (l *loop) decode(plan []share) bool {
	l.batch.Reset()
	for _, s := range plan {
		c := s.call
		for i := range s.n {
			pos := c.seq.pos + i
			l.batch.Add(c.seq.tokens[pos], pos, c.seq.id, c.rows || pos+1 == c.target)
		}
	}
	l.setSole(plan)
	start := time.Now()
	err := l.eng.Decode(&l.batch)
	l.clearSole()
	if err != nil {
		l.decodeFailed(plan, err)
		return false
	}
	spent := time.Since(start)
	for _, s := range plan {
		if s.call.firstToken.IsZero() {
			s.call.engine += spent
		}
	}
	took := spent.Seconds()
	l.pace.saw(l.batch.Len(), took)
	l.pool.took(l.batch.Len())
	l.counts.steps.Add(1)
	l.stepSeconds.Observe(took)

	row := 0
	for _, s := range plan {
		c := s.call
		first := c.seq.pos
		c.seq.pos += s.n
		if c.firstToken.IsZero() {
			l.counts.promptTokens.Add(uint64(s.n))
		}
		if c.rows {
			l.evaluated(c, first, row, s.n)
		} else {
			c.seq.forgetRow() // of a position now behind; sampling from it would be sampling the past
		}
		row += s.n
		if c.missing() == 0 && c.prefilled.IsZero() {
			c.prefilled = time.Now()
		}
		if c.progress && c.firstToken.IsZero() {
			c.put(wire.Frame{Type: wire.FrameProgress, Progress: &wire.Progress{
				Position: c.seq.pos, Total: c.target}})
		}
	}
	return true
}

// evaluated records the log-probabilities of a chunk's tokens. The distribution
// of a chunk's first token comes from the row held at the end of the chunk before.
func (l *loop) evaluated(c *call, first, row, n int) {
	for i := range n {
		pos := first + i
		entry := wire.TokenLogprob{ID: c.seq.tokens[pos], Bytes: l.eng.Piece(c.seq.tokens[pos], true)}
		if pos > 0 && (i > 0 || c.seq.held != nil) {
			var held engine.Held
			if i == 0 {
				held = c.seq.held
			}
			lp, err := l.eng.Logprobs(row+i-1, held, c.seq.tokens[pos], c.rowsTop)
			if err == nil {
				entry = l.logprob(lp)
				entry.Bytes = l.eng.Piece(lp.Token, true)
			}
		}
		c.logprobs = append(c.logprobs, entry)
	}
	l.hold(c.seq, row+n-1)
}

// decodeFailed ends the calls of a failed batch. A pool that is full although
// the books say otherwise is compacted, and the step tried again.
func (l *loop) decodeFailed(plan []share, err error) {
	switch {
	case errors.Is(err, engine.ErrAborted):
		// Cancelled: intake ends the call. None of the batch is in the pool.
		return
	case errors.Is(err, engine.ErrPoolFull) && l.pool.dead() > 0:
		l.pool.compact()
		l.reap()
		return
	}
	l.counts.decodeFailures.Add(1)
	l.opts.Logger.Error().Err(err).Int("calls", len(plan)).Msg("decode failed; its requests end, the station goes on")
	for _, s := range plan {
		l.fail(s.call, &wire.Error{Code: wire.CodeEngine, Retryable: true,
			Message: "the engine failed to evaluate this request's batch; send it again"})
	}
	// What the engine left behind of the batch is unknown: rebuild the pool from
	// the sequences that had no part in it.
	l.pool.compact()
	l.reap()
}

// sample draws a token for every call whose tokens are all evaluated, and ends
// the calls that are complete.
func (l *loop) sample(plan []share) {
	l.reqs, l.who, l.parting, l.turns = l.reqs[:0], l.who[:0], l.parting[:0], l.turns[:0]
	row := 0
	var finished, orphans []*call
	for _, s := range plan {
		c := s.call
		row += s.n
		switch {
		case c.missing() > 0:
		case c.dec == nil || c.dec.ended != "":
			if !c.rows { // evaluated has held it
				l.hold(c.seq, row-1)
			}
			finished = append(finished, c)
		default:
			l.drawFrom(c, row-1, nil)
		}
	}
	for _, c := range l.running {
		switch {
		case c.ready():
			l.drawFrom(c, 0, c.seq.held)
		case c.missing() == 0 && c.dec == nil && !slices.Contains(finished, c):
			finished = append(finished, c) // nothing was staged
		case c.missing() == 0 && c.dec != nil && c.dec.ended == "" && !slices.Contains(l.who, c):
			orphans = append(orphans, c) // its logits could not be held
		}
	}
	if len(l.reqs) > 0 {
		l.sampled = slices.Grow(l.sampled[:0], len(l.reqs))[:len(l.reqs)]
		start := time.Now()
		err := l.eng.Sample(l.reqs, l.sampled)
		spent := time.Since(start)
		if err != nil {
			l.opts.Logger.Error().Err(err).Msg("sampling failed")
			for _, c := range l.who {
				l.fail(c, &wire.Error{Code: wire.CodeEngine, Message: "sampling failed: " + err.Error()})
			}
		} else {
			for i, c := range l.who {
				if c.over { // another branch has failed
					continue
				}
				if c.firstToken.IsZero() {
					c.engine += spent
				}
				if err := l.sampled[i].Err; err != nil {
					l.fail(c, l.undrawn(err))
					continue
				}
				l.took(c, l.sampled[i])
			}
		}
	}
	for _, c := range finished {
		l.finish(c)
	}
	for _, c := range orphans {
		l.fail(c, &wire.Error{Code: wire.CodeEngine, Retryable: true, Message: "the session's logits are lost; start a new session"})
	}
	for _, c := range l.turns {
		l.settleTurn(c)
	}
	for _, c := range l.parting { // last: a branch that has ended is not to follow
		l.parted(c)
	}
}

// undrawn says why a call ends without its next token.
func (l *loop) undrawn(err error) *wire.Error {
	if errors.Is(err, engine.ErrGrammar) {
		return invalid("sampling.grammar", "no token can be drawn: %v", err)
	}
	l.opts.Logger.Error().Err(err).Msg("no token can be drawn; the request ends")
	return &wire.Error{Code: wire.CodeEngine, Message: "no token can be drawn: " + err.Error()}
}

// took appends a sampled token to its call and sends what may leave.
func (l *loop) took(c *call, s engine.Sampled) {
	d := c.dec
	c.seq.forgetRow()
	first := c.firstToken.IsZero()
	if first {
		c.firstToken = time.Now()
		d.prompt = c.seq.pos
		c.tellEvaluated()
	}
	c.seq.tokens = append(c.seq.tokens, s.Token)
	c.target++
	text := ""
	if l.isEOG[s.Token] { // with ignoreEOG: a grammar, or biases, left nothing else
		d.ended = wire.ReasonEOG
	} else {
		d.sampled++
		l.counts.decodedTokens.Add(1)
		d.tokens = append(d.tokens, s.Token)
		if d.logprobs {
			d.text.note(l.logprob(engine.TokenLogprob{Token: s.Token, Logprob: s.Logprob, Top: s.Top}))
		}
		text, d.stop = d.text.push(l.eng.Piece(s.Token, d.written))
		switch {
		case d.stop != "":
			d.ended = wire.ReasonStop
			d.text.dropCut()
		case d.sampled >= d.max:
			d.ended = wire.ReasonLength
		}
	}
	if d.ended != "" && d.stop == "" {
		more, cut := d.text.finish()
		text += more
		if d.ended == wire.ReasonLength {
			c.seq.tail = cut
		}
	}
	lps := d.text.takeLogprobs(d.ended != "")
	if text != "" || len(lps) > 0 || d.ended != "" && len(d.tokens) > 0 {
		c.put(wire.Frame{Type: wire.FrameText, Text: text, Tokens: d.tokens, Logprobs: lps})
		d.tokens = nil
	}
	switch {
	case c.kv != nil && (first || d.ended != ""):
		l.turns = append(l.turns, c)
	case d.ended != "" && (c.release || c.leave):
		l.finish(c) // nobody needs the last token evaluated
	}
}

// hold keeps a row's logits with its sequence.
func (l *loop) hold(s *sequence, row int) {
	s.forgetRow()
	h, err := l.eng.Hold(row)
	if err == nil {
		s.held = h
	} else {
		l.opts.Logger.Error().Err(err).Msg("logits cannot be held")
	}
}

// finish ends a call that went well.
func (l *loop) finish(c *call) {
	if c.over {
		return
	}
	c.over = true
	l.remove(c)
	frame := c.doneFrame(time.Now())
	if c.kv != nil {
		l.saveTurn(c, frame.Done)
	}
	if c.release {
		l.discard(c.seq)
	} else {
		l.rest(c.seq)
	}
	c.put(frame)
	if c.fork != nil {
		l.follow(c.fork, 1)
	}
}

// rest is a session's sequence between two calls.
func (l *loop) rest(s *sequence) {
	s.evaluated, s.working = s.tokens[:s.pos], false
	if s.memory != nil {
		s.memory.promiseEnds = time.Now().Add(promiseGrace)
	}
	l.idle = append(l.idle, s)
}

func (l *loop) logprob(lp engine.TokenLogprob) wire.TokenLogprob {
	e := wire.TokenLogprob{ID: lp.Token, Bytes: l.eng.Piece(lp.Token, true), Logprob: lp.Logprob}
	for _, t := range lp.Top {
		e.Top = append(e.Top, wire.TokenLogprob{ID: t.Token, Bytes: l.eng.Piece(t.Token, true), Logprob: t.Logprob})
	}
	return e
}

func (l *loop) setSole(plan []share) {
	l.sole.Lock()
	defer l.sole.Unlock()
	l.eng.ClearAbort()
	if l.sole.call = soleTrunk(plan); l.sole.call != nil && l.sole.call.cancelled.Load() {
		l.eng.Abort() // it came between intake and here
	}
}

func (l *loop) clearSole() {
	l.sole.Lock()
	l.sole.call = nil
	l.sole.Unlock()
}

// doneFrame tells the end of a call, with its timings.
func (c *call) doneFrame(now time.Time) wire.Frame {
	if c.restore != nil {
		return wire.Frame{Type: wire.FrameDone}
	}
	if c.dec == nil {
		return wire.Frame{Type: wire.FrameDone, Forward: c.forwarded(now)}
	}
	d := c.dec
	t := wire.Timings{
		QueueMS: ms(c.queued, c.started), TokenizeMS: ms(c.arrived, c.queued),
		PrefillMS: ms(c.started, c.firstToken), TTFTMS: ms(c.arrived, c.firstToken), EngineMS: milliseconds(c.engine), DecodeMS: ms(c.firstToken, now),
	}
	if c.kv != nil {
		t.TokenizeMS = ms(c.arrived, c.kv.queued)
		t.QueueMS += c.kv.waited
	}
	if d.sampled > 1 && t.DecodeMS > 0 {
		t.TokensPerSecond = float64(d.sampled-1) / t.DecodeMS * 1000
	}
	done := &wire.Done{Reason: d.ended, StopString: d.stop, PromptTokens: d.prompt, CompletionTokens: d.sampled, Timings: t, Session: c.session}
	if !c.release {
		done.Position = c.seq.pos
	}
	if c.seq.sampler != nil {
		done.Seed = c.seq.sampler.Seed()
	}
	return wire.Frame{Type: wire.FrameDone, Done: done}
}

// forwarded tells what a call has evaluated.
func (c *call) forwarded(now time.Time) *wire.ForwardResponse {
	return &wire.ForwardResponse{
		Session: c.session, Position: c.seq.pos, Remaining: len(c.seq.tokens) - c.seq.pos, Evaluated: c.seq.pos - c.from,
		QueueMS: ms(c.queued, c.started), PrefillMS: ms(c.started, now), EngineMS: milliseconds(c.engine), Logprobs: c.logprobs,
	}
}

func ms(from, to time.Time) float64 {
	if from.IsZero() || to.Before(from) {
		return 0
	}
	return milliseconds(to.Sub(from))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
