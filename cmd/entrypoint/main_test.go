package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEntrypoint_ServesAndStopsInOrder(t *testing.T) {
	t.Parallel()
	r := start(t, setup{station: "-load 300ms", host: "-drain 200ms"}).ready()
	out := r.stdout.String()
	require.Regexp(t, `^listening on http://127\.0\.0\.1:\d+, loading model\nready: curl http://127\.0\.0\.1:\d+/v1/chat/completions `, out)
	require.Contains(t, out, `"model":"it'\''s fake"`)
	require.Contains(t, out, `"max_tokens":64}'`)
	entries, err := os.ReadDir(r.runtimeDir)
	require.NoError(t, err)
	require.Len(t, entries, 1)

	r.signal(syscall.SIGTERM)
	require.Equal(t, 0, r.exit())
	require.Equal(t, []string{"host term", "host end", "station term", "station end"}, r.order("term", "end"))
	entries, err = os.ReadDir(r.runtimeDir)
	require.NoError(t, err)
	require.Empty(t, entries, "the socket's folder is removed")
}

func TestEntrypoint_TheCurlLineShowsThatAKeyIsNeeded(t *testing.T) {
	t.Parallel()
	r := start(t, setup{host: "-keys"}).ready()
	require.Contains(t, r.stdout.String(), ` -H "Authorization: Bearer $API_KEY" `)
	require.Contains(t, r.stdout.String(), `"model":"locked"`)
}

func TestEntrypoint_InterruptIsACleanStop(t *testing.T) {
	t.Parallel()
	r := start(t, setup{}).ready()
	r.signal(syscall.SIGINT)
	require.Equal(t, 0, r.exit())
	r.gone()
}

func TestEntrypoint_SignalDuringLoad(t *testing.T) {
	t.Parallel()
	for _, station := range []string{"-slow 1h", "-load 1h"} {
		r := start(t, setup{station: station})
		r.eventually("both", func() bool { return len(r.pids("host", "listen")) == 1 && len(r.pids("station", "start")) == 1 })
		r.signal(syscall.SIGTERM)
		require.Equal(t, 0, r.exit())
		r.gone()
	}
}

func TestEntrypoint_PublicPortOpensBeforeTheStationSpeaks(t *testing.T) {
	t.Parallel()
	r := start(t, setup{station: "-slow 1h"})
	r.eventually("the host", func() bool { return strings.Contains(r.stdout.String(), "listening on ") })
	require.Empty(t, r.pids("station", "listen"))
}

func TestEntrypoint_IgnoredTermIsKilledAtItsShare(t *testing.T) {
	t.Parallel()
	r := start(t, setup{host: "-ignore-term", station: "-ignore-term",
		env: []string{"THOTH_SHUTDOWN_SECONDS=2", "THOTH_HOST_DRAIN_SECONDS=0.6", "THOTH_STATION_FLUSH_SECONDS=0.6"}}).ready()
	began := time.Now()
	r.signal(syscall.SIGTERM)
	require.Equal(t, 143, r.exit())
	require.GreaterOrEqual(t, time.Since(began), 1200*time.Millisecond, "both had their share")
	r.gone()
}

func TestEntrypoint_FlushIsGrantedAfterAHostThatHangs(t *testing.T) {
	t.Parallel()
	r := start(t, setup{host: "-ignore-term", station: "-drain 700ms",
		env: []string{"THOTH_SHUTDOWN_SECONDS=4", "THOTH_HOST_DRAIN_SECONDS=0.3", "THOTH_STATION_FLUSH_SECONDS=3"}}).ready()
	r.signal(syscall.SIGTERM)
	require.Equal(t, 143, r.exit())
	require.Equal(t, []string{"station end"}, r.order("end"))
}

func TestEntrypoint_SecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	r := start(t, setup{host: "-drain 1h", station: "-drain 1h", env: []string{"THOTH_SHUTDOWN_SECONDS=3600"}}).ready()
	r.signal(syscall.SIGTERM)
	r.eventually("the drain", func() bool { return len(r.pids("host", "term")) == 1 })
	r.signal(syscall.SIGINT)
	require.Equal(t, 130, r.exit())
	require.Empty(t, r.pids("station", "term"), "no stages any more")
	r.gone()
}

