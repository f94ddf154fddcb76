//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// freePort is a port that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	require.NoError(t, err)
	return port
}

// slowStation is the setting for a station that sleeps before it does anything.
func slowStation(t *testing.T, seconds string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "slow-station")
	body := fmt.Sprintf("#!/bin/sh\nsleep %s\nexec '%s' \"$@\"\n", seconds, binary(stationProgram))
	require.NoError(t, os.WriteFile(script, []byte(body), 0o755))
	return "THOTH_STATION_BIN=" + script
}

func TestDeploy_PortListensOnAllAddresses(t *testing.T) {
	port := freePort(t)
	s := startLoading(t, "THOTH_LISTEN=", "PORT="+port) // an empty setting is none
	require.Equal(t, "http://127.0.0.1:"+port, s.base)
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range append(addresses, &net.IPNet{IP: net.IPv4(127, 0, 0, 9)}) {
		if ip := a.(*net.IPNet).IP; ip.To4() != nil {
			c, err := net.DialTimeout("tcp", net.JoinHostPort(ip.String(), port), soon)
			require.NoError(t, err)
			c.Close()
		}
	}
	require.NoError(t, s.waitReady())
	s.answersAgain(t)
	require.Empty(t, listeningPorts(t, s.child(stationProgram)), "the station listens on its socket alone")

	// Beside it, with the other setting as well: the more exact one wins.
	beside := start(t, "PORT="+port)
	require.NotEqual(t, s.base, beside.base)
	beside.answersAgain(t)
	require.Equal(t, 0, beside.stop())
	s.answersAgain(t)
	require.Equal(t, 0, s.stop())
}

// listeningPorts are the TCP addresses a process listens on, as /proc writes them.
func listeningPorts(t *testing.T, pid int) (all []string) {
	t.Helper()
	mine := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	require.NotEmpty(t, fds)
	for _, fd := range fds {
		link, _ := os.Readlink(fd)
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			mine[strings.TrimSuffix(inode, "]")] = true
		}
	}
	require.NotEmpty(t, mine)
	for _, table := range []string{"tcp", "tcp6"} {
		b, _ := os.ReadFile("/proc/net/" + table)
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" && mine[f[9]] {
				all = append(all, f[1])
			}
		}
	}
	return all
}

func TestDeploy_BadSettingsEndAtOnceByName(t *testing.T) {
	for want, c := range map[string]struct {
		env  string
		code int
	}{
		`PORT is "abc": it must be a number from 1 to 65535`:   {"PORT=abc", 78},
		`PORT is "0": it must be a number from 1 to 65535`:     {"PORT=0", 78},
		`PORT is "70000": it must be a number from 1 to 65535`: {"PORT=70000", 78},
		`THOTH_MAX_IN_FLIGHT is 0: it must be above 0`:         {"THOTH_MAX_IN_FLIGHT=0", 78},
		"/nowhere/keys: no such file or directory":             {"THOTH_API_KEYS_FILE=/nowhere/keys", 78},
		"THOTH_SHUTDOWN_SECONDS":                               {"THOTH_SHUTDOWN_SECONDS=1", 78},
		"--sequences":                                          {"THOTH_SEQUENCES=many", 80},
		"--max-in-flight":                                      {"THOTH_MAX_IN_FLIGHT=many", 80},
		"--log-level must be one of":                           {"THOTH_LOG_LEVEL=loud", 80},
	} {
		t.Run(c.env, func(t *testing.T) {
			s, _ := launch("THOTH_LISTEN=", c.env)
			require.NotNil(t, s)
			t.Cleanup(s.kill)
			require.Equal(t, c.code, s.exits(t, soon), s.log())
			require.Contains(t, lastLine(s.log()), want)
			require.True(t, strings.HasPrefix(lastLine(s.log()), "entrypoint: "), lastLine(s.log()))
			require.Empty(t, s.pauses(t), "no restart mends a setting")
		})
	}
}

