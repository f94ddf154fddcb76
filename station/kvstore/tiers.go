package kvstore

import (
	"context"
	"errors"
	"time"

	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// Cold is a tier that outlives the process. *cold.Tier is one; tests have
// others. All methods are safe for concurrent use and end when ctx does.
type Cold interface {
	// Put writes a block whole or not at all. Data is read until it returns.
	// ErrNoRoom: the tier is well, but this block does not fit its budget.
	Put(ctx context.Context, b *block.Block) error
	// Get reads and checks a block. into gives the memory for so many positions;
	// what it gave is the caller's, also when Get fails. Errors: ErrNotFound,
	// ErrFailing, *block.Fault (the object is dropped and counted already).
	Get(ctx context.Context, name block.Name, into func(positions int) ([]byte, error)) (*block.Block, error)
	// GetTail is Get of a block that is known to have so many tokens, fewer than a
	// full one.
	GetTail(ctx context.Context, name block.Name, tokens int, into func(positions int) ([]byte, error)) (*block.Block, error)
	// Tails lists the stored children of parent that are not full blocks, at most
	// a few, by name and number of tokens.
	Tails(ctx context.Context, root, parent block.Key) ([]Tail, error)
	// Predict tells how long reading so many blocks of so many bytes together takes,
	// as learned; ok is false while the tier is failing or nothing is known.
	Predict(blocks int, bytes int64) (d time.Duration, ok bool)
	// Missed tells the tier that a read did not come within d: it counts against it.
	Missed(d time.Duration)
	// Has says whether a block is known to be there, from memory: at once. What
	// others have written lately may not be known.
	Has(name block.Name) bool
	// Touch notes a use, for eviction.
	Touch(name block.Name)
	// Delete drops blocks: one, all of a root, or with group those of it.
	Delete(ctx context.Context, what Which) (blocks int, bytes int64, err error)
	// Stats are the tier's numbers. usable says which roots are this model's.
	Stats(usable func(root block.Key) bool) wire.KVTier
	Close() error
}

// Tail is a stored child that is no full block.
type Tail struct {
	block.Name
	Tokens int
}

// Which names blocks to delete. Zero fields do not restrict.
type Which struct {
	Name  block.Name  // of one block, when Key is set; else all of Root
	Keys  []block.Key // of blocks, below any parent: many cost what one does
	Group string
}

// Errors of a cold tier.
var (
	ErrNotFound = errors.New("no such block")
	ErrFailing  = errors.New("the cold store is failing")
	ErrNoRoom   = errors.New("the budget of the cold store has no room for it") // beside its parents
)
