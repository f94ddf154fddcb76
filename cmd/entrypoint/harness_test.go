package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const patience = 25 * time.Second

// asEntrypoint in the environment makes this test binary the entrypoint: so the
// tests run the code they were compiled with, under the race detector too, and
// are not taken from the cache when it has changed.
const asEntrypoint = "TEST_AS_ENTRYPOINT"

// tree holds the entrypoint beside a fake station and a fake host.
var tree string

func TestMain(m *testing.M) {
	if os.Getenv(asEntrypoint) != "" {
		main()
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "entrypoint-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		tree = dir
		self, err := os.Executable()
		if err != nil {
			panic(err)
		}
		place(self, "entrypoint")
		const fake = "../../entrypoint/fakechild"
		// Read, so that the cached result of these tests depends on it.
		if _, err := os.ReadFile(filepath.Join(fake, "main.go")); err != nil {
			panic(err)
		}
		build := exec.Command("go", "build", "-o", filepath.Join(dir, "fat-station"), fake)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if msg, err := build.CombinedOutput(); err != nil {
			panic(string(msg))
		}
		place(filepath.Join(dir, "fat-station"), "openai-server")
		return m.Run()
	}())
}

// place copies a program into the tree: a link would be followed to its place.
func place(program, name string) {
	b, err := os.ReadFile(program)
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(tree, name), b, 0o755); err != nil {
		panic(err)
	}
}

// output collects what a process writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// instance is one entrypoint with its children.
type instance struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr output
	journal        string
	runtimeDir     string
	ended          chan struct{}
}

// setup is what a test says about an instance: flags of the two fakes, and settings.
type setup struct {
	station, host string
	env           []string
	args          []string
	command       func(c *exec.Cmd) // last changes
}

func start(t *testing.T, s setup) *instance {
	t.Helper()
	dir := t.TempDir()
	r := &instance{t: t, journal: filepath.Join(dir, "journal"), runtimeDir: filepath.Join(dir, "run"), ended: make(chan struct{})}
	require.NoError(t, os.Mkdir(r.runtimeDir, 0o700))
	r.cmd = exec.Command(filepath.Join(tree, "entrypoint"), s.args...)
	r.cmd.Env = append([]string{"PATH=/usr/bin:/bin", asEntrypoint + "=1", "PORT=0", "THOTH_RUNTIME_DIR=" + r.runtimeDir,
		"FAKE_JOURNAL=" + r.journal, "FAKE_STATION=" + s.station, "FAKE_HOST=" + s.host}, s.env...)
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	if s.command != nil {
		s.command(r.cmd)
	}
	require.NoError(t, r.cmd.Start())
	go func() {
		_ = r.cmd.Wait()
		close(r.ended)
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.ended
		if t.Failed() {
			t.Logf("stdout:\n%s\nstderr:\n%s\njournal:\n%s", r.stdout.String(), tailOf(r.stderr.String()), r.events())
		}
	})
	return r
}

func tailOf(s string) string { return s[max(0, len(s)-8000):] }

// events is the journal, a line each: role, process id, event.
func (r *instance) events() string {
	b, _ := os.ReadFile(r.journal)
	return string(b)
}

// pids are the processes that had an event of a role, in order.
func (r *instance) pids(role, event string) (pids []int) {
	for line := range strings.Lines(r.events()) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(f) == 3 && f[0] == role && strings.HasPrefix(f[2], event) {
			n, err := strconv.Atoi(f[1])
			require.NoError(r.t, err)
			pids = append(pids, n)
		}
	}
	return pids
}

// order is the journal without process ids, of the given events only.
func (r *instance) order(events ...string) (seen []string) {
	for line := range strings.Lines(r.events()) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 3)
		for _, e := range events {
			if f[2] == e {
				seen = append(seen, f[0]+" "+e)
			}
		}
	}
	return seen
}

func (r *instance) eventually(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			require.FailNow(r.t, "still waiting for "+what)
		}
	}
}

// ready waits for the ready line.
func (r *instance) ready() *instance {
	r.t.Helper()
	r.eventually("ready", func() bool { return strings.Contains(r.stdout.String(), "ready: curl ") })
	return r
}

func (r *instance) signal(sig syscall.Signal) {
	r.t.Helper()
	require.NoError(r.t, r.cmd.Process.Signal(sig))
}

// exit waits for the end and gives the exit code; 128 and the signal if one
// ended it.
func (r *instance) exit() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		require.FailNow(r.t, "the entrypoint does not end")
	}
	ws := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// gone waits until no process of either role is left.
func (r *instance) gone() {
	r.t.Helper()
	for _, role := range []string{"station", "host"} {
		for _, pid := range r.pids(role, "start") {
			r.eventually(fmt.Sprintf("the end of %s %d", role, pid), func() bool { return letter(pid) == "" || letter(pid) == "Z" })
		}
	}
}

// stat are the fields of /proc/PID/stat after the name: state, parent, ...
func stat(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

func letter(pid int) string {
	if f := stat(pid); f != nil {
		return f[0]
	}
	return ""
}
