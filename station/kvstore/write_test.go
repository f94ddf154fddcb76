package kvstore

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// starts lists where the blocks that were put begin, in order: full ones, then
// tails as below 0.
func starts(s *Store, c *shelf) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := map[block.Key]int{}
	for _, r := range s.roots {
		for _, n := range r.top.below() {
			at[n.key] = n.start
			if !n.full() {
				at[n.key] = -n.start
			}
		}
	}
	var l []int
	for _, n := range c.names() {
		l = append(l, at[n.Key])
	}
	return l
}

// A prompt's end is found again by its name, though in RAM the answer's block
// covers it: after a restart nobody knows the answer.
func TestWriters_ThePromptsEndIsWrittenThoughTheAnswerCoversIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		prompt := text(100, 1)
		save(t, s, Scope{}, prompt, SaveOptions{})
		save(t, s, Scope{}, append(slices.Clone(prompt), text(90, 2)...), SaveOptions{})
		require.Zero(t, s.Flush(t.Context()).Lost)
		require.Equal(t, 3, s.Index().Warm.Blocks, "the end has left RAM: the answer's block has its rows")

		for _, tails := range []bool{true, false} { // also when a listing does not show it
			other := newShelf()
			other.blocks, other.unlisted = c.blocks, !tails
			s2 := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: other})
			m := s2.Find(Scope{}, prompt, 99)
			m.Fetch(t.Context(), gate)
			require.Equal(t, 99, m.Tokens())
			m.Release()
		}
	})
}

func TestWriters_FullBlocksFromTheRootThenTailsThatLast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Writers: 1, Cold: c})
		tokens := text(300, 1)
		capture := save(t, s, Scope{}, tokens[:140], SaveOptions{Group: "g"})
		require.False(t, capture.Durable(), "its tail waits")
		time.Sleep(time.Second)
		require.Equal(t, []int{0, 64}, starts(s, c), "a tail waits")
		require.Equal(t, 1, s.Index().Dirty)
		require.EqualValues(t, 12*tokenBytes, s.Index().DirtyBytes)
		save(t, s, Scope{}, tokens, SaveOptions{})
		time.Sleep(time.Second + time.Millisecond)
		require.Equal(t, []int{0, 64, 128, 192}, starts(s, c), "the first tail was covered in time")
		time.Sleep(time.Second)
		require.Equal(t, []int{0, 64, 128, 192, -256}, starts(s, c))
		require.True(t, capture.Durable(), "by the block that covers its tail")
		require.Zero(t, s.Index().Dirty)

		other := newShelf() // what was written is what another station reads
		other.blocks = c.blocks
		s2 := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: other})
		m, _ := fetch(t, s2, tokens, gate)
		require.Equal(t, 300, m.Tokens())
		for n, b := range c.blocks {
			require.Equal(t, n, b.Name)
			require.Equal(t, n.Parent.Child(b.Tokens), n.Key)
		}
		before := len(c.names())
		save(t, s, Scope{}, tokens, SaveOptions{})
		time.Sleep(time.Minute)
		require.Len(t, c.names(), before, "what is stored is not written again")
	})
}

