package kvstore

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// perToken is the computing time of these tests: 718 tokens take 2.9 s.
const perToken = 0.004

var gate = Gate{TokenSeconds: perToken}

// bubble runs a test on a clock of its own.
func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

// fetch is Find and Fetch; it tells how long Fetch took.
func fetch(t testing.TB, s *Store, tokens []int32, g Gate) (*Match, time.Duration) {
	t.Helper()
	m := find(s, Scope{}, tokens)
	start := time.Now()
	m.Fetch(t.Context(), g)
	took := time.Since(start)
	t.Cleanup(m.Release)
	verify(t, m, Scope{}, tokens)
	return m, took
}

func always(d time.Duration) func(int, int64) (time.Duration, bool) {
	return func(int, int64) (time.Duration, bool) { return d, true }
}

func TestFetch_ReadsInParallelAndToTheLastToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens := text(718, 1)
		c := newShelf()
		stock(t, c, Scope{}, tokens)
		c.latency = 20 * time.Millisecond
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		m, took := fetch(t, s, tokens[:717], gate)
		require.Equal(t, 717, m.Tokens())
		require.Equal(t, 717, m.FromCold(0, 717))
		require.Equal(t, 10, m.FromCold(60, 70))
		require.Empty(t, m.Short().Reason)
		require.Equal(t, 80*time.Millisecond, took, "two rounds of blocks, the list of tails, the tail")
		require.Equal(t, 8, c.peak())

		m.Pieces(0, 717)
		m.Used(717)
		x := s.Index()
		require.EqualValues(t, 1, x.Cold.Hits)
		require.EqualValues(t, 717, x.Cold.HitTokens)
		require.Zero(t, x.Warm.Hits)
		require.Zero(t, x.Dirty, "what came from there is not written there")
		synctest.Wait()
		require.Len(t, c.touched, 12)

		warm, took := fetch(t, s, tokens[:717], gate)
		require.Equal(t, 717, warm.Tokens())
		require.Zero(t, warm.FromCold(0, 717))
		require.Zero(t, took)
	})
}

func TestFetch_GoesOnWhereRAMEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens := text(300, 1)
		c := newShelf()
		keys := stock(t, c, Scope{}, tokens)
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		first, _ := fetch(t, s, tokens[:128], gate)
		require.Equal(t, 128, first.Tokens())
		m, _ := fetch(t, s, text(400, 2, tokens[:290]...), gate)
		require.Equal(t, 290, m.Tokens(), "the tail is cut")
		require.Equal(t, 162, m.FromCold(0, 290))
		require.Equal(t, wire.KVDiffers, m.Short().Reason)
		require.Equal(t, 290, m.Short().DiffersAt)
		for _, k := range keys {
			require.Equal(t, 1, c.reads()[k])
		}
	})
}

func TestFetch_ReadsOnceForMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens := text(400, 1)
		c := newShelf()
		keys := stock(t, c, Scope{}, tokens)
		c.latency = 20 * time.Millisecond
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				m, _ := fetch(t, s, tokens, gate)
				require.Equal(t, 400, m.Tokens())
			})
		}
		wg.Wait()
		for _, k := range keys {
			require.Equal(t, 1, c.reads()[k])
		}
	})
}

func TestFetch_AMissCostsOneRoundOfNamesAndOneList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		stock(t, c, Scope{}, text(300, 1))
		c.latency = 20 * time.Millisecond
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		m, took := fetch(t, s, text(718, 2), gate)
		require.Zero(t, m.Tokens())
		require.Equal(t, wire.KVNothing, m.Short().Reason)
		require.Equal(t, 40*time.Millisecond, took)
		require.Empty(t, s.roots, "no places are left behind")
	})
}

