package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDigest_IsOfTheBytesNotOfTheName(t *testing.T) {
	t.Setenv("THOTH_CACHE", t.TempDir())
	path := filepath.Join(t.TempDir(), "model.gguf")
	write := func(text string, at time.Time) string {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chtimes(path, at, at))
		d, err := digest(path)
		require.NoError(t, err)
		return d
	}
	day := time.Unix(1_700_000_000, 0)
	first := write("weights one", day)
	require.Equal(t, first, write("weights one", day), "from the record")
	require.Equal(t, first, write("weights one", day.Add(time.Hour)), "computed anew")
	require.NotEqual(t, first, write("weights two", day.Add(2*time.Hour)))
	_, err := digest(path + ".missing")
	require.Error(t, err)
}
