package entrypoint

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// fakePath is the misbehaving child, built once; beside it lie links under the
// names of the station and the host.
var fakePath string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "fakechild-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		fakePath = filepath.Join(dir, "fakechild")
		// Read, so that the cached result of these tests depends on it.
		if _, err := os.ReadFile("fakechild/main.go"); err != nil {
			panic(err)
		}
		build := exec.Command("go", "build", "-o", fakePath, "./fakechild")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			panic(string(out))
		}
		for _, name := range []string{"fat-station", "openai-server"} {
			if err := os.Link(fakePath, filepath.Join(dir, name)); err != nil {
				panic(err)
			}
		}
		return m.Run()
	}())
}

// lockedBuffer collects output of several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// fakeSpec starts the fake as a station on a port of its own.
func fakeSpec(args ...string) (Spec, *lockedBuffer) {
	out := new(lockedBuffer)
	log := zerolog.New(out)
	return Spec{Name: roleStation, Path: fakePath, PathSetting: "THOTH_STATION_BIN",
		Args:             append([]string{"-role", "station", "-listen", "127.0.0.1:0"}, args...),
		Env:              os.Environ(),
		HandshakeTimeout: 20 * time.Second,
		Output:           &Output{Stderr: out, Log: log}, Log: log}, out
}

const patience = 20 * time.Second

func waitClosed(t *testing.T, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		require.FailNow(t, "still waiting for "+what)
	}
}

func waitUp(t *testing.T, c *Child) Status {
	t.Helper()
	t.Cleanup(c.Kill)
	select {
	case <-c.Up():
	case <-c.Done():
		require.FailNow(t, "ended: "+c.Exit().Sentence("child"))
	case <-time.After(patience):
		require.FailNow(t, "never came up")
	}
	return c.Status()
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
