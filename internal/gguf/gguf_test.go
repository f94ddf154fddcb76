package gguf

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/internal/gguf/gguftest"
)

func read(b []byte) (*Header, error) { return Read(bytes.NewReader(b), int64(len(b))) }

func TestRead_TellsWhatTheHeaderSays(t *testing.T) {
	b := gguftest.Small(gguftest.Set("x.flag", true), gguftest.Set("x.small", uint16(7)), gguftest.Set("x.below", int32(-1)),
		gguftest.Set("x.heads", []int32{4, -2}), gguftest.Set("x.scales", []float32{1, 2}), gguftest.Set("x.half", float32(0.5))).Bytes()
	h, err := read(b)
	require.NoError(t, err)
	require.EqualValues(t, 3, h.Version)
	require.Equal(t, "llama", h.Text("general.architecture"))
	require.Equal(t, "llama", h.Architecture())
	require.Equal(t, "small", h.Name())
	require.EqualValues(t, 4096, h.ContextLength())
	n, ok := h.Number("llama.context_length")
	require.True(t, ok)
	require.EqualValues(t, 4096, n)
	n, ok = h.Number("x.below")
	require.True(t, ok)
	require.EqualValues(t, -1, n)
	require.Equal(t, true, h.values["x.flag"])
	require.Equal(t, uint64(7), h.values["x.small"])
	require.Equal(t, 0.5, h.values["x.half"])
	_, ok = h.Number("x.flag")
	require.False(t, ok)
	heads, ok := h.Numbers("x.heads")
	require.True(t, ok)
	require.Equal(t, []int64{4, -2}, heads)
	_, ok = h.Numbers("x.scales")
	require.False(t, ok)
	require.Equal(t, 2, h.Len("x.scales"))
	require.Equal(t, 3, h.Len("tokenizer.ggml.tokens"))
	require.Len(t, h.Tensors, 2)
	require.True(t, h.Has("b"))
	require.False(t, h.Has("c"))
	require.EqualValues(t, 256+68, h.Weights())
	require.EqualValues(t, len(b), h.End())
	require.EqualValues(t, len(b), h.SizeBytes)
	no, count := h.Shard()
	require.Equal(t, [2]int64{1, 1}, [2]int64{no, count})
}

