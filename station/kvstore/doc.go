// Package kvstore is the one authority on what KV is stored: the index of blocks
// and their tiers.
//
// Words. A block is the KV of up to [block.Tokens] positions of one token
// sequence; a full block has exactly so many, a tail is shorter. A block's
// parent is the full block before it, the first block's the root of its scope
// (see [block.Identity]); so blocks are a tree of tokens, and a path from a root is a
// prefix. Warm is RAM, cold is a folder or bucket (package cold); hot, cells in
// the engine's pool, is the scheduler's and not known here.
//
// A stored block never changes. It may have any number of readers, which pin it;
// eviction takes what nobody reads, least recently used first and leaves before
// their parents, so that whatever is stored can be reached.
//
// Matching walks full blocks by key and then takes the child, full or tail, that
// has the longest common prefix with what is left, and cuts it: reuse is exact
// to the token. Keys only find; the token ids are compared before use.
//
// The life of a block: Reserve makes room for the blocks of a sequence that are
// not stored, the scheduler copies their rows out of the pool (filled), a writer
// behind writes them down (durable; dirty until then; refused when the cold tier's budget
// has no room). Several captures may reserve one block: it comes if any brings it. A hollow block is a place in the tree
// without rows: they are on their way from the cold tier, or were dropped while blocks
// below stay. Find and Fetch give blocks back as pieces for engine.Mover.Import.
//
// A [Store] is safe for concurrent use. No call but Fetch, Lookup, Delete and Flush
// waits for a disk, and Fetch only as long as computing would take longer (see [Gate]).
package kvstore