func TestGate_Plan(t *testing.T) {
	const second = time.Second
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	none := prediction{}
	at := func(d time.Duration) prediction { return prediction{d, true} }
	for name, c := range map[string]struct {
		gate     Gate
		known    bool
		ask, all prediction
		want     plan
	}{
		"nothing known of a short prompt: 1 % for an answer, half in all": {Gate{0.01, 0}, false, none, none, plan{true, ms(10), ms(500), ms(500)}},
		"stored: wait for it":                         {Gate{0.01, 0}, true, none, none, plan{true, ms(500), ms(500), ms(500)}},
		"twice what is predicted from block to block": {Gate{0.01, 0}, true, at(ms(1)), at(ms(40)), plan{true, ms(100), ms(100), ms(500)}},
		"the caller's wait":                           {Gate{0.01, ms(10)}, true, none, at(ms(40)), plan{true, ms(10), ms(10), ms(10)}},
		"an answer may not take longer than all":      {Gate{0.01, ms(10)}, false, none, none, plan{true, ms(10), ms(10), ms(10)}},
		"reading is slower than computing":            {Gate{0.01, 0}, true, at(ms(1)), at(second + 1), plan{}},
		"asking costs too much: look, do not wait":    {Gate{0.01, 0}, false, at(ms(31)), at(ms(400)), plan{true, 0, ms(500), ms(500)}},
		"but for what is known to be there":           {Gate{0.01, 0}, true, at(ms(31)), at(ms(400)), plan{true, ms(500), ms(500), ms(500)}},
		"computing time not known":                    {Gate{0, 0}, false, none, none, plan{true, second, second, second}},
		"not known, and a wait":                       {Gate{0, ms(20)}, false, none, none, plan{true, ms(20), ms(20), ms(20)}},
	} {
		require.Equal(t, c.want, c.gate.plan(100, c.known, c.ask, c.all), name)
	}
	require.Equal(t, plan{true, ms(30), ms(500), ms(500)}, Gate{0.005, 0}.plan(200, false, none, none), "of a longer one: 3 %")
}

func TestFetch_ASlowStoreIsNotWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens := text(300, 1)
		c := newShelf()
		stock(t, c, Scope{}, tokens)
		c.latency = 10 * time.Second
		c.predict = always(10 * time.Second)
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		for i := range relearn {
			require.Empty(t, c.reads())
			m, took := fetch(t, s, tokens, gate)
			require.Zero(t, took)
			require.Equal(t, wire.KVStoreSlow, m.Short().Reason)
			require.Empty(t, c.missed, "nobody waited: fetch %d", i)
		}
		time.Sleep(time.Minute)
		require.NotEmpty(t, c.reads(), "one in many is made for nobody, to learn that the store is faster by now")
		require.Equal(t, 256, found(t, s, Scope{}, tokens), "whole blocks; the tail does not pay")
	})
}

func TestFetch_AProbeThatCostsTooMuchRunsBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens := text(300, 1)
		c := newShelf()
		stock(t, c, Scope{}, tokens)
		c.latency = 50 * time.Millisecond
		c.predict = always(50 * time.Millisecond) // more than 3 % of 1.2 s
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		m, took := fetch(t, s, tokens, gate)
		require.Zero(t, took)
		require.Zero(t, m.Tokens())
		require.Equal(t, wire.KVStoreSlow, m.Short().Reason)
		time.Sleep(time.Second)
		require.Equal(t, 300, found(t, s, Scope{}, tokens), "the next one has it")
	})
}

func TestFetch_WhatTheStoreListsIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, n := range []int{40, 300} { // a short prompt's end, and a whole block
			tokens := text(n, 1)
			c := newShelf()
			stock(t, c, Scope{}, tokens)
			c.indexed = true
			c.latency = 40 * time.Millisecond
			c.predict = always(40 * time.Millisecond) // more than 3 %
			s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
			m := s.Find(Scope{}, tokens, n-1)
			m.Fetch(t.Context(), gate)
			require.Equal(t, n-1, m.Tokens())
			m.Release()
		}
	})
}

func TestFetch_WhatWasEvictedIsKnownToBeThere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens := text(256, 1)
		c := newShelf()
		s := open(t, Options{Identity: named, WarmBytes: blocks(4), Cold: c})
		save(t, s, Scope{}, tokens, SaveOptions{})
		synctest.Wait()
		require.Equal(t, 4, c.len())
		save(t, s, Scope{}, text(256, 2), SaveOptions{})
		synctest.Wait()
		c.latency = 50 * time.Millisecond
		c.predict = always(50 * time.Millisecond) // more than 3 %, and it is waited for
		m, took := fetch(t, s, tokens, gate)
		require.Equal(t, 256, m.Tokens())
		require.Equal(t, c.latency, took)
	})
}

