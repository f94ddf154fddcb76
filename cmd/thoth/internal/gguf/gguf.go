package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"

	"github.com/ollama/ollama/fs/gguf"
)

// Magic is the first four bytes of every GGUF.
const Magic = "GGUF"

// Errors of Read, to be told apart with errors.Is.
var (
	ErrNotGGUF   = errors.New("not a GGUF file")
	ErrTruncated = errors.New("the file is incomplete")
	ErrBadHeader = errors.New("the GGUF header is damaged")
)

// Limits on what a header may hold; the largest models seen stay far below.
const (
	maxTensors   = 1 << 20
	maxKeyValues = 1 << 16
	maxKeepBytes = 64 << 10 // longer strings are skipped, not kept
	maxDims      = 4
)

// File is what a header says.
type File struct {
	Version       uint32
	Architecture  string // general.architecture
	Name          string // general.name
	ContextLength uint64 // <architecture>.context_length
	Tensors       int
	SizeBytes     int64 // of the file on disk
	WantBytes     int64 // end of the last tensor: the file must be at least this long; 0 when unknown
	Shard, Shards int   // split.no + 1 and split.count; 1 of 1 when not split
}

// HasMagic tells whether b starts like a GGUF.
func HasMagic(b []byte) bool { return len(b) >= len(Magic) && string(b[:len(Magic)]) == Magic }

// Read reads the header of the file at path and compares the file's length with
// the end of its last tensor.
func Read(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r := &reader{r: bufio.NewReaderSize(f, 256<<10), left: st.Size()}
	out, err := r.header(st.Size())
	if err != nil {
		return nil, err
	}
	if out.WantBytes > out.SizeBytes {
		return out, fmt.Errorf("%w: it has %d bytes, its tensors end at %d", ErrTruncated, out.SizeBytes, out.WantBytes)
	}
	return out, nil
}

// reader walks the file; left is the number of bytes not yet read.
type reader struct {
	r    *bufio.Reader
	left int64
	pos  int64
}

func (r *reader) header(size int64) (*File, error) {
	magic, err := r.bytes(4)
	if err != nil || !HasMagic(magic) {
		return nil, ErrNotGGUF
	}
	out := &File{SizeBytes: size, Shard: 1, Shards: 1}
	if out.Version, err = r.u32(); err != nil {
		return nil, err
	}
	if out.Version < 2 || out.Version > 3 {
		return nil, fmt.Errorf("%w: version %d, known are 2 and 3", ErrBadHeader, out.Version)
	}
	tensors, err := r.count("tensors", maxTensors)
	if err != nil {
		return nil, err
	}
	pairs, err := r.count("key-value pairs", maxKeyValues)
	if err != nil {
		return nil, err
	}
	alignment := int64(32)
	context := map[string]uint64{}
	for range pairs {
		key, err := r.str()
		if err != nil {
			return nil, err
		}
		text, number, err := r.value()
		if err != nil {
			return nil, err
		}
		switch key {
		case "general.architecture":
			out.Architecture = text
		case "general.name":
			out.Name = text
		case "general.alignment":
			if number == 0 || number > 1<<20 {
				return nil, fmt.Errorf("%w: alignment %d", ErrBadHeader, number)
			}
			alignment = int64(number)
		case "split.no":
			out.Shard = int(number) + 1
		case "split.count":
			out.Shards = max(1, int(number))
		default:
			if number != 0 {
				context[key] = number
			}
		}
	}
	out.ContextLength = context[out.Architecture+".context_length"]
	out.Tensors = tensors
	end, known, err := r.tensors(tensors)
	if err != nil {
		return nil, err
	}
	if known {
		start := (r.pos + alignment - 1) / alignment * alignment
		if tensors == 0 {
			start = r.pos
		}
		if end > math.MaxInt64-start {
			return nil, fmt.Errorf("%w: a tensor ends beyond any file", ErrBadHeader)
		}
		out.WantBytes = start + end
	}
	return out, nil
}

