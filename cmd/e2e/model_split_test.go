//go:build e2e

package e2e

import (
	"bytes"
	bin "encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// modelParts is as much of a model file as splitting it needs.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
type modelParts struct {
	keys    uint64
	keysRaw []byte
	tensors []partTensor
	data    []byte
}

type partTensor struct {
	raw    []byte // description up to the offset
	offset uint64 // in the data
	end    int64  // of the description in the file
}

const ggufAlignment = 32

// readGGUF reads a file in the form that the default model has.
func readGGUF(t *testing.T, path string) *modelParts {
	t.Helper()
	all, err := os.ReadFile(path)
	require.NoError(t, err)
	le, at := bin.LittleEndian, 0
	u32 := func() uint32 { at += 4; return le.Uint32(all[at-4:]) }
	u64 := func() uint64 { at += 8; return le.Uint64(all[at-8:]) }
	skipString := func() { n := u64(); at += int(n) }
	sizes := map[uint32]int{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
	const text, array = 8, 9

	require.Equal(t, "GGUF\x03\x00\x00\x00", string(all[:8]))
	at = 8
	g := &modelParts{}
	count := u64()
	g.keys = u64()
	from := at
	for range g.keys {
		skipString()
		switch kind := u32(); kind {
		case text:
			skipString()
		case array:
			kind, n := u32(), u64()
			if kind != text {
				at += int(n) * sizes[kind]
				break
			}
			for range n {
				skipString()
			}
		default:
			at += sizes[kind]
		}
	}
	g.keysRaw = all[from:at]
	for range count {
		from := at
		skipString()
		at += 8 * int(u32()) // dimensions
		at += 4              // type
		x := partTensor{raw: all[from:at], offset: u64()}
		x.end = int64(at)
		g.tensors = append(g.tensors, x)
	}
	g.data = all[(at+ggufAlignment-1)/ggufAlignment*ggufAlignment:]
	return g
}

// split writes the file in parts, as llama-gguf-split does: the first has all
// settings, each has its tensors.
func (g *modelParts) split(t *testing.T, dir string, parts int) (paths []string) {
	t.Helper()
	le := bin.LittleEndian
	for part := range parts {
		from, to := part*len(g.tensors)/parts, (part+1)*len(g.tensors)/parts
		dataFrom, dataTo := g.tensors[from].offset, uint64(len(g.data))
		if to < len(g.tensors) {
			dataTo = g.tensors[to].offset
		}
		var b bytes.Buffer
		put := func(v any) { require.NoError(t, bin.Write(&b, le, v)) }
		key := func(name string, kind uint32, v any) {
			put(uint64(len(name)))
			b.WriteString(name)
			put(kind)
			put(v)
		}
		b.WriteString("GGUF\x03\x00\x00\x00")
		put(uint64(to - from))
		if part == 0 {
			put(g.keys + 3)
			b.Write(g.keysRaw)
		} else {
			put(uint64(3))
		}
		key("split.no", 2, uint16(part))
		key("split.count", 2, uint16(parts))
		key("split.tensors.count", 5, int32(len(g.tensors)))
		for _, x := range g.tensors[from:to] {
			b.Write(x.raw)
			put(x.offset - dataFrom)
		}
		for b.Len()%ggufAlignment != 0 {
			b.WriteByte(0)
		}
		b.Write(g.data[dataFrom:dataTo])
		path := filepath.Join(dir, fmt.Sprintf("split-%05d-of-%05d.gguf", part+1, parts))
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
		paths = append(paths, path)
	}
	return paths
}

func TestModel_Split(t *testing.T) {
	paths := readGGUF(t, model()).split(t, t.TempDir(), 3)

	s := start(t, "THOTH_MODEL="+paths[0])
	more := obj{"max_tokens": 32}
	require.Equal(t, shared.chat(t, more).Text(t), s.chat(t, more).Text(t), "the parts are the whole")
	require.Equal(t, 0, s.stop())

	require.Contains(t, unusable(t, nil, 72, "THOTH_MODEL="+paths[1]), "give the first shard, "+paths[0])

	joined := filepath.Join(t.TempDir(), "joined.gguf")
	var all []byte
	for _, p := range paths {
		b, err := os.ReadFile(p)
		require.NoError(t, err)
		all = append(all, b...)
	}
	require.NoError(t, os.WriteFile(joined, all, 0o644))
	sentence := unusable(t, nil, 66, "THOTH_MODEL="+joined)
	require.Contains(t, sentence, joined)
	require.Contains(t, sentence, "shards put together in one file")

	require.NoError(t, os.Remove(paths[2]))
	require.Contains(t, unusable(t, nil, 64, "THOTH_MODEL="+paths[0]), paths[2])
}
