//go:build e2e

package e2e

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pauses are the waits before restarts that the log tells, in milliseconds.
func (s *server) pauses(t *testing.T) (all []float64) {
	for _, m := range regexp.MustCompile(`"restart_in_ms":([0-9.]+)`).FindAllStringSubmatch(s.log(), -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		all = append(all, n)
	}
	return all
}

// comesBack sends the plain request until it is answered. Each refusal on the
// way must be one that clients retry.
func (s *server) comesBack(t *testing.T) {
	t.Helper()
	eventually(t, "an answer", func() bool {
		r := s.chat(t)
		if r.Status == 200 {
			require.NotEmpty(t, r.Text(t))
			return true
		}
		r.unavailable(t)
		return false
	})
}

func TestStation_KilledComesBack(t *testing.T) {
	s := start(t)
	host := s.child(hostProgram)
	before := s.chat(t).Text(t)

	t.Run("WhenIdle", func(t *testing.T) {
		s.signalChild(t, stationProgram, syscall.SIGKILL)
		s.comesBack(t)
		require.Equal(t, before, s.chat(t).Text(t))
	})
	t.Run("WhileAPromptIsEvaluated", func(t *testing.T) {
		c := s.background(t.Context(), obj{"messages": []obj{user(longPrompt(3000))}})
		s.counts(t, "station", "running", 1)
		s.signalChild(t, stationProgram, syscall.SIGKILL)
		get(t, c, soon).unavailable(t)
		s.comesBack(t)
	})
	t.Run("WhileStreaming", func(t *testing.T) {
		l := s.begin(t, endless).follow()
		s.signalChild(t, stationProgram, syscall.SIGKILL)
		e := l.finish(t, soon)
		require.False(t, e.Done)
		require.Empty(t, e.Finishes(0))
		require.NotEmpty(t, e.Text(0))
		require.Equal(t, "station_unavailable", e.Error["code"])
		s.comesBack(t)
	})
	require.Equal(t, host, s.child(hostProgram), "the host stays")
	require.Contains(t, s.log(), "station was killed (signal 9), probably out of memory")
	require.Equal(t, []float64{250, 500, 1000}, s.pauses(t), "each pause is longer than the last")
	require.Equal(t, 0, s.stop())
}

func TestStation_KilledTenTimesInARow(t *testing.T) {
	// A tenth of a second of life is stable here, or the pauses would add up to minutes.
	s := start(t, "THOTH_STABLE_SECONDS=0.1")
	host, killed := s.child(hostProgram), map[int]bool{}
	for i := range 10 {
		// Once it has served this is a crash and not a start that failed.
		eventually(t, "the next station", func() bool { return strings.Count(s.log(), `"station is ready"`) == i+1 })
		killed[s.signalChild(t, stationProgram, syscall.SIGKILL)] = true
	}
	s.comesBack(t)
	require.Len(t, killed, 10)
	require.Equal(t, 11, strings.Count(s.log(), "station listens, loading model"), "one start for each end")
	require.Equal(t, host, s.child(hostProgram))
	s.idle(t)
	require.Equal(t, 0, s.stop())
}

func TestStation_FrozenIsNoticed(t *testing.T) {
	s := start(t, "THOTH_HEALTH_INTERVAL=200ms", "THOTH_HEALTH_TIMEOUT=1s", "THOTH_STALL_TIMEOUT=2s")
	// Documented: requests are given up after the stall and one more look.
	const bound = 10 * time.Second
	thaw := func(t *testing.T) {
		s.signalChild(t, stationProgram, syscall.SIGCONT)
		s.comesBack(t)
		s.idle(t)
	}
	t.Run("WhileStreaming", func(t *testing.T) {
		l := s.begin(t, endless).follow()
		pid := s.signalChild(t, stationProgram, syscall.SIGSTOP)
		defer syscall.Kill(pid, syscall.SIGCONT)
		eventually(t, "readiness to fail", func() bool { return s.probe(t.Context(), "/readyz") == 503 })
		for _, path := range []string{"/livez", "/health"} {
			require.Equal(t, 200, s.probe(t.Context(), path), "restarting the host would mend nothing")
		}
		require.NotEqual(t, "ok", s.do(t, http.MethodGet, "/health", nil).JSON(t)["status"])
		s.chat(t).unavailable(t)
		e := l.finish(t, bound)
		require.False(t, e.Done)
		require.Equal(t, "station_timeout", e.Error["code"])
		thaw(t)
		require.Equal(t, pid, s.child(stationProgram))
	})
	t.Run("WhenIdle", func(t *testing.T) {
		pid := s.signalChild(t, stationProgram, syscall.SIGSTOP)
		defer syscall.Kill(pid, syscall.SIGCONT)
		// Sent before anybody has noticed: it must not hang.
		r := get(t, s.background(t.Context()), bound)
		require.Contains(t, []int{503, 504}, r.Status)
		r.Err(t, r.Status)
		eventually(t, "readiness to fail", func() bool { return s.probe(t.Context(), "/readyz") == 503 })
		thaw(t)
	})
	t.Run("WhenItsAnswersAreWaitedFor", func(t *testing.T) {
		// Frozen, and killed by an operator who has had enough.
		l := s.begin(t, endless).follow()
		s.signalChild(t, stationProgram, syscall.SIGSTOP)
		s.signalChild(t, stationProgram, syscall.SIGKILL)
		require.NotNil(t, l.finish(t, bound).Error)
		s.comesBack(t)
	})
	require.Equal(t, 0, s.stop())
}

func TestHost_KilledComesBack(t *testing.T) {
	s := start(t)
	children := s.children()
	s.begin(t, endless).follow()
	s.signalChild(t, hostProgram, syscall.SIGKILL)
	var addresses []string
	eventually(t, "the next host", func() bool { addresses = s.hostAddresses(); return len(addresses) == 2 })
	s.base = addresses[1] // with any port asked for, it is another one
	s.readyAgain(t)
	s.answersAgain(t)
	// Nobody waits for the first host's answer any more.
	s.idle(t)
	require.Equal(t, children[0], s.child(stationProgram), "the station stays, its model loaded")
	require.NotEqual(t, children[1], s.child(hostProgram))

	// Where it listens on a fixed address, that is the address again.
	fixed := start(t, "THOTH_LISTEN="+strings.TrimPrefix(addresses[0], "http://"))
	fixed.signalChild(t, hostProgram, syscall.SIGKILL)
	eventually(t, "the next host", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return len(fixed.hostAddresses()) == 2 && fixed.probe(ctx, "/readyz") == 200
	})
	require.Equal(t, addresses[0], fixed.hostAddresses()[1])
	fixed.answersAgain(t)
}
