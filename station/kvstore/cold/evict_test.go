package cold

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"thoth/internal/bucket/buckettest"
	"thoth/station/kvstore"
	"thoth/station/kvstore/block"
)

// stored tells which of the blocks a new tier finds in a folder.
func stored(t *testing.T, tier *Tier, blocks []*block.Block) (is []bool) {
	for _, b := range blocks {
		_, err := tier.Get(t.Context(), b.Name, memory)
		if err != nil {
			require.ErrorIs(t, err, kvstore.ErrNotFound)
		}
		is = append(is, err == nil)
	}
	return is
}

func TestPut_EvictsTheLongestUnusedLeafFirst(t *testing.T) {
	size := block.ObjectSize(chain(root(""), 64, 1)[0], false)
	o := opts()
	o.BudgetBytes = 6*size + size/2
	var ticks atomic.Int64
	began := time.Now()
	o.Now = func() time.Time { return began.Add(time.Duration(ticks.Add(1)) * time.Second) }
	dir := t.TempDir()
	tier := openTier(t, dir, o)
	settled(t, tier)
	old, young := chain(root(""), 64*3, 1), chain(root(""), 64*3, 2)
	put(t, tier, old...)
	put(t, tier, young...)
	tier.Touch(old[0].Name)
	tier.Touch(old[1].Name)
	third := chain(root(""), 64*3, 3)
	put(t, tier, third[0])
	require.Equal(t, []bool{true, true, false}, stored(t, tier, old), "its last block was not used again")
	for _, b := range old[:2] {
		tier.Touch(b.Name)
	}
	put(t, tier, third[1:]...)
	require.Equal(t, []bool{true, true, true}, stored(t, tier, third))
	require.Equal(t, []bool{true, false, false}, stored(t, tier, young), "leaves before their parents")
	require.Equal(t, []bool{true, true, false}, stored(t, tier, old))
	st := tier.Stats(all)
	require.EqualValues(t, 3, st.Evictions)
	require.LessOrEqual(t, st.Bytes, o.BudgetBytes)
	require.Len(t, buckettest.Files(t, dir), 6)
	require.Empty(t, st.Drops)
}

func TestPut_NeverPushesOutItsOwnParents(t *testing.T) {
	blocks := chain(root(""), 64*4, 1)
	o := opts()
	o.BudgetBytes = 3 * block.ObjectSize(blocks[0], false)
	tier := openTier(t, t.TempDir(), o)
	settled(t, tier)
	put(t, tier, blocks[:3]...)
	require.ErrorIs(t, tier.Put(t.Context(), blocks[3]), kvstore.ErrNoRoom)
	require.Equal(t, []bool{true, true, true, false}, stored(t, tier, blocks))
	require.Zero(t, tier.Stats(all).Failures, "a full budget is no failure of the store")

	o.BudgetBytes = block.ObjectSize(blocks[0], false) - 1
	tier = openTier(t, t.TempDir(), o)
	require.ErrorIs(t, tier.Put(t.Context(), blocks[0]), kvstore.ErrNoRoom, "larger than the budget")
	require.Zero(t, tier.Stats(all).Blocks)
}

func TestPut_ManyTogetherStayWithinTheBudget(t *testing.T) {
	blocks := chain(root(""), 64, 1)
	size := block.ObjectSize(blocks[0], false)
	o := opts()
	o.BudgetBytes = 10 * size
	dir := t.TempDir()
	tier := openTier(t, dir, o)
	settled(t, tier)
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			for i := range 25 {
				b := chain(root(""), 64, 100*w+i+1)[0]
				if err := tier.Put(t.Context(), b); err != nil && !errors.Is(err, kvstore.ErrNoRoom) {
					t.Error(err)
				}
				if st := tier.Stats(all); st.Bytes > o.BudgetBytes {
					t.Errorf("%d bytes of %d", st.Bytes, o.BudgetBytes)
				}
			}
		})
	}
	group.Wait()
	require.Len(t, buckettest.Files(t, dir), 10)
	require.EqualValues(t, 90, tier.Stats(all).Evictions)
}

// What is evicted can do without what is left, whatever the tree, the ages and the room.
func TestIndex_EvictsNoParentOfWhatStays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := newIndex()
		now := time.Unix(1_000_000, 0)
		var names []block.Name
		for r := range rapid.IntRange(1, 3).Draw(rt, "roots") {
			parents := []block.Key{{byte(r + 1)}}
			for i := range rapid.IntRange(1, 30).Draw(rt, "blocks") {
				n := block.Name{
					Root: block.Key{byte(r + 1)}, Key: block.Key{byte(r + 1), byte(i + 1)},
					Parent: rapid.SampledFrom(parents).Draw(rt, "parent"),
				}
				tokens := rapid.SampledFrom([]int{block.Tokens, block.Tokens, 5}).Draw(rt, "tokens")
				if tokens == block.Tokens {
					parents = append(parents, n.Key)
				}
				x.see(n, tokens, int64(rapid.IntRange(1, 100).Draw(rt, "size")), now.Add(time.Duration(rapid.IntRange(0, 1000).Draw(rt, "age"))*time.Second))
				names = append(names, n)
			}
		}
		before, blocks := x.bytes, x.blocks
		keep := rapid.SampledFrom(names).Draw(rt, "keep")
		add, budget := int64(rapid.IntRange(0, 200).Draw(rt, "add")), int64(rapid.IntRange(1, 3000).Draw(rt, "budget"))
		gone, ok := x.evict(add, budget, keep)
		var freed int64
		for _, v := range gone {
			freed += v.size
			require.Nil(rt, x.find(v.Name))
		}
		require.Equal(rt, before-freed, x.bytes)
		require.Equal(rt, blocks-len(gone), x.blocks)
		if !ok {
			require.Empty(rt, gone)
			return
		}
		require.LessOrEqual(rt, x.bytes+add, budget)
		require.Equal(rt, x.bytes, x.usable(func(block.Key) bool { return true }), "whatever is stored can be reached")
		for _, v := range gone {
			for n := keep; n.Parent != n.Root; {
				require.NotEqual(rt, n.Parent, v.Key, "a parent of what is put")
				for _, m := range names {
					if m.Root == n.Root && m.Key == n.Parent {
						n = m
						break
					}
				}
			}
		}
	})
}

func TestIndex_SurvivesARingOfForgedNames(t *testing.T) {
	x := newIndex()
	a, b := block.Key{1}, block.Key{2}
	x.see(block.Name{Parent: a, Key: b}, block.Tokens, 10, time.Unix(1, 0))
	x.see(block.Name{Parent: b, Key: a}, block.Tokens, 10, time.Unix(1, 0))
	require.Zero(t, x.usable(all))
	_, ok := x.evict(1, 15, block.Name{Parent: a})
	require.False(t, ok, "neither is a leaf")
	require.Len(t, x.orphans(time.Unix(2, 0)), 2)
	require.Zero(t, x.blocks)
}
