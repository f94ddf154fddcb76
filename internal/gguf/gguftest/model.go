// Package gguftest makes small model files for tests: well-formed ones, though
// no engine would find a network in them, and ones with a chosen fault.
package gguftest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// File is a GGUF to be written.
type File struct {
	Settings []Setting
	Tensors  []Tensor
	Data     int // bytes of tensor data, all zero
}

// Setting is a key and its value: a string, uint16, uint32, int32, float32 or
// bool, or a slice of string, uint32, int32, float32.
type Setting struct {
	Key   string
	Value any
}

// Set gives a setting.
func Set(key string, value any) Setting { return Setting{key, value} }

// Tensor describes a tensor; nothing makes it fit the data.
type Tensor struct {
	Name   string
	Dims   []uint64
	Kind   uint32
	Offset uint64 // from the start of the data
}

// Model gives a GGUF named name with one tensor of n float32 values, drawn from
// seed.
func Model(name string, n int, seed uint64) []byte {
	b := File{
		Settings: []Setting{
			{"general.architecture", "llama"}, {"general.name", name},
			{"llama.context_length", uint32(2048)}, {"tokenizer.ggml.tokens", []string{"a", "b"}},
		},
		Tensors: []Tensor{{"weight", []uint64{uint64(n)}, 0, 0}},
	}.Bytes()
	r := rand.New(rand.NewPCG(seed, seed))
	data := make([]byte, 4*n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return append(b, data...)
}

// Small is a GGUF of two tensors: 64 f32 and two blocks of Q8_0.
func Small(more ...Setting) File {
	return File{
		Settings: append([]Setting{
			{"general.architecture", "llama"}, {"general.name", "small"}, {"llama.context_length", uint32(4096)},
			{"llama.block_count", uint32(2)}, {"llama.embedding_length", uint32(64)}, {"llama.attention.head_count", uint32(4)},
			{"llama.attention.head_count_kv", uint32(2)}, {"tokenizer.ggml.tokens", []string{"a", "b", "c"}},
		}, more...),
		Tensors: []Tensor{{"a", []uint64{64}, 0, 0}, {"b", []uint64{32, 2}, 8, 256}},
		Data:    256 + 2*34,
	}
}

// Write writes the file to path, making its folder, and returns path.
func (f File) Write(t testing.TB, path string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, f.Bytes(), 0o644))
	return path
}

// Bytes gives the file's content.
func (f File) Bytes() []byte {
	w := &writer{}
	w.WriteString("GGUF")
	w.put(uint32(3), uint64(len(f.Tensors)), uint64(len(f.Settings)))
	for _, s := range f.Settings {
		w.text(s.Key)
		w.value(s.Value)
	}
	for _, t := range f.Tensors {
		w.text(t.Name)
		w.put(uint32(len(t.Dims)), t.Dims, t.Kind, t.Offset)
	}
	for w.Len()%32 != 0 {
		w.WriteByte(0)
	}
	w.Write(make([]byte, f.Data))
	return w.Bytes()
}

// Numbers of the format's value types, written out here a second time so that a
// reader with a wrong one does not agree with itself.
const (
	kindUint16  = uint32(2)
	kindUint32  = uint32(4)
	kindInt32   = uint32(5)
	kindFloat32 = uint32(6)
	kindBool    = uint32(7)
	kindText    = uint32(8)
	kindArray   = uint32(9)
)

type writer struct{ bytes.Buffer }

func (w *writer) put(values ...any) {
	for _, v := range values {
		_ = binary.Write(w, binary.LittleEndian, v)
	}
}

func (w *writer) text(s string) {
	w.put(uint64(len(s)))
	w.WriteString(s)
}

func (w *writer) value(v any) {
	switch v := v.(type) {
	case string:
		w.put(kindText)
		w.text(v)
	case uint16:
		w.put(kindUint16, v)
	case uint32:
		w.put(kindUint32, v)
	case int32:
		w.put(kindInt32, v)
	case float32:
		w.put(kindFloat32, v)
	case bool:
		w.put(kindBool, v)
	case []uint32:
		w.put(kindArray, kindUint32, uint64(len(v)), v)
	case []int32:
		w.put(kindArray, kindInt32, uint64(len(v)), v)
	case []float32:
		w.put(kindArray, kindFloat32, uint64(len(v)), v)
	case []string:
		w.put(kindArray, kindText, uint64(len(v)))
		for _, s := range v {
			w.text(s)
		}
	default:
		panic(fmt.Sprintf("a value of type %T is not written", v))
	}
}