func TestFetch_AHangingStoreIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens := text(300, 1)
		c := newShelf()
		keys := stock(t, c, Scope{}, tokens)
		free := make(chan struct{})
		c.onGet = func(ctx context.Context, n block.Name) error {
			if n.Key == keys[0] {
				return nil // the first comes: it is stored, so waiting for the rest may pay
			}
			select {
			case <-free:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		m, took := fetch(t, s, tokens, gate)
		require.Equal(t, 64, m.Tokens(), "what came in time is used")
		require.Equal(t, wire.KVStoreSlow, m.Short().Reason)
		require.Equal(t, 600*time.Millisecond, took, "half of the computing time")
		require.Equal(t, []time.Duration{took}, c.missed)

		close(free)
		synctest.Wait()
		require.Equal(t, 300, found(t, s, Scope{}, tokens), "what comes later is for the next")
	})
}

func TestFetch_AReadThatComesAlongIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens := text(256, 1)
		c := newShelf()
		stock(t, c, Scope{}, tokens)
		c.latency = 15 * time.Millisecond
		c.predict = always(time.Millisecond)
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Readers: 1, Cold: c})
		m, took := fetch(t, s, tokens, gate)
		require.Equal(t, 256, m.Tokens())
		require.Equal(t, 4*c.latency, took, "much longer than predicted, much less than computing")
		require.Empty(t, c.missed)
	})
}

func TestFetch_TheFirstAnswerHasThreePercent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		c.onGet = func(ctx context.Context, _ block.Name) error { <-ctx.Done(); return ctx.Err() }
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		m, took := fetch(t, s, text(500, 1), gate)
		require.Equal(t, 60*time.Millisecond, took)
		require.Equal(t, wire.KVStoreSlow, m.Short().Reason)
		require.Len(t, c.missed, 1)
		_, took = fetch(t, s, text(500, 1), Gate{TokenSeconds: perToken, Wait: 10 * time.Millisecond})
		require.Equal(t, 10*time.Millisecond, took)

		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		m = find(s, Scope{}, text(500, 1))
		defer m.Release()
		missed := len(c.missed)
		m.Fetch(ctx, gate)
		require.Len(t, c.missed, missed, "a caller that goes is not the store's fault")
	})
}

func TestFetch_ManyAtAHangingStoreAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		c.onGet = func(ctx context.Context, _ block.Name) error { <-ctx.Done(); return ctx.Err() }
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		for i := range int32(maxChases + 5) {
			m, took := fetch(t, s, text(128, i), Gate{TokenSeconds: perToken, Wait: time.Millisecond})
			require.Equal(t, wire.KVStoreSlow, m.Short().Reason)
			require.LessOrEqual(t, took, time.Millisecond)
		}
		synctest.Wait()
		require.Equal(t, maxChases, s.chases)
		require.LessOrEqual(t, c.peak(), 8)
		time.Sleep(time.Hour) // reads have their own end
		synctest.Wait()
		require.Zero(t, s.chases)
	})
}

func TestFetch_AFailingStoreIsSkipped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		c.onGet = func(context.Context, block.Name) error { return ErrFailing }
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		m, took := fetch(t, s, text(500, 1), gate)
		require.Zero(t, took)
		require.Equal(t, wire.KVStoreFails, m.Short().Reason)
	})
}

func TestFetch_ADamagedBlockEndsThePrefix(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens := text(300, 1)
		c := newShelf()
		keys := stock(t, c, Scope{}, tokens)
		c.onGet = func(_ context.Context, n block.Name) error {
			if n.Key == keys[2] {
				return &block.Fault{Reason: block.Checksum, Detail: "a byte has changed"}
			}
			return nil
		}
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		m, _ := fetch(t, s, tokens, gate)
		require.Equal(t, 128, m.Tokens())
		require.Equal(t, wire.KVDamaged, m.Short().Reason)
		again := find(s, Scope{}, tokens)
		defer again.Release()
		require.Equal(t, wire.KVDamaged, again.Short().Reason, "it is remembered")
		synctest.Wait() // the reads of what comes behind have ended
		s.invariants(t)
		save(t, s, Scope{}, tokens[:192], SaveOptions{}) // computed again: what came behind the hole is of use
		require.Equal(t, 256, found(t, s, Scope{}, tokens))
	})
}

func TestFetch_TokensAreComparedNotOnlyKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := text(100, 1), text(100, 2)
		for name, damage := range map[string]func(block *block.Block){
			"other tokens":   func(x *block.Block) { x.Tokens = b[:64] },
			"other length":   func(x *block.Block) { x.Data = x.Data[:len(x.Data)-1] },
			"fewer than all": func(x *block.Block) { x.Tokens, x.Data = x.Tokens[:63], x.Data[:63*tokenBytes] },
		} {
			c := newShelf()
			stock(t, c, Scope{}, a)
			for n, x := range c.blocks {
				if len(x.Tokens) == block.Tokens {
					damage(c.blocks[n])
				}
			}
			s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
			m, _ := fetch(t, s, a, gate)
			require.Zero(t, m.Tokens(), name)
			require.Equal(t, wire.KVDamaged, m.Short().Reason, name)
			drops := s.Index().Warm.Drops
			require.EqualValues(t, 1, drops["size"]+drops["other_tokens"], name)
			require.Len(t, c.deleted, 1, name)
		}
	})
}

