package stationtest

import "slices"

// Violations lists the broken rules, the first hundred.
func (e *Engine) Violations() []string {
	e.violationsMu.Lock()
	defer e.violationsMu.Unlock()
	return slices.Clone(e.violations)
}

// Leaks lists what was made and not freed.
func (e *Engine) Leaks() []string { return e.owned.leaks() }

// Closed tells whether Close was called.
func (e *Engine) Closed() bool { return e.closed.Load() }

// Decodes counts decode calls, failed ones too.
func (e *Engine) Decodes() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.decodes
}

// Batches gives the sizes of all decode calls that evaluated, in order.
func (e *Engine) Batches() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.batches)
}

// Resets counts calls of Reset: compactions.
func (e *Engine) Resets() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.resets
}

// Cells counts the pool's cells: those a sequence owns, and ballast.
func (e *Engine) Cells() (live, dead int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	live = e.pool.live()
	return live, e.pool.head - live
}

// FailDecode makes the n-th decode call from now (1 is the next) return err.
// With engine.ErrPoolFull nothing is evaluated; with another error half of the
// batch stays in the pool and its sequences must be retired.
func (e *Engine) FailDecode(n int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failures[e.decodes+n] = err
}

// FailExport makes the n-th export from now (1 is the next) return err, with
// junk left in the pieces.
func (e *Engine) FailExport(n int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.moves.exports.fail(n, err)
}

// FailImport makes the n-th import from now (1 is the next) return err, without
// effect on the pool.
func (e *Engine) FailImport(n int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.moves.imports.fail(n, err)
}

// Moved counts the positions that exports and imports have moved so far.
func (e *Engine) Moved() (exported, imported int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.moves.exports.positions, e.moves.imports.positions
}

// Pause stops decode calls at their start.
type Pause struct {
	e       *Engine
	entered chan int
	step    chan struct{}
	resume  chan struct{}
}

// Pause makes every decode call from now on wait until it is let go, or until
// Abort. Only one pause is in force at a time.
func (e *Engine) Pause() *Pause {
	p := &Pause{e: e, entered: make(chan int, 1024), step: make(chan struct{}), resume: make(chan struct{})}
	e.pauseMu.Lock()
	defer e.pauseMu.Unlock()
	if e.pause != nil {
		panic("stationtest: a pause is in force")
	}
	e.pause = p
	return p
}

// Entered receives the number of each decode call that arrives, up to 1,024
// that nobody has read.
func (p *Pause) Entered() <-chan int { return p.entered }

// Step lets the waiting decode call go; it blocks until there is one.
func (p *Pause) Step() { p.step <- struct{}{} }

// Resume ends the pause. A second call does nothing.
func (p *Pause) Resume() {
	p.e.pauseMu.Lock()
	defer p.e.pauseMu.Unlock()
	if p.e.pause == p {
		p.e.pause = nil
		close(p.resume)
	}
}

func (e *Engine) waitPause(number int, abort <-chan struct{}) {
	e.pauseMu.Lock()
	p := e.pause
	e.pauseMu.Unlock()
	if p == nil {
		return
	}
	select {
	case p.entered <- number:
	default: // nobody reads that far back
	}
	select {
	case <-p.step:
	case <-p.resume:
	case <-abort:
	}
}
