package host

import (
	"sync"
	"time"

	"thoth/host/openai"
)

// background owns the responses that are made without a client who waits for them.
//
// Its words: a *run* is such a response on its way, from its request to its stored
// end. Its *record* is the response as it is now, in memory and in the store. While
// it is under way its process renews the record's *lease*, every beat: a record
// without an end whose lease is over is that of a process that died, and whoever
// reads it says that it failed. Its *fate* is what somebody wants to become of it.
//
// Invariants: at most most runs have not ended. A run is found here from before its
// record is stored until after its end is. Those that ended stay, for who reads their
// events again, while there are no more than most in all; the oldest goes first. A
// run's goroutine ends only after its station calls, and [background.wait] returns
// after all of them.
type background struct {
	most        int // runs that have not ended
	eventBytes  int // of each run
	beat, lease time.Duration
	tasks       sync.WaitGroup

	mu struct {
		sync.Mutex
		runs   map[string]*backgroundRun // by id
		ended  []string                  // of those in runs, oldest first
		active int                       // of those in runs
		closed bool                      // none may enter
	}
}

// How often a run says that it lives, and for how long it is believed.
const (
	backgroundBeat  = 5 * time.Second
	backgroundLease = 4 * backgroundBeat
)

func newBackground(o Options) *background {
	b := &background{most: o.MaxBackground, eventBytes: o.BackgroundEvents, beat: backgroundBeat, lease: backgroundLease}
	b.mu.runs = map[string]*backgroundRun{}
	return b
}

// enter makes room for a run, which must leave, and then be done with tasks.
func (b *background) enter(r *backgroundRun) *openai.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.active >= b.most {
		return openai.NewError(openai.CodeBackground, "background", "background: at most %d responses may be under way, and %d are", b.most, b.mu.active).Retry(5 * time.Second)
	}
	if b.mu.closed {
		return errDraining()
	}
	b.tasks.Add(1)
	b.mu.active++
	b.mu.runs[r.id] = r
	b.forget()
	return nil
}

// leave ends a run. It stays for its readers, unless nothing of it may be read.
func (b *background) leave(r *backgroundRun, stays bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.active--
	if !stays {
		delete(b.mu.runs, r.id)
		return
	}
	b.mu.ended = append(b.mu.ended, r.id)
	b.forget()
}

// forget is called with mu held.
func (b *background) forget() {
	for len(b.mu.ended) > 0 && len(b.mu.runs) > b.most {
		delete(b.mu.runs, b.mu.ended[0])
		b.mu.ended = b.mu.ended[1:]
	}
}

// drop forgets a run that ended.
func (b *background) drop(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, e := range b.mu.ended {
		if e == id {
			b.mu.ended = append(b.mu.ended[:i], b.mu.ended[i+1:]...)
			delete(b.mu.runs, id)
			return
		}
	}
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

// underWay is the number of runs that have not ended.
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
}