// tensors gives the end of the last tensor, counted from the start of the data;
// known is false when a type of unknown size is among them.
func (r *reader) tensors(n int) (end int64, known bool, err error) {
	known = true
	for range n {
		name, err := r.str()
		if err != nil {
			return 0, false, err
		}
		dims, err := r.u32()
		if err != nil {
			return 0, false, err
		}
		if dims > maxDims {
			return 0, false, fmt.Errorf("%w: tensor %q has %d dimensions", ErrBadHeader, name, dims)
		}
		shape, values := make([]uint64, dims), uint64(1)
		for i := range shape {
			if shape[i], err = r.u64(); err != nil {
				return 0, false, err
			}
			hi, lo := bits.Mul64(values, shape[i])
			if hi != 0 || lo > 1<<50 {
				return 0, false, fmt.Errorf("%w: tensor %q is larger than any file", ErrBadHeader, name)
			}
			values = lo
		}
		kind, err := r.u32()
		if err != nil {
			return 0, false, err
		}
		offset, err := r.u64()
		if err != nil {
			return 0, false, err
		}
		if offset > 1<<60 {
			return 0, false, fmt.Errorf("%w: tensor %q starts beyond any file", ErrBadHeader, name)
		}
		size := gguf.TensorInfo{Shape: shape, Type: gguf.TensorType(kind)}.NumBytes()
		if size <= 0 && values > 0 {
			known = false
			continue
		}
		end = max(end, int64(offset)+size)
	}
	return end, known, nil
}

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
	typeString
	typeArray
	typeUint64
	typeInt64
	typeFloat64
)

var widths = map[uint32]int64{
	typeUint8: 1, typeInt8: 1, typeBool: 1, typeUint16: 2, typeInt16: 2,
	typeUint32: 4, typeInt32: 4, typeFloat32: 4, typeUint64: 8, typeInt64: 8, typeFloat64: 8,
}

// value reads one value and gives it as text or as an unsigned number where it
// is one; arrays are walked over.
func (r *reader) value() (text string, number uint64, err error) {
	kind, err := r.u32()
	if err != nil {
		return "", 0, err
	}
	switch kind {
	case typeString:
		text, err = r.str()
		return text, 0, err
	case typeArray:
		return "", 0, r.array()
	}
	width, ok := widths[kind]
	if !ok {
		return "", 0, fmt.Errorf("%w: value type %d", ErrBadHeader, kind)
	}
	b, err := r.bytes(width)
	if err != nil {
		return "", 0, err
	}
	switch kind {
	case typeFloat32, typeFloat64, typeBool:
		return "", 0, nil
	}
	for i, c := range b {
		number |= uint64(c) << (8 * i)
	}
	return "", number, nil
}

func (r *reader) array() error {
	kind, err := r.u32()
	if err != nil {
		return err
	}
	n, err := r.u64()
	if err != nil {
		return err
	}
	if kind == typeString {
		if n > uint64(r.left)/8 {
			return ErrTruncated
		}
		for range n {
			if _, err := r.str(); err != nil {
				return err
			}
		}
		return nil
	}
	width, ok := widths[kind]
	if !ok {
		return fmt.Errorf("%w: array of type %d", ErrBadHeader, kind)
	}
	if n > uint64(r.left/width) {
		return ErrTruncated
	}
	return r.skip(int64(n) * width)
}

func (r *reader) count(what string, limit uint64) (int, error) {
	n, err := r.u64()
	if err != nil {
		return 0, err
	}
	if n > limit {
		return 0, fmt.Errorf("%w: %d %s", ErrBadHeader, n, what)
	}
	return int(n), nil
}

func (r *reader) str() (string, error) {
	n, err := r.u64()
	if err != nil {
		return "", err
	}
	if n > uint64(r.left) {
		return "", ErrTruncated
	}
	if n > maxKeepBytes {
		return "", r.skip(int64(n))
	}
	b, err := r.bytes(int64(n))
	return string(b), err
}

func (r *reader) u32() (uint32, error) {
	b, err := r.bytes(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (r *reader) u64() (uint64, error) {
	b, err := r.bytes(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

func (r *reader) bytes(n int64) ([]byte, error) {
	if n > r.left {
		return nil, ErrTruncated
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r.r, b); err != nil {
		return nil, fmt.Errorf("read model file: %w", err)
	}
	r.left -= n
	r.pos += n
	return b, nil
}

func (r *reader) skip(n int64) error {
	if n > r.left {
		return ErrTruncated
	}
	if _, err := io.CopyN(io.Discard, r.r, n); err != nil {
		return fmt.Errorf("read model file: %w", err)
	}
	r.left -= n
	r.pos += n
	return nil
}
