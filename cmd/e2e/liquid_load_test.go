//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sixteen requests with one prefix that nobody has yet compute it once.
func TestLiquidLoad_OnePrefixIsComputedOnce(t *testing.T) {
	const clients = 16
	s := start(t, "THOTH_CELLS=16384")
	prefix := system(words(300, 560))
	q := func(i int) obj {
		return obj{"messages": []obj{prefix, user(fmt.Sprintf("What is %d plus one?", i))}, "max_tokens": 8, "stream": i%2 == 0}
	}
	before := s.station(t).PromptTokens
	got := make([]said, clients)
	parallelClients(t, clients, func(ctx context.Context, i int) (err error) {
		got[i], err = s.trySay(ctx, q(i))
		return err
	})
	computed := s.station(t).PromptTokens - before
	t.Logf("%d tokens computed for %d prompts of %d", computed, clients, got[0].Prompt)
	require.Greater(t, got[0].Prompt, 550)
	// The prefix once, and of each the question with its marks.
	require.Less(t, computed, uint64(got[0].Prompt+clients*40))
	waited := 0
	for _, a := range got {
		if a.Cached > 500 {
			waited++
		}
	}
	require.GreaterOrEqual(t, waited, clients-1)
	require.Positive(t, s.kv(t).Coalesced)
	for _, i := range []int{0, 7} {
		require.NoError(t, s.fresh(t, q(i)).same(got[i]))
	}
	s.idle(t)
}

// parallelClients runs f for 0 to n-1, all at once.
func parallelClients(t *testing.T, n int, f func(ctx context.Context, i int) error) {
	t.Helper()
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- f(t.Context(), i) }()
	}
	var all error
	for range n {
		all = errors.Join(all, <-errs)
	}
	require.NoError(t, all)
}

// Whoever computes for others may go away; they go on with what it has left.
func TestLiquidLoad_LeaderGoesAway(t *testing.T) {
	// In small steps, so that its numbers tell who waits.
	s := start(t, "THOTH_CELLS=8192", "THOTH_BATCH_SIZE=64")
	prefix := system(words(310, 560))
	q := func(i int) obj {
		return obj{"messages": []obj{prefix, user(fmt.Sprintf("What is %d plus one?", i))}, "max_tokens": 8}
	}
	before := s.station(t).PromptTokens
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	leader := s.background(ctx, q(0))
	s.counts(t, "station", "running", 1)
	const followers = 4
	got, ended := make([]said, followers), make(chan error, followers)
	for i := range followers {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var err error
			got[i], err = s.trySay(ctx, q(1+i))
			ended <- err
		}()
	}
	s.counts(t, "station", "waiting", followers)
	leave()
	require.Error(t, (<-leader).err, "it went away before its answer")
	for range followers {
		require.NoError(t, <-ended)
	}
	computed := s.station(t).PromptTokens - before
	t.Logf("%d tokens computed for %d prompts of %d, the first of which was given up", computed, followers, got[0].Prompt)
	require.Less(t, computed, uint64(2*got[0].Prompt+followers*40), "nobody computes all of it for itself")
	want := s.fresh(t, q(2))
	require.NoError(t, want.same(got[1]))
	s.idle(t)

	// A waiting one that goes away takes nobody along.
	prefix = system(words(311, 400))
	ctx, leave = context.WithCancel(t.Context())
	defer leave()
	done := make(chan said, 1)
	go func() {
		a, err := s.trySay(t.Context(), q(5))
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	s.counts(t, "station", "running", 1)
	follower := s.background(ctx, q(6))
	s.counts(t, "station", "waiting", 1)
	leave()
	require.Error(t, (<-follower).err)
	a := <-done
	require.NoError(t, s.fresh(t, q(5)).same(a))
	s.idle(t)
}

