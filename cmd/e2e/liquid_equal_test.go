//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What was restored, wherever from, gives the answer that is computed in full:
// the same tokens.
func TestLiquidEqual_CachedEqualsFresh(t *testing.T) {
	t.Run("Q4_1", func(t *testing.T) {
		equalEverywhere(t, mixedPrompts(50, 1), "THOTH_MODEL="+model())
	})
	t.Run("Q4_1 with KV of q8_0", func(t *testing.T) {
		equalEverywhere(t, mixedPrompts(50, 1), "THOTH_MODEL="+model(), "THOTH_KV_TYPE=q8_0")
	})
	t.Run("Q8_0", func(t *testing.T) {
		weights := ownModel(t, quantized(t, "q8_0"))
		equalEverywhere(t, mixedPrompts(50, 1), weights...)
		t.Run("with KV of q8_0", func(t *testing.T) {
			equalEverywhere(t, mixedPrompts(50, 1), append(weights, "THOTH_KV_TYPE=q8_0")...)
		})
	})
	t.Run("F16", func(t *testing.T) {
		weights := append(ownModel(t, quantized(t, "f16")), "THOTH_EXACT=1")
		equalEverywhere(t, mixedPrompts(50, 1), weights...)
		t.Run("with KV of q8_0", func(t *testing.T) {
			equalEverywhere(t, mixedPrompts(50, 1), append(weights, "THOTH_KV_TYPE=q8_0")...)
		})
	})
	t.Run("SlidingWindow", func(t *testing.T) {
		weights := windowModel(t, chatml)
		equalEverywhere(t, mixedPrompts(50, 6), weights...)
		t.Run("with KV of q8_0", func(t *testing.T) {
			equalEverywhere(t, mixedPrompts(50, 6), append(weights, "THOTH_KV_TYPE=q8_0")...)
		})
	})
}

// mixedPrompts are requests of all lengths, greedy and seeded in turn. Of each
// five one is short, one has a system prompt in common with others, one stands
// alone, one is a turn of a conversation that grows, and one differs from others
// in a single word. tokens is what a word takes. The longest of many has some 1,500.
func mixedPrompts(n, tokens int) []obj {
	text := func(seed uint64, n int) string { return words(seed, max(1, n/tokens)) }
	all := make([]obj, n)
	for i := range all {
		seed, round := uint64(i), i/5
		var messages []obj
		switch i % 5 {
		case 0:
			messages = []obj{user(text(seed, 2+round))}
		case 1:
			messages = []obj{system(text(1000+seed%2, 60+120*(round%2))), user(text(seed, 5+4*round))}
		case 2:
			messages = []obj{user(text(seed, 40+7*i))}
		case 3:
			messages = []obj{system("You are terse. " + text(2000, 30))}
			for turn := range round {
				messages = append(messages, user(text(2100+uint64(turn), 12)), assistant(text(2200+uint64(turn), 14)))
			}
			messages = append(messages, user(text(2100+uint64(round), 12)))
		case 4:
			list := strings.Fields(text(3000, 150))
			list[len(list)*(round+1)/12] = "changed"
			messages = []obj{user(strings.Join(list, " "))}
		}
		all[i] = obj{"messages": messages, "max_tokens": 16 + i%9, "stream": i%3 == 0}
		if i%2 == 1 {
			all[i]["temperature"], all[i]["seed"] = 0.8, 4000+i
		}
	}
	if n > 20 {
		all[7] = obj{"messages": []obj{user(text(5000, 1450))}, "max_tokens": 16, "temperature": 0.8, "seed": 5, "ignore_eos": true}
	}
	return all
}

// equalEverywhere asks the same prompts of a server without reuse, while it
// fills its memory, out of what it has there, of a server started anew that
// computes with other cells and threads, and of a replica beside it.
func equalEverywhere(t *testing.T, prompts []obj, env ...string) {
	env = append(env, storeIn(t.TempDir()), "THOTH_KV_WARM_BYTES=1000000000", "THOTH_KV_COLD_BYTES=2000000000")
	with := func(more ...string) *server { return start(t, append(slices.Clone(env), more...)...) }

	first := with("THOTH_CELLS=8192", "THOTH_THREADS=2")
	want := make([]said, len(prompts))
	for i, p := range prompts {
		want[i] = first.fresh(t, p)
	}
	total := func(of func(said) int, all []said) (n int) {
		for _, a := range all {
			n += of(a)
		}
		return n
	}
	asked := total(func(a said) int { return a.Prompt }, want)
	// check asks everything, one by one or by eight clients, and returns the
	// answers once they are equal.
	check := func(what string, s *server, many bool) []said {
		got := make([]said, len(prompts))
		one := func(ctx context.Context, i int) (err error) {
			if got[i], err = s.trySay(ctx, prompts[i]); err == nil {
				err = want[i].same(got[i])
			}
			if err != nil {
				return fmt.Errorf("%s, prompt %d: %w", what, i, err)
			}
			return nil
		}
		if many {
			parallel(t, len(prompts), one)
		} else {
			for i := range prompts {
				require.NoError(t, one(t.Context(), i))
			}
		}
		of := func(f func(tiers) int) int { return total(func(a said) int { return f(a.Gnosis.Tiers) }, got) }
		t.Logf("%-28s hot %5d, warm %5d, cold %5d of %d tokens", what, of(func(x tiers) int { return x.Hot }), of(func(x tiers) int { return x.Warm }),
			of(func(x tiers) int { return x.Cold }), asked)
		return got
	}
	cached := func(all []said) int { return total(func(a said) int { return a.Cached }, all) }
	cold := func(all []said) int { return total(func(a said) int { return a.Gnosis.Tiers.Cold }, all) }

	filled := check("while it fills", first, false)
	require.Less(t, cached(filled), asked*9/10, "or nothing was there to be filled")
	for _, a := range filled {
		require.True(t, a.Gnosis.Saved, "%+v", a.Gnosis)
	}
	for _, what := range []string{"again", "and again"} {
		again := check(what, first, false)
		for i, a := range again {
			// A parent keeps a few ends only: the rest of a block may be computed.
			require.GreaterOrEqual(t, a.Cached, a.Prompt-1-64, "prompt %d: %+v", i, a.Gnosis)
		}
		require.Greater(t, cached(again), asked*9/10)
		require.Less(t, total(func(a said) int { return a.Written }, again), asked/10, "it is there already")
	}
	check("by many at once", first, true)
	first.written(t)
	require.Equal(t, 0, first.stop())

	// A block that another prompt brought into RAM is warm, the first time it is cold.
	second := with("THOTH_CELLS=6144", "THOTH_THREADS=1", "THOTH_SEQUENCES=16")
	replica := with("THOTH_CELLS=8192", "THOTH_THREADS=2")
	got := check("after a restart", second, false)
	require.Greater(t, cached(got), asked*6/10, "what is not read is computed sooner")
	require.Greater(t, cold(got), asked/4)
	got = check("on a replica, by many", replica, true)
	require.Greater(t, cached(got), asked*6/10)
	require.Greater(t, cold(got), asked/4)
	got = check("after it all", second, true)
	require.Greater(t, cached(got), asked*8/10)
	for _, s := range []*server{second, replica} {
		x := s.kv(t)
		require.Empty(t, x.Cold.Drops)
		require.Zero(t, x.Cold.Failures)
		require.Equal(t, 0, s.stop())
	}
}
