package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// liquidSetup gives a run of fakes: this test binary is both servers.
func liquidSetup(t *testing.T, fault string) (o LiquidOptions, journal string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	model := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(model, []byte("weights"), 0o600))
	journal = filepath.Join(t.TempDir(), "journal")
	t.Setenv(fakeRole, "entrypoint")
	t.Setenv(fakeFault, fault)
	t.Setenv(fakeJournal, journal)
	t.Setenv("THOTH_API_KEYS", "must not reach the servers")
	dir, err := os.MkdirTemp("", "b") // not t.TempDir: paths of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.Remove(dir), "the run left something behind") })
	return LiquidOptions{
		Entrypoint: self, Model: model, Dir: dir, Rounds: 2, Tokens: 4,
		PeerCommand: fakeRole + "=peer exec '" + self + "' {port}", PeerPort: freePort(t),
		EngineCmd:    `echo '{"decode_1":100,"import_gb_s":6.5}'`,
		TierSettings: []string{"FAKE_WARM=" + strconv.Itoa(64<<20), "FAKE_COLD=" + strconv.Itoa(96<<20)},
		StartTimeout: 20 * time.Second, idleWatch: time.Microsecond,
	}, journal
}

func freePort(t *testing.T) int {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// journalOf reads what the fakes noted; all of them have ended.
func journalOf(t *testing.T, path string) []string {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	for _, l := range all {
		pid, err := strconv.Atoi(strings.Fields(l)[1])
		require.NoError(t, err)
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "%s still runs", l)
	}
	return all
}

func count(all []string, parts ...string) (n int) {
	for _, l := range all {
		ok := true
		for _, p := range parts {
			ok = ok && strings.Contains(l, p)
		}
		if ok {
			n++
		}
	}
	return n
}

func goalOf(t *testing.T, rep *LiquidReport, what string) Goal {
	for _, g := range rep.Goals {
		if strings.HasPrefix(g.What, what) {
			return g
		}
	}
	t.Fatalf("no goal %q", what)
	return Goal{}
}

func TestRunLiquid_MeasuresEveryCohort(t *testing.T) {
	o, journal := liquidSetup(t, "")
	rep, err := RunLiquid(t.Context(), o)
	require.NoError(t, err, "%v", rep)
	require.Empty(t, rep.Errors)
	require.Empty(t, rep.Changes)

	names := map[string]LiquidCohort{}
	for _, c := range rep.Cohorts {
		names[c.Name] = c
	}
	require.Len(t, names, len(liquidCohorts), "every cohort gave figures")
	for name, n := range map[string]int{cFill: 2 * samples, cTurns: 2 * (chatTurns - 1), cEvict: 2 * evictChats, cMissLong: 2 * longPairs, cTiers: 2 * tierPairs} {
		require.Len(t, names[name].Metrics[0].Targets[0].Values, n, name)
		require.Len(t, names[name].Metrics[0].Targets[1].Values, n, name)
	}
	median := func(cohort string, of metric, side int) float64 {
		for _, m := range names[cohort].Metrics {
			if m.Name == of.name {
				return m.Targets[side].Median
			}
		}
		t.Fatalf("%s has no %s", cohort, of.name)
		return 0
	}
	require.InDelta(t, repeatTokens, median(cFill, mTokens, 0), 12)
	for _, c := range []string{cRepeat, cRestoreFirst, cRestoreRepeat, cReplica} {
		require.Greater(t, median(c, mCached, 0), 700.0, c)
	}
	require.Less(t, median(cRestoreFirst, mCached, 1), 10.0, "the peer forgets over a restart")
	require.Greater(t, median(cRestoreRepeat, mCached, 1), 700.0)
	require.Greater(t, median(cTurns, mCached, 0), 300.0)
	require.Less(t, median(cMissLong, mCached, 0), 10.0)

	for _, g := range rep.Goals {
		require.NotNil(t, g.Figure, g.What)
		require.NotEqual(t, verdictNone, g.Verdict, g.What)
	}
	require.Equal(t, verdictOK, goalOf(t, rep, "restore, warm").Verdict)
	require.Contains(t, goalOf(t, rep, "after restart").Note, "tokens restored")
	require.Nil(t, goalOf(t, rep, "second replica").Beside)
	require.NotNil(t, goalOf(t, rep, "12 conv").Ratio)
	require.Contains(t, rep.Tiers, "warm 64 of 64 MiB, 1 evictions")
	require.Contains(t, rep.Provenance.Servers[0].Facts, "station.build=abc")
	require.Len(t, rep.Provenance.Files, 3, "entrypoint, weights and peer; nothing lies beside this entrypoint")

	all := journalOf(t, journal)
	require.Equal(t, 1+2+2+2+2, count(all, "entrypoint", "start"), "first, restarts, replicas, on and off, full and empty")
	require.Equal(t, 1+2, count(all, "peer", "start"))
	require.Equal(t, count(all, " start"), count(all, " stop"), "each ended by SIGTERM")
	require.Equal(t, 1+2+2, count(all, "start "+filepath.Join(o.Dir, "thoth-bench-"), "/store"), "the replica shares the store")

	var table, doc bytes.Buffer
	require.NoError(t, rep.WriteTable(&table))
	for _, want := range []string{"at most 20 ms", "at most 80 ms, same text", "restore_first", "on, off", "verdict", "sha256"} {
		require.Contains(t, table.String(), want)
	}
	require.NoError(t, rep.WriteJSON(&doc))
	var back LiquidReport
	require.NoError(t, json.Unmarshal(doc.Bytes(), &back))
	require.Equal(t, rep.Goals, back.Goals)
}

