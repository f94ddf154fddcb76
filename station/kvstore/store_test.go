package kvstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"thoth/station/engine"
	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tokenBytes makes a full block one page of 4 KiB, and so does any tail: a budget
// counts in blocks.
const (
	tokenBytes = 64
	blockBytes = block.Tokens * tokenBytes
)

var named = block.Identity{Digest: "d1", ABI: "a"}

func blocks(n int) int64 { return int64(n) * blockBytes }

// open makes a store whose invariants hold at the end of the test.
func open(t *testing.T, o Options) *Store {
	t.Helper()
	if o.TokenBytes == 0 {
		o.TokenBytes = tokenBytes
	}
	s := New(o)
	t.Cleanup(func() {
		s.invariants(t)
		s.Close()
		require.Zero(t, s.slabs.used, "memory is given out after Close")
		require.Zero(t, s.slabs.free)
	})
	return s
}

// text makes n tokens that begin with those of prefix and go on as seed tells.
func text(n int, seed int32, prefix ...int32) []int32 {
	l := slices.Clone(prefix)
	for i := int32(len(l)); i < int32(n); i++ {
		l = append(l, seed*1000+i)
	}
	return l
}

// row is what KV of a position is in these tests: all before it decides it.
func row(sc Scope, tokens []int32) []byte {
	h := sha256.New()
	h.Write([]byte(sc.Name + "\x00" + sc.Adapters))
	for _, t := range tokens {
		_ = binary.Write(h, binary.LittleEndian, t)
	}
	sum := h.Sum(nil)
	return bytes.Repeat(sum, tokenBytes/len(sum))
}

// export does to a Fill what the engine does.
func export(sc Scope, tokens []int32, f *Fill) {
	p := f.Piece()
	for i := range f.N {
		copy(p.Data[i*tokenBytes:], row(sc, tokens[:f.From+i+1]))
	}
}

// save stores all of tokens.
func save(t testing.TB, s *Store, sc Scope, tokens []int32, o SaveOptions) *Capture {
	t.Helper()
	c := s.Reserve(sc, tokens, o)
	for _, f := range c.Fills {
		export(sc, tokens, f)
		f.Done()
	}
	return c
}

// tester is *testing.T or *rapid.T.
type tester interface {
	require.TestingT
	Helper()
}

// verify reads the whole match and compares each row.
func verify(t tester, m *Match, sc Scope, tokens []int32) {
	t.Helper()
	n := m.Tokens()
	require.LessOrEqual(t, n, len(tokens))
	if n == 0 {
		return
	}
	pieces := m.Pieces(0, n)
	require.Equal(t, n, engine.Positions(pieces))
	at := 0
	for _, p := range pieces {
		require.Len(t, p.Data, p.Rows*tokenBytes)
		require.LessOrEqual(t, p.Skip+p.Take, p.Rows)
		for i := range p.Take {
			got := p.Data[(p.Skip+i)*tokenBytes:][:tokenBytes]
			require.Equal(t, row(sc, tokens[:at+1]), got, "row %d", at)
			at++
		}
	}
}

// found is how much of tokens is in RAM; its rows are checked.
func found(t testing.TB, s *Store, sc Scope, tokens []int32) int {
	t.Helper()
	m := find(s, sc, tokens)
	defer m.Release()
	verify(t, m, sc, tokens)
	return m.Tokens()
}

