package station

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"thoth/station/engine"
	"thoth/station/kvstore"
	"thoth/station/wire"
)

// loop owns the engine's context and runs continuous batching: sequences join
// and leave between steps. It runs on one goroutine and blocks while there is
// nothing to do.
//
// A call is in exactly one of inbox, waiting and running, or has ended. A
// session's sequence between two calls is in idle.
type loop struct {
	opts Options
	eng  engine.Engine
	info engine.Info
	pool *pool
	pace pace

	waiting  []*call     // without a place in the batch, oldest first
	running  []*call     // in the batch, in order of arrival inside an adapter set
	idle     []*sequence // sessions between calls, longest idle first
	lastWork time.Time   // when a call came or a step was made

	batch   engine.Batch
	reqs    []engine.SampleRequest
	who     []*call // of reqs
	parting []*call // trunks whose branches draw their first token
	turns   []*call // that drew their first token, or their last
	sampled []engine.Sampled
	isEOG   map[engine.Token]bool

	wake  chan struct{} // buffered 1: the inbox has something
	inbox struct {
		sync.Mutex
		calls    []*call
		ended    []*sequence
		ops      []func() // small work on what the loop owns
		queued   int      // calls here and in waiting
		draining bool
		began    bool // run runs
		stopped  bool // no call will be taken any more
		abandon  bool // end what still runs
	}
	// sole is the call that all of the batch being decoded is for, so that
	// cancelling it may abort the decode. Guarded, because aborting must never hit the next batch.
	sole struct {
		sync.Mutex
		call *call
	}

	store *kvstore.Store // never nil; without a budget it stores nothing
	kv    kvCounts
	cold  bool   // there is a cold tier
	kvOff string // why there are no KV sessions, "" when there are

	toldDropped bool // that KV had no room

	unproven error       // why the self-test at load failed
	quiet    func() bool // waits until no handler uses the engine, within bounds

	gauges      gauges
	counts      counts
	stepSeconds prometheus.Observer
}

// idleTidy is how long the loop sits idle before it compacts on its own account:
// long enough not to come between the calls of one request.
const idleTidy = 250 * time.Millisecond

func newLoop(eng engine.Engine, opts Options, stepSeconds prometheus.Observer, quiet func() bool) *loop {
	info := eng.Info()
	l := &loop{
		kv:   kvCounts{short: map[wire.KVReason]uint64{}},
		opts: opts, eng: eng, info: info, pool: newPool(eng, opts.SwapBytes), stepSeconds: stepSeconds, quiet: quiet,
		wake:  make(chan struct{}, 1),
		isEOG: make(map[engine.Token]bool, len(info.EOG)),
	}
	for _, t := range info.EOG {
		l.isEOG[t] = true
	}
	return l
}

// submit hands a call to the loop. An error means it was not taken.
func (l *loop) submit(c *call) *wire.Error {
	l.inbox.Lock()
	defer l.inbox.Unlock()
	switch {
	case l.inbox.draining || l.inbox.stopped:
		return errDraining()
	case l.inbox.queued >= l.opts.MaxWaiting:
		return &wire.Error{Code: wire.CodeOverloaded, Retryable: true,
			Message: "too many requests are waiting for the model"}
	}
	l.inbox.queued++
	l.inbox.calls = append(l.inbox.calls, c)
	l.signal()
	return nil
}

// cancel ends a call before the next step; if it computes alone, at once.
func (l *loop) cancel(c *call) {
	c.cancelled.Store(true)
	l.sole.Lock()
	if l.sole.call == c { // a trunk is what is submitted
		l.eng.Abort()
		l.counts.aborts.Add(1)
	}
	l.sole.Unlock()
	l.signal()
}

// end takes an idle sequence's place and state away.
func (l *loop) end(s *sequence) {
	l.inbox.Lock()
	l.inbox.ended = append(l.inbox.ended, s)
	l.inbox.Unlock()
	l.signal()
}

// drain refuses new calls; abandon also ends those that still run.
func (l *loop) drain(abandon bool) {
	l.inbox.Lock()
	l.inbox.draining = true
	l.inbox.abandon = l.inbox.abandon || abandon
	l.inbox.Unlock()
	l.signal()
}

func (l *loop) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run steps until ctx ends, then ends every call and closes the engine.
func (l *loop) run(ctx context.Context) {
	defer l.shutdown()
	l.inbox.Lock()
	l.inbox.began = true
	l.inbox.Unlock()
	for ctx.Err() == nil {
		l.intake()
		l.admit()
		start := time.Now()
		if l.step() {
			l.lastWork = time.Now()
			l.copyBeside(l.lastWork.Sub(start))
			l.publish()
			continue
		}
		l.publish()
		l.sleep(ctx)
	}
}

