package station

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
	"thoth/station/kvstore"
	"thoth/station/stationtest"
)

// grow evaluates n tokens of a resident, as the loop does.
func grow(t *testing.T, p *pool, s *sequence, n int) {
	t.Helper()
	var b engine.Batch
	for range n {
		b.Add(engine.Token(s.pos%200), s.pos, s.id, false)
		s.pos++
	}
	require.NoError(t, p.eng.Decode(&b))
	p.took(n)
}

func newTestPool(t *testing.T) (*pool, *stationtest.Engine) {
	eng := stationtest.NewEngine(stationtest.Options{Cells: 256, ContextLength: 256, Sequences: 4, BatchSize: 256})
	t.Cleanup(func() { eng.Check(t) })
	return newPool(eng, 64<<10), eng
}

func placed(t *testing.T, p *pool, n int) *sequence {
	t.Helper()
	s := newSequence()
	require.True(t, p.place(s))
	if n > 0 {
		grow(t, p, s, n)
	}
	return s
}

func TestPool_EmptiesForFreeWhenNothingLives(t *testing.T) {
	p, _ := newTestPool(t)
	a, b := placed(t, p, 50), placed(t, p, 30)
	p.leave(a)
	require.Equal(t, 50, p.dead())
	p.leave(b)
	require.Zero(t, p.top)
	require.Zero(t, p.compactions)
}

func TestPool_CompactsWhenTheRentReachesThePrice(t *testing.T) {
	p, eng := newTestPool(t)
	a, b := placed(t, p, 40), placed(t, p, 60)
	require.False(t, p.charge(1), "nothing is dead")
	p.leave(a)
	price, rows := moveCost*60, 0
	for !p.charge(8) {
		rows += 8
	}
	require.Equal(t, price/40/8*8, rows, "forty dead cells, scanned by each row")
	p.compact()
	live, dead := eng.Cells()
	require.Equal(t, []int{60, 0, 60, 0}, []int{live, dead, p.top, p.rent})
	grow(t, p, b, 5)
	p.leave(b)
}

func TestPool_SwapsOutAndBack(t *testing.T) {
	p, _ := newTestPool(t)
	p.swapBudget = 1 << 20
	a, b := placed(t, p, 100), placed(t, p, 100)
	p.swapOut(a)
	require.Equal(t, noSeq, a.id)
	require.Equal(t, 100, a.swapped.Len())
	grow(t, p, b, 40)
	require.True(t, p.place(a), "by compacting")
	require.EqualValues(t, 1, p.compactions)
	grow(t, p, a, 10) // the engine checks that its positions go on
	c := newSequence()
	c.pos = 20
	require.False(t, p.place(c))
	p.leave(a)
	p.leave(b)
}

func TestPool_GivesIDsBack(t *testing.T) {
	p, _ := newTestPool(t)
	for range 20 {
		var all []*sequence
		for range 4 {
			all = append(all, placed(t, p, 3))
		}
		require.False(t, p.place(newSequence()))
		for _, s := range all {
			p.leave(s)
		}
	}
}

// failing makes Save and Restore of chosen sequences fail.
type failing struct {
	engine.Engine
	save, restore map[engine.SeqID]bool
}

func (f failing) Save(s engine.SeqID, from, to int) (engine.State, error) {
	if f.save[s] {
		return nil, errors.New("cells out of order")
	}
	return f.Engine.Save(s, from, to)
}

func (f failing) Restore(s engine.SeqID, st engine.State) error {
	if f.restore[s] {
		return errors.New("state was not read whole")
	}
	return f.Engine.Restore(s, st)
}

func TestPool_CompactionLosesOnlyWhatFails(t *testing.T) {
	p, _ := newTestPool(t)
	a, b, c := placed(t, p, 20), placed(t, p, 30), placed(t, p, 40)
	p.eng = failing{p.eng, map[engine.SeqID]bool{a.id: true}, map[engine.SeqID]bool{c.id: true}}
	p.compact()
	require.Equal(t, 30, p.top)
	require.Zero(t, p.dead(), "compaction makes progress whatever fails")
	var lost []*sequence
	for _, x := range p.losses {
		require.Error(t, x.err)
		require.Zero(t, x.seq.pos)
		lost = append(lost, x.seq)
	}
	require.ElementsMatch(t, []*sequence{a, c}, lost)
	require.Len(t, p.free, 3)
	grow(t, p, b, 10)
	p.leave(b)
}

func TestPool_BeyondTheSwapBudgetKVIsDropped(t *testing.T) {
	p, _ := newTestPool(t)
	p.swapBudget = 50 * p.cellBytes
	a, b := placed(t, p, 40), placed(t, p, 40)
	p.swapOut(a)
	require.Equal(t, 40, a.pos)
	require.Positive(t, p.swappedBytes)
	p.swapOut(b)
	require.Nil(t, b.swapped)
	require.Zero(t, b.pos, "its tokens will be evaluated again")
	p.dropSwapped(a)
	require.Zero(t, p.swappedBytes)
}

