package native

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
)

// Bounds of a GGUF header, far above any real model: a hostile count must not
// become an allocation.
const (
	maxKeys    = 1 << 16
	maxTensors = 1 << 20
	maxName    = 1 << 12
	maxString  = 1 << 24 // chat templates and merges included
	keepArray  = 1 << 12 // longer arrays (the vocabulary) are only counted
	maxDims    = 8
)

var (
	errMagic     = errors.New("no GGUF magic")
	errTruncated = errors.New("the header ends early")
)

// header is a GGUF file's header: settings and where its tensors lie.
type header struct {
	version  uint32
	values   map[string]any // uint64, int64, float64, bool, string, []any for short arrays
	lengths  map[string]int // of all arrays
	tensors  []tensor
	dataFrom int64 // offset of the tensor data
	size     int64 // of the file
}

type tensor struct {
	name   string
	kind   uint32
	offset int64 // in the file
	bytes  int64 // -1: of a type this table does not know
}

// end is the offset after the last tensor's data.
func (h *header) end() int64 {
	end := h.dataFrom
	for _, t := range h.tensors {
		if t.bytes >= 0 {
			end = max(end, t.offset+t.bytes)
		}
	}
	return end
}

// has tells whether there is a tensor of that name.
func (h *header) has(name string) bool {
	return slices.ContainsFunc(h.tensors, func(t tensor) bool { return t.name == name })
}

// weights is the size of all tensors.
func (h *header) weights() int64 {
	var n int64
	for _, t := range h.tensors {
		n += max(t.bytes, 0)
	}
	return n
}

// number gives an integer setting of the architecture, the largest of an array's.
func (h *header) number(key string) (int64, bool) {
	switch v := h.values[key].(type) {
	case uint64:
		if v <= math.MaxInt64 {
			return int64(v), true
		}
	case int64:
		return v, true
	}
	return 0, false
}

func (h *header) text(key string) string {
	s, _ := h.values[key].(string)
	return s
}

// readHeader reads the header of a GGUF of the given size. Its errors are
// errMagic, errTruncated, or one that says what is inconsistent.
func readHeader(r io.Reader, size int64) (*header, error) {
	g := &ggufReader{r: bufio.NewReaderSize(r, 1<<16), left: size, order: binary.LittleEndian}
	h := &header{values: map[string]any{}, lengths: map[string]int{}, size: size}
	var magic [4]byte
	g.bytes(magic[:])
	if g.err != nil && size == 0 {
		return nil, errTruncated
	}
	if g.err != nil || string(magic[:]) != "GGUF" {
		return nil, errMagic
	}
	h.version = g.u32()
	if g.err == nil && h.version > 0xffff && bits.ReverseBytes32(h.version) <= 0xffff {
		return nil, errors.New("the file is big-endian, this machine is not")
	}
	if g.err == nil && (h.version < 2 || h.version > 3) {
		return nil, fmt.Errorf("GGUF version %d is not supported (2 and 3 are)", h.version)
	}
	tensors, keys := g.u64(), g.u64()
	switch {
	case g.err != nil:
		return nil, g.err
	case tensors > maxTensors:
		return nil, fmt.Errorf("%d tensors is more than any model has", tensors)
	case keys > maxKeys:
		return nil, fmt.Errorf("%d settings is more than any model has", keys)
	}
	for range keys {
		key := g.str(maxName)
		v := g.value(h, key, g.u32())
		if g.err != nil {
			return nil, g.err
		}
		if v != nil {
			h.values[key] = v
		}
	}
	align := int64(32)
	if a, ok := h.number("general.alignment"); ok {
		align = a
	}
	if align < 1 || align > 1<<20 || align&(align-1) != 0 {
		return nil, fmt.Errorf("alignment %d is not a power of two", align)
	}
	for range tensors {
		t := g.tensor()
		if g.err != nil {
			return nil, g.err
		}
		h.tensors = append(h.tensors, t)
	}
	h.dataFrom = (size - g.left + align - 1) &^ (align - 1)
	for i := range h.tensors {
		t := &h.tensors[i]
		if t.offset > math.MaxInt64-h.dataFrom {
			return nil, fmt.Errorf("tensor %q has an impossible offset", t.name)
		}
		t.offset += h.dataFrom
	}
	return h, nil
}

// ggufReader reads values; after the first error it gives zeros.
type ggufReader struct {
	r     *bufio.Reader
	left  int64
	order binary.ByteOrder
	err   error
	buf   [8]byte
}

func (g *ggufReader) bytes(b []byte) {
	if g.err != nil {
		return
	}
	if int64(len(b)) > g.left {
		g.err = errTruncated
		return
	}
	if _, err := io.ReadFull(g.r, b); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errTruncated
		}
		g.err = err
		return
	}
	g.left -= int64(len(b))
}

func (g *ggufReader) skip(n uint64) {
	if g.err != nil {
		return
	}
	if n > uint64(g.left) {
		g.err = errTruncated
		return
	}
	for n > 0 {
		k, err := g.r.Discard(int(min(n, 1<<30)))
		n -= uint64(k)
		g.left -= int64(k)
		if err != nil {
			g.err = errTruncated
			return
		}
	}
}

func (g *ggufReader) uint(width int) uint64 {
	g.buf = [8]byte{}
	g.bytes(g.buf[:width])
	if g.err != nil {
		return 0
	}
	return g.order.Uint64(g.buf[:])
}

