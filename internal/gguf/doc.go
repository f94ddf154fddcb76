// Package gguf reads the header of a model file: what model it holds, how it is
// shaped, and whether all of its bytes are there. The station asks it before
// llama.cpp sees a file, the tool before a file is kept or called good, so both
// mean the same by a whole file.
//
// Words. A setting is a key with its value; a tensor's extent is where its data
// lies in the file; a shard is one file of a split model.
//
// Invariants. No length in the file is trusted: each is held against a limit no
// real model comes near and against what is left of the file before anything is
// allocated, so a cut or hostile file ends in an error that names what is wrong.
// What may be large and nobody asks for (vocabularies, merges, long templates)
// is counted and walked over, not kept. Tensor data is not read. A [Header] that
// [Read] returned has all tensors of known types within the file.
//
// Errors. [ErrNotGGUF] is another kind of file. [ErrTruncated] is one that ends
// within its header or, as an [ExtentError], before its last tensor does.
// [HeaderError] is a header that contradicts itself or the format. Anything else
// is the operating system's.
//
// Package gguftest writes small files for tests, whole ones and wrong ones.
package gguf
