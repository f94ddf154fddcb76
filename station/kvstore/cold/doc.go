// Package cold is the cold tier: blocks in a folder or bucket, where they survive
// the process and other replicas find them.
//
// One object is one block, named root/parent/key in hex, so that a block is found
// without an index and one bounded listing gives a parent's children. An object
// says all that is needed to check it: magic, version, key, parent, tokens,
// kernel, length and checksum. Whatever fails a check is dropped and counted,
// never used.
package cold
