package bench

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tailLines of what a server said on stderr are shown when it fails.
const tailLines = 12

// stopWait is how long a server may take to end after SIGTERM: far above the
// nine seconds the supervisor takes at most.
const stopWait = 40 * time.Second

// process is a server that this run started. It leads a process group of its
// own, so that an interrupt at the terminal reaches it only through stop.
type process struct {
	cmd   *exec.Cmd
	tail  *tail
	ended chan struct{} // closed when it was waited for
	err   error         // of that wait; read after ended
}

// startProcess runs cmd and hands every line of its stdout to line.
func startProcess(cmd *exec.Cmd, line func(string)) (*process, error) {
	p := &process{cmd: cmd, tail: new(tail), ended: make(chan struct{})}
	out := &lines{take: line}
	cmd.Stdout, cmd.Stderr = out, &lines{take: p.tail.add}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(cmd.SysProcAttr)
	// A grandchild that outlives the server must not hold the run up by its pipes.
	cmd.WaitDelay = engineStopWait
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// alive is nil, or says how the process ended.
func (p *process) alive() error {
	select {
	case <-p.ended:
		return fmt.Errorf("it ended (%v): %s", p.cmd.ProcessState, p.tail)
	default:
		return nil
	}
}

// stop asks the process to end, waits until it has, and kills it when it does
// not. It does not heed the run's context: what was started is stopped.
func (p *process) stop() error {
	if p.alive() != nil {
		return nil
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	limit := time.NewTimer(stopWait)
	defer limit.Stop()
	select {
	case <-p.ended:
		return nil
	case <-limit.C:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
	return fmt.Errorf("it did not end within %s of SIGTERM, and was killed: %s", stopWait, p.tail)
}

// waitFor polls until check says yes, the process ends, or the time is up.
func (p *process) waitFor(ctx context.Context, limit time.Duration, what string, check func(context.Context) bool) error {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !check(within) {
		select {
		case <-tick.C:
		case <-p.ended:
			return p.alive()
		case <-within.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("not %s within %s; %s", what, limit, p.tail)
		}
	}
	return nil
}

// lines cuts what a process writes. os/exec writes from one goroutine and ends it
// before Wait returns.
type lines struct {
	take func(string)
	rest []byte
}

// maxLine bounds a line that never ends.
const maxLine = 64 << 10

func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			break
		}
		l.take(string(line))
		l.rest = rest
	}
	if len(l.rest) > maxLine {
		l.rest = nil
	}
	return len(b), nil
}

// tail keeps the last lines.
type tail struct {
	mu   sync.Mutex
	last []string
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last = append(t.last, line); len(t.last) > tailLines {
		t.last = t.last[1:]
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.last) == 0 {
		return "it said nothing"
	}
	return "it said:\n  " + strings.Join(t.last, "\n  ")
}
