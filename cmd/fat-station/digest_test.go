package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/internal/gguf/gguftest"
)

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func TestDigest_IsOfTheBytesNotOfTheName(t *testing.T) {
	t.Setenv("THOTH_CACHE", t.TempDir())
	path := filepath.Join(t.TempDir(), "model.gguf")
	write := func(model []byte, at time.Time) string {
		require.NoError(t, os.WriteFile(path, model, 0o600))
		require.NoError(t, os.Chtimes(path, at, at))
		d, err := digest(t.Context(), path)
		require.NoError(t, err)
		return d
	}
	one, two := gguftest.Model("m", 8, 1), gguftest.Model("m", 8, 2)
	day := time.Unix(1_700_000_000, 0)
	require.Equal(t, sum(one), write(one, day))
	require.Equal(t, sum(two), write(two, day), "the same size and time are no identity")

	// As long as nobody has touched the file its digest is not computed again.
	abs, err := filepath.Abs(path)
	require.NoError(t, err)
	record, err := os.ReadFile(recordPath(abs))
	require.NoError(t, err)
	keep := strings.Replace(string(record), sum(two), "kept", 1)
	require.NotEqual(t, string(record), keep)
	require.NoError(t, os.WriteFile(recordPath(abs), []byte(keep), 0o600))
	d, err := digest(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, "kept", d)
	require.Equal(t, sum(two), write(two, day), "touched: computed anew")
	_, err = digest(t.Context(), path+".missing")
	require.Error(t, err)
}

func TestDigest_OfASplitModelCoversEveryFile(t *testing.T) {
	t.Setenv("THOTH_CACHE", t.TempDir())
	dir := t.TempDir()
	shard := func(no int, kind uint32) []byte {
		b := gguftest.File{
			Settings: []gguftest.Setting{gguftest.Set("split.no", uint16(no)), gguftest.Set("split.count", uint16(2))},
			Tensors:  []gguftest.Tensor{{Name: "weight", Dims: []uint64{32}, Kind: kind}}, Data: 128,
		}.Bytes()
		name := []string{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}[no]
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
		return b
	}
	first, second := shard(0, 0), shard(1, 1)
	model := filepath.Join(dir, "m-00001-of-00002.gguf")
	d, err := digest(t.Context(), model)
	require.NoError(t, err)
	require.Equal(t, sum([]byte(sum(first)+"\n"+sum(second)+"\n")), d)

	require.NoError(t, os.Remove(filepath.Join(dir, "m-00002-of-00002.gguf")))
	_, err = digest(t.Context(), model)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestDigest_EndsWithItsContext(t *testing.T) {
	t.Setenv("THOTH_CACHE", t.TempDir())
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, os.WriteFile(path, gguftest.Model("m", 8, 1), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := digest(ctx, path)
	require.ErrorIs(t, err, context.Canceled)
}
