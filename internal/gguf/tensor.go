package gguf

import "math/bits"

// Bounds of one tensor: no file is so large, and no sum of two overflows.
const (
	maxDims     = 4 // ggml's own
	maxElements = 1 << 50
	maxOffset   = 1 << 60
)

// Tensor is a tensor's extent.
type Tensor struct {
	Name   string
	Kind   uint32 // ggml's number of its type
	Offset int64  // in the file
	Bytes  int64  // -1: of a type this package does not know
}

// blocks are ggml's tensor types (enum ggml_type): elements and bytes of one block.
var blocks = map[uint32]struct{ elements, bytes uint64 }{
	0: {1, 4}, 1: {1, 2}, 2: {32, 18}, 3: {32, 20}, 6: {32, 22}, 7: {32, 24}, 8: {32, 34}, 9: {32, 36},
	10: {256, 84}, 11: {256, 110}, 12: {256, 144}, 13: {256, 176}, 14: {256, 210}, 15: {256, 292},
	16: {256, 66}, 17: {256, 74}, 18: {256, 98}, 19: {256, 50}, 20: {32, 18}, 21: {256, 110},
	22: {256, 82}, 23: {256, 136}, 24: {1, 1}, 25: {1, 2}, 26: {1, 4}, 27: {1, 8}, 28: {1, 8},
	29: {256, 56}, 30: {1, 2}, 34: {256, 54}, 35: {256, 66}, 39: {32, 17},
}

// tensor reads a tensor's description; its Offset still counts from the start
// of the data.
func (d *reader) tensor() Tensor {
	t := Tensor{Name: d.name(), Bytes: -1}
	dims := d.u32()
	if dims == 0 || dims > maxDims {
		d.damaged("tensor %q has %d dimensions", t.Name, dims)
	}
	elements, row := uint64(1), uint64(0)
	for i := uint32(0); i < dims && d.err == nil; i++ {
		n := d.u64()
		if i == 0 {
			row = n
		}
		hi, lo := bits.Mul64(elements, n)
		if hi != 0 || lo > maxElements {
			d.damaged("tensor %q has an impossible size", t.Name)
		}
		elements = lo
	}
	t.Kind = d.u32()
	offset := d.u64()
	if offset > maxOffset {
		d.damaged("tensor %q has an impossible offset", t.Name)
	}
	t.Offset = int64(offset)
	if b, ok := blocks[t.Kind]; ok {
		if row%b.elements != 0 {
			d.damaged("tensor %q has rows of %d, not whole blocks of %d", t.Name, row, b.elements)
		}
		t.Bytes = int64(elements / b.elements * b.bytes)
	}
	return t
}
