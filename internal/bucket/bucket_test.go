package bucket

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func open(t testing.TB, address string) *Bucket {
	t.Helper()
	b, err := Open(t.Context(), address, true, time.Second)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// files lists the files below a folder, relative to it.
func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		names = append(names, rel)
		return err
	}))
	return names
}

func TestBucket_SyncsBeforeAFileHasItsName(t *testing.T) {
	b := open(t, t.TempDir())
	synced := 0
	b.sync = func(f *os.File) error {
		synced++
		names := files(t, b.Dir)
		require.Len(t, names, 1)
		require.True(t, strings.HasSuffix(names[0], ".tmp"))
		require.NoFileExists(t, filepath.Join(b.Dir, "a/b/c"))
		i, err := f.Stat()
		require.NoError(t, err)
		require.EqualValues(t, 5, i.Size())
		return nil
	}
	require.NoError(t, b.Write(t.Context(), "a/b/c", Writing([]byte("bytes"))))
	require.Equal(t, 1, synced)
	require.Equal(t, []string{"a/b/c"}, files(t, b.Dir))

	b.sync = func(*os.File) error { return errors.New("input/output error") }
	require.ErrorContains(t, b.Write(t.Context(), "a/b/c", Writing([]byte("other"))), "input/output error")
	got, err := os.ReadFile(filepath.Join(b.Dir, "a/b/c"))
	require.NoError(t, err)
	require.Equal(t, "bytes", string(got))
	require.Equal(t, []string{"a/b/c"}, files(t, b.Dir), "the half file is gone")
}

func TestBucket_PutsWithoutASync(t *testing.T) {
	b := open(t, t.TempDir())
	b.sync = func(*os.File) error { return errors.New("nobody asked for it") }
	require.NoError(t, b.Put(t.Context(), "a/b", []byte("bytes")))
	require.NoError(t, b.Put(t.Context(), "a/b", []byte("other")))
	got, err := os.ReadFile(filepath.Join(b.Dir, "a/b"))
	require.NoError(t, err)
	require.Equal(t, "other", string(got))
	require.Equal(t, []string{"a/b"}, files(t, b.Dir))
	for path, mode := range map[string]fs.FileMode{"a/b": 0o600, "a": 0o700} {
		i, err := os.Stat(filepath.Join(b.Dir, path))
		require.NoError(t, err)
		require.Equal(t, mode, i.Mode().Perm(), path)
	}
}

func TestBucket_PutsWhereThereAreNoFiles(t *testing.T) {
	b := open(t, "mem://")
	require.NoError(t, b.Put(t.Context(), "a/b", []byte("bytes")))
	o, err := b.Stat(t.Context(), "a/b")
	require.NoError(t, err)
	require.EqualValues(t, 5, o.Size)
}

// What a process leaves that dies in the middle of writing.
func TestWriteFile_NamesNothingByHalf(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b")
	require.NoError(t, writeFile(t.Context(), path, Writing([]byte("old")), nil))
	require.NoError(t, writeFile(t.Context(), path, func(w io.Writer) error {
		_, err := w.Write([]byte("half"))
		require.NoError(t, err)
		names := files(t, dir)
		require.Len(t, names, 2)
		require.Regexp(t, `^a/b\.[0-9A-Za-z]+\.tmp$`, names[1])
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "old", string(got))
		return nil
	}, nil))

	given, up := context.WithCancel(t.Context())
	require.ErrorIs(t, writeFile(given, path, func(io.Writer) error { up(); return nil }, nil), context.Canceled)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "half", string(got))
	require.Equal(t, []string{"a/b"}, files(t, dir))
}

// Another process sweeps what is empty at any moment.
func TestCreateBeside_MakesAgainWhatIsSwept(t *testing.T) {
	dir := t.TempDir()
	made := 0
	// sweeps makes a folder, and fails or sweeps it, but for the last time.
	sweeps := func(times int) func(string, fs.FileMode) error {
		made = 0
		return func(folder string, mode fs.FileMode) error {
			require.NoError(t, os.MkdirAll(folder, mode))
			if made++; made > times {
				return nil
			}
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "a")))
			if made%2 == 0 {
				return nil
			}
			return &fs.PathError{Op: "mkdir", Path: folder, Err: syscall.ENOENT} // its parent went before it was made
		}
	}
	path := filepath.Join(dir, "a/b/c")
	for _, times := range []int{0, 1, 2, mostSwept - 1} {
		f, err := createBeside(path, sweeps(times))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.Equal(t, times+1, made)
		require.Equal(t, filepath.Join(dir, "a/b"), filepath.Dir(f.Name()))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "a")))
	}
	_, err := createBeside(path, sweeps(mostSwept))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, mostSwept, made)

	_, err = createBeside(path, func(string, fs.FileMode) error { made++; return syscall.EACCES })
	require.ErrorIs(t, err, fs.ErrPermission)
	require.Equal(t, mostSwept+1, made, "that is not tried again")
}

func TestBucket_AWriteThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	for name, b := range map[string]*Bucket{"folder": open(t, dir), "mem": open(t, "mem://")} {
		full := errors.New("no space left on device")
		err := b.Write(t.Context(), "a/b/c", func(w io.Writer) error {
			_, _ = w.Write(make([]byte, 100_000))
			return full
		})
		require.ErrorIs(t, err, full, name)
		_, err = b.Stat(t.Context(), "a/b/c")
		require.ErrorIs(t, err, ErrNotFound, name)
	}
	require.Empty(t, files(t, dir))
}