func TestStore_ADigestRenamesAndLetsTheWritersGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		early := named
		early.Digest = ""
		s := open(t, Options{Identity: early, WarmBytes: blocks(64), Cold: c})
		tokens := text(150, 1)
		save(t, s, Scope{Name: "a"}, tokens, SaveOptions{})
		pending := s.Reserve(Scope{Name: "b"}, tokens, SaveOptions{})
		reader := find(s, Scope{Name: "a"}, tokens)
		time.Sleep(time.Minute)
		require.Zero(t, c.len(), "under a provisional name nothing is written")
		m, _ := fetch(t, s, tokens, gate)
		require.Zero(t, m.Tokens())
		require.Empty(t, c.reads(), "nor looked up")
		require.Equal(t, wire.KVUnnamed, m.Short().Reason)
		require.Equal(t, wire.KVUnnamed, s.Lookup(t.Context(), Scope{Name: "a"}, text(200, 1)).Reason, "RAM's end")
		require.Equal(t, wire.KVDiffers, s.Lookup(t.Context(), Scope{Name: "a"}, text(200, 2, tokens[:100]...)).Reason, "RAM knows more")
		require.Equal(t, wire.KVFlushResponse{Lost: 3}, s.Flush(t.Context()))
		require.Empty(t, s.Index().Root)

		s.SetDigest("")
		s.SetDigest(named.Digest)
		s.SetDigest("another")
		s.invariants(t)
		require.Equal(t, wire.KVEnds, s.Lookup(t.Context(), Scope{Name: "a"}, text(200, 1)).Reason)
		require.Equal(t, 150, found(t, s, Scope{Name: "a"}, tokens))
		verify(t, reader, Scope{Name: "a"}, tokens)
		reader.Release()
		for _, f := range pending.Fills {
			export(Scope{Name: "b"}, tokens, f)
			f.Done()
		}
		time.Sleep(3 * time.Second)
		require.Equal(t, 6, c.len())
		want := newShelf()
		stock(t, want, Scope{Name: "a"}, tokens)
		stock(t, want, Scope{Name: "b"}, tokens)
		for n, b := range want.blocks {
			require.Equal(t, b.Data, c.blocks[n].Data)
		}
	})
}

func TestWriters_AFailingStoreIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		var tries atomic.Int32
		var sick atomic.Bool
		sick.Store(true)
		c.onPut = func(context.Context, *block.Block) error {
			tries.Add(1)
			if sick.Load() {
				return errDisk
			}
			return nil
		}
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		save(t, s, Scope{}, text(128, 1), SaveOptions{})
		time.Sleep(time.Hour)
		require.Equal(t, "failing", s.Index().Cold.State)
		require.Less(t, tries.Load(), int32(1000), "with a pause that grows")
		require.Greater(t, tries.Load(), int32(20))
		require.Equal(t, 2, s.Index().Dirty)
		sick.Store(false)
		time.Sleep(3 * time.Minute)
		require.Zero(t, s.Index().Dirty)
		require.Equal(t, "on", s.Index().Cold.State)
		require.Equal(t, 2, c.len())
	})
}

func TestWriters_AStoreIsNotCalledFailingForWhatIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		c.onPut = func(context.Context, *block.Block) error { return errDisk }
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		save(t, s, Scope{}, text(64, 1), SaveOptions{})
		time.Sleep(time.Second)
		require.Equal(t, "failing", s.Index().Cold.State)
		_, _, err := s.Delete(t.Context(), &wire.KVDeleteRequest{All: true})
		require.NoError(t, err)
		require.Zero(t, s.Index().Dirty)
		require.Equal(t, "on", s.Index().Cold.State)
	})
}

func TestWriters_ABlockThatCannotBeWrittenStopsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		bad := text(64, 1)
		c.onPut = func(_ context.Context, b *block.Block) error {
			if b.Tokens[0] == bad[0] {
				return errDisk
			}
			return nil
		}
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Writers: 1, Cold: c})
		save(t, s, Scope{}, bad, SaveOptions{})
		for i := range int32(5) {
			save(t, s, Scope{}, text(64, 10+i), SaveOptions{})
		}
		time.Sleep(time.Minute)
		require.Equal(t, 5, c.len())
		require.Equal(t, 1, s.Index().Dirty)
	})
}

// A block that the store's budget cannot hold says nothing about the store.
func TestWriters_ABlockWithoutRoomIsNoFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		var tries atomic.Int32
		var room atomic.Bool
		long := text(256, 1)
		c.onPut = func(_ context.Context, b *block.Block) error {
			if b.Tokens[0] == long[64] && !room.Load() {
				tries.Add(1)
				return ErrNoRoom
			}
			return nil
		}
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		save(t, s, Scope{}, long, SaveOptions{})
		time.Sleep(time.Hour)
		x := s.Index()
		require.EqualValues(t, 1, tries.Load(), "it is not tried again")
		require.Equal(t, "on", x.Cold.State)
		require.EqualValues(t, 3, x.Warm.Drops["no_room"], "with those that hang below it")
		require.Zero(t, x.Dirty)
		require.Equal(t, 1, c.len())
		require.Equal(t, 256, found(t, s, Scope{}, long), "RAM has them")
		require.Equal(t, wire.KVFlushResponse{}, s.Flush(t.Context()))

		start := time.Now()
		save(t, s, Scope{}, text(64, 2), SaveOptions{})
		synctest.Wait()
		require.Zero(t, time.Since(start), "no other waits")
		require.Equal(t, 2, c.len())

		more := text(300, 3, long...)
		save(t, s, Scope{}, more, SaveOptions{}) // saved anew, and refused again
		time.Sleep(time.Minute)
		require.EqualValues(t, 2, tries.Load())
		require.Zero(t, s.Index().Dirty)
		s.invariants(t)

		room.Store(true)
		save(t, s, Scope{}, more, SaveOptions{})
		time.Sleep(time.Minute)
		require.Equal(t, 6, c.len())
		require.Zero(t, s.Index().Dirty)
	})
}

