package host

import (
	"context"
	"strings"
	"sync"
	"time"

	"thoth/host/dialect"
	"thoth/host/openai"
	"thoth/liquid"
	"thoth/station/wire"
)

// sink turns what a job's choices hold into what the client sees. One goroutine
// calls it.
type sink interface {
	open(choice int)                                           // its first token is there, or its end; may come again
	write(choice int, e dialect.Event, lp []wire.TokenLogprob) // lp is the sink's until it returns
	done(choice int, d *wire.Done, called bool)                // the choice has ended; called: it made a call, and its last one is whole
	flush() (sent bool)                                        // nothing more is there for now
	ping()                                                     // nothing was sent for a while
	end()                                                      // all choices have ended
	fail(e *openai.Error)                                      // instead of end
	broken() error                                             // the client cannot be written to
}

// event is what one choice's goroutine hands over.
type event struct {
	choice  int
	frame   *wire.Frame
	err     error
	outcome *liquid.Outcome // what is known of it by now
	group   group           // of choices whose outcome it is; none: its own
	tell    func()          // instead of a frame: to be called in the sink's goroutine
}

// sent hands an event over, unless ctx ended.
func sent(ctx context.Context, events chan<- event, e event) bool {
	select {
	case events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// run waits for a place, calls the station, as many choices at once as the place is
// wide, and feeds the sink.
// It returns after the station calls have ended.
func (s *Server) run(parent context.Context, j *job, out sink) *openai.Error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	// Two more ends than the client's: the server's and the station's.
	defer context.AfterFunc(s.hardStop, func() { cancel(context.Cause(s.hardStop)) })()
	defer s.station.bind(cancel)()

	ping := newPulse(s.o.PingInterval)
	defer ping.stop()
	asked := time.Now() // the prompt's own time comes before
	if e := s.wait(ctx, j, ping, out); e != nil {
		return e
	}
	defer j.place.leave()
	j.body.release()
	j.rec.queue = time.Since(asked)
	if j.placed != nil {
		j.placed()
	}

	n := len(j.calls)
	events := make(chan event, 16*n)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel(nil) // before the wait, or it would never end
	// In order, and no more at once than there are places for.
	each, slots := n/j.prompts, newSlots(j.place.weight)
	next := func(width int, work func()) {
		if slots.take(ctx, width) {
			calls.Go(func() { defer slots.give(width); work() })
		}
	}
	generate := func(p int) {
		for _, g := range s.groups(j, p*each, each) {
			next(g.width, func() { s.callAll(ctx, j, g, events) })
		}
	}
	calls.Go(func() {
		for p := range j.prompts {
			if j.before == nil {
				generate(p)
				continue
			}
			next(1, func() {
				send := func(e event) bool {
					e.choice += p * each
					return sent(ctx, events, e)
				}
				if err := j.before(ctx, p, send); err != nil {
					send(event{err: err})
					return
				}
				calls.Go(func() { generate(p) }) // it waits for slots, one of which is this one
			})
		}
	})
	e := s.feed(ctx, j, events, ping, out)
	if e != nil {
		j.brokenOff()
	}
	if e != nil && e.Code == openai.CodeUnavailable {
		s.station.suspect()
	}
	return e
}

// widest is the part of all places that one request may have: a few requests of
// many answers each would keep everybody else waiting.
const widest = 4

// wait gets the job a place, keeping a stream alive meanwhile.
func (s *Server) wait(ctx context.Context, j *job, ping *pulse, out sink) *openai.Error {
	j.place = s.admission.enter(min(len(j.calls), max(1, s.o.MaxInFlight/widest)))
	if j.place == nil {
		return openai.NewError(openai.CodeOverloaded, "", "the server is busy: %d requests are waiting already", s.o.MaxBacklog).Retry(s.retryAfter())
	}
	for {
		select {
		case <-j.place.ready:
			if ctx.Err() == nil {
				return nil
			}
		case <-ctx.Done():
		case <-ping.C():
			out.ping()
			ping.beat()
			continue
		}
		break
	}
	j.place.leave()
	return causeOf(ctx)
}

// feed hands events to the sink until every choice has ended.
func (s *Server) feed(ctx context.Context, j *job, events <-chan event, ping *pulse, out sink) *openai.Error {
	silence := time.NewTimer(s.o.PrefillTimeout)
	defer silence.Stop()
	limit := s.o.PrefillTimeout
	begun, waiting := make([]bool, len(j.calls)), len(j.calls) // choices with a token or their end, and those without
	s.open(j, out)
	choices := j.choices
	if raw := choices[0].raw; raw != nil {
		defer func() { j.rec.answered = raw.String() }() // a broken answer too
	}
	for j.left > 0 {
		var ev event
		select {
		case ev = <-events:
		default:
			if out.flush() {
				ping.beat()
			}
			if err := out.broken(); err != nil {
				return openai.NewError(openai.CodeCancelled, "", "the client cannot be written to: %s", err)
			}
			select {
			case ev = <-events:
			case <-ping.C():
				out.ping()
				ping.beat()
				continue
			case <-silence.C:
				s.station.suspect()
				return openai.NewError(openai.CodeTimeout, "", "the station sent nothing for %s", limit).Retry(5 * time.Second)
			case <-ctx.Done():
				return causeOf(ctx)
			}
		}
		if ev.outcome != nil {
			j.outcomes[ev.choice] = ev.outcome
			for i := range ev.group.n {
				j.outcomes[ev.group.first+i] = ev.outcome
			}
		}
		if ev.err != nil {
			if ctx.Err() != nil {
				return causeOf(ctx)
			}
			return j.named(openai.FromWire(ev.err))
		}
		if ev.tell != nil {
			silence.Reset(limit)
			ev.tell()
			continue
		}
		switch ev.frame.Type {
		case wire.FrameText, wire.FrameDone:
			if j.rec.ttft == 0 {
				j.rec.ttft = time.Since(j.rec.arrived)
			}
			if !begun[ev.choice] {
				begun[ev.choice] = true
				waiting--
				j.begun(ev.choice)
			}
			if waiting == 0 { // until then a prompt may be at its prefill, or behind others
				limit = s.o.TokenTimeout
			}
		}
		silence.Reset(limit)
		switch ev.frame.Type {
		case wire.FrameProgress:
			if p := ev.frame.Progress; p != nil {
				j.progress(ev.choice, p)
			}
		case wire.FrameText:
			j.rec.spent.CompletionTokens += len(ev.frame.Tokens)
			choices[ev.choice].frame(ev.frame)
		case wire.FrameDone:
			if ev.frame.Done == nil {
				return openai.NewError(openai.CodeInternal, "", "the station ended an answer without saying why")
			}
			j.ended[ev.choice] = ev.frame.Done
			j.left--
			choices[ev.choice].done(ev.frame.Done)
			j.charge(ev.choice, ev.frame.Done.PromptTokens)
			j.rec.usage, j.rec.outcome = j.usage(), j.outcome()
		}
	}
	out.end()
	return nil
}

// open makes the choices of a job; the text of the first one is logged where
// prompts are.
func (s *Server) open(j *job, out sink) {
	j.choices = make([]choice, len(j.calls))
	for i := range j.choices {
		c := &j.choices[i]
		c.out, c.index, c.parser = out, i, j.shape.parser()
	}
	if s.o.LogPrompts {
		j.choices[0].raw = new(strings.Builder)
	}
}

// retryAfter guesses when a place may be free: a second per request ahead of
// each place, within reason.
func (s *Server) retryAfter() time.Duration {
	_, waiting := s.admission.counts()
	return time.Duration(min(30, 1+waiting/s.o.MaxInFlight)) * time.Second
}

// pulse tells when nothing was sent for an interval.
type pulse struct {
	every time.Duration
	timer *time.Timer
}

func newPulse(every time.Duration) *pulse { return &pulse{every, time.NewTimer(every)} }

func (p *pulse) C() <-chan time.Time { return p.timer.C }
func (p *pulse) beat()               { p.timer.Reset(p.every) }
func (p *pulse) stop()               { p.timer.Stop() }