func (g *ggufReader) u32() uint32 { return uint32(g.uint(4)) }
func (g *ggufReader) u64() uint64 { return g.uint(8) }

func (g *ggufReader) str(limit uint64) string {
	n := g.u64()
	if g.err == nil && n > uint64(g.left) {
		g.err = errTruncated
	}
	if g.err == nil && n > limit {
		g.err = fmt.Errorf("a text of %d bytes is longer than any model has", n)
	}
	if g.err != nil {
		return ""
	}
	b := make([]byte, n)
	g.bytes(b)
	return string(b)
}

// GGUF value types.
const (
	ggufUint8 = iota
	ggufInt8
	ggufUint16
	ggufInt16
	ggufUint32
	ggufInt32
	ggufFloat32
	ggufBool
	ggufString
	ggufArray
	ggufUint64
	ggufInt64
	ggufFloat64
)

var ggufWidth = map[uint32]int{
	ggufUint8: 1, ggufInt8: 1, ggufUint16: 2, ggufInt16: 2, ggufUint32: 4, ggufInt32: 4,
	ggufFloat32: 4, ggufBool: 1, ggufUint64: 8, ggufInt64: 8, ggufFloat64: 8,
}

func (g *ggufReader) value(h *header, key string, kind uint32) any {
	switch kind {
	case ggufString:
		return g.str(maxString)
	case ggufArray:
		return g.array(h, key)
	}
	width, ok := ggufWidth[kind]
	if !ok {
		if g.err == nil {
			g.err = fmt.Errorf("setting %q has unknown type %d", key, kind)
		}
		return nil
	}
	raw := g.uint(width)
	switch kind {
	case ggufInt8:
		return int64(int8(raw))
	case ggufInt16:
		return int64(int16(raw))
	case ggufInt32:
		return int64(int32(raw))
	case ggufInt64:
		return int64(raw)
	case ggufFloat32:
		return float64(math.Float32frombits(uint32(raw)))
	case ggufFloat64:
		return math.Float64frombits(raw)
	case ggufBool:
		return raw != 0
	}
	return raw
}

func (g *ggufReader) array(h *header, key string) any {
	kind, n := g.u32(), g.u64()
	if g.err != nil {
		return nil
	}
	width := ggufWidth[kind]
	switch {
	case kind == ggufString:
		width = 8 // at least its length
	case width == 0:
		g.err = fmt.Errorf("setting %q is an array of unknown type %d", key, kind)
		return nil
	}
	if n > uint64(g.left)/uint64(width) {
		g.err = errTruncated
		return nil
	}
	h.lengths[key] = int(n)
	if n > keepArray {
		if kind != ggufString {
			g.skip(n * uint64(width))
			return nil
		}
		for range n {
			g.skip(g.u64())
		}
		return nil
	}
	out := make([]any, 0, n)
	for range n {
		out = append(out, g.value(h, key, kind))
	}
	return out
}

func (g *ggufReader) tensor() tensor {
	t := tensor{name: g.str(maxName), bytes: -1}
	dims := g.u32()
	if g.err == nil && (dims == 0 || dims > maxDims) {
		g.err = fmt.Errorf("tensor %q has %d dimensions", t.name, dims)
	}
	if g.err != nil {
		return t
	}
	elements, first := uint64(1), uint64(0)
	for i := range dims {
		d := g.u64()
		if i == 0 {
			first = d
		}
		hi, lo := bits.Mul64(elements, d)
		if hi != 0 || lo > math.MaxInt64 {
			g.err = fmt.Errorf("tensor %q has an impossible size", t.name)
			return t
		}
		elements = lo
	}
	t.kind = g.u32()
	offset := g.u64()
	if g.err == nil && offset > math.MaxInt64 {
		g.err = fmt.Errorf("tensor %q has an impossible offset", t.name)
	}
	if g.err != nil {
		return t
	}
	t.offset = int64(offset)
	if b, ok := tensorTypes[t.kind]; ok {
		if first%b.elements != 0 {
			g.err = fmt.Errorf("tensor %q has rows of %d, not whole blocks of %d", t.name, first, b.elements)
			return t
		}
		hi, lo := bits.Mul64(elements/b.elements, b.bytes)
		if hi != 0 || lo > math.MaxInt64 {
			g.err = fmt.Errorf("tensor %q has an impossible size", t.name)
			return t
		}
		t.bytes = int64(lo)
	}
	return t
}

// tensorTypes are ggml's tensor types: elements and bytes of one block.
var tensorTypes = map[uint32]struct{ elements, bytes uint64 }{
	0: {1, 4}, 1: {1, 2}, 2: {32, 18}, 3: {32, 20}, 6: {32, 22}, 7: {32, 24}, 8: {32, 34}, 9: {32, 36},
	10: {256, 84}, 11: {256, 110}, 12: {256, 144}, 13: {256, 176}, 14: {256, 210}, 15: {256, 292},
	16: {256, 66}, 17: {256, 74}, 18: {256, 98}, 19: {256, 50}, 20: {32, 18}, 21: {256, 110},
	22: {256, 82}, 23: {256, 136}, 24: {1, 1}, 25: {1, 2}, 26: {1, 4}, 27: {1, 8}, 28: {1, 8},
	29: {256, 56}, 30: {1, 2}, 34: {256, 54}, 35: {256, 66}, 39: {32, 17},
}