// Fifty restores of one conversation, from wherever it is by then and into
// whatever cells are free, give one answer.
func TestLiquidLoad_FiftyRestoresGiveOneAnswer(t *testing.T) {
	dir := t.TempDir()
	settings := []string{storeIn(dir), "THOTH_CELLS=1024", "THOTH_CONTEXT_LENGTH=1024", "THOTH_KV_WARM_BYTES=22000000"}
	s := start(t, settings...)
	q := obj{"messages": []obj{system(words(320, 200)), user("Which one is a fruit?")}, "max_tokens": 10}
	want := s.fresh(t, q)
	s.say(t, q)
	s.written(t)
	from := tiers{}
	for i := range 50 {
		switch {
		case i == 24: // the station anew
			require.Equal(t, 0, s.stop())
			s = start(t, settings...)
		case i%5 == 3: // others take the cells, and at times the RAM
			s.say(t, obj{"messages": []obj{user(words(uint64(330+i), 20*(1+i%11)))}, "max_tokens": 1 + i%7})
		}
		a := s.restored(t, want, q)
		require.GreaterOrEqual(t, a.Cached, a.Prompt-1-64, "cycle %d: %+v", i, a.Gnosis)
		from.Hot, from.Warm, from.Cold = from.Hot+a.Gnosis.Tiers.Hot, from.Warm+a.Gnosis.Tiers.Warm, from.Cold+a.Gnosis.Tiers.Cold
	}
	t.Logf("restored %+v", from)
	require.Positive(t, from.Hot+from.Warm)
	require.Positive(t, from.Cold)
}

// Thirty turns up to the end of the context: each reuses those before, and at
// the end nothing is left in the pool.
func TestLiquidLoad_ThirtyTurnsToTheEndOfTheContext(t *testing.T) {
	s := start(t, "THOTH_CONTEXT_LENGTH=1024", "THOTH_CELLS=2048", storeIn(t.TempDir()))
	var messages []obj
	turns, cached, asked := 0, 0, 0
	var last obj
	var lastSaid said
	for ; turns < 40; turns++ {
		messages = append(messages, user(words(uint64(400+turns), 8)))
		q := obj{"messages": messages, "max_tokens": 8, "ignore_eos": true}
		if r := s.chat(t, q, obj{"max_tokens": 1}); r.Status != 200 {
			require.Equal(t, "context_length_exceeded", r.Err(t, 400)["code"])
			break
		}
		a := s.say(t, q)
		last, lastSaid = q, a
		cached, asked = cached+a.Cached, asked+a.Prompt
		if turns > 3 {
			require.Less(t, a.Prompt-a.Cached, 64, "turn %d", turns)
		}
		messages = append(messages, assistant(a.Text))
	}
	require.GreaterOrEqual(t, turns, 25)
	require.Less(t, turns, 40, "the context has an end")
	require.Greater(t, cached, asked*9/10)
	require.NoError(t, s.fresh(t, last).same(lastSaid), "and the last answer is as if computed alone")
	s.idle(t)
	s.counts(t, "station", "sessions", 0)
	s.written(t)
	s.counts(t, "station", "cells_used", 0)
	require.Equal(t, 0, s.stop())
}

