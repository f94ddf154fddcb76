package native

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/internal/gguf/gguftest"
	"thoth/station/engine"
)

func loadErrorOf(t testing.TB, err error) *engine.LoadError {
	t.Helper()
	var le *engine.LoadError
	require.True(t, errors.As(err, &le), "%T %v", err, err)
	return le
}

func TestCheckModel_TakesAWholeFile(t *testing.T) {
	for _, name := range []string{"m.gguf", "with spaces and ümläuts/mödel.gguf"} {
		m, err := checkModel(gguftest.Small().Write(t, filepath.Join(t.TempDir(), name)))
		require.NoError(t, err)
		require.EqualValues(t, 256+68, m.weights)
		require.Equal(t, 1, m.shards)
	}
}

func TestCheckModel_TakesARelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	gguftest.Small().Write(t, "m.gguf")
	_, err := checkModel("m.gguf")
	require.NoError(t, err)
}

func TestCheckModel_RefusesEveryTruncation(t *testing.T) {
	whole := gguftest.Small().Bytes()
	path := filepath.Join(t.TempDir(), "cut.gguf")
	for n := range whole {
		require.NoError(t, os.WriteFile(path, whole[:n], 0o644))
		_, err := checkModel(path)
		le := loadErrorOf(t, err)
		if n > 0 && n < 4 {
			require.Equal(t, engine.LoadNotGGUF, le.Kind, "%d bytes", n)
			continue
		}
		require.Equal(t, engine.LoadTruncated, le.Kind, "%d bytes: %v", n, err)
		require.Contains(t, le.Msg, path)
		require.Contains(t, le.Msg, "truncated")
	}
}

func TestCheckModel_RefusesImpossibleHeaders(t *testing.T) {
	change := func(f func(*gguftest.File)) []byte {
		m := gguftest.Small()
		f(&m)
		return m.Bytes()
	}
	header := func(at int, v uint64) []byte {
		b := gguftest.Small().Bytes()
		binary.LittleEndian.PutUint64(b[at:], v)
		return b
	}
	cases := map[string][]byte{
		"offset past the end":    change(func(m *gguftest.File) { m.Tensors[1].Offset = 1 << 40 }),
		"offset that overflows":  change(func(m *gguftest.File) { m.Tensors[1].Offset = 1<<63 - 1 }),
		"offset below zero":      change(func(m *gguftest.File) { m.Tensors[1].Offset = 1<<64 - 32 }),
		"size that overflows":    change(func(m *gguftest.File) { m.Tensors[0].Dims = []uint64{1 << 33, 1 << 33} }),
		"size past the end":      change(func(m *gguftest.File) { m.Tensors[0].Dims = []uint64{1 << 30} }),
		"rows of half a block":   change(func(m *gguftest.File) { m.Tensors[1].Dims = []uint64{16, 4} }),
		"no dimensions":          change(func(m *gguftest.File) { m.Tensors[1].Dims = nil }),
		"a million dimensions":   change(func(m *gguftest.File) { m.Tensors[1].Dims = make([]uint64, 1<<20) }),
		"alignment of three":     change(func(m *gguftest.File) { m.Settings = append(m.Settings, gguftest.Set("general.alignment", uint32(3))) }),
		"no architecture":        change(func(m *gguftest.File) { m.Settings = m.Settings[1:] }),
		"a billion tensors":      header(8, 1<<30),
		"a billion settings":     header(16, 1<<30),
		"a key of 2^60 bytes":    header(24, 1<<60),
		"version of the future":  append([]byte("GGUF\x09\x00\x00\x00"), gguftest.Small().Bytes()[8:]...),
		"other byte order":       append([]byte("GGUF\x00\x00\x00\x03"), gguftest.Small().Bytes()[8:]...),
		"two files one after it": append(gguftest.Small().Bytes(), gguftest.Small().Bytes()...),
	}
	for name, b := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.gguf")
			require.NoError(t, os.WriteFile(path, b, 0o644))
			_, err := checkModel(path)
			le := loadErrorOf(t, err)
			require.Equal(t, engine.LoadTruncated, le.Kind, le.Msg)
			require.Contains(t, le.Msg, path)
			t.Log(le.Msg)
		})
	}
}

