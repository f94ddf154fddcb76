// Package gguftest makes small well-formed model files for tests.
package gguftest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
)

// Model gives a GGUF named name with one tensor of n float32 values, drawn from
// seed. It is well-formed, though no engine would find a network in it.
func Model(name string, n int, seed uint64) []byte {
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	text := func(s string) { put(uint64(len(s))); b.WriteString(s) }
	b.WriteString("GGUF")
	put(uint32(3))
	put(uint64(1)) // tensors
	put(uint64(4)) // pairs
	for _, kv := range [][2]string{{"general.architecture", "llama"}, {"general.name", name}} {
		text(kv[0])
		put(uint32(8))
		text(kv[1])
	}
	text("llama.context_length")
	put(uint32(4))
	put(uint32(2048))
	text("tokenizer.ggml.tokens")
	put(uint32(9))
	put(uint32(8))
	put(uint64(2))
	text("a")
	text("b")
	text("weight")
	put(uint32(1))
	put(uint64(n))
	put(uint32(0)) // F32
	put(uint64(0)) // offset
	for b.Len()%32 != 0 {
		b.WriteByte(0)
	}
	r := rand.New(rand.NewPCG(seed, seed))
	data := make([]byte, 4*n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	b.Write(data)
	return b.Bytes()
}
