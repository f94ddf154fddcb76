package entrypoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"thoth/station/wire"
)

// pipeDrain bounds the wait for a dead child's pipes: a process that left the
// group may hold them open for ever.
const pipeDrain = time.Second

// owned are the processes that Children wait for themselves. The lock is held
// while one is forked, so that the reaper never sees a child before its claim.
var owned = struct {
	mu       sync.Mutex
	pids     map[int]bool
	released chan struct{} // a claim ended: the reaper may look again
}{pids: map[int]bool{}, released: make(chan struct{}, 1)}

// process is a started child: its pipes, its group and its end.
type process struct {
	cmd     *exec.Cmd
	pid     int
	tail    tail // owned by the stderr reader until exited is closed
	started time.Time

	handshake chan wire.Handshake // the first announcement; room for one
	exited    chan struct{}       // closed once the child is dead, read out and waited for
	state     *os.ProcessState    // set before exited is closed

	mu     sync.Mutex
	reaped bool // its id may belong to someone else
}

// startProcess forks spec's program. It must be called on the locked thread
// that lives as long as the child.
func startProcess(spec *Spec) (*process, error) {
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env = spec.Env
	cmd.SysProcAttr = sysProcAttr()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStart, err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStart, err)
	}
	owned.mu.Lock()
	err = cmd.Start()
	if err == nil {
		owned.pids[cmd.Process.Pid] = true
	}
	owned.mu.Unlock()
	if err != nil {
		kind := errStart
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOEXEC) || errors.Is(err, exec.ErrNotFound) {
			kind = errNoProgram
		}
		return nil, fmt.Errorf("%w: %w (%s names it; make build makes it)", kind, err, spec.PathSetting)
	}
	p := &process{cmd: cmd, pid: cmd.Process.Pid, started: time.Now(),
		handshake: make(chan wire.Handshake, 1), exited: make(chan struct{})}
	var readers sync.WaitGroup
	readers.Go(func() {
		announced := false
		readLines(stdout, func(line []byte) {
			if h, ok := parseHandshake(line); ok && !announced {
				announced = true
				p.handshake <- h
				return
			}
			spec.Output.stdout(spec.Name, line)
		})
	})
	readers.Go(func() {
		readLines(stderr, func(line []byte) {
			p.tail.add(line)
			spec.Output.stderr(spec.Name, line)
		})
	})
	go p.await(&readers)
	return p, nil
}

// await ends with the child. The order matters: peek, kill what is left of the
// group while its id is still ours, read the pipes out, and only then wait,
// which closes the pipes and gives the id back.
func (p *process) await(readers *sync.WaitGroup) {
	awaitExit(p.pid)
	p.signal(syscall.SIGKILL)
	drained := make(chan struct{})
	go func() { readers.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-time.After(pipeDrain):
	}
	p.mu.Lock()
	_ = p.cmd.Wait() // the state says more than the error
	p.reaped = true
	p.mu.Unlock()
	<-drained
	p.state = p.cmd.ProcessState
	owned.mu.Lock()
	delete(owned.pids, p.pid)
	owned.mu.Unlock()
	select {
	case owned.released <- struct{}{}:
	default:
	}
	close(p.exited)
}

// signal goes to the whole group: a wrapper script's child is stopped too.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.pid, sig) // gone already is as good
	}
}
