package station

import "sync"

// gate counts the handlers at work and can be closed: the engine must not go
// while one of them uses it.
type gate struct {
	mu struct {
		sync.Mutex
		inside int
		closed bool
		empty  chan struct{} // made by close; closed when nobody is inside
	}
}

// enter lets a handler in, unless the gate is closed. Who is in calls leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.closed {
		return false
	}
	g.mu.inside++
	return true
}

// count is how many are in.
func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.inside
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.inside--
	if g.mu.closed && g.mu.inside == 0 {
		close(g.mu.empty)
	}
}

// close lets nobody in any more; the channel it returns is closed when the last
// one has left. It may be called again.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.mu.closed {
		g.mu.closed = true
		g.mu.empty = make(chan struct{})
		if g.mu.inside == 0 {
			close(g.mu.empty)
		}
	}
	return g.mu.empty
}