func TestDeploy_EmptySettingsAreNone(t *testing.T) {
	var env []string
	for _, name := range []string{"PORT", "THOTH_CELLS", "THOTH_THREADS", "THOTH_BACKEND", "THOTH_LOG_LEVEL", "THOTH_KV_TYPE", "THOTH_MAX_IN_FLIGHT",
		"THOTH_PING_INTERVAL", "THOTH_API_KEYS", "THOTH_SHUTDOWN_SECONDS", "THOTH_STATION_BIN", "FAT_STATION_URL", "THOTH_ALLOW_SLOW_CPU", "THOTH_LIQUID_MEMORY"} {
		env = append(env, name+"=")
	}
	start(t, env...).answersAgain(t)
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// From the first second on there is a server, and what it cannot do yet it
// refuses so that clients try again. It waits for a slow station.
func TestDeploy_ChatsWhileLoadingAreRefusedForLater(t *testing.T) {
	// The station is even slower to speak than what is taken for an old one.
	s := startLoading(t, slowStation(t, "3"), "THOTH_LEGACY_SECONDS=1", "THOTH_HANDSHAKE_SECONDS=60", "THOTH_LOG_LEVEL=trace")
	refused := 0
	for i := 0; ; i++ {
		r := s.chat(t, obj{"stream": i%2 == 1})
		if r.Status == 200 {
			break
		}
		r.unavailable(t)
		refused++
		require.Equal(t, 200, s.probe(t.Context(), "/livez"))
		require.Equal(t, 200, s.probe(t.Context(), "/health"))
		require.Contains(t, []int{200, 503}, s.probe(t.Context(), "/readyz"), "it may be ready by now")
		require.Empty(t, s.pauses(t), "a slow start is no failed one")
		time.Sleep(50 * time.Millisecond) // a client's pace
	}
	require.Greater(t, refused, 10)
	require.NoError(t, s.waitReady())
	require.Equal(t, 200, s.probe(t.Context(), "/readyz"))
	s.answersAgain(t)
	require.Equal(t, 0, s.stop())
}

// A station that never speaks is given up within the documented time.
func TestDeploy_StationThatNeverSpeaksIsGivenUp(t *testing.T) {
	s := startLoading(t, slowStation(t, "600"), "THOTH_LEGACY_SECONDS=0.1", "THOTH_HANDSHAKE_SECONDS=0.5", "THOTH_MAX_FAILED_STARTS=2")
	require.Equal(t, 1, s.exits(t, soon))
	require.Contains(t, lastLine(s.log()), "no handshake within 500ms")
	require.Len(t, s.pauses(t), 1)
}

// A busy server is healthy.
func TestDeploy_ProbesAreQuickWhileSaturated(t *testing.T) {
	s := start(t, append(oneSlot, "THOTH_API_KEYS=secret", "THOTH_MODEL_ALIASES=other")...)
	key := []string{"Authorization", "Bearer secret"}
	s.do(t, http.MethodPost, chatPath, P()).Err(t, 401)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 20)
	for range 20 {
		go func() {
			_, err := s.try(ctx, http.MethodPost, chatPath, P(endless, obj{"model": "other"}), key...)
			ended <- err
		}()
	}
	eventually(t, "saturation", func() bool {
		o := s.do(t, http.MethodGet, "/stats", nil, key...).JSON(t)["host"].(obj)
		return o["in_flight"] == 1.0 && o["waiting"] == 19.0
	})
	for range 10 {
		for _, path := range []string{"/livez", "/readyz", "/health"} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				within, stop := context.WithTimeout(t.Context(), time.Second)
				r, err := s.try(within, method, path, nil)
				stop()
				require.NoError(t, err, "%s %s", method, path)
				require.Equal(t, 200, r.Status)
				require.Equal(t, method == http.MethodHead, len(r.Body) == 0)
			}
		}
		time.Sleep(100 * time.Millisecond) // a prober's pace
	}
	s.do(t, http.MethodGet, "/v1/models", nil).Err(t, 401)
	require.Empty(t, ended, "all still there")
	cancel()
	for range 20 {
		require.Error(t, <-ended)
	}
	require.Equal(t, 200, s.do(t, http.MethodPost, chatPath, P(), key...).Status)
	require.NotContains(t, s.log(), "secret")
}

func TestDeploy_ReaderOfTheOutputMayGoAway(t *testing.T) {
	out, outWriter, err := os.Pipe()
	require.NoError(t, err)
	errs, errsWriter, err := os.Pipe()
	require.NoError(t, err)
	s := bare(t, outWriter, errsWriter, "THOTH_LOG_LEVEL=trace")
	b := make([]byte, 0, 200)
	for !strings.Contains(string(b), "\n") {
		one := make([]byte, 200)
		n, err := out.Read(one)
		require.NoError(t, err)
		b = append(b, one[:n]...)
	}
	rest, ok := strings.CutPrefix(string(b), "listening on ")
	require.True(t, ok)
	s.base, _, _ = strings.Cut(rest, ",")
	require.NoError(t, out.Close())
	require.NoError(t, errs.Close())
	s.readyAgain(t)
	for range 5 { // each writes log lines that nobody reads
		s.answersAgain(t)
	}
	require.Equal(t, 0, s.stop())
}

// bare is a server whose output the test reads itself.
func bare(t *testing.T, stdout, stderr *os.File, env ...string) *server {
	t.Helper()
	s := &server{cmd: command(append([]string{"THOTH_MODEL_NAME=test-model", "THOTH_CONTEXT_LENGTH=4096"}, env...)...), exit: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = stdout, stderr
	require.NoError(t, s.cmd.Start())
	stdout.Close()
	stderr.Close()
	go func() { _ = s.cmd.Wait(); close(s.exit) }()
	t.Cleanup(s.kill)
	return s
}

func TestDeploy_HangupIsIgnored(t *testing.T) {
	s := start(t)
	children := s.children()
	l := s.begin(t, obj{"max_tokens": 200, "ignore_eos": true}).follow()
	require.NoError(t, s.cmd.Process.Signal(hangUp))
	for _, pid := range children {
		require.NoError(t, syscall.Kill(pid, hangUp))
	}
	eventually(t, "the log line", func() bool { return strings.Contains(s.log(), "SIGHUP ignored") })
	require.True(t, l.finish(t, patience).Done)
	require.Equal(t, children, s.children())
	require.Equal(t, 0, s.stop())
}
