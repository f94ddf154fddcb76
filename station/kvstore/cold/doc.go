// Package cold is the cold tier: blocks in a folder or bucket, where they survive
// the process and other replicas find them.
//
// One object is one block (see package block for its bytes), named
// root/parent/key in hex, or root/parent/key-N when it is a tail of N tokens. So a
// block is found without an index, and one bounded listing gives a parent's
// tails. Whatever fails a check is deleted and counted, never used.
//
// [Tier] is the tier above the folder or bucket (package bucket, which has its
// addresses): deadlines, the breaker and the learned speed, the index of what is there,
// the budget and its evictor, the sweeper. [Later] is a tier that is opened behind,
// and fails until then.
//
// # Invariants
//
// Any number of processes may share a store: they overwrite whole objects with equal
// ones, and what one deletes another misses.
//
// Everything below a folder named like a root counts against the budget: old
// models, other processes' blocks, temporary and foreign files. What lies beside
// those folders is not ours, is not counted and never touched.
//
// No key, text or token id is logged, only reasons and sizes.
package cold
