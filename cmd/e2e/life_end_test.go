//go:build e2e

package e2e

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEnd_DrainFinishesWhatItCan(t *testing.T) {
	run := t.TempDir()
	s := start(t, "THOTH_HOST_DRAIN_SECONDS=3", "THOTH_STATION_FLUSH_SECONDS=1", "THOTH_SHUTDOWN_SECONDS=6", "THOTH_RUNTIME_DIR="+run)
	children := s.children()
	long, short := s.begin(t, endless).follow(), s.begin(t, obj{"max_tokens": 40, "ignore_eos": true}).follow()
	whole := s.background(t.Context(), obj{"max_tokens": 20})
	s.counts(t, "host", "in_flight", 3)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	eventually(t, "the drain", func() bool { return s.probe(t.Context(), "/readyz") == 503 })
	if r, err := s.try(t.Context(), "POST", chatPath, P()); err == nil { // the drain may be over
		r.unavailable(t)
		require.Equal(t, "draining", r.Err(t, 503)["code"])
	}
	e := short.finish(t, soon)
	require.True(t, e.Done, "what ends in time is whole: %s", e.Raw)
	require.NotEmpty(t, get(t, whole, soon).Text(t))
	e = long.finish(t, soon)
	require.False(t, e.Done)
	require.Equal(t, "draining", e.Error["code"])
	require.NotEmpty(t, e.Text(0))
	require.Equal(t, 0, s.exits(t, soon))
	gone(t, s, children)
	left, err := os.ReadDir(run)
	require.NoError(t, err)
	require.Empty(t, left, "the socket's folder is removed")
}

func TestEnd_SecondSignalEndsAtOnce(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s := start(t, "THOTH_HOST_DRAIN_SECONDS=60", "THOTH_SHUTDOWN_SECONDS=120")
		children := s.children()
		l := s.begin(t, endless).follow()
		require.NoError(t, s.cmd.Process.Signal(sig))
		eventually(t, "the drain", func() bool { return s.probe(t.Context(), "/readyz") == 503 })
		require.False(t, l.ended())
		require.NoError(t, s.cmd.Process.Signal(sig))
		require.Equal(t, 128+int(sig), s.exits(t, soon))
		gone(t, s, children)
		<-l.end
	}
}

func TestEnd_KilledEntrypointTakesItsChildrenAlong(t *testing.T) {
	s := start(t, "THOTH_RUNTIME_DIR="+t.TempDir()) // nobody is left to remove the socket's folder
	children := s.children()
	l := s.begin(t, endless).follow()
	require.NoError(t, s.cmd.Process.Kill())
	<-s.exit
	gone(t, s, children)
	<-l.end

	// Nothing is left that would hold the port.
	again := start(t, "THOTH_LISTEN="+strings.TrimPrefix(s.base, "http://"))
	require.Equal(t, s.base, again.base)
	again.answersAgain(t)
	require.Equal(t, 0, again.stop())
}

func TestEnd_FrozenStationDoesNotHoldTheEnd(t *testing.T) {
	s := start(t)
	children := s.children()
	s.signalChild(t, stationProgram, syscall.SIGSTOP)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.Contains(t, []int{0, 143}, s.exits(t, 12*time.Second), "its deadline is 9 s")
	gone(t, s, children)
}

func TestEnd_FrozenHostDoesNotHoldTheEnd(t *testing.T) {
	s := start(t)
	children := s.children()
	s.signalChild(t, hostProgram, syscall.SIGSTOP)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.Contains(t, []int{0, 143}, s.exits(t, 12*time.Second))
	gone(t, s, children)
}

// A signal while the model loads, or before the station has said a word.
func TestEnd_DuringTheLoad(t *testing.T) {
	slow := slowStation(t, "600")
	for name, c := range map[string]struct {
		env   []string
		after string // in the log
		sig   syscall.Signal
		twice bool
	}{
		"TERMAtOnce":         {sig: syscall.SIGTERM},
		"INTWhileItLoads":    {sig: syscall.SIGINT, after: "station listens, loading model"},
		"TERMBeforeItSpeaks": {sig: syscall.SIGTERM, env: []string{slow}},
		"TERMTwice":          {sig: syscall.SIGTERM, env: []string{slow}, twice: true},
		"INTTwice":           {sig: syscall.SIGINT, env: []string{slow}, twice: true},
	} {
		t.Run(name, func(t *testing.T) {
			run := t.TempDir()
			s := startLoading(t, append(c.env, "THOTH_RUNTIME_DIR="+run)...)
			eventually(t, c.after, func() bool { return strings.Contains(s.log(), c.after) })
			children := s.children()
			require.NoError(t, s.cmd.Process.Signal(c.sig))
			codes := []int{0}
			if c.twice {
				_ = s.cmd.Process.Signal(c.sig)
				codes = append(codes, 128+int(c.sig)) // 0: it was quicker
			}
			require.Contains(t, codes, s.exits(t, 10*time.Second), s.log())
			gone(t, s, children)
			left, err := os.ReadDir(run)
			require.NoError(t, err)
			require.Empty(t, left)
			require.Zero(t, s.probe(context.Background(), "/livez"))
		})
	}
}
