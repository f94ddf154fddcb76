package host

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"thoth/host/openai"
	"thoth/liquid"
	"thoth/station/wire"
)

// event is what was read of one choice.
type event struct {
	choice  int
	frame   *wire.Frame
	err     error
	outcome *liquid.Outcome // what is known of it by now
	group   group           // of choices whose outcome it is; none: its own
	do      func()          // instead of a frame: to be called while nobody else calls the sink
	more    bool            // the next one is here already: what this one makes can leave with it
}

// feed brings what a job's choices say to its sink. Whoever reads a choice does that
// himself: to hand each frame to another goroutine would wake a thread for every
// token, which costs more than all else that is done for it.
//
// Invariants: mu is held during every call of the sink, and while what the choices
// write, in the job and its record, is changed; once it is over, nothing of that
// happens any more but by the handler's goroutine, which is told by ended, and the calls
// are cut, or have no more to say than that they end.
type feed struct {
	s     *Server
	j     *job
	out   sink
	ctx   context.Context // of the calls
	cut   func()          // ends it
	timer *time.Timer     // of the next look
	ended chan struct{}

	calls sync.WaitGroup // goroutines at work on calls
	going atomic.Int32   // how many

	mu struct {
		sync.Mutex
		begun   []bool        // choices with a token or their end
		waiting int           // choices without
		limit   time.Duration // of the station's silence
		heard   time.Time     // the station, last
		sent    time.Time     // to the client, last
		over    bool
		err     *openai.Error // why it is over; nil: every choice has ended
		panic   any           // of the sink or a parser
	}
}

// newFeed begins with the station silent from now on, and the client since sent. cut ends
// ctx, which is that of the calls.
func (s *Server) newFeed(ctx context.Context, cut func(), j *job, out sink, sent time.Time) *feed {
	f := &feed{s: s, j: j, out: out, ctx: ctx, cut: cut, ended: make(chan struct{})}
	f.mu.begun, f.mu.waiting = make([]bool, len(j.calls)), len(j.calls)
	f.mu.limit, f.mu.heard, f.mu.sent = s.o.PrefillTimeout, time.Now(), sent
	j.choices = make([]choice, len(j.calls))
	for i := range j.choices {
		c := &j.choices[i]
		c.out, c.index, c.parser = out, i, j.shape.parser()
	}
	if s.o.LogPrompts {
		j.choices[0].raw = new(strings.Builder) // the text of the first one is logged
	}
	f.mu.Lock() // from look, which may come at once
	defer f.mu.Unlock()
	f.timer = time.AfterFunc(f.due(f.mu.heard), f.look)
	return f
}

// take brings an event to the sink; false: nothing more is wanted.
func (f *feed) take(ev event) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.over {
		return false
	}
	defer f.rescue()
	if e := f.tell(ev); e != nil || f.j.left == 0 {
		f.end(e)
		return e == nil
	}
	if !ev.more && f.out.flush() {
		f.mu.sent = time.Now()
	}
	if err := f.out.broken(); err != nil {
		f.end(openai.NewError(openai.CodeCancelled, "", "the client cannot be written to: %s", err))
		return false
	}
	f.mu.heard = time.Now() // a client that takes its time is not the station's silence
	return true
}

// fail takes the error of a choice's call, if there is one.
func (f *feed) fail(choice int, err error) {
	if err != nil {
		f.take(event{choice: choice, err: err})
	}
}

// tell is called with mu held, as all below it are.
func (f *feed) tell(ev event) *openai.Error {
	j := f.j
	if ev.outcome != nil {
		j.outcomes[ev.choice] = ev.outcome
		for i := range ev.group.n {
			j.outcomes[ev.group.first+i] = ev.outcome
		}
	}
	switch {
	case ev.err != nil:
		var we *wire.Error
		if errors.As(ev.err, &we) {
			j.taken = we.Taken
		}
		return j.named(openai.FromWire(ev.err))
	case ev.do != nil:
		ev.do()
		return nil
	}
	switch ev.frame.Type {
	case wire.FrameProgress:
		if p := ev.frame.Progress; p != nil {
			j.progress(ev.choice, p)
		}
	case wire.FrameText:
		f.begin(ev.choice)
		j.rec.spent.CompletionTokens += len(ev.frame.Tokens)
		j.said += answerBytes(ev.frame)
		j.choices[ev.choice].frame(ev.frame)
	case wire.FrameDone:
		if ev.frame.Done == nil {
			return openai.NewError(openai.CodeInternal, "", "the station ended an answer without saying why")
		}
		if j.ended[ev.choice] != nil {
			return openai.NewError(openai.CodeInternal, "", "an answer has ended twice")
		}
		f.begin(ev.choice)
		j.ended[ev.choice] = ev.frame.Done
		j.left--
		j.choices[ev.choice].done(ev.frame.Done)
		j.charge(ev.choice, ev.frame.Done.PromptTokens)
		j.rec.usage, j.rec.outcome = j.usage(), j.outcome()
	}
	return nil
}