// invariants checks what Store promises.
func (s *Store) invariants(t tester) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.LessOrEqual(t, s.slabs.used+s.slabs.free, s.slabs.budget, "the budget")
	var used, held int64
	count := 0
	want := sums{scopes: map[string]int{}}
	ends := 0
	usable := map[*node]bool{}
	for _, r := range s.roots {
		usable[r.top] = true
		all := r.top.below()
		for _, n := range slices.Backward(all) { // parents before their children
			usable[n] = n.state == filled && usable[n.parent]
			switch n.state {
			case reserved:
				want.pending++
			case filled:
				want.blocks++
				want.scopes[r.scope.Name]++
				if n.refs > 0 {
					want.read++
				}
				if usable[n] {
					want.usable += s.slabs.size(len(n.tokens))
				}
			}
			end := n.state == filled && (n.saved > 0 || n.name != "")
			require.Equal(t, end, s.ends.has(n))
			if end {
				ends++
			}
		}
	}
	for n := range s.dirty {
		want.dirty += int64(len(n.tokens)) * int64(s.o.TokenBytes)
	}
	require.Equal(t, want, s.sums)
	require.Equal(t, ends, s.ends.Len())
	sorted := slices.Clone(s.ends.nodes)
	slices.SortFunc(sorted, func(a, b *node) int {
		if savedMore(a, b) {
			return -1
		}
		return 1
	})
	require.True(t, slices.Equal(sorted[:min(ends, 5)], s.ends.least(5)))
	for sc, r := range s.roots {
		require.Equal(t, sc, r.scope)
		require.Equal(t, s.identity.Root(sc.Name, sc.Adapters), r.top.key)
		require.True(t, len(r.top.kids) > 0 || r.top.refs > 0, "an empty root")
		for _, n := range append(r.top.below(), r.top) {
			require.False(t, n.gone)
			require.Equal(t, n.state == hollow, n.mem == nil)
			require.True(t, n.state != hollow || len(n.kids) > 0 || n.refs > 0, "a hollow node of no use")
			require.GreaterOrEqual(t, n.refs, 0)
			used += int64(len(n.mem))
			require.True(t, slices.IsSortedFunc(n.ready, func(a, b *node) int { return slices.Compare(a.tokens, b.tokens) }))
			ready := map[*node]bool{}
			for i, k := range n.ready {
				ready[k] = true
				if i+1 < len(n.ready) && k.refs == 0 {
					next := n.ready[i+1]
					require.False(t, block.Common(k.tokens, next.tokens) == len(k.tokens), "a tail that a sibling covers")
				}
			}
			for key, k := range n.kids {
				require.Equal(t, key, k.key)
				require.Equal(t, n.key.Child(k.tokens), key)
				require.Same(t, n, k.parent)
				require.Equal(t, n.end(), k.start)
				require.Equal(t, k.state == filled, ready[k])
				require.Equal(t, k.state == filled && !k.full(), slices.Contains(n.tails, k))
				delete(ready, k)
			}
			require.Empty(t, ready)
			if n.isTop() {
				continue
			}
			require.True(t, n.full() || len(n.kids) == 0)
			may := n.state == filled && len(n.kids) == 0 && n.refs == 0 && !n.pinned && !n.urgent
			require.Equal(t, may, s.lru.has(n))
			if may {
				count++
			}
			_, dirty := s.dirty[n]
			require.Equal(t, n.state == filled && !n.durable && !n.refused, dirty)
			_, isHeld := s.held[n]
			require.Equal(t, n.isHeld(), isHeld)
			if isHeld {
				held += s.slabs.size(len(n.tokens))
			}
		}
	}
	require.Equal(t, count, s.lru.Len())
	require.Equal(t, held, s.heldBytes)
	require.LessOrEqual(t, float64(held), s.o.HeldShare*float64(s.slabs.budget))
	require.LessOrEqual(t, used, s.slabs.used)
	for n := range s.dirty {
		require.False(t, n.gone)
	}
}

// shelf is a cold tier in memory.
type shelf struct {
	mu      sync.Mutex
	blocks  map[block.Name]*block.Block
	gets    map[block.Key]int
	order   []block.Name // of puts
	touched map[block.Key]int
	missed  []time.Duration
	deleted []Which
	now     int // gets at once
	most    int // the most there were

	latency  time.Duration                             // of a Get or Tails
	predict  func(int, int64) (time.Duration, bool)    // nil: nothing is known
	onGet    func(context.Context, block.Name) error   // before a Get
	onDelete func()                                    // before a Delete
	indexed  bool                                      // Has knows all that is there
	unlisted bool                                      // Tails shows nothing
	onRead   func(block.Name)                          // in a Get that has its memory
	onPut    func(context.Context, *block.Block) error // before a Put
}

var _ Cold = (*shelf)(nil)

func newShelf() *shelf {
	return &shelf{blocks: map[block.Name]*block.Block{}, gets: map[block.Key]int{}, touched: map[block.Key]int{}}
}