func TestBucket_PrunesOnlyEmptyFoldersOfOurs(t *testing.T) {
	b := open(t, t.TempDir())
	require.NoError(t, b.Write(t.Context(), "ours/full/a", Writing(nil)))
	for _, dir := range []string{"ours/empty/deep", "old", "theirs"} {
		require.NoError(t, os.MkdirAll(filepath.Join(b.Dir, dir), 0o700))
	}
	ours := func(name string) bool { return name != "theirs" }
	require.NoError(t, b.Prune(t.Context(), time.Now().Add(-time.Hour), ours))
	require.DirExists(t, filepath.Join(b.Dir, "old"), "it is young")
	for range 3 { // what loses a child is young again, to the disk's clock
		require.NoError(t, b.Prune(t.Context(), time.Now().Add(time.Hour), ours))
	}
	require.NoDirExists(t, filepath.Join(b.Dir, "old"))
	require.NoDirExists(t, filepath.Join(b.Dir, "ours/empty"))
	require.FileExists(t, filepath.Join(b.Dir, "ours/full/a"))
	require.DirExists(t, filepath.Join(b.Dir, "theirs"))
}

func TestKind_RefusesWhatCanBeNoBucket(t *testing.T) {
	for url, want := range map[string]string{"/a/b": "file", "file:///a": "file", "s3://b/p?region=x": "s3", "gs://b": "gs", "mem://": "mem"} {
		kind, err := Kind(url)
		require.NoError(t, err)
		require.Equal(t, want, kind)
	}
	for _, url := range []string{"", "relative", "/", "/a/..", "s3://", "gs:///p", "file://host/dir", "file:///a?x=1", "ftp://h", "s3://%zz"} {
		_, err := Kind(url)
		require.Error(t, err, url)
	}
}

func TestTry_LeavesNothing(t *testing.T) {
	b := open(t, t.TempDir())
	require.NoError(t, Try(t.Context(), b, "folder"))
	require.Empty(t, files(t, b.Dir))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, Try(gone, b, "folder"), "writing: ")
}

func TestInCache_SaysWhyNot(t *testing.T) {
	_, why := InCache("", "kv", "THOTH_X", "KV")
	require.Equal(t, "there is no cache directory: set THOTH_CACHE or THOTH_X", why)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, why = InCache(file, "kv", "THOTH_X", "KV")
	require.Contains(t, why, "cannot be used")
	cache := t.TempDir()
	if OnMemory(cache) {
		_, why = InCache(cache, "kv", "THOTH_X", "KV")
		require.Contains(t, why, "kept in memory")
		return
	}
	dir, why := InCache(cache, "kv", "THOTH_X", "KV")
	require.Empty(t, why)
	i, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), i.Mode().Perm())
}

func TestParseKey_TakesHexAndBase64(t *testing.T) {
	for _, s := range []string{
		"0101010101010101010101010101010101010101010101010101010101010101\n",
		"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE",
	} {
		k, err := ParseKey(s)
		require.NoError(t, err)
		require.Equal(t, slices.Repeat([]byte{1}, KeyBytes), k)
	}
	k, err := ParseKey("")
	require.NoError(t, err)
	require.Nil(t, k)
	for _, s := range []string{"secret", "0101", "AQEB"} {
		_, err := ParseKey(s)
		require.ErrorContains(t, err, "want 32 bytes")
	}
}

func TestBreaker_CountsARow(t *testing.T) {
	var b Breaker
	bad := errors.New("x")
	ctx := t.Context()
	for range 10 {
		require.False(t, b.Record(ctx, bad))
		require.False(t, b.Record(ctx, bad))
		require.False(t, b.Record(ctx, nil))
	}
	ended, end := context.WithCancel(ctx)
	end()
	for range 10 {
		require.False(t, b.Record(ended, bad))
	}
	require.False(t, b.Record(ctx, bad))
	require.False(t, b.Record(ctx, bad))
	require.True(t, b.Record(ctx, bad))
	require.False(t, b.Record(ctx, bad), "it opens once")
	_, open := b.Open()
	require.True(t, open)
	require.EqualValues(t, 24, b.Count())
}

func TestBelow_IsAFolderInTheStore(t *testing.T) {
	for address, want := range map[string]string{
		"/dir":             "/dir/mine",
		"file:///dir/sub/": "/dir/sub/mine",
		"mem://":           "mem:///mine",
		"gs://b":           "gs://b/mine",
		"s3://b/some/prefix/?region=us-east-1&use_path_style=true": "s3://b/some/prefix/mine?region=us-east-1&use_path_style=true",
	} {
		got, err := Below(address, "mine")
		require.NoError(t, err, address)
		require.Equal(t, want, got)
		_, err = parseAddress(got)
		require.NoError(t, err)
	}
	_, err := Below("/", "mine")
	require.Error(t, err)

	outer, err := Open(t.Context(), t.TempDir(), true, time.Second)
	require.NoError(t, err)
	defer outer.Close()
	inner, err := Below(outer.Dir, "mine")
	require.NoError(t, err)
	b, err := Open(t.Context(), inner, true, time.Second)
	require.NoError(t, err)
	defer b.Close()
	require.NoError(t, b.Write(t.Context(), "x", Writing([]byte("1"))))
	_, err = outer.Stat(t.Context(), "mine/x")
	require.NoError(t, err)
}