// sleep blocks until something arrives, or until something is due that waits for
// the loop to be idle: copies of captured KV, then tidying up dead cells left by
// sessions that still live.
func (l *loop) sleep(ctx context.Context) {
	copying := l.copying()
	var chores, promise <-chan time.Time
	switch {
	case copying != nil:
		defer alarm(&chores, l.lastWork.Add(copyQuiet))()
	case l.pool.dead() > 0 && len(l.waiting) == 0:
		defer alarm(&chores, l.lastWork.Add(idleTidy))()
	}
	if t := l.nextPromise(); !t.IsZero() {
		defer alarm(&promise, t)()
	}
	select {
	case <-l.wake:
	case <-ctx.Done():
	case <-promise: // who waited for it looks again
	case <-chores:
		if copying != nil {
			l.copyOut(copying, copyRun)
		} else {
			l.pool.compact()
			l.reap()
		}
	}
}

// alarm makes c tick once at a time; the function it returns stops it.
func alarm(c *<-chan time.Time, at time.Time) func() bool {
	t := time.NewTimer(time.Until(at))
	*c = t.C
	return t.Stop
}

// do runs op on the loop's goroutine, between two steps, and waits for it. It
// reports false when the loop has ended.
func (l *loop) do(op func()) bool {
	done := l.hand(op)
	if done == nil {
		return false
	}
	<-done
	return true
}