func TestEntrypoint_KilledTakesItsChildrenAlong(t *testing.T) {
	t.Parallel()
	r := start(t, setup{host: "-ignore-term", station: "-ignore-term"}).ready()
	require.NoError(t, syscall.Kill(r.pids("station", "start")[0], syscall.SIGSTOP))
	r.signal(syscall.SIGKILL)
	require.Equal(t, 137, r.exit())
	r.gone()
}

func TestEntrypoint_StationKilledComesBackBesideTheSameHost(t *testing.T) {
	t.Parallel()
	r := start(t, setup{}).ready()
	for i := range 3 {
		require.NoError(t, syscall.Kill(r.pids("station", "start")[i], syscall.SIGKILL))
		r.eventually("the next station", func() bool { return len(r.pids("station", "listen")) == i+2 })
		// Ready once more, so that this was a crash and not a failed start.
		r.eventually("its model", func() bool { return strings.Count(r.stderr.String(), "station is ready") == i+2 })
	}
	require.Contains(t, r.stderr.String(), "station was killed (signal 9), probably out of memory")
	require.Len(t, r.pids("host", "start"), 1)
	listens := regexp.MustCompile(`(?m)^station \d+ (listen .*)$`).FindAllStringSubmatch(r.events(), -1)
	require.Equal(t, listens[0][1], listens[3][1], "the host's address of it stays good")
	r.signal(syscall.SIGTERM)
	require.Equal(t, 0, r.exit())
}

func TestEntrypoint_HostKilledComesBackBesideTheSameStation(t *testing.T) {
	t.Parallel()
	r := start(t, setup{}).ready()
	require.NoError(t, syscall.Kill(r.pids("host", "start")[0], syscall.SIGKILL))
	r.eventually("the next host", func() bool { return len(r.pids("host", "listen")) == 2 })
	require.Len(t, r.pids("station", "start"), 1)
}

func TestEntrypoint_UnusableModelEndsWithItsSentenceAndCode(t *testing.T) {
	t.Parallel()
	r := start(t, setup{station: "-exit 66 -say model.gguf_is_truncated"})
	require.Equal(t, 66, r.exit())
	require.Len(t, r.pids("station", "start"), 1, "no restart mends a file")
	require.Equal(t, "entrypoint: station: model.gguf is truncated (exit code 66)", lastLine(r.stderr.String()))
	r.gone()
}

func TestEntrypoint_GivesUpAfterFailedStarts(t *testing.T) {
	t.Parallel()
	r := start(t, setup{station: "-exit 1 -say out_of_luck", env: []string{"THOTH_MAX_FAILED_STARTS=3"}})
	require.Equal(t, 1, r.exit())
	require.Len(t, r.pids("station", "start"), 3)
	require.Contains(t, r.stderr.String(), "\n  out of luck\n", "the end of its stderr")
	require.Equal(t, "entrypoint: station: out of luck (exit code 1); it never came up, giving up", lastLine(r.stderr.String()))
	r.gone()
}

func TestEntrypoint_StartThatFailsAtFirstIsRetried(t *testing.T) {
	t.Parallel()
	r := start(t, setup{station: "-exit 1 -first 2"}).ready()
	require.Len(t, r.pids("station", "start"), 3)
}

func TestEntrypoint_StallIsRestarted(t *testing.T) {
	t.Parallel()
	r := start(t, setup{station: "-stall -first 1", env: []string{"THOTH_HANDSHAKE_SECONDS=1"}}).ready()
	require.Len(t, r.pids("station", "start"), 2)
	require.Contains(t, r.stderr.String(), "no handshake within 1s")
}

