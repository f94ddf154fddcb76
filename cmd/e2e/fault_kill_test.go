//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// quickly are settings with which a station that is killed many times comes back
// without growing pauses.
var quickly = []string{"THOTH_STABLE_SECONDS=0.1", "THOTH_HEALTH_INTERVAL=200ms"}

// remembered are conversations in a cold store and what they were answered.
type remembered struct {
	q    []obj
	want []said
}

// remember has a server answer n prompts of so many words and write them down.
func remember(t *testing.T, s *server, n, length int, seed uint64) (r remembered) {
	t.Helper()
	for i := range n {
		q := obj{"messages": []obj{system(words(seed+uint64(i), length)), user("Go.")}, "max_tokens": 8}
		r.q = append(r.q, q)
		r.want = append(r.want, s.say(t, q))
	}
	s.written(t)
	return r
}

// found asks for one of them again and wants it from the store.
func (r remembered) found(t *testing.T, s *server, i int) {
	t.Helper()
	i %= len(r.q)
	a := s.restored(t, r.want[i], r.q[i])
	require.Equal(t, "hit", a.Gnosis.Memory)
	require.GreaterOrEqual(t, a.Gnosis.Tiers.Cold, 64, "%+v", a.Gnosis)
}

// mayBeFound is found for a station that has just started beside other work: the
// read may come too late to be waited for. What is answered is right all the same.
func (r remembered) mayBeFound(t *testing.T, s *server, i int) (hit int) {
	t.Helper()
	i %= len(r.q)
	a := s.say(t, r.q[i])
	require.NoError(t, r.want[i].same(a))
	if a.Gnosis.Tiers.Cold >= 64 {
		return 1
	}
	return 0
}

// killStation kills the station after a moment of at most most.
func (s *server) killStation(t *testing.T, r *rand.Rand, most time.Duration) time.Duration {
	t.Helper()
	delay := time.Duration(r.Int64N(int64(most)))
	time.Sleep(delay) // any moment is to be right
	s.signalChild(t, stationProgram, syscall.SIGKILL)
	return delay
}

func anyMoment() *rand.Rand { return rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1)) }

// asksUntil asks until the station that was killed is back: each refusal on the
// way is one that clients retry.
func (s *server) asksUntil(t *testing.T, q obj) (a said) {
	t.Helper()
	eventually(t, "an answer", func() bool {
		r := s.chat(t, q, obj{"logprobs": true})
		if r.Status != http.StatusOK {
			r.unavailable(t)
			return false
		}
		a = said{Header: r.Header}
		require.NoError(t, a.add(r.Body))
		return true
	})
	return a
}

// The station is killed at any moment of its writing: what was written before
// is found, what was being written is found or computed, and nothing is wrong.
func TestFaultKill_WhileItSaves(t *testing.T) {
	const kills = 8
	s := start(t, append(quickly, storeIn(t.TempDir()))...)
	before := remember(t, s, 2, 90, 1000)
	host, r, later, hits := s.child(hostProgram), anyMoment(), 0, 0
	for i := range kills {
		q := obj{"messages": []obj{system(words(1010+uint64(i), 150)), user("Go.")}, "max_tokens": 8}
		want := s.say(t, q)
		most := 100 * time.Millisecond
		if i%4 == 3 {
			most = 2 * time.Second // ends of prompts are written later
		}
		delay := s.killStation(t, r, most)
		a := s.asksUntil(t, q)
		require.NoError(t, want.same(a), "killed %s after its answer", delay)
		later += a.Cached
		hits += before.mayBeFound(t, s, i)
		require.Empty(t, s.kv(t).Cold.Drops, "a file has its name only when all of it is there")
	}
	require.GreaterOrEqual(t, hits, kills/2, "what was written before is found")
	require.Positive(t, later, "or nothing was ever written before a kill")
	require.Equal(t, host, s.child(hostProgram), "the host stays")
	s.written(t)
	require.Equal(t, 0, s.stop())
}

// The same while it restores: the request in flight is refused or answered, and
// the blocks it was reading are as good as before.
func TestFaultKill_WhileItLoads(t *testing.T) {
	const kills = 5
	s := start(t, append(quickly, storeIn(t.TempDir()))...)
	before := remember(t, s, 1, 560, 1030)
	s.signalChild(t, stationProgram, syscall.SIGKILL)
	s.comesBack(t)
	r, refused, hits := anyMoment(), 0, 0
	for i := range kills {
		q := before.q[0]
		var killed bool
		if i%2 == 0 {
			c := s.background(t.Context(), q)
			s.killStation(t, r, 150*time.Millisecond)
			answer := get(t, c, patience)
			if killed = answer.Status != http.StatusOK; killed {
				answer.unavailable(t)
			} else {
				require.Equal(t, before.want[0].Text, answer.Text(t))
			}
		} else {
			ended := make(chan events, 1)
			go func() {
				e, err := s.tryStream(t.Context(), q)
				if err != nil && e.Header == nil {
					t.Error(err)
				}
				ended <- e
			}()
			s.killStation(t, r, 150*time.Millisecond)
			e := <-ended
			if killed = !e.Done; !killed {
				require.Equal(t, before.want[0].Text, e.Text(0))
			} else if e.JSON != nil {
				require.Equal(t, "station_unavailable", e.Error["code"])
			}
		}
		if killed {
			refused++
		}
		s.comesBack(t)
		hits += before.mayBeFound(t, s, 0)
		require.Empty(t, s.kv(t).Cold.Drops)
	}
	t.Logf("%d of %d requests were cut", refused, kills)
	require.GreaterOrEqual(t, hits, kills/2, "what was written before is found")
	require.Equal(t, 0, s.stop())
}

// And while it streams: every stream ends in an error event, with its text a
// beginning of the right one.
func TestFaultKill_WhileItStreams(t *testing.T) {
	const streams = 3
	s := start(t, append(quickly, storeIn(t.TempDir()))...)
	before := remember(t, s, streams, 90, 1040)
	long := func(i int) obj {
		return P(before.q[i], obj{"max_tokens": 600, "ignore_eos": true})
	}
	var live [streams]*live
	for i := range live {
		live[i] = s.begin(t, long(i)).follow()
	}
	s.signalChild(t, stationProgram, syscall.SIGKILL)
	for i, l := range live {
		e := l.finish(t, soon)
		require.False(t, e.Done)
		require.Empty(t, e.Finishes(0))
		require.Equal(t, "station_unavailable", e.Error["code"])
		n := min(len(e.Text(0)), len(before.want[i].Text))
		require.Positive(t, n)
		require.Equal(t, before.want[i].Text[:n], e.Text(0)[:n], fmt.Sprint("stream ", i))
	}
	s.comesBack(t)
	hits := 0
	for i := range streams {
		hits += before.mayBeFound(t, s, i)
	}
	require.Positive(t, hits, "what was written before is found")
	require.Empty(t, s.kv(t).Cold.Drops)
	s.idle(t)
	require.Equal(t, 0, s.stop())
}
