// Package gguf reads the header of a model file: enough to say whether a file
// is a GGUF, what model it holds and whether all of its bytes are there.
//
// It never trusts a length in the file: every string, array and count is
// checked against what is left of the file before anything is allocated, so a
// truncated or hostile file ends in an error that names what is wrong. Tensor
// data is not read.
package gguf
