// Package engine is the line between the station's scheduler and what computes:
// station/native (llama.cpp) and stationtest (a deterministic fake) stand
// behind [Engine]; station's loop is its only caller.
//
// Words. A sequence is one run of tokens with its own positions, known by a
// [SeqID] in [0, Info.Sequences). The pool is Info.Cells KV cells shared by all
// sequences (unified KV). A batch is one decode call: at most Info.BatchSize
// tokens of any sequences. A row is a batch index whose output was asked for.
//
// Placement. CPU flash attention sums in the physical order of cells, so a
// sequence's cells must ascend with its positions or its logits move. The
// engine therefore never reuses a cell between two calls of Reset: Retire does
// not free a sequence's cells but turns them into ballast, and the pool only
// fills upward. The scheduler counts cells (one per decoded or restored token),
// and before the pool ends it compacts: Save what lives, Reset, Restore in
// order. How ballast is kept (a sequence id of its own, the pin of
// sliding-window models) is the engine's business.
//
// Threads. Methods marked "loop" are called from one goroutine. The others are
// safe from any. Which thread computes is the engine's business: a goroutine in
// Decode is parked.
package engine
