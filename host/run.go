package host

import (
	"context"
	"sync"
	"time"

	"thoth/host/dialect"
	"thoth/host/openai"
	"thoth/internal/rawio"
	"thoth/station/wire"
)

// sink turns what a job's choices hold into what the client sees. One goroutine at
// a time calls it.
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

// run waits for a place, calls the station, as many choices at once as the place is
// wide, and feeds the sink. It returns after the station calls have ended.
//
// The place is left as soon as they have: to store the answer and to write it to a slow
// client may take a while, and takes nothing of the engine. It takes memory, which places
// bound: where the answers that left theirs fill what there is for them, the next one
// keeps its own until its client has it, or has had its time.
func (s *Server) run(parent context.Context, j *job, out sink) *openai.Error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	// Two more ends than the client's: the server's and the station's.
	defer context.AfterFunc(s.hardStop, func() { cancel(context.Cause(s.hardStop)) })()
	defer s.station.bind(cancel)()

	asked := time.Now() // the prompt's own time comes before
	sent, e := s.wait(ctx, j, out)
	if e != nil {
		return e
	}
	defer j.place.leave() // where it panics
	j.body.release()
	j.rec.queue = time.Since(asked)
	if j.placed != nil {
		j.placed()
	}

	j.taken = true
	f := s.newFeed(ctx, func() { cancel(nil) }, j, out, sent)
	if raw := j.choices[0].raw; raw != nil {
		defer func() { j.rec.answered = raw.String() }() // a broken answer too
	}
	hangUp := sync.OnceFunc(f.hangUp)
	leave := sync.OnceFunc(func() {
		hangUp()
		j.place.leave()
		if j.parted != nil {
			j.parted()
		}
	})
	defer leave()
	if len(j.calls) == 1 && j.before == nil { // a goroutine of its own would have a thread woken for it, and another at its end
		s.callAll(ctx, j, group{0, 1, 1}, f)
	} else {
		s.spread(ctx, j, f)
	}
	if e := f.wait(); e != nil {
		j.brokenOff()
		if e.Code == openai.CodeUnavailable || e.Code == openai.CodeLoading {
			s.station.suspect()
		}
		return e
	}
	var parting sync.WaitGroup
	defer parting.Wait()
	room := &hold{budget: &s.unread}
	defer room.release()
	part := hangUp
	if room.take(answerCopies * j.said) {
		part = leave
	}
	if f.going.Load() == 0 {
		part()
	} else {
		parting.Go(part) // behind: the last words of a streamed answer do not wait for it
	}
	if j.said > longAnswer {
		rawio.Awake() // to encode it takes a while, and its last frame was read by a raw call
	}
	out.end()
	return nil
}

// longAnswer is what takes more than a few milliseconds to encode, in bytes as told of by
// [answerBytes].
const longAnswer = 256 << 10

// spread makes a job's calls, in order and no more at once than it has places for.
func (s *Server) spread(ctx context.Context, j *job, f *feed) {
	each, slots := len(j.calls)/j.prompts, newSlots(j.place.weight)
	next := func(width int, work func()) {
		if slots.take(ctx, width) {
			f.spawn(func() { defer slots.give(width); work() })
		}
	}
	generate := func(p int) {
		for _, g := range s.groups(j, p*each, each) {
			next(g.width, func() { s.callAll(ctx, j, g, f) })
		}
	}
	f.spawn(func() {
		for p := range j.prompts {
			if j.before == nil {
				generate(p)
				continue
			}
			next(1, func() {
				send := func(e event) bool {
					e.choice += p * each
					return f.take(e)
				}
				if err := j.before(ctx, p, send); err != nil {
					send(event{err: err})
					return
				}
				f.spawn(func() { generate(p) }) // it waits for slots, one of which is this one
			})
		}
	})
}

// answerCopies is how often an answer is in memory when it is sent: as it was gathered, as
// it is sent, and as it is stored.
const answerCopies = 3

// widest is the part of all places that one request may have: a few requests of
// many answers each would keep everybody else waiting.
const widest = 4

// wait gets the job a place, keeping a stream alive meanwhile, and says when the
// client was sent something last.
func (s *Server) wait(ctx context.Context, j *job, out sink) (sent time.Time, e *openai.Error) {
	sent = time.Now()
	enter := s.admission.enter
	if j.counted {
		enter = s.admission.join
	}
	j.place = enter(min(len(j.calls), max(1, s.o.MaxInFlight/widest)))
	if j.place == nil {
		return sent, openai.NewError(openai.CodeOverloaded, "", "the server is busy: %d requests are waiting already", s.o.MaxBacklog).Retry(s.retryAfter())
	}
	select {
	case <-j.place.ready: // as nearly always
		if ctx.Err() == nil {
			return sent, nil
		}
	default:
	}
	ping := newPulse(s.o.PingInterval)
	defer ping.stop()
	defer rawio.Awake() // whoever leaves the place may do so behind a raw call, and the request may be large
	for {
		select {
		case <-j.place.ready:
			if ctx.Err() == nil {
				return sent, nil
			}
		case <-ctx.Done():
		case sent = <-ping.C():
			out.ping()
			ping.beat()
			continue
		}
		break
	}
	j.place.leave()
	return sent, causeOf(ctx)
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