func TestCheckModel_RecognisesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, b, 0o644))
		return path
	}
	zipped := filepath.Join(dir, "zip.gguf")
	f, err := os.Create(zipped)
	require.NoError(t, err)
	z := zip.NewWriter(f)
	w, err := z.Create("model.gguf")
	require.NoError(t, err)
	_, err = w.Write([]byte("GGUF"))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
	tensors := binary.LittleEndian.AppendUint64(nil, 64)
	tensors = append(tensors, `{"__metadata__":{"format":"pt"}}`...)
	cases := []struct{ path, says string }{
		{file("html.gguf", []byte("\n<!DOCTYPE html><html><body>404</body></html>")), "web page"},
		{file("lfs.gguf", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 9\n")), "Git LFS"},
		{zipped, "zip"},
		{file("safe.gguf", tensors), "safetensors"},
		{file("json.gguf", []byte(`{"error":"not found"}`)), "JSON"},
		{file("two.gguf", []byte("GG")), "2 bytes"},
		{file("other.gguf", []byte(strings.Repeat("x", 1000))), "does not begin with GGUF"},
	}
	for _, c := range cases {
		_, err := checkModel(c.path)
		le := loadErrorOf(t, err)
		require.Equal(t, engine.LoadNotGGUF, le.Kind, le.Msg)
		require.Contains(t, le.Msg, c.path)
		require.Contains(t, le.Msg, c.says)
	}
}

func TestCheckModel_NamesWhatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	closed := gguftest.Small().Write(t, filepath.Join(dir, "closed.gguf"))
	require.NoError(t, os.Chmod(closed, 0))
	for _, path := range []string{filepath.Join(dir, "missing.gguf"), dir, closed, "/dev/null"} {
		if path == closed && os.Geteuid() == 0 {
			continue // root reads everything
		}
		_, err := checkModel(path)
		le := loadErrorOf(t, err)
		require.Equal(t, engine.LoadNotFound, le.Kind, le.Msg)
		require.Contains(t, le.Msg, path)
	}
	_, err := checkModel("")
	require.Equal(t, engine.LoadNotFound, loadErrorOf(t, err).Kind)
}

// writeShards writes a model in three shards and gives the path of shard i. As
// in real ones, the settings are in the first alone.
func writeShards(t testing.TB, dir string) func(i int) string {
	name := func(i int) string { return filepath.Join(dir, fmt.Sprintf("big-%05d-of-00003.gguf", i)) }
	for i := 1; i <= 3; i++ {
		m := gguftest.Small()
		if i > 1 {
			m.Settings = nil
		}
		m.Settings = append(m.Settings, gguftest.Set("split.count", uint16(3)), gguftest.Set("split.no", uint16(i-1)))
		m.Write(t, name(i))
	}
	return name
}

func TestCheckModel_Shards(t *testing.T) {
	shard := writeShards(t, t.TempDir())
	m, err := checkModel(shard(1))
	require.NoError(t, err)
	require.Equal(t, 3, m.shards)
	require.EqualValues(t, 3*(256+68), m.weights)

	_, err = checkModel(shard(2))
	le := loadErrorOf(t, err)
	require.Contains(t, le.Msg, "give the first shard, "+shard(1))

	var all []byte
	for i := 1; i <= 3; i++ {
		b, err := os.ReadFile(shard(i))
		require.NoError(t, err)
		all = append(all, b...)
	}
	joined := filepath.Join(t.TempDir(), "joined.gguf")
	require.NoError(t, os.WriteFile(joined, all, 0o644))
	_, err = checkModel(joined)
	require.Contains(t, loadErrorOf(t, err).Msg, "put together in one file")

	b, err := os.ReadFile(shard(3))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(shard(3), b[:len(b)-1], 0o644))
	_, err = checkModel(shard(1))
	le = loadErrorOf(t, err)
	require.Equal(t, engine.LoadTruncated, le.Kind)
	require.Contains(t, le.Msg, shard(3))

	require.NoError(t, os.Remove(shard(3)))
	_, err = checkModel(shard(1))
	le = loadErrorOf(t, err)
	require.Equal(t, engine.LoadNotFound, le.Kind)
	require.Contains(t, le.Msg, "shard 3 of 3")
	require.Contains(t, le.Msg, shard(3))
}
