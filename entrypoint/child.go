package entrypoint

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"thoth/station/wire"
)

// State of a Child.
type State string

const (
	StateStarting State = "starting" // forked, not announced yet
	StateRunning  State = "running"  // its handshake, or a legacy station's /health, was accepted
	StateStopping State = "stopping" // told to end
	StateStopped  State = "stopped"  // ended as told
	StateFailed   State = "failed"   // ended otherwise
)

// Spec is what to start and what to expect of it.
type Spec struct {
	Name        string // "station" or "host": the role its handshake must name
	Path        string // program
	PathSetting string // the setting that names the program, for errors
	Args        []string
	Env         []string // whole environment

	HandshakeTimeout time.Duration // the handshake must come within it
	// LegacyAfter is when a child that is still silent is asked over HTTP: a
	// station older than the handshake prints none. 0: never asked.
	LegacyAfter time.Duration
	LegacyURL   string // where it was told to listen; what else it listens on is found

	Output *Output
	Log    zerolog.Logger
}

// Status is a snapshot of a Child.
type Status struct {
	State     State
	PID       int
	Handshake wire.Handshake // once running
	Legacy    bool           // taken without a handshake
}

// Child is one life of one program. All of its state belongs to the goroutine
// that [Start] begins.
type Child struct {
	spec Spec
	asks chan ask
	up   chan struct{}
	done chan struct{}

	status Status // the owner's; others may read it once done is closed
	exit   Exit   // set before done is closed
}

// ask is a question or an order to the owner.
type ask struct {
	status chan<- Status // answer with a snapshot
	fault  error         // kill it for what was found wrong with it
	stop   bool          // end it within grace
	grace  time.Duration // 0: at once
}

// Start begins a life and returns at once.
func Start(spec Spec) *Child {
	c := &Child{spec: spec, asks: make(chan ask), up: make(chan struct{}), done: make(chan struct{}),
		status: Status{State: StateStarting}}
	go c.own()
	return c
}

// Up is closed when the child runs; never, if it fails before.
func (c *Child) Up() <-chan struct{} { return c.up }

// Done is closed when the child is dead and nothing of its group is left.
func (c *Child) Done() <-chan struct{} { return c.done }

// Exit is how it ended. It waits for Done.
func (c *Child) Exit() *Exit {
	<-c.done
	return &c.exit
}

// Status asks the owner.
func (c *Child) Status() Status {
	answer := make(chan Status, 1)
	select {
	case c.asks <- ask{status: answer}:
		return <-answer
	case <-c.done:
		return c.status
	}
}

// Stop tells the child to end: SIGTERM now, SIGKILL to its group after grace.
// It does not wait. A later call may only shorten the time left.
func (c *Child) Stop(grace time.Duration) { c.order(ask{stop: true, grace: grace}) }

// Kill ends the child and its group at once. It does not wait.
func (c *Child) Kill() { c.order(ask{stop: true}) }

// Fail kills a running child for a fault that was found from outside; its end
// is then reported as this fault. A child that was told to end is left to that.
// It does not wait.
func (c *Child) Fail(fault error) { c.order(ask{fault: fault}) }

func (c *Child) order(a ask) {
	select {
	case c.asks <- a:
	case <-c.done:
	}
}

