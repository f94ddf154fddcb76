package host

import (
	"sync"
	"time"

	"thoth/host/openai"
)

// background owns the responses that are made without a client who waits for them.
//
// Its words: a *run* is such a response on its way, from its request to its stored
// end. Its *record* is the response as it is now, in memory, and in the store as it began
// and as it ended. In between its process renews its *lease*, every beat, which says how
// it is: a record without an end whose lease is over is that of a process that died, and
// whoever reads it says that it failed. Its *fate* is what somebody wants to become of it.
//
// Invariants: at most most runs are under way, and mostOfKey of one key. A run is under
// way from before its record is stored until after its end is: one whose end cannot be
// stored stays, and with it the only copy. What stays afterwards are the events of those
// that were streamed, for who reads them again: for heldFor, and while all of them have
// no more than heldBytes; the oldest goes first. What runs that wait hold counts in bodies,
// and not with those of requests somebody waits for: a long line would keep them out.
// A run's goroutine ends only after its station calls, and [background.wait] returns after
// all of them.
type background struct {
	most, mostOfKey int // runs under way
	eventBytes      int // of each run
	heldBytes       int // of the events of those that have ended
	heldFor         time.Duration
	beat, lease     time.Duration
	retry           time.Duration // the first pause before an end is stored again
	line            *admission    // of the runs: only so many have a place, or wait for one
	bodies          bodyBudget    // of what those without a place were asked with
	tasks           sync.WaitGroup

	mu struct {
		sync.Mutex
		runs   map[string]*backgroundRun // by id
		active int                       // of those in runs
		ofKey  map[string]int            // the same by scope
		held   []held                    // of those in runs, oldest first
		bytes  int                       // of held
		closed bool                      // none may enter
	}
}

// held is a run that has ended and whose events may be read.
type held struct {
	id    string
	bytes int
	timer *time.Timer // drops it
}

const (
	// How often a run says that it lives, and for how long it is believed.
	backgroundBeat  = 5 * time.Second
	backgroundLease = 4 * backgroundBeat
	// backgroundPart is the part of all places that runs may have: nobody waits for them,
	// and others would wait behind. Beside the memory for bodies they have such a part more.
	backgroundPart = 2
	// backgroundOfKey is the part of all runs that one key may have under way.
	backgroundOfKey = 4
	// What the events of those that have ended may take, and how long.
	backgroundHeld    = 32 << 20
	backgroundHeldFor = 10 * time.Minute
	backgroundRetry   = 250 * time.Millisecond
)

func newBackground(o Options) *background {
	b := &background{most: o.MaxBackground, mostOfKey: max(1, o.MaxBackground/backgroundOfKey), eventBytes: o.BackgroundEvents,
		heldBytes: max(backgroundHeld, o.BackgroundEvents), heldFor: backgroundHeldFor, beat: backgroundBeat, lease: backgroundLease, retry: backgroundRetry,
		line: newAdmission(max(1, o.MaxInFlight/backgroundPart), o.MaxBackground)}
	b.bodies.most, b.bodies.alone = o.MaxBodyMemory/backgroundPart, true
	b.mu.runs, b.mu.ofKey = map[string]*backgroundRun{}, map[string]int{}
	return b
}

// enter makes room for a run, which must be freed, then put away, and then be done with
// tasks.
func (b *background) enter(r *backgroundRun) *openai.Error {
	const soon = 5 * time.Second
	b.mu.Lock()
	defer b.mu.Unlock()
	switch n := b.mu.ofKey[r.scope]; {
	case b.mu.closed:
		return errDraining()
	case b.mu.active >= b.most:
		return openai.NewError(openai.CodeBackground, "background", "background: at most %d responses may be under way, and %d are", b.most, b.mu.active).Retry(soon)
	case r.key != nil && n >= b.mostOfKey:
		return openai.NewError(openai.CodeBackground, "background", "background: at most %d responses of one key may be under way, and %d of this one are", b.mostOfKey, n).Retry(soon)
	}
	b.tasks.Add(1)
	b.mu.active++
	b.mu.ofKey[r.scope]++
	b.mu.runs[r.id] = r
	return nil
}

// free says that a run is no longer under way: its end is stored, or it never began.
func (b *background) free(r *backgroundRun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.active--
	if b.mu.ofKey[r.scope]--; b.mu.ofKey[r.scope] == 0 {
		delete(b.mu.ofKey, r.scope)
	}
}

// putAway forgets a run that was freed, but for its events where they may be read.
func (b *background) putAway(r *backgroundRun, readable bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.log == nil || !readable {
		delete(b.mu.runs, r.id)
		return
	}
	r.forget()
	h := held{id: r.id, bytes: r.log.size()}
	if !b.mu.closed {
		h.timer = time.AfterFunc(b.heldFor, func() { b.drop(r.id) })
	}
	b.mu.held = append(b.mu.held, h)
	b.mu.bytes += h.bytes
	for len(b.mu.held) > 0 && b.mu.bytes > b.heldBytes {
		b.dropAt(0)
	}
}

// drop forgets the events of a run that has ended.
func (b *background) drop(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.mu.held {
		if b.mu.held[i].id == id {
			b.dropAt(i)
			return
		}
	}
}

// dropAt is called with mu held.
func (b *background) dropAt(i int) {
	h := b.mu.held[i]
	if h.timer != nil {
		h.timer.Stop()
	}
	b.mu.held = append(b.mu.held[:i], b.mu.held[i+1:]...)
	b.mu.bytes -= h.bytes
	delete(b.mu.runs, h.id)
}

// find is the run of an id, nil for none of the scope's.
func (b *background) find(scope, id string) *backgroundRun {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.mu.runs[id]; r != nil && r.scope == scope {
		return r
	}
	return nil
}

// underWay is the number of runs that have no stored end.
func (b *background) underWay() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.active
}

// wait returns when all runs have ended, and none can begin any more.
func (b *background) wait() {
	b.mu.Lock()
	b.mu.closed = true
	b.mu.Unlock()
	b.tasks.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.mu.held) > 0 {
		b.dropAt(0)
	}
}
