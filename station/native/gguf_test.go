package native

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// ggufFile writes small GGUF files, right ones and wrong ones.
type ggufFile struct {
	keys    []ggufKey
	tensors []ggufTensor
	data    int // bytes of tensor data
}

type ggufKey struct {
	key   string
	value any
}

type ggufTensor struct {
	name   string
	dims   []uint64
	kind   uint32
	offset uint64
}

func (f ggufFile) bytes() []byte {
	var b bytes.Buffer
	le := binary.LittleEndian
	put := func(v any) { _ = binary.Write(&b, le, v) }
	str := func(s string) { put(uint64(len(s))); b.WriteString(s) }
	b.WriteString("GGUF")
	put(uint32(3))
	put(uint64(len(f.tensors)))
	put(uint64(len(f.keys)))
	for _, k := range f.keys {
		str(k.key)
		switch v := k.value.(type) {
		case string:
			put(uint32(ggufString))
			str(v)
		case uint32:
			put(uint32(ggufUint32))
			put(v)
		case uint16:
			put(uint32(ggufUint16))
			put(v)
		case bool:
			put(uint32(ggufBool))
			put(v)
		case []uint32:
			put(uint32(ggufArray))
			put(uint32(ggufUint32))
			put(uint64(len(v)))
			put(v)
		case []string:
			put(uint32(ggufArray))
			put(uint32(ggufString))
			put(uint64(len(v)))
			for _, s := range v {
				str(s)
			}
		default:
			panic("a value of this type is not written")
		}
	}
	for _, t := range f.tensors {
		str(t.name)
		put(uint32(len(t.dims)))
		put(t.dims)
		put(t.kind)
		put(t.offset)
	}
	for b.Len()%32 != 0 {
		b.WriteByte(0)
	}
	b.Write(make([]byte, f.data))
	return b.Bytes()
}

// smallModel is a GGUF of two tensors: 64 f32 and two blocks of Q8_0.
func smallModel(more ...ggufKey) ggufFile {
	return ggufFile{
		keys: append([]ggufKey{
			{"general.architecture", "llama"}, {"general.name", "small"}, {"llama.context_length", uint32(4096)},
			{"llama.block_count", uint32(2)}, {"llama.embedding_length", uint32(64)}, {"llama.attention.head_count", uint32(4)},
			{"llama.attention.head_count_kv", uint32(2)}, {"tokenizer.ggml.tokens", []string{"a", "b", "c"}},
		}, more...),
		tensors: []ggufTensor{{"a", []uint64{64}, 0, 0}, {"b", []uint64{32, 2}, 8, 256}},
		data:    256 + 2*34,
	}
}

func (f ggufFile) write(t testing.TB, path string) string {
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, f.bytes(), 0o644))
	return path
}

func TestReadHeader_ReadsWhatIsThere(t *testing.T) {
	b := smallModel(ggufKey{"x.flag", true}, ggufKey{"x.small", uint16(7)}).bytes()
	h, err := readHeader(bytes.NewReader(b), int64(len(b)))
	require.NoError(t, err)
	require.Equal(t, "llama", h.text("general.architecture"))
	n, ok := h.number("llama.context_length")
	require.True(t, ok)
	require.EqualValues(t, 4096, n)
	require.Equal(t, true, h.values["x.flag"])
	require.Equal(t, uint64(7), h.values["x.small"])
	require.Equal(t, 3, h.lengths["tokenizer.ggml.tokens"])
	require.EqualValues(t, 256+68, h.weights())
	require.EqualValues(t, len(b), h.end())
}

func TestReadHeader_CountsLongArraysOnly(t *testing.T) {
	tokens := make([]string, keepArray+1)
	numbers := make([]uint32, keepArray+1)
	b := ggufFile{keys: []ggufKey{{"t", tokens}, {"n", numbers}, {"after", "seen"}}}.bytes()
	h, err := readHeader(bytes.NewReader(b), int64(len(b)))
	require.NoError(t, err)
	require.Equal(t, keepArray+1, h.lengths["t"])
	require.Equal(t, keepArray+1, h.lengths["n"])
	require.NotContains(t, h.values, "t")
	require.Equal(t, "seen", h.text("after"))
}

// FuzzReadHeader: whatever the bytes, an error or a header whose extents add up, and no large allocation.
func FuzzReadHeader(f *testing.F) {
	f.Add(smallModel().bytes())
	f.Add(smallModel().bytes()[:60])
	f.Add([]byte("GGUF"))
	huge := smallModel()
	huge.tensors[0].dims = []uint64{1 << 62, 1 << 62}
	f.Add(huge.bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHeader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		for _, ten := range h.tensors {
			require.GreaterOrEqual(t, ten.offset, h.dataFrom)
			require.GreaterOrEqual(t, ten.bytes, int64(-1))
		}
	})
}
