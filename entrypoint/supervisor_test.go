package entrypoint

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// supervised runs a supervisor with a GPU that is only files.
type supervised struct {
	t       *testing.T
	stdout  *lockedBuffer
	log     *lockedBuffer
	signals chan os.Signal
	ended   chan struct{}
	err     error
	envDump string
}

func supervise(t *testing.T, station, backend string) *supervised {
	t.Helper()
	dir := t.TempDir()
	r := &supervised{t: t, stdout: new(lockedBuffer), log: new(lockedBuffer), signals: make(chan os.Signal, 2),
		ended: make(chan struct{}), envDump: filepath.Join(dir, "env")}
	s, err := New(Options{
		StationBin: filepath.Join(filepath.Dir(fakePath), "fat-station"),
		HostBin:    filepath.Join(filepath.Dir(fakePath), "openai-server"),
		RuntimeDir: dir, Backend: backend, Machine: machine(t, openModule, dev, libcuda, cuda13),
		HandshakeTimeout: time.Second, RestartFirst: time.Millisecond, MaxFailedStarts: 2,
		Env: append(os.Environ(), "PORT=0", "FAKE_JOURNAL="+filepath.Join(dir, "journal"),
			"FAKE_STATION=-env "+r.envDump+" "+station),
		Stdout: r.stdout, Stderr: r.log, Log: zerolog.New(r.log),
	})
	require.NoError(t, err)
	go func() {
		r.err = s.Run(r.signals)
		close(r.ended)
	}()
	t.Cleanup(func() {
		r.signals <- syscall.SIGTERM
		waitClosed(t, r.ended, "the supervisor's end")
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	return r
}

func (r *supervised) ready() []string {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return strings.Contains(r.stdout.String(), "ready: ") }, patience, 5*time.Millisecond)
	b, err := os.ReadFile(r.envDump)
	require.NoError(r.t, err)
	return strings.Split(string(b), "\n")
}

func TestSupervisor_CUDAServesWhenItWorks(t *testing.T) {
	r := supervise(t, "", BackendAuto)
	env := r.ready()
	require.Contains(t, env, "THOTH_BACKEND=cuda")
	require.Contains(t, env, "THOTH_BACKEND_REASON=")
	require.NotContains(t, r.log.String(), "CUDA DOES NOT WORK")
}

func TestSupervisor_FallsBackToTheCPU(t *testing.T) {
	for name, c := range map[string]struct{ station, reason string }{
		"station refuses":   {"-no-cuda", "fell back from CUDA: station ended with exit code 72: CUDA driver version is insufficient (driver 580.65.06, runtime cuda_v13)"},
		"station stalls":    {"-stall -first 1", "no handshake within 1s"},
		"station is killed": {"-die 1ms -die-code -9 -load 300ms -first 1", "probably out of memory"},
		"station says cpu":  {"-backend cpu", "the station announced the CPU backend"},
	} {
		t.Run(name, func(t *testing.T) {
			r := supervise(t, c.station, BackendAuto)
			env := r.ready()
			require.Contains(t, env, "THOTH_BACKEND=cpu")
			require.Contains(t, strings.Join(env, "\n"), "\nTHOTH_BACKEND_REASON=fell back from CUDA: ")
			require.Contains(t, strings.Join(env, "\n"), c.reason)
			require.Contains(t, r.log.String(), "CUDA DOES NOT WORK HERE")
		})
	}
}

func TestSupervisor_AnUnusableModelIsNotBlamedOnCUDA(t *testing.T) {
	r := supervise(t, "-exit 65 -say not_a_GGUF", BackendAuto)
	waitClosed(t, r.ended, "the end")
	var e *ExitError
	require.ErrorAs(t, r.err, &e)
	require.Equal(t, 65, e.Code)
	require.Equal(t, "station: not a GGUF (exit code 65)", e.Msg)
	require.NotContains(t, r.log.String(), "CUDA DOES NOT WORK")
}

func TestSupervisor_ExplicitCUDAFailsFast(t *testing.T) {
	r := supervise(t, "-no-cuda", BackendCUDA)
	waitClosed(t, r.ended, "the end")
	var e *ExitError
	require.ErrorAs(t, r.err, &e)
	require.Equal(t, 72, e.Code)
}
