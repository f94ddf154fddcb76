//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// soon bounds what must happen at once: a step of the station and a short
// answer. A request nobody waits for any more would hold its place for longer.
const soon = 8 * time.Second

// A place is given back when the client goes, whether it was running or still
// waiting, and no other client notices.
func TestClient_GoingAwayEndsTheWork(t *testing.T) {
	// The pool is large enough for an endless answer to take a minute.
	s := start(t, oneSlot...)

	t.Run("WhileStreaming", func(t *testing.T) {
		l := s.begin(t, endless)
		l.cancel()
		require.NotEmpty(t, get(t, s.background(t.Context()), soon).Text(t))
		idleCPU(t, s)
	})
	t.Run("WhileNothingWasSentYet", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := s.background(ctx, endless)
		s.counts(t, "station", "running", 1)
		cancel()
		require.Error(t, (<-c).err)
		require.NotEmpty(t, get(t, s.background(t.Context()), soon).Text(t))
		idleCPU(t, s)
	})
	t.Run("WhileThePromptIsEvaluated", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := s.background(ctx, obj{"messages": []obj{user(longPrompt(3000))}})
		s.counts(t, "station", "running", 1)
		cancel()
		require.Error(t, (<-c).err)
		require.NotEmpty(t, get(t, s.background(t.Context()), soon).Text(t))
		idleCPU(t, s)
	})
	t.Run("WhileWaiting", func(t *testing.T) {
		s.idle(t)
		before := s.number(t, "station", "requests")
		active := s.begin(t, endless).follow()
		ctx, cancel := context.WithCancel(t.Context())
		var queued []<-chan result
		for i := range 10 {
			queued = append(queued, s.background(ctx, obj{"stream": i%2 == 0, "max_tokens": 200}))
		}
		s.counts(t, "host", "waiting", 10)
		cancel()
		for _, c := range queued {
			require.Error(t, (<-c).err)
		}
		s.counts(t, "host", "waiting", 0)

		next := s.background(t.Context())
		s.counts(t, "host", "waiting", 1)
		require.False(t, active.ended())
		active.cancel()
		require.NotEmpty(t, get(t, next, soon).Text(t))
		s.idle(t)
		require.Equal(t, before+2, s.number(t, "station", "requests"), "the active one and the next: nobody else reached the station")
	})
	t.Run("TheActiveStreamGoesOn", func(t *testing.T) {
		more := obj{"messages": []obj{user("Tell me about rivers.")}, "max_tokens": 300, "ignore_eos": true}
		alone := s.stream(t, more)
		active := s.begin(t, more).follow()
		for i := range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			c := s.background(ctx, obj{"stream": i%2 == 0})
			s.counts(t, "host", "waiting", 1)
			cancel()
			require.Error(t, (<-c).err)
			s.counts(t, "host", "waiting", 0)
		}
		require.False(t, active.ended(), "or nothing was shown")
		e := active.finish(t, patience)
		require.True(t, e.Done)
		require.Equal(t, alone.Text(0), e.Text(0))
		require.Equal(t, alone.Finishes(0), e.Finishes(0))
	})
	s.idle(t)
}

// idleCPU waits until the station uses next to no CPU.
func idleCPU(t *testing.T, s *server) {
	t.Helper()
	s.idle(t)
	pid := s.child(stationProgram)
	const window = 300 * time.Millisecond // of 30 ticks a core
	eventually(t, "an idle CPU", func() bool {
		before := cpuTicks(pid)
		time.Sleep(window) // what is measured is a rate
		return cpuTicks(pid)-before <= 3
	})
}

// A request without a cap must not own its place for ever: it ends at the
// context, or at the documented default.
func TestClient_GivesNoCap(t *testing.T) {
	uncapped := obj{"max_tokens": nil, "temperature": 1.5, "ignore_eos": true,
		"messages": []obj{user("Write without ever stopping: a a a a")}}
	t.Run("EndsAtTheContext", func(t *testing.T) {
		s := start(t, "THOTH_CONTEXT_LENGTH=256")
		whole := s.chat(t, uncapped)
		require.NotEmpty(t, whole.Text(t))
		require.Equal(t, "length", whole.Finish(t))
		require.Equal(t, 256, whole.Usage(t, "total_tokens"))
		e := s.stream(t, uncapped)
		require.True(t, e.Done)
		require.Equal(t, []string{"length"}, e.Finishes(0))
	})
	t.Run("EndsAtTheDefault", func(t *testing.T) {
		s := start(t, "THOTH_DEFAULT_MAX_TOKENS=20")
		whole := s.chat(t, uncapped)
		require.Equal(t, "length", whole.Finish(t))
		require.Equal(t, 20, whole.Usage(t, "completion_tokens"))
		require.Equal(t, 30, s.chat(t, uncapped, obj{"max_tokens": 30}).Usage(t, "completion_tokens"), "a request's own cap wins")
	})
}
