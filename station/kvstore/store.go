package kvstore

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"thoth/station/engine"
	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// Options are what a Store is made of; they do not change later.
type Options struct {
	Identity   block.Identity   // Digest may be empty at first, see SetDigest
	TokenBytes int              // KV bytes of one position; 0: nothing can be stored
	WarmBytes  int64            // RAM for blocks, in bytes; 0: nothing can be stored
	Tails      int              // tails kept below one parent; default 4
	HeldShare  float64          // share of WarmBytes that pin and ttl may hold; default 0.5
	Cold       Cold             // nil: none
	ColdReason string           // why there is none, for Index
	Readers    int              // cold reads at once; default 8
	Writers    int              // cold writes at once; default 2
	TailDelay  time.Duration    // a tail is written down when it has lived so long: a longer sibling may make it needless; default 2s
	Now        func() time.Time // default time.Now
	Logger     zerolog.Logger
}

// Store is the index of blocks and their tiers.
type Store struct {
	o Options
}

// New makes a store.
func New(o Options) *Store { return &Store{o: o} }

// SetDigest names the blocks.
func (s *Store) SetDigest(hex string) {}

// Close stops writers and readers and gives the memory back.
func (s *Store) Close() {}

// Scope is whose blocks, computed with which adapters.
type Scope struct{ Name, Adapters string }

// Match is a prefix in RAM.
type Match struct{}

// Short is why a match is no longer.
type Short struct {
	Reason         wire.KVReason
	DiffersAt      int
	Prompt, Stored int32
}

// Find gives the longest prefix of tokens that is in RAM.
func (s *Store) Find(sc Scope, tokens []int32) *Match { return &Match{} }

func (m *Match) Tokens() int                        { return 0 }
func (m *Match) Pieces(from, to int) []engine.Piece { return nil }
func (m *Match) FromCold(from, to int) int          { return 0 }
func (m *Match) Short() Short {
	return Short{Reason: wire.KVNothing, DiffersAt: -1, Prompt: -1, Stored: -1}
}

// Gate is what waiting for the cold tier may cost.
type Gate struct {
	TokenSeconds float64
	Wait         time.Duration
}

func (m *Match) Fetch(ctx context.Context, g Gate) {}
func (m *Match) Used(n int)                        {}
func (m *Match) Release()                          {}

// SaveOptions label and hold what is saved.
type SaveOptions struct {
	Group, Name string
	TTL         time.Duration
	Pin         bool
	HoldTo      int
}

// Reserve makes room for the blocks of tokens that are not stored.
func (s *Store) Reserve(sc Scope, tokens []int32, o SaveOptions) *Capture {
	return &Capture{Reason: "no RAM is set aside for stored KV"}
}

// Capture is what Reserve did.
type Capture struct {
	Tokens int
	Reason string
	New    int
	Bytes  int64
	Fills  []*Fill
}

func (c *Capture) Durable() bool { return false }

// Fill is a reserved block.
type Fill struct{ From, N int }

func (f *Fill) Piece() engine.Piece { return engine.Piece{} }
func (f *Fill) Done()               {}
func (f *Fill) Drop()               {}

func (s *Store) Lookup(ctx context.Context, sc Scope, tokens []int32) wire.KVLookupResponse {
	return wire.KVLookupResponse{Tokens: len(tokens), Reason: wire.KVNothing, DiffersAt: -1}
}

func (s *Store) Delete(ctx context.Context, q *wire.KVDeleteRequest) (blocks int, bytes int64, err error) {
	return 0, 0, nil
}

func (s *Store) Flush(ctx context.Context) wire.KVFlushResponse { return wire.KVFlushResponse{} }

func (s *Store) Index() wire.KVIndex { return wire.KVIndex{BlockTokens: block.Tokens} }