// own is the owner: from fork to burial.
func (c *Child) own() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.done)

	c.exit.Prog = filepath.Base(c.spec.Path)
	p, err := startProcess(&c.spec)
	if err != nil {
		c.exit.Fault = err
		c.status.State = StateFailed
		return
	}
	c.status.PID = p.pid
	c.spec.Log.Debug().Str("child", c.spec.Name).Int("pid", p.pid).Str("path", c.spec.Path).Msg("started")

	ctx, cancel := context.WithCancel(context.Background())
	legacy := make(chan legacyAnswer, 1)
	var prober sync.WaitGroup
	defer prober.Wait()
	defer cancel()

	late := time.NewTimer(c.spec.HandshakeTimeout)
	defer late.Stop()
	var silent <-chan time.Time
	if c.spec.LegacyAfter > 0 {
		t := time.NewTimer(c.spec.LegacyAfter)
		defer t.Stop()
		silent = t.C
	}
	grace := time.NewTimer(0)
	grace.Stop()
	defer grace.Stop()
	var killAt time.Time

	for {
		select {
		case h := <-p.handshake:
			c.announced(p, h)
		case a := <-legacy:
			c.foundLegacy(p, a)
		case <-silent:
			if c.status.State == StateStarting {
				prober.Go(func() { probeLegacy(ctx, p.pid, c.spec.LegacyURL, legacy) })
			}
		case <-late.C:
			if c.status.State == StateStarting {
				c.fail(p, fmt.Errorf("%w within %s of its start", errHandshake, c.spec.HandshakeTimeout))
			}
		case a := <-c.asks:
			if a.status != nil {
				a.status <- c.status
				continue
			}
			if a.fault != nil {
				if c.status.State == StateRunning && c.exit.Fault == nil {
					c.spec.Log.Error().Str("child", c.spec.Name).Int("pid", p.pid).Err(a.fault).Msg("KILLED")
					c.fail(p, a.fault)
				}
				continue
			}
			if at := time.Now().Add(a.grace); killAt.IsZero() || at.Before(killAt) {
				killAt = at
				grace.Reset(a.grace)
			}
			if c.status.State != StateStopping {
				c.status.State = StateStopping
				c.exit.Asked = true
				if a.grace > 0 {
					p.signal(syscall.SIGTERM)
					p.signal(syscall.SIGCONT) // one that is frozen could not obey
				}
			}
		case <-grace.C:
			c.exit.Forced = true
			p.signal(syscall.SIGKILL)
		case <-p.exited:
			c.bury(p)
			return
		}
	}
}

// announced takes a handshake.
func (c *Child) announced(p *process, h wire.Handshake) {
	if c.status.State != StateStarting || c.exit.Fault != nil {
		return
	}
	if err := checkHandshake(&c.spec, h); err != nil {
		c.fail(p, err)
		return
	}
	c.run(h, false)
}

// foundLegacy takes a station that answers /health and printed nothing.
func (c *Child) foundLegacy(p *process, a legacyAnswer) {
	if c.status.State != StateStarting || c.exit.Fault != nil {
		return
	}
	if a.health.Wire != 0 {
		if err := checkWire(c.spec.Path, a.health.Wire); err != nil {
			c.fail(p, err)
			return
		}
	}
	c.spec.Log.Warn().Str("child", c.spec.Name).Str("address", a.url).
		Msg("LEGACY STATION: it printed no handshake but answers /health; taken as it is, its wire version unchecked. Rebuild it to be sure: make build")
	c.run(wire.Handshake{Wire: a.health.Wire, Role: c.spec.Name, Build: a.health.Build, EngineABI: a.health.EngineABI,
		Address: a.url, Backend: a.health.Backend.Selected, PID: p.pid}, true)
}

func (c *Child) run(h wire.Handshake, legacy bool) {
	c.status.State, c.status.Handshake, c.status.Legacy = StateRunning, h, legacy
	close(c.up)
}

// fail kills a child that is not what it should be; its end is then reported
// as this fault and not as the signal.
func (c *Child) fail(p *process, err error) {
	c.exit.Fault = err
	p.signal(syscall.SIGKILL)
}

// bury fills in how it ended.
func (c *Child) bury(p *process) {
	select {
	case h := <-p.handshake: // it spoke and died before we listened
		c.announced(p, h)
	default:
	}
	c.exit.Ran = time.Since(p.started)
	c.exit.Tail = p.tail.lines
	if ws, ok := p.state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		c.exit.Signal = ws.Signal()
	} else {
		c.exit.Code = p.state.ExitCode()
	}
	if c.exit.Asked && c.exit.Signal == 0 || c.exit.Asked && c.exit.Signal == syscall.SIGTERM {
		c.exit.Forced = false // it went by itself while the kill was on its way
	}
	c.status.State = StateStopped
	if !c.exit.Clean() {
		c.status.State = StateFailed
	}
}
