package station_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/kvstore"
	"thoth/station/stationtest"
	"thoth/station/wire"
)

// A turn that had to leave the pool in its prefill, and found no room in RAM, has
// evaluated what had been restored for it, too.
func TestTurn_WhatIsLostInThePrefillWasNotReused(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, Cells: 3120, ContextLength: 3100, BatchSize: 17}, station.Options{SwapBytes: 1})
	f.turn(turnOf(text(1000, 1), 1, 1))
	f.inRAM()
	q := turnOf(append(text(1000, 1), text(2000, 2)...), 1, 5)
	p := f.eng.Pause()
	var both sync.WaitGroup
	both.Go(func() { f.generate(t.Context(), "grow", 400) })
	<-p.Entered()
	var a turn
	both.Go(func() { a = f.ask(t.Context(), q) })
	f.stepUntil(p, func(s *wire.Stats) bool { return s.Running+s.Waiting == 2 })
	p.Resume()
	both.Wait()
	require.Nil(t, a.err)
	s, err := f.Stats(t.Context())
	require.NoError(t, err)
	require.Positive(t, s.DroppedTokens)
	require.Equal(t, 1000, a.restored.Position)
	require.Equal(t, []int{3000, 3000}, []int{a.evaluated.Position, a.evaluated.Evaluated})
	f.left()
}

// A store at its budget, as it is in the long run, is no reason to copy all that was
// captured at once, while others wait for their tokens.
func TestTurn_AFullStoreLetsCopiesWait(t *testing.T) {
	for name, warm := range map[string]int64{"room": 32 << 20, "full": 100 * 8192} {
		t.Run(name, func(t *testing.T) {
			f := start(t, stationtest.Options{EOGEvery: -1, BatchSize: 64, Cells: 20000, ContextLength: 8000}, station.Options{KV: kvstore.Options{WarmBytes: warm}})
			for i := range 5 { // fills the smaller one
				f.turn(turnOf(text(1500, int32(10+i)), 1, 3))
				f.inRAM()
			}
			p := f.eng.Pause()
			var both sync.WaitGroup
			both.Go(func() { f.generate(t.Context(), "grow", 400) })
			<-p.Entered()
			both.Go(func() { f.ask(t.Context(), turnOf(text(1000, 1), 1, 3)) })
			before, err := f.KVIndex(t.Context())
			require.NoError(t, err)
			require.Equal(t, name == "full", before.Warm.Evictions > 0)
			f.stepUntil(p, func(s *wire.Stats) bool { return s.Running == 2 })
			f.stepUntil(p, func(s *wire.Stats) bool { return s.Running == 1 })
			told := make(chan *wire.KVIndex, 1)
			go func() { x, _ := f.KVIndex(t.Context()); told <- x }()
			p.Step()
			<-p.Entered()
			p.Step()
			x := <-told
			require.NotNil(t, x)
			require.Greater(t, x.Pending, 1000/64)
			require.Equal(t, before.ExportBytes, x.ExportBytes)
			p.Resume()
			both.Wait()
			f.left()
		})
	}
}
