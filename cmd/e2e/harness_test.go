//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience tells a hang from a slow machine.
const patience = 90 * time.Second

// shared is the server with default settings that most tests use.
var shared *server

func TestMain(m *testing.M) {
	s, err := launch("THOTH_MODEL_NAME=test-model", "THOTH_MODEL_ALIASES=test-alias", "THOTH_CONTEXT_LENGTH=4096")
	if err == nil {
		err = s.waitReady()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the shared server did not start:", err)
		if s != nil {
			fmt.Fprintln(os.Stderr, s.log())
			s.kill()
		}
		os.Exit(1)
	}
	shared = s
	code := m.Run()
	if exit := s.stop(); exit != 0 && code == 0 {
		fmt.Fprintf(os.Stderr, "the shared server ended with %d:\n%s", exit, s.log())
		code = 1
	}
	os.Exit(code)
}

// server is a running entrypoint with its children.
type server struct {
	cmd  *exec.Cmd
	base string // http://127.0.0.1:port
	exit chan struct{}

	mu     sync.Mutex
	out    bytes.Buffer // stdout
	err    bytes.Buffer // stderr, the children's included
	listen chan struct{}
	ready  chan struct{}
}

// binary is the path of a built program.
func binary(name string) string {
	p, err := filepath.Abs(filepath.Join("..", "..", "build", "bin", name))
	if err != nil {
		panic(err)
	}
	return p
}

// model is the path of the test model; make sets it.
func model() string { return os.Getenv("THOTH_TEST_MODEL") }

// launch starts entrypoint with settings on top of a clean environment and
// waits until it listens.
func launch(env ...string) (*server, error) { return launchAs(nil, env...) }

// launchAs is launch with last changes to the command; nil: none.
func launchAs(change func(*exec.Cmd), env ...string) (*server, error) {
	if model() == "" {
		return nil, fmt.Errorf("THOTH_TEST_MODEL must name the GGUF of the default model: run make test")
	}
	s := &server{cmd: command(env...), exit: make(chan struct{}), listen: make(chan struct{}), ready: make(chan struct{})}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.cmd.Stderr = lockedWriter{&s.mu, &s.err}
	if change != nil {
		change(s.cmd)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go s.read(stdout)
	select {
	case <-s.listen:
		return s, nil
	case <-s.exit:
		return s, fmt.Errorf("entrypoint ended before it listened")
	case <-time.After(patience):
		return s, fmt.Errorf("entrypoint does not listen")
	}
}

// command is entrypoint in a clean environment, not yet started. It stores no
// KV and no responses on disk unless a test says where: the default is the user's own cache.
func command(env ...string) *exec.Cmd {
	c := exec.Command(binary("entrypoint"))
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "THOTH_MODEL=" + model(), "THOTH_LISTEN=127.0.0.1:0",
		"THOTH_KV_STORE=none", "THOTH_RESPONSES_STORE=mem://"}, env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return c
}

// read follows stdout: "listening on URL, loading model", then "ready: curl ...".
func (s *server) read(stdout io.Reader) {
	listening, ready := false, false
	for sc := bufio.NewScanner(stdout); sc.Scan(); {
		line := sc.Text()
		s.mu.Lock()
		s.out.WriteString(line + "\n")
		s.mu.Unlock()
		if rest, ok := strings.CutPrefix(line, "listening on "); ok && !listening {
			s.base, _, _ = strings.Cut(rest, ",")
			listening = true
			close(s.listen)
		}
		if strings.HasPrefix(line, "ready: ") && !ready {
			ready = true
			close(s.ready)
		}
	}
	_ = s.cmd.Wait()
	close(s.exit)
}

func (s *server) waitReady() error {
	select {
	case <-s.ready:
		return nil
	case <-s.exit:
		return fmt.Errorf("entrypoint ended before it was ready")
	case <-time.After(patience):
		return fmt.Errorf("not ready in time")
	}
}

// start is launch for a test, with the server stopped at its end.
func start(t *testing.T, env ...string) *server {
	t.Helper()
	s := startLoading(t, env...)
	if err := s.waitReady(); err != nil {
		t.Fatalf("%v\n%s", err, s.log())
	}
	return s
}

// startLoading is start without waiting for the model.
func startLoading(t *testing.T, env ...string) *server {
	t.Helper()
	return startAs(t, nil, env...)
}

// startAs is startLoading with last changes to the command; nil: none.
func startAs(t *testing.T, change func(*exec.Cmd), env ...string) *server {
	t.Helper()
	s, err := launchAs(change, append([]string{"THOTH_MODEL_NAME=test-model", "THOTH_CONTEXT_LENGTH=4096"}, env...)...)
	if s != nil {
		t.Cleanup(func() {
			s.kill()
			if line := crash.FindString(s.log()); line != "" {
				t.Errorf("the log tells of a crash: %s", line)
			}
			if t.Failed() {
				t.Logf("its log ends so:\n%s", tail([]byte(s.log()), 6000))
			}
		})
	}
	require.NoError(t, err)
	return s
}

// stop sends SIGTERM and returns the exit code.
func (s *server) stop() int {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	return s.wait()
}

func (s *server) wait() int {
	select {
	case <-s.exit:
	case <-time.After(30 * time.Second):
		s.kill()
		return -2
	}
	return s.cmd.ProcessState.ExitCode()
}

// kill ends what is left of the server at once. Two signals do it in order,
// with nothing left in the temporary folder; if they do not, the kernel ends
// the children of an entrypoint that is killed.
func (s *server) kill() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-s.exit:
	case <-time.After(5 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.exit
	}
}

func (s *server) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String() + s.err.String()
}

// child finds a child process of entrypoint by its program's name; 0: none.
func (s *server) child(name string) int {
	var pids []string
	// Children belong to the thread that forked them.
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.cmd.Process.Pid))
	for _, f := range tasks {
		b, _ := os.ReadFile(f)
		pids = append(pids, strings.Fields(string(b))...)
	}
	for _, p := range pids {
		exe, err := os.Readlink("/proc/" + p + "/exe")
		// A program built anew under a running one is shown as deleted.
		if err == nil && filepath.Base(strings.TrimSuffix(exe, " (deleted)")) == name {
			var pid int
			_, _ = fmt.Sscan(p, &pid)
			return pid
		}
	}
	return 0
}

// signalChild signals a child by its program's name.
func (s *server) signalChild(t *testing.T, name string, sig syscall.Signal) int {
	t.Helper()
	pid := s.child(name)
	require.NotZero(t, pid, "%s does not run", name)
	require.NoError(t, syscall.Kill(pid, sig))
	return pid
}

// answersAgain is what holds after every case: P still answers.
func (s *server) answersAgain(t *testing.T) {
	t.Helper()
	require.NotEmpty(t, s.chat(t).Text(t))
}

// eventually polls another process, with a deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, 20*time.Millisecond, what)
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
