package entrypoint

import (
	"errors"
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

	"thoth/station/wire"
)

func TestChild_RunsAndStopsAsTold(t *testing.T) {
	spec, _ := fakeSpec("-backend", "cpu")
	c := Start(spec)
	s := waitUp(t, c)
	require.Equal(t, StateRunning, s.State)
	require.False(t, s.Legacy)
	require.Equal(t, "cpu", s.Handshake.Backend)
	require.Equal(t, s.PID, s.Handshake.PID)
	resp, err := http.Get(s.Handshake.Address + "/health")
	require.NoError(t, err)
	resp.Body.Close()

	c.Stop(patience)
	waitClosed(t, c.Done(), "the end")
	require.True(t, c.Exit().Clean())
	require.Equal(t, StateStopped, c.Status().State)
	require.False(t, alive(s.PID))
}

func TestChild_SlowStartIsWaitedFor(t *testing.T) {
	spec, _ := fakeSpec("-slow", "1s")
	c := Start(spec)
	require.Equal(t, StateStarting, c.Status().State)
	waitUp(t, c)
}

func TestChild_StopDuringStart(t *testing.T) {
	spec, _ := fakeSpec("-slow", "1h")
	c := Start(spec)
	require.NotZero(t, c.Status().PID)
	// The fake installs its handler early, but not before its first instruction.
	c.Stop(patience)
	waitClosed(t, c.Done(), "the end")
	e := c.Exit()
	require.True(t, e.Asked)
	require.False(t, e.Forced)
}

func TestChild_RefusesAnotherWire(t *testing.T) {
	spec, _ := fakeSpec("-wire", "3")
	c := Start(spec)
	waitClosed(t, c.Done(), "the refusal")
	e := c.Exit()
	require.Equal(t, fmt.Sprintf("station: fakechild speaks wire 3, this entrypoint speaks %d: rebuild both from one commit: make build", wire.Version),
		e.Sentence("station"))
	code, permanent := e.permanent()
	require.True(t, permanent)
	require.Equal(t, ExitSetting, code)
	require.Equal(t, StateFailed, c.Status().State)
}

func TestChild_RefusesAnotherRole(t *testing.T) {
	spec, _ := fakeSpec("-announce-role", "host")
	c := Start(spec)
	waitClosed(t, c.Done(), "the refusal")
	require.ErrorIs(t, c.Exit().Fault, errRefused)
	require.Contains(t, c.Exit().Sentence("station"), "THOTH_STATION_BIN")
}

func TestChild_GarbageIsNoHandshake(t *testing.T) {
	spec, out := fakeSpec("-garbage")
	c := Start(spec)
	s := waitUp(t, c)
	require.Equal(t, wire.Version, s.Handshake.Wire)
	require.Eventually(t, func() bool { return strings.Contains(out.String(), `"stdout":"bye"`) }, patience, 10*time.Millisecond)
	require.Contains(t, out.String(), `"stdout":"warming up"`)
	require.Equal(t, StateRunning, c.Status().State, "a second handshake changes nothing")
	require.Equal(t, s.Handshake, c.Status().Handshake)
}

func TestChild_HandshakeTimeout(t *testing.T) {
	spec, _ := fakeSpec("-stall")
	spec.HandshakeTimeout = 300 * time.Millisecond
	c := Start(spec)
	waitClosed(t, c.Done(), "the timeout")
	e := c.Exit()
	require.ErrorIs(t, e.Fault, errHandshake)
	require.Contains(t, e.Sentence("station"), "no handshake within 300ms")
	_, permanent := e.permanent()
	require.False(t, permanent, "a stall may pass")
}

func TestChild_LegacyStationIsTakenLoudly(t *testing.T) {
	spec, out := fakeSpec("-legacy")
	spec.LegacyAfter = 100 * time.Millisecond
	c := Start(spec)
	s := waitUp(t, c)
	require.True(t, s.Legacy)
	require.Contains(t, s.Handshake.Address, "http://127.0.0.1:", "found by the port it has open")
	require.Contains(t, out.String(), "LEGACY STATION")
}

func TestChild_LegacyStationOnItsConfiguredSocket(t *testing.T) {
	url := "unix://" + filepath.Join(t.TempDir(), "s.sock")
	spec, _ := fakeSpec("-legacy", "-listen", url)
	spec.LegacyAfter, spec.LegacyURL = 100*time.Millisecond, url
	require.Equal(t, url, waitUp(t, Start(spec)).Handshake.Address)
}

func TestChild_SilentStationOfAnotherWireIsRefused(t *testing.T) {
	spec, _ := fakeSpec("-silent", "-wire", "7")
	spec.LegacyAfter = 100 * time.Millisecond
	c := Start(spec)
	waitClosed(t, c.Done(), "the refusal")
	require.ErrorIs(t, c.Exit().Fault, errRefused)
}

func TestChild_LegacyNeverTakesAnotherProcessPort(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	own := listeners(os.Getpid())
	require.Contains(t, own, "http://"+ln.Addr().String())

	spec, _ := fakeSpec("-stall")
	c := Start(spec)
	defer c.Kill()
	require.Empty(t, listeners(c.Status().PID))
}

