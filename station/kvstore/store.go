package kvstore

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/rs/zerolog"

	"thoth/station/kvstore/block"
)

// Options are what a Store is made of; they do not change later.
type Options struct {
	Identity   block.Identity   // Digest may be empty at first, see SetDigest
	TokenBytes int              // KV bytes of one position; 0: nothing can be stored
	WarmBytes  int64            // RAM for blocks, in bytes, free list included; 0: nothing can be stored
	Tails      int              // tails kept below one parent; default 32: all conversations below 64 tokens have one parent
	HeldShare  float64          // share of WarmBytes that pin and ttl may hold; default 0.5
	Cold       Cold             // nil: none
	ColdReason string           // why there is none, for Index
	Readers    int              // cold reads at once; default 8
	Writers    int              // cold writes at once; default 2
	Busy       func() bool      // whether the engine computes: writing then takes a small share of the time; nil: never
	TailDelay  time.Duration    // a tail is written down when it has lived so long: a longer sibling may make it needless; default 2s
	Now        func() time.Time // default time.Now
	Logger     zerolog.Logger
}

func (o *Options) defaults() {
	if o.Tails <= 0 {
		o.Tails = 32
	}
	if o.HeldShare <= 0 || o.HeldShare > 1 {
		o.HeldShare = 0.5
	}
	if o.Readers <= 0 {
		o.Readers = 8
	}
	if o.Writers <= 0 {
		o.Writers = 2
	}
	if o.TailDelay <= 0 {
		o.TailDelay = 2 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Store is the index of blocks and their tiers. One mutex guards the index; no
// call to the cold tier and no copy of rows is made under it.
//
// Invariants, whenever mu is free; the tests check them after each step:
//
//   - Bytes mapped, free list included, are at most WarmBytes.
//   - A node's parent is in the tree and is full (or the top of a root); start is
//     the parent's end; the key is the parent's Child of its tokens.
//   - ready holds just the filled children, sorted by tokens; tails just those of
//     them that are not full.
//   - lru holds just the nodes that may go: filled, without children, without
//     readers, not pinned, not about to be written.
//   - ends holds just the filled nodes that saved tokens or have a name; sums are
//     what a walk over all nodes would count.
//   - A hollow node has children or readers; a root has children or readers.
//   - dirty holds just the filled nodes that are neither durable nor refused; held just the nodes
//     under pin or ttl, and heldBytes is their sum.
type Store struct {
	o    Options
	cold Cold // nil: none

	ctx    context.Context // of readers and writers; ends with Close
	cancel context.CancelFunc
	// wg counts writers, readers and chases. A chase is added under mu and before
	// closed, so before Close waits; fly adds a read later than that, but only a chase
	// calls it, which wg counts as long: the count is not 0 then, and cannot be missed.
	wg sync.WaitGroup

	readers chan struct{}   // a place for each cold read
	wake    chan struct{}   // for writers: there is something new to do
	touches chan block.Name // uses, on their way to the cold tier

	mu        sync.Mutex
	closed    bool
	named     bool // Identity.Digest is known
	identity  block.Identity
	slabs     slabs
	roots     map[Scope]*root
	rootKeys  map[Scope]block.Key // of scopes seen, stored or not
	lru       nodeHeap
	ends      nodeHeap // blocks that saved tokens or have a name, those that saved most first
	sums      sums
	held      map[*node]struct{}
	heldBytes int64
	expiry    time.Time // the earliest end of a ttl; zero: none
	gone      gone
	tick      uint64 // grows with each use
	flights   map[block.Key]*flight
	chases    int
	skips     uint64 // fetches that did not pay

	dirty   map[*node]struct{}
	toWrite nodeHeap // best first
	waiting nodeHeap // dirty, their time has not come
	idle    int      // writers without work
	urgent  int      // blocks that an idle writer must take before they are evicted
	backoff *backoff.ExponentialBackOff
	paused  time.Time     // no write before: the store has just failed
	beside  time.Time     // no write before while the engine computes
	failing bool          // the last write failed
	wrote   chan struct{} // closed, and made anew, at the end of each write

	counts counts
}

// New makes a store. Close must be called.
func New(o Options) *Store {
	o.defaults()
	s := &Store{
		o: o, cold: o.Cold, identity: o.Identity, named: o.Identity.Digest != "",
		readers:  make(chan struct{}, o.Readers),
		wake:     make(chan struct{}, o.Writers),
		touches:  make(chan block.Name, 1024),
		slabs:    newSlabs(o.WarmBytes, o.TokenBytes),
		roots:    map[Scope]*root{},
		rootKeys: map[Scope]block.Key{},
		lru:      nodeHeap{less: usedBefore, at: func(n *node) *int { return &n.lruAt }},
		ends:     nodeHeap{less: savedMore, at: func(n *node) *int { return &n.endAt }},
		sums:     sums{scopes: map[string]int{}},
		held:     map[*node]struct{}{},
		gone:     newGone(goneKeys),
		flights:  map[block.Key]*flight{},
		dirty:    map[*node]struct{}{},
		toWrite:  nodeHeap{less: writtenBefore, at: func(n *node) *int { return &n.writeAt }},
		waiting:  nodeHeap{less: dueBefore, at: func(n *node) *int { return &n.waitAt }},
		backoff:  newBackoff(),
		wrote:    make(chan struct{}),
		counts:   counts{drops: map[string]uint64{}},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.wg.Go(func() { s.slabs.populate(s.ctx, o.Busy) })
	if s.cold != nil {
		for range o.Writers {
			s.wg.Go(s.writer)
		}
		s.wg.Go(s.toucher)
	}
	return s
}

// SetDigest names the blocks by the digest of the weights. Before it they live
// in RAM under a provisional name, and nothing is written down or looked up in
// the cold tier. Only the first digest counts.
func (s *Store) SetDigest(hex string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.named || hex == "" {
		return
	}
	s.named = true
	s.identity.Digest = hex
	clear(s.rootKeys)
	s.gone = newGone(goneKeys) // what it knows has other names now
	for sc, r := range s.roots {
		r.top.rename(s.rootKey(sc))
	}
	for n := range s.dirty {
		s.enqueue(n)
	}
}

// Close stops writers and readers and gives the memory back; what a reader still
// holds goes with its Release. What is dirty is lost: Flush first.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.roots {
		for _, n := range r.top.below() {
			s.remove(n)
		}
	}
	s.slabs.release()
}

// off says why nothing can be stored; "" when it can.
func (s *Store) off() string {
	switch {
	case s.closed:
		return "the store is closed"
	case s.o.TokenBytes <= 0:
		return "this model's KV cannot be stored"
	case s.o.WarmBytes <= 0:
		return "no memory is set aside for stored KV"
	case s.slabs.size(block.Tokens) > s.slabs.budget:
		return "the memory set aside for stored KV is less than one block"
	}
	return ""
}

// rootKey is the key that the first blocks of a scope have as parent.
func (s *Store) rootKey(sc Scope) block.Key {
	k, ok := s.rootKeys[sc]
	if !ok {
		if len(s.rootKeys) >= 4096 { // scopes come from clients' keys and salts: bounded
			clear(s.rootKeys)
		}
		k = s.identity.Root(sc.Name, sc.Adapters)
		s.rootKeys[sc] = k
	}
	return k
}

// counts are the store's counters; guarded by Store.mu.
type counts struct {
	warmHits, warmTokens uint64
	coldHits, coldTokens uint64
	evictions            uint64
	drops                map[string]uint64
	written              uint64 // positions captured
}
