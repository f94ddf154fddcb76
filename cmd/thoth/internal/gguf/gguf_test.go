package gguf

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/cmd/thoth/internal/gguf/gguftest"
)

func write(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

func TestRead_TellsWhatTheHeaderSays(t *testing.T) {
	b := gguftest.Model("tiny", 1000, 1)
	f, err := Read(write(t, b))
	require.NoError(t, err)
	require.Equal(t, &File{Version: 3, Architecture: "llama", Name: "tiny", ContextLength: 2048, Tensors: 1,
		SizeBytes: int64(len(b)), WantBytes: int64(len(b)), Shard: 1, Shards: 1}, f)
}

func TestRead_RefusesEveryCut(t *testing.T) {
	b := gguftest.Model("tiny", 10, 1)
	for n := range len(b) {
		_, err := Read(write(t, b[:n]))
		if n < 4 {
			require.ErrorIs(t, err, ErrNotGGUF, "cut at %d", n)
			continue
		}
		require.ErrorIs(t, err, ErrTruncated, "cut at %d", n)
	}
}

func TestRead_RefusesOtherFiles(t *testing.T) {
	for _, text := range []string{"", "<!doctype html><html>", "PK\x03\x04zip", "gguf"} {
		_, err := Read(write(t, []byte(text)))
		require.ErrorIs(t, err, ErrNotGGUF, "%q", text)
	}
	_, err := Read(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestRead_DoesNotTrustLengths(t *testing.T) {
	good := gguftest.Model("tiny", 10, 1)
	for at := 8; at+8 <= 200; at++ {
		b := append([]byte(nil), good...)
		binary.LittleEndian.PutUint64(b[at:], 1<<62)
		_, err := Read(write(t, b)) // must return, whatever it says, without allocating 2^62 bytes
		if at < 24 {
			require.Error(t, err, "a count of 2^62 at %d", at)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(gguftest.Model("tiny", 3, 1))
	f.Add([]byte("GGUF\x03\x00\x00\x00"))
	path := filepath.Join(f.TempDir(), "m.gguf")
	f.Fuzz(func(t *testing.T, b []byte) {
		require.NoError(t, os.WriteFile(path, b, 0o600))
		out, err := Read(path)
		if err == nil && out.WantBytes > int64(len(b)) {
			t.Fatalf("accepted %d bytes of %d", len(b), out.WantBytes)
		}
	})
}