func TestWriters_NoChildIsWrittenWithoutItsParent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		tokens := text(192, 1)
		r := s.Reserve(Scope{}, tokens, SaveOptions{})
		for _, f := range r.Fills {
			export(Scope{}, tokens, f)
		}
		r.Fills[1].Done()
		r.Fills[2].Done()
		time.Sleep(time.Minute)
		require.Zero(t, c.len())
		require.Equal(t, 2, s.Flush(t.Context()).Lost, "a flush cannot help it either")
		r.Fills[0].Done()
		synctest.Wait()
		require.Equal(t, 3, c.len())
		require.Equal(t, 0, starts(s, c)[0])

		other := text(128, 2) // the parent comes from the cold tier, and its child may follow
		r = s.Reserve(Scope{}, other, SaveOptions{})
		r.Fills[0].Drop()
		export(Scope{}, other, r.Fills[1])
		r.Fills[1].Done()
		stock(t, c, Scope{}, other[:64])
		m, _ := fetch(t, s, other[:64], gate)
		require.Equal(t, 64, m.Tokens())
		synctest.Wait()
		require.Len(t, c.names(), 1)
		require.Equal(t, 128, found(t, s, Scope{}, other))
	})
}

func TestEviction_OfWhatOnlyRAMHas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		free := make(chan struct{})
		c.onPut = func(context.Context, *block.Block) error { <-free; return nil }
		s := open(t, Options{Identity: named, WarmBytes: blocks(4), Writers: 2, TailDelay: time.Hour, Cold: c})
		for i := range int32(4) {
			save(t, s, Scope{}, text(20, 1+i), SaveOptions{}) // tails: not written before they have lasted
		}
		synctest.Wait()
		save(t, s, Scope{}, text(64, 9), SaveOptions{}) // the two oldest go to the writers, the third is lost
		synctest.Wait()
		require.EqualValues(t, 1, s.Index().Warm.Drops["unwritten"])
		require.EqualValues(t, 1, s.Index().Warm.Evictions)
		s.invariants(t)
		for i, want := range []int{20, 20, 0, 20} {
			require.Equal(t, want, found(t, s, Scope{}, text(20, 1+int32(i))))
		}
		close(free)
		synctest.Wait()
		require.Equal(t, 3, c.len(), "two tails and the full block")
		save(t, s, Scope{}, text(128, 10), SaveOptions{}) // what is written just leaves RAM
		synctest.Wait()
		require.EqualValues(t, 1, s.Index().Warm.Drops["unwritten"])
		m, _ := fetch(t, s, text(20, 1), gate)
		require.Equal(t, 20, m.FromCold(0, 20))
	})
}