func TestReadFile_TellsWhatTheHeaderSays(t *testing.T) {
	b := gguftest.Model("tiny", 1000, 1)
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	h, err := ReadFile(path)
	require.NoError(t, err)
	size := int64(len(b))
	require.Equal(t, &Header{Version: 3, SizeBytes: size, DataFrom: size - 4000,
		Tensors: []Tensor{{Name: "weight", Kind: 0, Offset: size - 4000, Bytes: 4000}},
		values:  map[string]any{"general.architecture": "llama", "general.name": "tiny", "llama.context_length": uint64(2048)},
		lengths: map[string]int{"tokenizer.ggml.tokens": 2}}, h)
	require.Equal(t, "tiny", h.Name())
	require.EqualValues(t, 2048, h.ContextLength())
	require.Equal(t, size, h.End())

	_, err = ReadFile(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = ReadFile(t.TempDir())
	require.ErrorIs(t, err, ErrNotGGUF)
}

func TestRead_NumbersShards(t *testing.T) {
	h, err := read(gguftest.Small(gguftest.Set("split.no", uint16(1)), gguftest.Set("split.count", uint16(3))).Bytes())
	require.NoError(t, err)
	no, count := h.Shard()
	require.Equal(t, [2]int64{2, 3}, [2]int64{no, count})
}

func TestRead_CountsLongArraysOnly(t *testing.T) {
	tokens := make([]string, keepArray+1)
	numbers := make([]uint32, keepArray+1)
	h, err := read(gguftest.File{Settings: []gguftest.Setting{
		gguftest.Set("t", tokens), gguftest.Set("n", numbers), gguftest.Set("after", "seen"),
	}}.Bytes())
	require.NoError(t, err)
	require.Equal(t, keepArray+1, h.Len("t"))
	require.Equal(t, keepArray+1, h.Len("n"))
	require.NotContains(t, h.values, "t")
	require.NotContains(t, h.values, "n")
	require.Equal(t, "seen", h.Text("after"))
}

func TestRead_WalksOverLongTexts(t *testing.T) {
	h, err := read(gguftest.Small(gguftest.Set("long", strings.Repeat("x", keepText+1)),
		gguftest.Set("kept", strings.Repeat("y", keepText)), gguftest.Set("after", "seen")).Bytes())
	require.NoError(t, err)
	require.Empty(t, h.Text("long"))
	require.Len(t, h.Text("kept"), keepText)
	require.Equal(t, "seen", h.Text("after"))
}

// A type this package does not know has no size to be judged by; the others have.
func TestRead_JudgesTensorsOfKnownTypes(t *testing.T) {
	f := gguftest.Small()
	f.Tensors[0].Kind = 200
	h, err := read(f.Bytes())
	require.NoError(t, err)
	require.EqualValues(t, -1, h.Tensors[0].Bytes)
	require.EqualValues(t, 68, h.Weights())
	f.Data--
	_, err = read(f.Bytes())
	require.ErrorIs(t, err, ErrTruncated)
}

func TestRead_RefusesEveryCut(t *testing.T) {
	for _, b := range [][]byte{gguftest.Model("tiny", 10, 1), gguftest.Small().Bytes()} {
		for n := range len(b) {
			_, err := read(b[:n])
			if n < 4 {
				require.ErrorIs(t, err, ErrNotGGUF, "cut at %d", n)
				continue
			}
			require.ErrorIs(t, err, ErrTruncated, "cut at %d", n)
		}
	}
}

func TestRead_SaysWhatIsMissing(t *testing.T) {
	b := gguftest.Small().Bytes()
	h, err := read(b)
	require.NoError(t, err)
	_, err = read(b[:len(b)-1])
	var short *ExtentError
	require.ErrorAs(t, err, &short)
	require.Equal(t, &ExtentError{Tensor: h.Tensors[1], SizeBytes: int64(len(b)) - 1, EndBytes: int64(len(b))}, short)
	require.Regexp(t, `^the file is incomplete: it has \d+ bytes, its tensors end at \d+$`, err.Error())
}

// A file may shrink between the look at its size and the reading.
func TestRead_TakesAnEarlyEndForACut(t *testing.T) {
	b := gguftest.Model("tiny", 10, 1)
	for _, n := range []int{10, 30, 100} {
		_, err := Read(bytes.NewReader(b[:n]), int64(len(b)))
		require.ErrorIs(t, err, ErrTruncated, "%d bytes", n)
	}
}

func TestRead_RefusesOtherFiles(t *testing.T) {
	for _, text := range []string{"", "<!doctype html><html>", "PK\x03\x04zip", "gguf"} {
		_, err := read([]byte(text))
		require.ErrorIs(t, err, ErrNotGGUF, "%q", text)
	}
}

func TestRead_RefusesImpossibleHeaders(t *testing.T) {
	change := func(f func(*gguftest.File)) []byte {
		m := gguftest.Small()
		f(&m)
		return m.Bytes()
	}
	set := func(key string, value any) []byte { return gguftest.Small(gguftest.Set(key, value)).Bytes() }
	header := func(at int, v uint64) []byte {
		b := gguftest.Small().Bytes()
		binary.LittleEndian.PutUint64(b[at:], v)
		return b
	}
	for says, b := range map[string][]byte{
		`tensor "b" has an impossible offset`:                        change(func(m *gguftest.File) { m.Tensors[1].Offset = 1<<60 + 1 }),
		`tensor "a" has an impossible size`:                          change(func(m *gguftest.File) { m.Tensors[0].Dims = []uint64{1 << 25, 1<<25 + 1} }),
		`tensor "b" has rows of 16, not whole blocks of 32`:          change(func(m *gguftest.File) { m.Tensors[1].Dims = []uint64{16, 4} }),
		`tensor "b" has 0 dimensions`:                                change(func(m *gguftest.File) { m.Tensors[1].Dims = nil }),
		`tensor "b" has 5 dimensions`:                                change(func(m *gguftest.File) { m.Tensors[1].Dims = []uint64{32, 2, 1, 1, 1} }),
		"alignment 3 is not a power of two":                          set("general.alignment", uint32(3)),
		"alignment 0 is not a power of two":                          set("general.alignment", uint32(0)),
		"alignment 2097152 is not a power of two up to 1048576":      set("general.alignment", uint32(1<<21)),
		"alignment is not a number":                                  set("general.alignment", "32"),
		"1048577 tensors is more than any model has":                 header(8, maxTensors+1),
		"65537 settings is more than any model has":                  header(16, maxSettings+1),
		"a text of 4097 bytes is longer than any model has":          set(strings.Repeat("k", maxName+1), true),
		"a text of 16777217 bytes is longer than any model has":      set("k", strings.Repeat("v", maxText+1)),
		"GGUF version 9 is not supported (2 and 3 are)":              append([]byte("GGUF\x09\x00\x00\x00"), gguftest.Small().Bytes()[8:]...),
		"the file is big-endian, this machine is not":                append([]byte("GGUF\x00\x00\x00\x03"), gguftest.Small().Bytes()[8:]...),
		`setting "general.architecture" has unknown type 99`:         header(8+16+8+20, 99),
		`setting "tokenizer.ggml.tokens" is an array of unknown typ`: unknownArray(t),
	} {
		_, err := read(b)
		var damaged *HeaderError
		require.ErrorAs(t, err, &damaged, says)
		require.Contains(t, damaged.Reason, says)
		require.Equal(t, "the GGUF header is damaged: "+damaged.Reason, err.Error())
	}
}

// unknownArray is a file with an array of arrays, which the format's tools do
// not write.
func unknownArray(t *testing.T) []byte {
	b := gguftest.Small().Bytes()
	key := []byte("tokenizer.ggml.tokens")
	at := bytes.Index(b, key)
	require.Positive(t, at)
	binary.LittleEndian.PutUint32(b[at+len(key)+4:], typeArray)
	return b
}

func TestRead_DoesNotTrustLengths(t *testing.T) {
	good := gguftest.Model("tiny", 10, 1)
	for at := 8; at+8 <= 200; at++ {
		b := append([]byte(nil), good...)
		binary.LittleEndian.PutUint64(b[at:], 1<<62)
		_, err := read(b) // must return, whatever it says, without allocating 2^62 bytes
		if at < 24 {
			require.Error(t, err, "a count of 2^62 at %d", at)
		}
	}
}

// FuzzRead: whatever the bytes, an error or a header whose extents add up and
// lie in the file, and no large allocation.
func FuzzRead(f *testing.F) {
	f.Add(gguftest.Model("tiny", 3, 1))
	f.Add([]byte("GGUF\x03\x00\x00\x00"))
	f.Add(gguftest.Small().Bytes())
	f.Add(gguftest.Small().Bytes()[:60])
	f.Add([]byte("GGUF"))
	huge := gguftest.Small()
	huge.Tensors[0].Dims = []uint64{1 << 62, 1 << 62}
	f.Add(huge.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := read(b)
		if err != nil {
			return
		}
		require.LessOrEqual(t, h.End(), int64(len(b)))
		for _, ten := range h.Tensors {
			require.GreaterOrEqual(t, ten.Offset, h.DataFrom)
			require.GreaterOrEqual(t, ten.Bytes, int64(-1))
		}
	})
}
