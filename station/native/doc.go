// Package native is the engine: llama.cpp out of the ollama module, behind
// [thoth/station/engine.Engine]. It is the only package that needs cgo; built
// without, Load says so.
//
// Layers. shim.h is all that Go sees of C: whole steps (decode a batch, sample
// all rows), each call guarded against C++ exceptions. log.cpp keeps what
// llama.cpp prints, backend.cpp finds kernels, engine.cpp decodes, state.cpp
// moves KV as states, blocks.cpp moves it between pool and blocks, vocab.cpp
// speaks tokens, sampler.cpp, draw.cpp and rows.cpp sample.
//
// Grammars. gbnf_*.cpp read one into rules over bytes, match.cpp follows it,
// lexicon.cpp has what each token writes. llama.cpp's own grammar is only a
// test's reference: nested repetitions of what may be empty overflow its stack,
// ambiguous rules take it exponential time, and to mask a row it tries every
// token.
//
// Vectors and scores. embed.cpp evaluates texts in a context of its own and pools
// them; pair.go lays out a query with a document, tensor.cpp reads what makes their
// tokens tell them apart, and head.go makes the score. llama.cpp's own pooling and
// head work within one batch, and know no second text.
//
// Before C is entered. llama.cpp ends the process on much of what is wrong, so
// the pure Go files check first: check.go judges the model file by its header
// and every tensor's extent ([thoth/internal/gguf]), plan.go fits weights and KV
// into memory, options.go refuses settings, runs.go cuts text the tokeniser
// would recurse on. They build and are tested with CGO_ENABLED=0.
//
// Cells. One pool serves all sequences (unified KV), and it fills upward only,
// since CPU flash attention sums in physical order. Two sequence ids beyond the
// caller's are ours: ballast owns the cells of retired sequences, scratch holds
// a range on its way in or out and is empty between calls. llama.cpp searches
// free cells from the last one taken, and below it nothing is ever freed, so it
// gets to the end of the pool in order. There it would turn back, and in a
// sliding-window model overwrite cells that fell out of the window; native
// counts cells and says ErrPoolFull before.
//
// llama.cpp ends the process when a sequence is given a cell it owns, so
// sharing.go knows which cells sequences have in common, and gives ballast each
// of them once.
//
// Threads. One goroutine calls the methods marked loop. Tokenize, Piece,
// NewSampler, Abort and ClearAbort touch only what is constant or atomic.
package native
