package gguf

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

// Magic is the first four bytes of every GGUF.
const Magic = "GGUF"

// Errors of Read, to be told apart with errors.Is.
var (
	ErrNotGGUF   = errors.New("not a GGUF file")
	ErrTruncated = errors.New("the file is incomplete")
)

// HeaderError is a header that no whole file has.
type HeaderError struct{ Reason string }

func (e *HeaderError) Error() string { return "the GGUF header is damaged: " + e.Reason }

// ExtentError is a file that ends before its tensors do; it is an ErrTruncated.
type ExtentError struct {
	Tensor    Tensor // the first that is not all there
	SizeBytes int64  // of the file
	EndBytes  int64  // of the last tensor
}

func (e *ExtentError) Error() string {
	return fmt.Sprintf("%v: it has %d bytes, its tensors end at %d", ErrTruncated, e.SizeBytes, e.EndBytes)
}

func (e *ExtentError) Unwrap() error { return ErrTruncated }

// Header is what a GGUF says before its tensor data.
type Header struct {
	Version   uint32
	Tensors   []Tensor
	DataFrom  int64 // offset of the tensor data
	SizeBytes int64 // of the file

	values  map[string]any // uint64, int64, float64, bool, string, []int64
	lengths map[string]int // of all arrays
}

// HasMagic tells whether b starts like a GGUF.
func HasMagic(b []byte) bool { return len(b) >= len(Magic) && string(b[:len(Magic)]) == Magic }

// ReadFile is Read of the file at path.
func ReadFile(path string) (*Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return Read(f, st.Size())
}

// Read reads the header of a GGUF of the given size, and sees that no tensor
// ends beyond it.
func Read(r io.Reader, size int64) (*Header, error) {
	h, err := readHeader(r, size)
	if err != nil {
		return nil, err
	}
	for _, t := range h.Tensors {
		if t.Bytes >= 0 && (t.Offset > size || t.Bytes > size-t.Offset) {
			return nil, &ExtentError{Tensor: t, SizeBytes: size, EndBytes: h.End()}
		}
	}
	return h, nil
}

// Architecture is the model's family, "" when the file names none: the shards
// behind the first do not.
func (h *Header) Architecture() string { return h.Text("general.architecture") }

// Name is the model's name, "" when it has none.
func (h *Header) Name() string { return h.Text("general.name") }

// ContextLength is the number of tokens the model was trained for, 0 when unknown.
func (h *Header) ContextLength() int64 {
	n, _ := h.Number(h.Architecture() + ".context_length")
	return max(n, 0)
}

// Shard gives which file of how many this is, 1 of 1 when the model is not split.
func (h *Header) Shard() (no, count int64) {
	no, _ = h.Number("split.no")
	count, _ = h.Number("split.count")
	return no + 1, max(count, 1)
}

// Has tells whether there is a tensor of that name.
func (h *Header) Has(name string) bool {
	return slices.ContainsFunc(h.Tensors, func(t Tensor) bool { return t.Name == name })
}

// Weights is the size of all tensors, in bytes.
func (h *Header) Weights() int64 {
	var n int64
	for _, t := range h.Tensors {
		n += max(t.Bytes, 0)
	}
	return n
}

// End is the offset after the last tensor's data; tensors of unknown types
// count for nothing.
func (h *Header) End() int64 {
	end := min(h.DataFrom, h.SizeBytes) // without tensors the padding may be missing
	for _, t := range h.Tensors {
		if t.Bytes >= 0 {
			end = max(end, t.Offset+t.Bytes)
		}
	}
	return end
}

// Number gives an integer setting.
func (h *Header) Number(key string) (int64, bool) { return integer(h.values[key]) }

// Numbers gives a setting that is an array of integers; a long one is not kept.
func (h *Header) Numbers(key string) ([]int64, bool) {
	v, ok := h.values[key].([]int64)
	return v, ok
}

// Flag gives a setting that is true or false.
func (h *Header) Flag(key string) (on, ok bool) {
	on, ok = h.values[key].(bool)
	return on, ok
}

// Text gives a setting that is a text; a long one is not kept.
func (h *Header) Text(key string) string {
	s, _ := h.values[key].(string)
	return s
}

// Len is the number of elements of an array, kept or not; 0 when there is none.
func (h *Header) Len(key string) int { return h.lengths[key] }

func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case uint64:
		if v <= math.MaxInt64 {
			return int64(v), true
		}
	case int64:
		return v, true
	}
	return 0, false
}