func TestFetch_StaysWithinTheBudget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens := text(640, 1)
		c := newShelf()
		stock(t, c, Scope{}, tokens)
		s := open(t, Options{Identity: named, WarmBytes: blocks(4), Cold: c})
		save(t, s, Scope{}, text(64, 9), SaveOptions{})
		synctest.Wait() // it is written, so it may go
		m, _ := fetch(t, s, tokens, gate)
		require.Equal(t, 256, m.Tokens())
		require.Equal(t, wire.KVNoRoom, m.Short().Reason)
		s.invariants(t)
	})
}

func TestFetch_ASmallBudgetTakesTheFirstBlocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens := text(640, 1)
		c := newShelf()
		first := stock(t, c, Scope{}, tokens)[:4]
		c.onGet = func(_ context.Context, n block.Name) error {
			if slices.Contains(first, n.Key) { // later ones have taken all memory by then
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		}
		c.onRead = func(n block.Name) {
			if !slices.Contains(first, n.Key) {
				time.Sleep(20 * time.Millisecond)
			}
		}
		s := open(t, Options{Identity: named, WarmBytes: blocks(4), Cold: c})
		m, _ := fetch(t, s, tokens, gate)
		require.Equal(t, 256, m.Tokens())
	})
}

func TestFetch_AsksNothingBelowABlockThatOnlyRAMHas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		c.onPut = func(context.Context, *block.Block) error { return errDisk }
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		tokens := text(300, 1)
		save(t, s, Scope{}, tokens[:64], SaveOptions{})
		m, _ := fetch(t, s, tokens, gate)
		require.Equal(t, 64, m.Tokens())
		require.Equal(t, wire.KVEnds, m.Short().Reason)
		require.Empty(t, c.reads())
	})
}

func TestFetch_ReadsNoTailThatIsKnownNotToHelp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := text(64, 1)
		c := newShelf()
		for i := range int32(4) {
			stock(t, c, Scope{}, text(80, 10+i, base...))
		}
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Tails: 1, Cold: c})
		total := func() (n int) {
			for _, k := range c.reads() {
				n += k
			}
			return n
		}
		m, _ := fetch(t, s, text(80, 12, base...), gate)
		require.Equal(t, 80, m.Tokens())
		require.Equal(t, 2, total(), "the key tells which")
		for i := range int32(4) {
			fetch(t, s, text(80, 50+i, base...), gate) // unknown ones must be read to be compared: each once
		}
		before := total()
		fetch(t, s, text(80, 70, base...), gate)
		require.Equal(t, before+1, total(), "the prompt's own end is asked for by its name")
		require.LessOrEqual(t, before, 5+4)
	})
}

func TestPromising_PicksTails(t *testing.T) {
	parent := block.Key{7}
	rest := text(40, 1)
	tail := func(tokens []int32) Tail {
		return Tail{block.Name{Parent: parent, Key: parent.Child(tokens)}, len(tokens)}
	}
	known := text(50, 3, rest[:30]...)
	a, b, cut, other := tail(rest[:10]), tail(rest[:20]), tail(known), tail(text(60, 2))
	text := func(k block.Key) []int32 {
		if k == cut.Key {
			return known
		}
		return nil
	}
	require.Equal(t, []Tail{b}, promising([]Tail{a, b}, parent, rest, 0, 4, text))
	require.Empty(t, promising([]Tail{a, b}, parent, rest, 20, 4, text))
	require.Equal(t, []Tail{cut, other}, promising([]Tail{a, b, cut, other}, parent, rest, 5, 4, text))
	require.Equal(t, []Tail{b, other}, promising([]Tail{a, b, other}, parent, rest, 5, 4, text))
	require.Equal(t, []Tail{tail(rest)}, promising([]Tail{other, tail(rest), a}, parent, rest, 5, 4, text), "nothing can be better")
	require.Equal(t, []Tail{b}, promising([]Tail{b, other}, parent, rest, 5, 1, text), "a bound")
}
