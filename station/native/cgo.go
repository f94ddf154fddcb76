package native

// The flags of the package's C++; where llama.cpp's headers are stands in
// flags_gen.go, which make writes.

// #cgo CXXFLAGS: -std=c++17 -O3 -Wall -Wno-psabi
// #cgo LDFLAGS: -ldl
// #include "shim.h"
import "C"

import (
	// What the shim calls: llama.cpp, and ggml with its baseline CPU kernels.
	_ "github.com/ollama/ollama/llama/llama.cpp/src"
)
