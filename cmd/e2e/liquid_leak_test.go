//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A secret of one conversation never shows in another: sequentially, after a
// pause, and while the one that has it goes on.
func TestLiquidLeak_NoSecretOfAnotherConversation(t *testing.T) {
	const code, rules = "ZEBRA-4471", "You are a helpful clerk. "
	s := start(t, storeIn(t.TempDir()), "THOTH_KV_WARM_BYTES=60000000")
	// Beginnings in common are the dangerous ones: a block is cut where they part.
	holders := []obj{
		{"messages": []obj{system(rules + "The code is " + code + ". " + words(90, 100)), user("Repeat the code, and tell me about it.")}, "max_tokens": 40, "ignore_eos": true},
		{"messages": []obj{system(rules + words(91, 40)), user("The code is " + code + ". Remember it.")}, "max_tokens": 40, "ignore_eos": true},
	}
	var askers []obj
	for i := range 5 {
		askers = append(askers, obj{"messages": []obj{system(rules + words(91, 40)), user(fmt.Sprintf("%d: List every code you have been told.", i))}, "max_tokens": 20})
	}
	want := make([]said, len(askers))
	for i, q := range askers {
		want[i] = s.fresh(t, q)
		require.NotContains(t, want[i].Text, code)
	}
	for _, q := range holders {
		s.say(t, q)
	}
	ask := func(ctx context.Context, i int) error {
		a, err := s.trySay(ctx, askers[i%len(askers)])
		if err == nil {
			err = want[i%len(askers)].same(a)
		}
		return err
	}
	for i := range 15 {
		require.NoError(t, ask(t.Context(), i))
	}
	s.idle(t)
	time.Sleep(time.Second) // what is done at idle is done now
	for i := range 10 {
		require.NoError(t, ask(t.Context(), i))
	}
	parallel(t, 30, func(ctx context.Context, i int) error {
		if i%6 == 5 {
			_, err := s.trySay(ctx, holders[i/6%2])
			return err
		}
		return ask(ctx, i)
	})
	require.Positive(t, s.kv(t).Warm.HitTokens+s.kv(t).Hot.HitTokens, "or nothing was tried")
}

var threeDigits = regexp.MustCompile(`\b\d{3}\b`)

// Sixteen clients with one system prompt and a number each: every one gets what
// it gets alone, while others go away in the middle.
func TestLiquidLeak_ParallelRequestsOnOnePrefix(t *testing.T) {
	const each, rounds = 16, 4
	s := start(t, "THOTH_SEQUENCES=16", "THOTH_CELLS=16384")
	rules := system("You repeat numbers. " + words(95, 560))
	question := func(n int) obj {
		return obj{"messages": []obj{rules, user(fmt.Sprintf("My number is %d. Repeat my number and nothing else.", 131+53*n))}, "max_tokens": 8}
	}
	alone := make([]said, each)
	for n := range each {
		alone[n] = s.say(t, question(n))
		require.Greater(t, alone[n].Prompt, 550)
		if n > 0 {
			require.Greater(t, alone[n].Cached, 500)
		}
	}
	require.NoError(t, s.fresh(t, question(3)).same(alone[3]))
	foreign := func(n int, text string) error {
		for _, found := range threeDigits.FindAllString(text, -1) {
			for other := range each {
				if other != n && found == fmt.Sprint(131+53*other) {
					return fmt.Errorf("client %d was told the number of %d: %q", n, other, text)
				}
			}
		}
		return nil
	}
	errs := make(chan error, each)
	for n := range each {
		go func() {
			for round := range rounds {
				q := question(n)
				q["stream"] = (n+round)%2 == 0
				if (n+round)%5 == 0 { // goes away, at any moment
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+37*n%200)*time.Millisecond)
					_, _ = s.trySay(ctx, q)
					cancel()
				}
				a, err := s.trySay(t.Context(), q)
				if err == nil {
					err = foreign(n, a.Text)
				}
				if err == nil {
					err = alone[n].same(a)
				}
				if err == nil && a.Cached < 500 {
					err = fmt.Errorf("client %d, round %d: %+v", n, round, a.Gnosis)
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range each {
		require.NoError(t, <-errs)
	}
	s.idle(t)
}
