package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
)

// Bounds of a header, far above any real model: a hostile count must not become
// an allocation.
const (
	maxSettings  = 1 << 16
	maxTensors   = 1 << 20
	maxName      = 1 << 12
	maxText      = 1 << 24 // chat templates and merges included
	maxAlignment = 1 << 20
	keepText     = 1 << 16 // longer texts are walked over
	keepArray    = 1 << 12 // longer arrays, and those of texts, are only counted
)

// Value types of the format.
const (
	typeUint8 uint32 = iota
	typeInt8
	typeUint16
	typeInt16
	typeUint32
	typeInt32
	typeFloat32
	typeBool
	typeText
	typeArray
	typeUint64
	typeInt64
	typeFloat64
)

// widths are the bytes of the scalar types.
var widths = map[uint32]int{
	typeUint8: 1, typeInt8: 1, typeBool: 1, typeUint16: 2, typeInt16: 2,
	typeUint32: 4, typeInt32: 4, typeFloat32: 4, typeUint64: 8, typeInt64: 8, typeFloat64: 8,
}

// readHeader reads a header without looking at where its tensors end.
func readHeader(r io.Reader, size int64) (*Header, error) {
	d := &reader{r: bufio.NewReaderSize(r, 1<<16), left: size}
	h := &Header{SizeBytes: size, values: map[string]any{}, lengths: map[string]int{}}
	magic := make([]byte, len(Magic))
	if d.bytes(magic); d.err != nil || !HasMagic(magic) {
		return nil, ErrNotGGUF
	}
	h.Version = d.u32()
	switch {
	case h.Version > 0xffff && bits.ReverseBytes32(h.Version) <= 0xffff:
		d.damaged("the file is big-endian, this machine is not")
	case h.Version < 2 || h.Version > 3:
		d.damaged("GGUF version %d is not supported (2 and 3 are)", h.Version)
	}
	tensors := d.count("tensors", maxTensors)
	settings := d.count("settings", maxSettings)
	for i := uint64(0); i < settings && d.err == nil; i++ {
		d.setting(h)
	}
	alignment := d.alignment(h)
	for i := uint64(0); i < tensors && d.err == nil; i++ {
		h.Tensors = append(h.Tensors, d.tensor())
	}
	if d.err != nil {
		return nil, d.err
	}
	h.DataFrom = (size - d.left + alignment - 1) &^ (alignment - 1)
	for i := range h.Tensors {
		h.Tensors[i].Offset += h.DataFrom
	}
	return h, nil
}

// reader reads values; after the first error it gives zeros.
type reader struct {
	r    *bufio.Reader
	left int64 // bytes of the file not yet read
	err  error
	buf  [8]byte
}

// damaged ends the reading, unless an error has already.
func (d *reader) damaged(format string, args ...any) {
	if d.err == nil {
		d.err = &HeaderError{Reason: fmt.Sprintf(format, args...)}
	}
}

// need tells whether n more bytes can be read.
func (d *reader) need(n uint64) bool {
	if d.err == nil && n > uint64(d.left) {
		d.err = ErrTruncated
	}
	return d.err == nil
}

// took notes what was read. A file that became shorter meanwhile is truncated too.
func (d *reader) took(n int, err error) {
	d.left -= int64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = ErrTruncated
	}
	d.err = err
}

func (d *reader) bytes(b []byte) {
	if d.need(uint64(len(b))) {
		d.took(io.ReadFull(d.r, b))
	}
}

func (d *reader) skip(n uint64) {
	for d.need(n) && n > 0 {
		k := min(n, 1<<30)
		d.took(d.r.Discard(int(k)))
		n -= k
	}
}

func (d *reader) uint(width int) uint64 {
	d.buf = [8]byte{}
	d.bytes(d.buf[:width])
	if d.err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(d.buf[:])
}

func (d *reader) u32() uint32 { return uint32(d.uint(4)) }
func (d *reader) u64() uint64 { return d.uint(8) }

func (d *reader) count(what string, limit uint64) uint64 {
	n := d.u64()
	if n > limit {
		d.damaged("%d %s is more than any model has", n, what)
	}
	return n
}

// length reads how long the text that follows is.
func (d *reader) length(limit uint64) uint64 {
	n := d.u64()
	if d.need(n) && n > limit {
		d.damaged("a text of %d bytes is longer than any model has", n)
	}
	if d.err != nil {
		return 0
	}
	return n
}

func (d *reader) text(length uint64) string {
	b := make([]byte, length)
	d.bytes(b)
	return string(b)
}

func (d *reader) name() string { return d.text(d.length(maxName)) }

// setting reads a key and its value, and keeps what is not large.
func (d *reader) setting(h *Header) {
	key, kind := d.name(), d.u32()
	switch {
	case d.err != nil:
	case kind == typeText:
		if n := d.length(maxText); n > keepText {
			d.skip(n)
		} else {
			h.values[key] = d.text(n)
		}
	case kind == typeArray:
		numbers, n := d.array(key)
		h.lengths[key] = n
		if numbers != nil {
			h.values[key] = numbers
		}
	case widths[kind] == 0:
		d.damaged("setting %q has unknown type %d", key, kind)
	default:
		h.values[key] = d.scalar(kind)
	}
}

func (d *reader) scalar(kind uint32) any {
	raw := d.uint(widths[kind])
	switch kind {
	case typeInt8:
		return int64(int8(raw))
	case typeInt16:
		return int64(int16(raw))
	case typeInt32:
		return int64(int32(raw))
	case typeInt64:
		return int64(raw)
	case typeFloat32:
		return float64(math.Float32frombits(uint32(raw)))
	case typeFloat64:
		return math.Float64frombits(raw)
	case typeBool:
		return raw != 0
	}
	return raw
}

// array reads an array of n elements; numbers is nil unless it is a short one
// of integers.
func (d *reader) array(key string) (numbers []int64, n int) {
	kind, count := d.u32(), d.u64()
	width := widths[kind]
	if kind == typeText {
		width = 8 // at least its length
	}
	switch {
	case d.err != nil:
		return nil, 0
	case width == 0:
		d.damaged("setting %q is an array of unknown type %d", key, kind)
		return nil, 0
	case count > uint64(d.left)/uint64(width):
		d.err = ErrTruncated
		return nil, 0
	}
	switch {
	case kind == typeText:
		for i := uint64(0); i < count && d.err == nil; i++ {
			d.skip(d.length(maxText))
		}
	case count > keepArray:
		d.skip(count * uint64(width))
	default:
		numbers = make([]int64, 0, count)
		for range count {
			v, ok := integer(d.scalar(kind))
			if !ok {
				d.skip((count - uint64(len(numbers)) - 1) * uint64(width))
				return nil, int(count)
			}
			numbers = append(numbers, v)
		}
	}
	return numbers, int(count)
}

// alignment is where tensor data may begin: at multiples of it.
func (d *reader) alignment(h *Header) int64 {
	const key = "general.alignment"
	_, list := h.lengths[key]
	a, ok := h.Number(key)
	switch {
	case h.values[key] == nil && !list:
		return 32
	case !ok:
		d.damaged("alignment is not a number")
	case a < 1 || a > maxAlignment || a&(a-1) != 0:
		d.damaged("alignment %d is not a power of two up to %d", a, maxAlignment)
	}
	return a
}