func TestEntrypoint_AnotherWireIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	r := start(t, setup{station: "-wire 3"})
	require.Equal(t, 78, r.exit())
	require.Equal(t, "entrypoint: station: fat-station speaks wire 3, this entrypoint speaks 1: rebuild both from one commit: make build", lastLine(r.stderr.String()))
	require.Len(t, r.pids("station", "start"), 1)
}

func TestEntrypoint_FrozenStationIsRestarted(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"stopped": syscall.SIGSTOP, "hung": syscall.SIGUSR1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, setup{station: "-helper", env: []string{"THOTH_STATION_FROZEN_SECONDS=3"}}).ready()
			require.NoError(t, syscall.Kill(r.pids("station", "start")[0], sig))
			r.eventually("the next station", func() bool { return len(r.pids("station", "listen")) == 2 })
			require.Contains(t, r.stderr.String(), "frozen: its /health gave no answer for 3s")
			require.Len(t, r.pids("host", "start"), 1)
			r.eventually("its model", func() bool { return strings.Count(r.stderr.String(), "station is ready") == 2 })
			r.signal(syscall.SIGTERM)
			require.Equal(t, 0, r.exit())
			r.gone()
		})
	}
}

func TestEntrypoint_StationThatLoadsOrDrainsIsNotFrozen(t *testing.T) {
	t.Parallel()
	// Both take longer than the limit, and the draining one answers no more.
	r := start(t, setup{station: "-load 1500ms -drain 2s -deaf", env: []string{"THOTH_STATION_FROZEN_SECONDS=1.2", "THOTH_STATION_FLUSH_SECONDS=3"}}).ready()
	r.signal(syscall.SIGTERM)
	require.Equal(t, 0, r.exit())
	require.Equal(t, []string{"host end", "station end"}, r.order("end"))
	require.Len(t, r.pids("station", "start"), 1)
	require.NotContains(t, r.stderr.String(), "frozen")
}

func TestEntrypoint_LegacyStationServes(t *testing.T) {
	t.Parallel()
	// One that knows nothing of the socket: it takes a port, and the host
	// follows it there.
	r := start(t, setup{station: "-legacy -listen 127.0.0.1:0", env: []string{"THOTH_LEGACY_SECONDS=0.3"}}).ready()
	require.Contains(t, r.stderr.String(), "LEGACY STATION")
	r.signal(syscall.SIGTERM)
	require.Equal(t, 0, r.exit())
}

func TestEntrypoint_AnyPortRestartsTheHostOnlyWhenItMoves(t *testing.T) {
	t.Parallel()
	r := start(t, setup{env: []string{"THOTH_STATION_LISTEN=127.0.0.1:0"}}).ready()
	require.Len(t, r.pids("host", "start"), 1, "it waited for the address")
	require.NoError(t, syscall.Kill(r.pids("station", "start")[0], syscall.SIGKILL))
	r.eventually("the host to follow", func() bool { return len(r.pids("host", "listen")) == 2 })
}

func TestEntrypoint_StationIsToldItsBackendAndNoSecrets(t *testing.T) {
	t.Parallel()
	dump := filepath.Join(t.TempDir(), "env")
	r := start(t, setup{station: "-env " + dump, env: []string{"THOTH_STATION_PREFER_CPU=1", "PORT=0", "THOTH_API_KEYS=secret", "THOTH_RESPONSES_KEY=secret", "THOTH_OTHER=kept"}}).ready()
	b, err := os.ReadFile(dump)
	require.NoError(t, err)
	env := strings.Split(string(b), "\n")
	require.Contains(t, env, "THOTH_BACKEND=cpu")
	require.Contains(t, env, "THOTH_BACKEND_REASON=THOTH_STATION_PREFER_CPU is set")
	require.Contains(t, env, "THOTH_OTHER=kept")
	require.NotContains(t, string(b), "PORT=")
	require.NotContains(t, string(b), "secret")
	r.signal(syscall.SIGTERM)
	require.Equal(t, 0, r.exit())
}

