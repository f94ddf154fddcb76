package entrypoint

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoff_GrowsAndDecays(t *testing.T) {
	b := backoff{first: 250 * time.Millisecond, longest: 2 * time.Second, stable: 30 * time.Second}
	var got []time.Duration
	for range 6 {
		got = append(got, b.next(time.Second))
	}
	ms := time.Millisecond
	require.Equal(t, []time.Duration{250 * ms, 500 * ms, 1000 * ms, 2000 * ms, 2000 * ms, 2000 * ms}, got)
	require.Equal(t, 500*ms, b.next(61*time.Second), "two stable times forgive two steps")
	require.Equal(t, 250*ms, b.next(time.Hour), "a long run forgives all")
}

func TestTail_KeepsTheEndWithinBounds(t *testing.T) {
	var tl tail
	for range 100 {
		tl.add([]byte("short"))
	}
	require.Len(t, tl.lines, tailLines)
	tl.add([]byte(strings.Repeat("a", tailBytes) + "end"))
	require.Len(t, tl.lines, 1)
	require.Len(t, tl.lines[0], tailBytes)
	require.True(t, strings.HasSuffix(tl.lines[0], "end"))
}

func TestReadLines_CutsWhatHasNoEnd(t *testing.T) {
	var got []int
	readLines(strings.NewReader("a\r\n\n"+strings.Repeat("x", maxLineBytes+5)+"\nlast"), func(l []byte) { got = append(got, len(l)) })
	require.Equal(t, []int{1, 0, maxLineBytes, 5, 4}, got)
}

func TestExit_PermanentFaults(t *testing.T) {
	for code, want := range map[int]bool{1: false, 2: false, 63: false, 64: true, 68: true, 72: true, 73: false, 78: true, 80: true, 137: false} {
		e := Exit{Code: code}
		got, yes := e.permanent()
		require.Equal(t, want, yes, code)
		if yes {
			require.Equal(t, code, got)
		}
	}
	killed := Exit{Signal: syscall.SIGSEGV}
	_, yes := killed.permanent()
	require.False(t, yes)
}

func TestExit_LastWordsReadALogLine(t *testing.T) {
	for want, tail := range map[string][]string{
		"":                       {"", "  "},
		"plain words":            {"noise", "plain words", ""},
		"no such model":          {"fat-station: no such model"},
		"unknown flag --x":       {"fat-station: error: unknown flag --x"},
		"cannot load: truncated": {`{"level":"fatal","error":"truncated","message":"cannot load"}`},
		"only this":              {`{"error":"only this"}`},
		"x is cut":               {`{"error":"is cut","message":"x is cut"}`},
	} {
		e := Exit{Tail: tail, Prog: "fat-station"}
		require.Equal(t, want, e.lastWords())
	}
}

func TestOptions_StopPlanFitsTheDeadline(t *testing.T) {
	o := Options{}.withDefaults()
	require.NoError(t, o.check())
	p := o.stopPlan()
	require.GreaterOrEqual(t, p.host, o.HostDrain)
	require.GreaterOrEqual(t, p.all-p.host, o.StationFlush)
	require.Less(t, p.all, o.Shutdown)
}

func TestOptions_ConflictsAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"THOTH_SHUTDOWN_SECONDS":  {Shutdown: 8 * time.Second},
		"THOTH_MAX_FAILED_STARTS": {MaxFailedStarts: -1},
		"THOTH_BACKEND":           {Backend: "gpu"},
		"contradict":              {Backend: "cuda", PreferCPU: true},
		"THOTH_EXACT":             {Backend: "cuda", Exact: true},
		"FAT_STATION_URL":         {StationURL: "http://127.0.0.1:1", StationBin: "x"},
		"loopback":                {StationListen: "0.0.0.0:8000"},
		"0 to 65535":              {StationListen: "127.0.0.1:http"},
		"unix:///":                {StationListen: "unix:relative.sock"},
		"want http://":            {StationURL: "ftp://x"},
		"THOTH_RUNTIME_DIR":       {RuntimeDir: "/proc/nowhere"},
	} {
		_, err := New(o)
		require.ErrorContains(t, err, name)
		var e *ExitError
		require.ErrorAs(t, err, &e)
		require.Equal(t, ExitSetting, e.Code)
	}
}

func TestRuntimeDir_FallsBackAndIsPrivate(t *testing.T) {
	tmp := t.TempDir()
	long := filepath.Join(tmp, strings.Repeat("d", 100))
	require.NoError(t, os.Mkdir(long, 0o700))
	dir, err := makeRuntimeDir("", "/proc/nowhere", long, tmp)
	require.NoError(t, err)
	require.Equal(t, tmp, filepath.Dir(dir))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	left, err := os.ReadDir(long)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestShellQuoted_SurvivesAQuote(t *testing.T) {
	require.Equal(t, `it'\''s`, shellQuoted([]byte("it's")))
}

func TestShownURL_IsTypeable(t *testing.T) {
	require.Equal(t, "http://127.0.0.1:8080", shownURL("http://0.0.0.0:8080"))
	require.Equal(t, "http://127.0.0.1:8080", shownURL("http://[::]:8080/"))
	require.Equal(t, "http://10.0.0.1:80", shownURL("http://10.0.0.1:80"))
}