// doWithin is do that waits no longer than so, and not for a loop that has not
// begun; op may then run later.
func (l *loop) doWithin(op func(), most time.Duration) {
	l.inbox.Lock()
	began := l.inbox.began
	l.inbox.Unlock()
	if !began {
		return
	}
	done := l.hand(op)
	if done == nil {
		return
	}
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// hand gives the loop something to run; what it returns is closed after that, and
// is nil when the loop has ended.
func (l *loop) hand(op func()) <-chan struct{} {
	done := make(chan struct{})
	l.inbox.Lock()
	defer l.inbox.Unlock()
	if l.inbox.stopped {
		return nil
	}
	l.inbox.ops = append(l.inbox.ops, func() { op(); close(done) })
	l.signal()
	return done
}

// intake takes what arrived and drops what was cancelled.
func (l *loop) intake() {
	l.inbox.Lock()
	calls, ended, ops, abandon := l.inbox.calls, l.inbox.ended, l.inbox.ops, l.inbox.abandon
	l.inbox.calls, l.inbox.ended, l.inbox.ops = nil, nil, nil
	l.inbox.Unlock()
	if len(calls) > 0 { // not ops: who only looks must not keep copies waiting
		l.lastWork = time.Now()
	}

	for _, c := range calls {
		l.idle = without(l.idle, c.seq)
		for _, b := range c.branches() {
			b.seq.working = true
			if b.dec != nil {
				b.begin()
			}
		}
		l.waiting = append(l.waiting, c)
	}
	for _, s := range ended { // before ops: who ends a session and then deletes what it left means that, too
		l.idle = without(l.idle, s)
		l.keep(s)
		l.discard(s)
	}
	for _, op := range ops {
		op()
	}
	for _, c := range slices.Concat(l.waiting, l.running) {
		switch {
		case c.over: // with another branch
		case c.trunk().cancelled.Load():
			l.counts.cancelled.Add(1)
			l.fail(c, &wire.Error{Code: wire.CodeCancelled, Message: "the caller went away"})
		case abandon:
			l.fail(c, errDraining())
		}
	}
	l.count()
}

// admit gives waiting calls their place, in order, while there is room for what
// they bring. A load that waits for something else lets others pass.
func (l *loop) admit() {
	for i := 0; i < len(l.waiting) && !l.inboxAbandon(); {
		c := l.waiting[i]
		if c.restore != nil && !l.chooseSource(c) || l.regains(c) {
			i++
			continue
		}
		if !l.enter(c) {
			if i < len(l.waiting) && l.waiting[i] == c {
				break
			}
			i = 0 // others have been moved or ended
			continue
		}
		if c.restore != nil {
			// Again: making room may have taken what it was to share, and blocks may
			// have come in for which it has no place yet.
			switch ready := l.chooseSource(c); {
			case !ready:
				i++
			case c.seq.id == noSeq && c.restores():
			default:
				l.restoreNow(c)
				if at := slices.Index(l.waiting, c); at >= 0 {
					i = at // a turn, which goes on; others before it may have been ended
				}
			}
			continue
		}
		l.waiting = without(l.waiting, c)
		if c.started.IsZero() {
			c.started = time.Now()
			c.from = c.seq.pos
		}
		c.from = min(c.from, c.seq.pos) // what it had may be lost when it comes back
		l.running = append(l.running, c)
	}
	l.reap()
	l.count()
	l.tellQueue()
}

// reap deals with sequences whose KV was lost: a call ends with an error, an idle
// session keeps its tokens, and its next call evaluates them again.
func (l *loop) reap() {
	if l.pool.dropped > 0 && !l.toldDropped {
		l.toldDropped = true
		l.opts.Logger.Warn().Int("swap_bytes", l.opts.SwapBytes).Int("tokens", int(l.pool.dropped)).
			Msg("KV that had to leave the pool does not fit the RAM set aside for it: its tokens are evaluated again, then and from now on; dropped_tokens in /stats counts them")
	}
	for len(l.pool.losses) > 0 {
		x := l.pool.losses[0]
		l.pool.losses = l.pool.losses[1:]
		l.opts.Logger.Error().Err(x.err).Msg("a sequence's KV is lost")
		for _, c := range slices.Concat(l.waiting, l.running) {
			if c.seq == x.seq {
				l.fail(c, &wire.Error{Code: wire.CodeEngine, Retryable: true,
					Message: "the engine lost this request's KV state; send it again"})
			}
		}
	}
}

// fail ends a call and its sequence with an error frame; a branch, with all that
// have not ended.
func (l *loop) fail(c *call, e *wire.Error) {
	if c.over {
		return
	}
	if c.fork != nil {
		c.fork.held = nil
		for _, b := range c.fork.branches {
			if !b.over {
				l.pool.dropSwapped(b.seq) // nobody needs to leave it a stem
				if b.seq.id == noSeq {
					b.seq.pos = 0
				}
			}
		}
	}
	for _, b := range c.branches() {
		if b.over {
			continue
		}
		b.over = true
		l.remove(b)
		if e.Code != wire.CodeEngine {
			l.keep(b.seq)
		}
		l.discard(b.seq)
	}
	if e.Code != wire.CodeCancelled {
		l.counts.failed.Add(1)
	}
	c.fail(e)
}

// discard frees all that a sequence holds.
func (l *loop) discard(s *sequence) {
	l.pool.leave(s)
	l.pool.dropSwapped(s)
	s.drop()
	s.working = false
}

func (l *loop) remove(c *call) {
	l.waiting = without(l.waiting, c)
	l.running = without(l.running, c)
}

// shutdown ends everything and closes the engine.
func (l *loop) shutdown() {
	l.inbox.Lock()
	l.inbox.stopped, l.inbox.abandon = true, true
	l.inbox.Unlock()
	l.intake()
	for _, s := range l.idle {
		l.keep(s)
		l.discard(s)
	}
	l.idle = nil
	l.copyAll()
	l.publish()
	l.publishKV()
	if !l.quiet() {
		l.opts.Logger.Warn().Msg("a handler still holds the engine; it is left to the end of the process")
		return
	}
	l.eng.Close()
}

func (l *loop) inboxAbandon() bool {
	l.inbox.Lock()
	defer l.inbox.Unlock()
	return l.inbox.abandon
}

// count keeps the queue's length, which submit compares with its bound.
func (l *loop) count() {
	l.inbox.Lock()
	l.inbox.queued = len(l.waiting) + len(l.inbox.calls)
	l.inbox.Unlock()
}

// tellQueue tells waiting calls that asked for it their place, when it changed.
// One that has begun its answer, and had to leave the pool, has no prompt left to
// tell of.
func (l *loop) tellQueue() {
	for i, c := range l.waiting {
		if c.progress && c.restore == nil && c.firstToken.IsZero() && c.place != i+1 {
			c.place = i + 1
			c.put(wire.Frame{Type: wire.FrameProgress, Progress: &wire.Progress{
				Queue: c.place, Position: c.seq.pos, Total: c.target}})
		}
	}
}

func without[T comparable](list []T, v T) []T {
	if i := slices.Index(list, v); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

func errDraining() *wire.Error {
	return &wire.Error{Code: wire.CodeDraining, Message: "the station is shutting down", Retryable: true}
}