func TestChild_IgnoredTermEndsInAKill(t *testing.T) {
	spec, _ := fakeSpec("-ignore-term")
	c := Start(spec)
	waitUp(t, c)
	c.Stop(200 * time.Millisecond)
	waitClosed(t, c.Done(), "the kill")
	e := c.Exit()
	require.True(t, e.Forced)
	require.False(t, e.Clean())
	require.Equal(t, "station did not stop in time and was killed", e.Sentence("station"))
}

func TestChild_KillCutsAStopShort(t *testing.T) {
	spec, _ := fakeSpec("-ignore-term")
	c := Start(spec)
	waitUp(t, c)
	c.Stop(time.Hour)
	require.Equal(t, StateStopping, c.Status().State)
	c.Kill()
	waitClosed(t, c.Done(), "the kill")
	require.True(t, c.Exit().Forced)
}

func TestChild_FrozenOneObeysTerm(t *testing.T) {
	spec, _ := fakeSpec()
	c := Start(spec)
	s := waitUp(t, c)
	require.NoError(t, syscall.Kill(s.PID, syscall.SIGSTOP))
	c.Stop(patience)
	waitClosed(t, c.Done(), "the end")
	require.True(t, c.Exit().Clean())
}

func TestChild_FailKillsForAReasonUnlessItIsEnding(t *testing.T) {
	fault := errors.New("found wanting")
	spec, out := fakeSpec()
	c := Start(spec)
	s := waitUp(t, c)
	require.NoError(t, syscall.Kill(s.PID, syscall.SIGSTOP))
	c.Fail(fault)
	waitClosed(t, c.Done(), "the kill")
	require.Equal(t, "station: found wanting", c.Exit().Sentence("station"))
	require.False(t, c.Exit().Asked)
	require.Equal(t, StateFailed, c.Status().State)
	require.Contains(t, out.String(), "KILLED")
	c.Fail(fault) // orders to the dead return

	spec, out = fakeSpec("-drain", "300ms")
	c = Start(spec)
	waitUp(t, c)
	c.Stop(patience)
	c.Fail(fault)
	waitClosed(t, c.Done(), "the end")
	require.True(t, c.Exit().Clean())
	require.NotContains(t, out.String(), "KILLED")
}

func TestChild_DiesMidway(t *testing.T) {
	spec, _ := fakeSpec("-die", "10ms", "-die-code", "3", "-say", "one_last_word")
	c := Start(spec)
	waitClosed(t, c.Done(), "the death")
	e := c.Exit()
	require.Equal(t, 3, e.Code)
	require.Equal(t, []string{"one last word"}, e.Tail)
	require.Equal(t, "station ended with exit code 3", e.Sentence("station"))
}

func TestChild_KilledByTheKernelSaysSo(t *testing.T) {
	spec, _ := fakeSpec("-die", "10ms", "-die-code", "-9")
	c := Start(spec)
	waitClosed(t, c.Done(), "the death")
	require.Equal(t, "station was killed (signal 9), probably out of memory", c.Exit().Sentence("station"))
}

func TestChild_StderrTailIsBounded(t *testing.T) {
	spec, out := fakeSpec("-flood", "10000000", "-exit", "5")
	c := Start(spec)
	waitClosed(t, c.Done(), "the death")
	e := c.Exit()
	require.Equal(t, tailLines, len(e.Tail))
	require.GreaterOrEqual(t, len(out.String()), 10_000_000, "all of it is passed on")
	require.True(t, strings.HasSuffix(strings.TrimSpace(out.String()), strings.TrimSpace(e.Tail[tailLines-1])), "the tail is the end")
}

func TestChild_NothingOfItsGroupSurvives(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	spec, _ := fakeSpec("-helper", "-journal", journal)
	c := Start(spec)
	waitUp(t, c)
	b, err := os.ReadFile(journal)
	require.NoError(t, err)
	var helper int
	_, rest, ok := strings.Cut(string(b), "grandchild ")
	require.True(t, ok)
	_, err = fmt.Sscan(rest, &helper)
	require.NoError(t, err)
	require.True(t, alive(helper))

	require.NoError(t, syscall.Kill(c.Status().PID, syscall.SIGKILL))
	waitClosed(t, c.Done(), "the death")
	require.Eventually(t, func() bool { return state(helper) == "" || state(helper) == "Z" }, patience, 10*time.Millisecond)
}

func TestChild_MissingProgramIsPermanent(t *testing.T) {
	spec, _ := fakeSpec()
	spec.Path = filepath.Join(t.TempDir(), "nothing")
	c := Start(spec)
	waitClosed(t, c.Done(), "the failure")
	code, permanent := c.Exit().permanent()
	require.True(t, permanent)
	require.Equal(t, ExitSetting, code)
	require.Contains(t, c.Exit().Sentence("station"), "THOTH_STATION_BIN")
	c.Stop(time.Second) // orders to the dead return
	require.Equal(t, StateFailed, c.Status().State)
}

// state is the letter of /proc/PID/stat, "" when there is no such process.
func state(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))[0]
}