func (c *shelf) Put(ctx context.Context, b *block.Block) error {
	if c.onPut != nil {
		if err := c.onPut(ctx, b); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	own := *b
	own.Data, own.Tokens = slices.Clone(b.Data), slices.Clone(b.Tokens)
	c.blocks[b.Name] = &own
	c.order = append(c.order, b.Name)
	return nil
}

func (c *shelf) GetTail(ctx context.Context, name block.Name, _ int, into func(int) ([]byte, error)) (*block.Block, error) {
	return c.Get(ctx, name, into)
}

func (c *shelf) Get(ctx context.Context, name block.Name, into func(int) ([]byte, error)) (*block.Block, error) {
	c.mu.Lock()
	c.gets[name.Key]++
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	defer func() { c.mu.Lock(); c.now--; c.mu.Unlock() }()
	if err := c.sleep(ctx); err != nil {
		return nil, err
	}
	if c.onGet != nil {
		if err := c.onGet(ctx, name); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	b := c.blocks[name]
	c.mu.Unlock()
	if b == nil {
		return nil, ErrNotFound
	}
	mem, err := into(len(b.Tokens))
	if err != nil {
		return nil, err
	}
	if c.onRead != nil {
		c.onRead(name)
	}
	got := *b
	got.Data = mem[:copy(mem, b.Data)]
	return &got, nil
}

func (c *shelf) sleep(ctx context.Context) error {
	if c.latency == 0 {
		return nil
	}
	select {
	case <-time.After(c.latency):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *shelf) Tails(ctx context.Context, root, parent block.Key) ([]Tail, error) {
	if err := c.sleep(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var l []Tail
	for n, b := range c.blocks {
		if c.unlisted {
			break
		}
		if n.Root == root && n.Parent == parent && len(b.Tokens) < block.Tokens {
			l = append(l, Tail{n, len(b.Tokens)})
		}
	}
	return l, nil
}

func (c *shelf) Predict(n int, bytes int64) (time.Duration, bool) {
	if c.predict == nil {
		return 0, false
	}
	return c.predict(n, bytes)
}

func (c *shelf) Missed(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missed = append(c.missed, d)
}

func (c *shelf) Has(n block.Name) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.indexed && c.blocks[n] != nil
}

func (c *shelf) Touch(n block.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched[n.Key]++
}

func (c *shelf) Delete(_ context.Context, w Which) (blocks int, bytes int64, err error) {
	if c.onDelete != nil {
		c.onDelete()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deleted = append(c.deleted, w)
	for n, b := range c.blocks {
		if (w.Name.Root == block.Key{} || w.Name.Root == n.Root) && (w.Name.Key == block.Key{} || w.Name.Key == n.Key) && (w.Group == "" || w.Group == b.Group) && (w.Keys == nil || slices.Contains(w.Keys, n.Key)) {
			delete(c.blocks, n)
			blocks++
			bytes += int64(len(b.Data))
		}
	}
	return blocks, bytes, nil
}

func (c *shelf) Stats(usable func(block.Key) bool) wire.KVTier {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := wire.KVTier{State: "on"}
	for n, b := range c.blocks {
		t.Blocks++
		t.Bytes += int64(len(b.Data))
		if usable(n.Root) {
			t.UsableBytes += int64(len(b.Data))
		}
	}
	return t
}

func (c *shelf) Close() error { return nil }

func (c *shelf) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.blocks)
}

// peak is the most gets there were at once.
func (c *shelf) peak() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

// names lists what was put, in order.
func (c *shelf) names() []block.Name {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.order)
}

func (c *shelf) reads() map[block.Key]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.gets)
}

// stock writes tokens into c as another station would have.
func stock(t testing.TB, c *shelf, sc Scope, tokens []int32) []block.Key {
	t.Helper()
	root := named.Root(sc.Name, sc.Adapters)
	parent := root
	var keys []block.Key
	for from := 0; from < len(tokens); from += block.Tokens {
		part := tokens[from:min(len(tokens), from+block.Tokens)]
		b := &block.Block{Name: block.Name{Root: root, Parent: parent, Key: parent.Child(part)}, Tokens: part}
		for i := range part {
			b.Data = append(b.Data, row(sc, tokens[:from+i+1])...)
		}
		require.NoError(t, c.Put(t.Context(), b))
		parent = b.Key
		keys = append(keys, b.Key)
	}
	c.mu.Lock()
	c.order = nil
	c.mu.Unlock()
	return keys
}

var errDisk = errors.New("the disk is on fire")

// find is a match of all the tokens.
func find(s *Store, sc Scope, tokens []int32) *Match { return s.Find(sc, tokens, len(tokens)) }