// Conversations that need four times the RAM and twice the disk that there is:
// all are answered right, and no budget is exceeded.
func TestLiquidLoad_WorkingSetOfFourBudgets(t *testing.T) {
	const warm, cold, conversations = 12 << 20, 24 << 20, 12
	dir := t.TempDir()
	s := start(t, storeIn(dir), fmt.Sprint("THOTH_KV_WARM_BYTES=", warm), fmt.Sprint("THOTH_KV_COLD_BYTES=", cold), "THOTH_CELLS=2048", "THOTH_CONTEXT_LENGTH=1024")
	q := func(i int) obj {
		return obj{"messages": []obj{system(words(uint64(500+i), 180)), user("Begin.")}, "max_tokens": 8}
	}
	var want []said
	for i := range conversations {
		want = append(want, s.fresh(t, q(i)))
	}
	before := s.footprint(t)
	cached, asked := 0, 0
	for round := range 2 {
		for i := range conversations {
			// Some twice in a row, so that what is used again soon is found.
			for range 1 + i%2 {
				a := s.say(t, q(i))
				require.NoError(t, want[i].same(a), "round %d, conversation %d", round, i)
				cached, asked = cached+a.Cached, asked+a.Prompt
			}
			x := s.kv(t)
			require.LessOrEqual(t, x.Warm.Bytes, int64(warm))
			require.LessOrEqual(t, x.Cold.Bytes, int64(cold)+2<<20)
		}
	}
	s.written(t)
	x := s.kv(t)
	need := int64(0)
	for _, a := range want {
		need += int64(a.Prompt * x.TokenBytes)
	}
	require.Greater(t, need, int64(4*warm), "or the test is none")
	require.Positive(t, x.Warm.Evictions)
	require.Positive(t, x.Cold.Evictions)
	require.Positive(t, cached)
	require.LessOrEqual(t, sum(stored(t, dir)), int64(cold)+2<<20, "on the disk, too")
	after := s.footprint(t)
	t.Logf("%d of %d tokens were found; need %d MiB; warm evicted %d, cold %d; %+v, then %+v", cached, asked, need>>20, x.Warm.Evictions, x.Cold.Evictions, before, after)
	require.Less(t, after.StationBytes-before.StationBytes, int64(warm)+64<<20)
	require.LessOrEqual(t, after.StationFiles, before.StationFiles+8)
	require.LessOrEqual(t, after.StationGoroutines, before.StationGoroutines+8)
	require.Equal(t, 0, s.stop())
}

// Two hundred prompts of five hundred tokens, ten times what there is room for,
// leave what the budgets allow; budgets below a single block are as good as none.
func TestLiquidLoad_BudgetsHold(t *testing.T) {
	const warm, cold = 4 << 20, 8 << 20
	weights := append(windowModel(t, chatml), "THOTH_CELLS=8192")
	dir := t.TempDir()
	s := start(t, append(weights, storeIn(dir), fmt.Sprint("THOTH_KV_WARM_BYTES=", warm), fmt.Sprint("THOTH_KV_COLD_BYTES=", cold))...)
	ask := func(ctx context.Context, i int) error {
		a, err := s.trySay(ctx, obj{"messages": []obj{user(words(uint64(1000+i), 75))}, "max_tokens": 2})
		if err == nil && a.Prompt < 400 {
			err = fmt.Errorf("a prompt of %d tokens", a.Prompt)
		}
		return err
	}
	parallel(t, 50, func(ctx context.Context, i int) error { return ask(ctx, i) })
	before := s.footprint(t)
	for part := range 3 {
		parallel(t, 50, func(ctx context.Context, i int) error { return ask(ctx, 50*(part+1)+i) })
		require.LessOrEqual(t, sum(stored(t, dir)), int64(cold)+1<<20)
	}
	after := s.footprint(t)
	t.Logf("%+v, then %+v, %d bytes in %d files", before, after, sum(stored(t, dir)), len(stored(t, dir)))
	require.True(t, after.within(before), "%+v, then %+v", before, after)
	x := s.kv(t)
	require.LessOrEqual(t, x.Warm.Bytes, int64(warm))
	require.Positive(t, x.Warm.Evictions)
	require.Positive(t, x.Cold.Evictions)
	require.Equal(t, 0, s.stop())

	q := obj{"messages": []obj{user(words(2000, 60))}, "max_tokens": 6}
	for _, budgets := range [][]string{
		{"THOTH_KV_WARM_BYTES=1000", "THOTH_KV_COLD_BYTES=1000"},
		{"THOTH_KV_WARM_BYTES=0", "THOTH_KV_COLD_BYTES=0"},
		{"THOTH_KV_COLD_BYTES=1000"},
		{"THOTH_KV_COLD_BYTES=0"},
	} {
		t.Run(budgets[0], func(t *testing.T) {
			dir := t.TempDir()
			s := start(t, append(append(weights, storeIn(dir)), budgets...)...)
			want := s.say(t, q, off...)
			for range 3 {
				require.NoError(t, want.same(s.say(t, q).told(t)))
			}
			require.Empty(t, stored(t, dir))
			require.Equal(t, 0, s.stop())
		})
	}
}