func TestRunLiquid_RunsWithoutPeerAndEngine(t *testing.T) {
	o, journal := liquidSetup(t, "")
	o.PeerCommand, o.EngineCmd, o.Rounds, o.Families = "", "", 1, []string{"engine", "reuse"}
	rep, err := RunLiquid(t.Context(), o)
	require.NoError(t, err, "%v", rep)
	require.Equal(t, Goal{What: importGoal.what, Must: "at least 3 GB/s", Unit: "GB/s", Verdict: verdictNone}, goalOf(t, rep, "restore, warm"))
	require.Equal(t, "nothing beside it", goalOf(t, rep, "next turn").Note)
	require.Zero(t, count(journalOf(t, journal), "peer"))
	require.NoError(t, rep.WriteTable(new(bytes.Buffer)))
}

func TestRunLiquid_FailsWhenARestoredAnswerChanges(t *testing.T) {
	for role, fails := range map[string]bool{"entrypoint": true, "peer": false} {
		t.Run(role, func(t *testing.T) {
			o, _ := liquidSetup(t, "changes-"+role)
			o.Rounds, o.Families = 1, []string{"reuse"}
			rep, err := RunLiquid(t.Context(), o)
			require.NotEmpty(t, rep.Changes)
			g := goalOf(t, rep, "after restart")
			if fails {
				require.ErrorIs(t, err, ErrBad)
				require.Equal(t, verdictMissed, g.Verdict)
				require.Equal(t, "3 answers changed", g.Note)
			} else {
				require.NoError(t, err, "the peer's changes are reported only")
				require.Equal(t, peerName, rep.Changes[0].Server)
			}
		})
	}
}

func TestRunLiquid_SaysWhatWentWrong(t *testing.T) {
	for fault, want := range map[string]string{
		"mute":   "no such model",
		"dies":   "out of cells",
		"off":    "liquid memory is off: the fake says so",
		"deaf":   "a request that asked for no reuse got",
		"status": "it ended with status 5 after SIGTERM",
	} {
		t.Run(fault, func(t *testing.T) {
			o, journal := liquidSetup(t, fault)
			o.Rounds, o.Families, o.PeerCommand = 1, []string{"reuse"}, ""
			if fault == "off" {
				o.switchWait = 50 * time.Millisecond
			}
			rep, err := RunLiquid(t.Context(), o)
			require.ErrorIs(t, err, ErrBad)
			require.Contains(t, strings.Join(rep.Errors, "\n"), want)
			journalOf(t, journal)
		})
	}
}

func TestRunLiquid_RefusesAPortThatIsTaken(t *testing.T) {
	o, journal := liquidSetup(t, "")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	o.PeerPort, o.Families = ln.Addr().(*net.TCPAddr).Port, []string{"reuse"}
	rep, err := RunLiquid(t.Context(), o)
	require.ErrorIs(t, err, ErrBad)
	require.Contains(t, rep.Errors[0], "something listens on "+ln.Addr().String())
	require.Zero(t, count(journalOf(t, journal), "peer"))
}

func TestRunLiquid_StopsItsServersWhenInterrupted(t *testing.T) {
	o, journal := liquidSetup(t, "")
	why := context.DeadlineExceeded
	ctx, cancel := context.WithCancelCause(t.Context())
	o.Log = &lines{take: func(line string) {
		if strings.Contains(line, cRepeat) {
			cancel(why)
		}
	}}
	_, err := RunLiquid(ctx, o)
	require.ErrorIs(t, err, why)
	all := journalOf(t, journal)
	require.Equal(t, 2, count(all, " start"))
	require.Equal(t, 2, count(all, " stop"))
}

func TestRunLiquid_LeavesNoServerWhenItIsKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs the kernel's signal at the parent's death")
	}
	o, journal := liquidSetup(t, "")
	dir := t.TempDir()
	cmd := exec.Command(o.Entrypoint, dir)
	cmd.Env = append(os.Environ(), fakeRole+"=run", "TMPDIR="+o.Dir)
	require.NoError(t, cmd.Start())
	read := func(part string) bool {
		b, _ := os.ReadFile(journal)
		return strings.Contains(string(b), part)
	}
	require.Eventually(t, func() bool { return read(" ask ") }, 20*time.Second, 5*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return read(" stop") }, 20*time.Second, 5*time.Millisecond)
}

func TestLiquidOptions_RefuseWithTheReason(t *testing.T) {
	o, _ := liquidSetup(t, "")
	for want, change := range map[string]func(*LiquidOptions){
		"no entrypoint":       func(o *LiquidOptions) { o.Entrypoint = "" },
		"model \"/nowhere\"":  func(o *LiquidOptions) { o.Model = "/nowhere" },
		"{port}":              func(o *LiquidOptions) { o.PeerCommand = "llama-server" },
		"rounds -1":           func(o *LiquidOptions) { o.Rounds = -1 },
		"tokens 1: want":      func(o *LiquidOptions) { o.Tokens = 1 },
		"peer port 70000":     func(o *LiquidOptions) { o.PeerPort = 70000 },
		`cohorts "warm"`:      func(o *LiquidOptions) { o.Families = []string{"warm"} },
		"start timeout -1ns":  func(o *LiquidOptions) { o.StartTimeout = -1 },
		`tier setting "WARM"`: func(o *LiquidOptions) { o.TierSettings = []string{"WARM"} },
	} {
		bad := o
		change(&bad)
		require.ErrorContains(t, bad.fill(), want)
	}
}