func TestFlush_ByValueUntilTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		hold := make(chan struct{})
		var held atomic.Bool
		held.Store(true)
		c.onPut = func(ctx context.Context, _ *block.Block) error {
			if held.Load() { // the writers hang, as they may at the end
				select {
				case <-hold:
					return errDisk
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			select {
			case <-time.After(100 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Writers: 1, Cold: c})
		save(t, s, Scope{}, text(64, 7), SaveOptions{})
		synctest.Wait() // the writer hangs with it
		held.Store(false)
		save(t, s, Scope{}, text(150, 1), SaveOptions{})
		save(t, s, Scope{}, text(150, 2), SaveOptions{})

		ctx, cancel := context.WithTimeout(t.Context(), 350*time.Millisecond)
		defer cancel()
		start := time.Now()
		r := s.Flush(ctx)
		require.Equal(t, 350*time.Millisecond, time.Since(start))
		require.Equal(t, wire.KVFlushResponse{Kept: 3, Lost: 4, Bytes: blocks(3)}, r)
		require.Equal(t, []int{0, 0, 64}, starts(s, c))

		close(hold)
		r = s.Flush(t.Context())
		require.Equal(t, 4, r.Kept+r.Lost)
		time.Sleep(time.Minute)
		require.Equal(t, 7, c.len(), "what was cut short is written later")
		require.Equal(t, wire.KVFlushResponse{}, s.Flush(t.Context()))
	})
}

func TestFlush_TailsDoNotWaitAndAFailingStoreEndsIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		save(t, s, Scope{}, text(150, 1), SaveOptions{})
		start := time.Now()
		require.Zero(t, s.Flush(t.Context()).Lost)
		require.Equal(t, 3, c.len())
		require.Zero(t, time.Since(start))

		c.onPut = func(context.Context, *block.Block) error { return errDisk }
		save(t, s, Scope{}, text(150, 2), SaveOptions{})
		require.Equal(t, wire.KVFlushResponse{Lost: 3}, s.Flush(t.Context()))
		require.Zero(t, time.Since(start), "each block is tried once")

		alone := open(t, Options{Identity: named, WarmBytes: blocks(64)})
		save(t, alone, Scope{}, text(150, 2), SaveOptions{})
		require.Equal(t, wire.KVFlushResponse{Lost: 3}, alone.Flush(t.Context()))
	})
}

func TestFetch_WhatIsComputedMeanwhileIsNotWrittenAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		tokens := text(64, 1)
		stock(t, c, Scope{}, tokens)
		c.latency = time.Second
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		m, _ := fetch(t, s, tokens, gate)
		require.Zero(t, m.Tokens(), "given up")
		r := s.Reserve(Scope{}, tokens, SaveOptions{})
		require.Len(t, r.Fills, 1, "what is only on its way may be computed")
		time.Sleep(time.Minute)
		export(Scope{}, tokens, r.Fills[0])
		r.Fills[0].Done()
		synctest.Wait()
		require.Empty(t, c.names())
		require.True(t, r.Durable())
		require.Equal(t, 64, found(t, s, Scope{}, tokens))
	})
}

func TestClose_EndsReadersAndWritersThatHang(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newShelf()
		c.onPut = func(ctx context.Context, _ *block.Block) error { <-ctx.Done(); return ctx.Err() }
		c.onGet = func(ctx context.Context, _ block.Name) error { <-ctx.Done(); return ctx.Err() }
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c})
		save(t, s, Scope{}, text(150, 1), SaveOptions{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			m := find(s, Scope{}, text(700, 2))
			m.Fetch(t.Context(), Gate{})
			m.Fetch(t.Context(), Gate{})
			m.Release()
		}()
		synctest.Wait()
		start := time.Now()
		s.Close()
		<-done
		require.Zero(t, time.Since(start))
	})
}

// Beside a computing engine a block is written now and then; an idle engine, a
// flush, or RAM that is needed, do not wait.
func TestWriters_TakeASmallShareBesideTheEngine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var busy atomic.Bool
		busy.Store(true)
		c := newShelf()
		c.onPut = func(context.Context, *block.Block) error { time.Sleep(10 * time.Millisecond); return nil }
		s := open(t, Options{Identity: named, WarmBytes: blocks(64), Cold: c, Busy: busy.Load})
		save(t, s, Scope{}, text(640, 1), SaveOptions{})
		time.Sleep(3*time.Second + 100*time.Millisecond)
		require.Equal(t, 3, c.len(), "one after a second, then one a second: a hundredth of the time")
		busy.Store(false)
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 10, c.len())
		busy.Store(true)
		save(t, s, Scope{}, text(640, 2), SaveOptions{})
		require.Zero(t, s.Flush(t.Context()).Lost)
		require.Equal(t, 20, c.len())
	})
}