// logprobBytes is about what a token's log-probability takes in an answer.
const logprobBytes = 100

// answerBytes is about what a frame adds to its answer.
func answerBytes(f *wire.Frame) int64 {
	n := len(f.Text)
	for i := range f.Logprobs {
		n += logprobBytes * (1 + len(f.Logprobs[i].Top))
	}
	return int64(n)
}

// begin notes a choice's first token, or its end without one.
func (f *feed) begin(choice int) {
	if f.mu.begun[choice] {
		return
	}
	if f.j.rec.ttft == 0 {
		f.j.rec.ttft = time.Since(f.j.rec.arrived)
	}
	f.mu.begun[choice] = true
	f.mu.waiting--
	f.j.begun(choice)
	if f.mu.waiting == 0 { // until then a prompt may be at its prefill, or behind others
		f.mu.limit = f.s.o.TokenTimeout
		f.timer.Reset(min(f.mu.limit, f.s.o.PingInterval))
	}
}

// end is called once, with mu held.
func (f *feed) end(e *openai.Error) {
	if e != nil && f.ctx.Err() != nil {
		e = causeOf(f.ctx) // the station's own error is that of a call cut short
	}
	if e != nil || f.mu.panic != nil { // else only the ends of streams are to come: cut before them, their connections would be lost
		f.cut()
	}
	f.mu.over, f.mu.err = true, e
	close(f.ended)
}

// rescue is deferred by whoever calls the sink, with mu held: its goroutine need not be
// the handler's, which knows what to do about a panic.
func (f *feed) rescue() {
	if p := recover(); p != nil {
		f.mu.panic = fmt.Sprintf("%v\n%s", p, debug.Stack())
		if !f.mu.over {
			f.end(nil)
		}
	}
}

// wait returns when every choice has ended, or why they do not.
func (f *feed) wait() *openai.Error {
	select {
	case <-f.ended:
	case <-f.ctx.Done():
	}
	f.timer.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.mu.over {
		f.end(causeOf(f.ctx))
	}
	if f.mu.panic != nil {
		panic(f.mu.panic)
	}
	return f.mu.err
}

// spawn works on calls beside the handler.
func (f *feed) spawn(work func()) {
	f.going.Add(1)
	f.calls.Go(func() {
		defer f.going.Add(-1)
		work()
	})
}

// close closes a stream, behind where its end is not here: the last words of a streamed
// answer do not wait for it, nor does the next call.
func (f *feed) close(s *liquid.Stream) {
	if s.Ended() {
		_ = s.Close()
		return
	}
	f.spawn(func() { _ = s.Close() })
}

// hangUp has the calls end, and returns when they have.
func (f *feed) hangUp() {
	f.mu.Lock()
	if !f.mu.over { // the handler panics
		f.mu.over = true
		f.timer.Stop()
		f.cut()
	}
	f.mu.Unlock()
	f.calls.Wait()
}

// look keeps a silent stream alive, and gives a silent station up.
func (f *feed) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.rescue()
	now := time.Now()
	switch {
	case f.mu.over:
		return
	case f.mu.limit <= now.Sub(f.mu.heard):
		f.s.station.suspect()
		f.end(openai.NewError(openai.CodeTimeout, "", "the station sent nothing for %s", f.mu.limit).Retry(5 * time.Second))
		return
	case f.s.o.PingInterval <= now.Sub(f.mu.sent):
		f.out.ping()
		f.mu.sent = now
	}
	f.timer.Reset(f.due(now))
}

// due is the time from now until a look may be of use.
func (f *feed) due(now time.Time) time.Duration {
	return min(f.mu.limit-now.Sub(f.mu.heard), f.s.o.PingInterval-now.Sub(f.mu.sent))
}