func TestEntrypoint_SidecarModeStartsOnlyTheHost(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	station := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"status":"ok"}`) })}
	served := make(chan struct{})
	go func() { defer close(served); _ = station.Serve(ln) }()
	defer func() { station.Close(); <-served }()

	r := start(t, setup{env: []string{"FAT_STATION_URL=http://" + ln.Addr().String()}}).ready()
	require.Empty(t, r.pids("station", "start"))
	r.signal(syscall.SIGTERM)
	require.Equal(t, 0, r.exit())
}

func TestEntrypoint_TwoInstancesDoNotMeet(t *testing.T) {
	t.Parallel()
	a, b := start(t, setup{}).ready(), start(t, setup{}).ready()
	a.signal(syscall.SIGTERM)
	require.Equal(t, 0, a.exit())
	require.NotEmpty(t, letter(b.pids("station", "start")[0]))
	b.signal(syscall.SIGTERM)
	require.Equal(t, 0, b.exit())
}

func TestEntrypoint_OrphansAreReaped(t *testing.T) {
	t.Parallel()
	r := start(t, setup{station: "-orphan 300ms"}).ready()
	orphan := orphanOf(r)
	r.eventually("the orphan's funeral", func() bool { return letter(orphan) == "" })
	// The statuses of its own children were not stolen meanwhile.
	r.signal(syscall.SIGTERM)
	require.Equal(t, 0, r.exit())
}

func TestEntrypoint_AsProcessOne(t *testing.T) {
	t.Parallel()
	r := start(t, setup{station: "-orphan 300ms -first 1 -die 600ms -die-code 7", command: func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
		probe := exec.Command("/bin/true")
		probe.SysProcAttr = c.SysProcAttr
		if err := probe.Run(); err != nil {
			t.Skipf("no PID namespace to be had: %v", err)
		}
	}}).ready()
	r.eventually("the restart", func() bool { return len(r.pids("station", "listen")) == 2 })
	require.Contains(t, r.stderr.String(), "station ended with exit code 7", "its status was not taken by the reaper")
	r.eventually("an empty funeral parlour", func() bool { return len(zombiesBelow(r.cmd.Process.Pid)) == 0 })
	r.signal(syscall.SIGTERM)
	require.Equal(t, 0, r.exit())
}

func TestEntrypoint_ClosedOutputDoesNotEndServing(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	r := start(t, setup{station: "-flood 300000", command: func(c *exec.Cmd) {
		pr, pw, err := os.Pipe()
		require.NoError(t, err)
		pr.Close() // nobody reads: every write is a broken pipe
		c.Stdout, c.Stderr = pw, pw
		t.Cleanup(func() { pw.Close() })
	}})
	writer.Close()
	reader.Close()
	r.eventually("both", func() bool { return len(r.pids("host", "listen")) == 1 && len(r.pids("station", "listen")) == 1 })
	r.signal(syscall.SIGHUP) // no terminal: ignored
	r.signal(syscall.SIGTERM)
	require.Equal(t, 0, r.exit())
	require.Len(t, r.pids("station", "start"), 1)
}

func TestEntrypoint_HangupIsIgnoredWithoutATerminal(t *testing.T) {
	t.Parallel()
	r := start(t, setup{}).ready()
	r.signal(syscall.SIGHUP)
	r.eventually("the log line", func() bool { return strings.Contains(r.stderr.String(), "SIGHUP ignored") })
	require.Empty(t, r.pids("host", "term"))
}

func TestEntrypoint_BadSettingsAreRefusedByName(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for want, s := range map[string]setup{
		"0 for never":                              {env: []string{"THOTH_STATION_FROZEN_SECONDS=-1"}},
		"unexpected argument serve":                {args: []string{"serve"}},
		"unknown flag --wat":                       {args: []string{"--wat"}},
		"THOTH_HANDSHAKE_SECONDS is 0":             {env: []string{"THOTH_HANDSHAKE_SECONDS=0"}},
		"less than THOTH_SHUTDOWN_SECONDS (8s)":    {env: []string{"THOTH_SHUTDOWN_SECONDS=8"}},
		`"auto","cpu","cuda"`:                      {env: []string{"THOTH_BACKEND=gpu"}},
		"THOTH_BACKEND=cuda cannot be had":         {env: []string{"THOTH_BACKEND=cuda", "THOTH_LIBRARY_DIR=/nowhere/lib/ollama"}},
		"set THOTH_RUNTIME_DIR to a writable":      {env: []string{"THOTH_RUNTIME_DIR=/proc/nowhere"}},
		"THOTH_STATION_BIN names it":               {env: []string{"THOTH_STATION_BIN=/nowhere/fat-station"}},
		"must listen on loopback or a unix socket": {env: []string{"THOTH_STATION_LISTEN=0.0.0.0:8000"}},
		file + " is there and is no socket":        {env: []string{"THOTH_STATION_LISTEN=unix://" + file}},
	} {
		r := start(t, s)
		require.NotZero(t, r.exit())
		require.Contains(t, r.stderr.String(), want)
		r.gone()
	}
	require.FileExists(t, file)
}

func TestEntrypoint_TakesEveryLogLevelItsChildrenTake(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"trace", "debug", "info", "warn", "error"} {
		r := start(t, setup{env: []string{"THOTH_LOG_LEVEL=" + level}}).ready()
		r.signal(syscall.SIGTERM)
		require.Equal(t, 0, r.exit())
	}
}

func TestEntrypoint_AValueThatIsNoneEndsWithTheUsageCode(t *testing.T) {
	t.Parallel()
	for _, s := range []setup{{args: []string{"--wat"}}, {env: []string{"THOTH_HANDSHAKE_SECONDS=soon"}}, {env: []string{"THOTH_LOG_LEVEL=loud"}}} {
		require.Equal(t, 80, start(t, s).exit())
	}
}

func TestEntrypoint_EmptyVariablesAreUnset(t *testing.T) {
	t.Parallel()
	dump := filepath.Join(t.TempDir(), "env")
	start(t, setup{station: "-env " + dump, env: []string{"THOTH_HANDSHAKE_SECONDS=", "THOTH_BACKEND=", "THOTH_CELLS=", "THOTH_OTHER=kept"}}).ready()
	b, err := os.ReadFile(dump)
	require.NoError(t, err)
	require.Contains(t, string(b), "THOTH_OTHER=kept")
	require.NotContains(t, string(b), "THOTH_CELLS", "nor do the children see them")
}

func TestEntrypoint_HelpNamesEveryVariable(t *testing.T) {
	t.Parallel()
	r := start(t, setup{args: []string{"--help"}})
	require.Equal(t, 0, r.exit())
	for _, name := range []string{"THOTH_STATION_BIN", "THOTH_HOST_BIN", "FAT_STATION_URL", "THOTH_BACKEND", "THOTH_STATION_PREFER_CPU", "THOTH_SHUTDOWN_SECONDS"} {
		require.Contains(t, r.stdout.String(), "$"+name)
	}
}

func TestEntrypoint_NoHomeAndNoTemporaryFolder(t *testing.T) {
	t.Parallel()
	// HOME is unset in every run here; only the runtime folder is writable.
	r := start(t, setup{env: []string{"TMPDIR=/proc/nowhere", "XDG_RUNTIME_DIR="}}).ready()
	r.signal(syscall.SIGTERM)
	require.Equal(t, 0, r.exit())
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

func orphanOf(r *instance) (pid int) {
	r.eventually("the grandchild", func() bool {
		_, rest, ok := strings.Cut(r.events(), "grandchild ")
		if ok {
			_, err := fmt.Sscan(rest, &pid)
			require.NoError(r.t, err)
		}
		return ok
	})
	return pid
}

// zombiesBelow are dead, uncollected children of a process.
func zombiesBelow(parent int) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		var pid int
		_, _ = fmt.Sscan(filepath.Base(d), &pid)
		if f := stat(pid); len(f) > 1 && f[0] == "Z" && f[1] == fmt.Sprint(parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}