// joined places a sequence that shares base's first n positions.
func joined(t *testing.T, p *pool, base *sequence, n int) *sequence {
	t.Helper()
	s := newSequence()
	require.True(t, p.place(s))
	p.join(s, base, n)
	return s
}

func TestPool_SharedCellsAreThereOnce(t *testing.T) {
	p, eng := newTestPool(t)
	a := placed(t, p, 60)
	b, c := joined(t, p, a, 50), joined(t, p, a, 30)
	grow(t, p, b, 5)
	grow(t, p, c, 7)
	require.Equal(t, []int{72, 0}, []int{p.live(), p.dead()})
	require.Equal(t, []int{10, 5, 7}, []int{p.frees(a), p.frees(b), p.frees(c)})
	p.compact()
	live, _ := eng.Cells()
	require.Equal(t, []int{72, 72}, []int{p.top, live}, "a compaction keeps them shared")
	grow(t, p, c, 3)
	grow(t, p, a, 1)
	grow(t, p, b, 2)

	p.leave(a)
	require.Equal(t, 57+10, p.live(), "the heir that shares most owns the cells")
	require.Equal(t, b, c.base)
	require.Nil(t, b.base)
	p.compact()
	grow(t, p, c, 1)
	p.leave(b)
	require.Nil(t, c.base)
	require.Equal(t, 41, p.live())
	grow(t, p, c, 1)
	p.leave(c)
	require.Zero(t, p.top)
}

func TestPool_AnHeirsHeirSharesWithTheOwner(t *testing.T) {
	p, _ := newTestPool(t)
	a := placed(t, p, 40)
	b := joined(t, p, a, 30)
	grow(t, p, b, 20)
	c := joined(t, p, b, 20) // of a's cells only
	d := joined(t, p, b, 45) // of a's and b's
	require.Equal(t, []*sequence{a, b}, []*sequence{c.base, d.base})
	require.Equal(t, 40+20, p.live())
	p.swapOut(b)
	require.Equal(t, a, d.base, "b has gone: d owns what it shared of b's own")
	require.Equal(t, 30, d.shared)
	require.Equal(t, 40+15, p.live())
	p.compact()
	require.True(t, p.place(b))
	for _, s := range []*sequence{a, b, c, d} {
		grow(t, p, s, 2)
	}
	for _, s := range []*sequence{c, a, d, b} {
		p.leave(s)
	}
}

func TestPool_CompactionLosesTheHeirsOfWhatFails(t *testing.T) {
	p, _ := newTestPool(t)
	a := placed(t, p, 20)
	b := joined(t, p, a, 10)
	grow(t, p, b, 5)
	c := placed(t, p, 10)
	p.eng = failing{p.eng, nil, map[engine.SeqID]bool{a.id: true}}
	p.compact()
	require.Len(t, p.losses, 2)
	require.Equal(t, []int{0, 0, 10}, []int{a.pos, b.pos, c.pos})
	require.Equal(t, []int{10, 0}, []int{p.top, p.dead()})
	grow(t, p, c, 3)
	p.leave(c)
}

func TestPool_WhatHasNoKVIsNotParkedToBeCopied(t *testing.T) {
	p, _ := newTestPool(t)
	store := kvstore.New(kvstore.Options{TokenBytes: p.cellBytes, WarmBytes: 1 << 20})
	defer store.Close()
	s := placed(t, p, 64)
	for _, f := range store.Reserve(kvstore.Scope{}, make([]engine.Token, 128), kvstore.SaveOptions{}).Fills {
		s.copies = append(s.copies, &copyWork{fill: f})
	}
	require.Len(t, s.copies, 2)
	p.leave(s)
	parked := p.residents[0]
	require.Len(t, parked.copies, 1)
	require.Equal(t, 64, parked.pos)
	parked.dropCopies(0)
	p.leave(parked)
	require.Zero(t, p.top)
}

func TestPool_AParkedHeirKeepsWhatItShares(t *testing.T) {
	p, _ := newTestPool(t)
	store := kvstore.New(kvstore.Options{TokenBytes: p.cellBytes, WarmBytes: 1 << 20})
	defer store.Close()
	base := placed(t, p, 100)
	heir := joined(t, p, base, 70)
	tokens := make([]engine.Token, 64)
	for _, f := range store.Reserve(kvstore.Scope{}, tokens, kvstore.SaveOptions{}).Fills {
		heir.copies = append(heir.copies, &copyWork{fill: f})
	}
	p.leave(heir)
	require.Equal(t, 100, p.live())
	p.compact()
	require.Empty(t, p.losses)
	parked := p.residents[1]
	require.True(t, parked.parked)
	parked.dropCopies(0)
	p.leave(parked)
	p.leave(base)
	require.Zero(t, p.top)
}
