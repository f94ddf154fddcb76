package cold

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/internal/bucket/buckettest"
	"thoth/station/kvstore"
	"thoth/station/kvstore/block"
)

func all(block.Key) bool { return true }

func TestOpen_MakesFoldersThatNobodyElseReads(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	tier := openTier(t, dir, opts())
	put(t, tier, chain(root(""), 100, 1)...)
	settled(t, tier)
	seen := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		i, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the probe's
		}
		require.NoError(t, err)
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		require.Equal(t, want, i.Mode().Perm(), path)
		seen++
		return nil
	}))
	require.GreaterOrEqual(t, seen, 6)
	require.Positive(t, tier.Stats(all).FreeBytes)
}

func TestOpen_SaysWhyAStoreCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for url, want := range map[string]string{
		file:                   "not a directory",
		file + "/below":        "not a directory",
		"/proc/thoth":          "no such file or directory",
		"relative/dir":         "want an absolute path",
		"file://host/dir":      "want an absolute path",
		"file:///tmp/x?mode=1": "takes no parameters",
		"/":                    "no place for a store",
		"ftp://host/dir":       "want an absolute path, file:///dir, s3://bucket",
		"s3://":                "want a bucket, s3://bucket",
		"s3://b?no_such=1":     "no_such",
		"":                     "want an absolute path",
	} {
		_, err := Open(t.Context(), url, opts())
		require.ErrorContains(t, err, want, url)
		require.ErrorContains(t, err, "THOTH_KV_STORE", url)
	}
	if os.Getuid() != 0 {
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o500))
		_, err := Open(t.Context(), dir, opts())
		require.ErrorContains(t, err, "permission denied")
	}
	o := opts()
	o.BudgetBytes = 0
	_, err := Open(t.Context(), t.TempDir(), o)
	require.ErrorContains(t, err, "0 bytes")
	o = opts()
	o.MasterKey = []byte("short")
	_, err = Open(t.Context(), t.TempDir(), o)
	require.ErrorContains(t, err, "THOTH_KV_KEY")
}

func TestOpen_LeavesNothingOfItsTrial(t *testing.T) {
	dir := t.TempDir()
	tier, err := Open(t.Context(), dir, opts())
	require.NoError(t, err)
	settled(t, tier)
	require.NoError(t, tier.Close())
	require.Empty(t, buckettest.Files(t, dir))
}

// Case D09, for the tier: each damage is a fault with its reason, the file is
// gone, and the block can be stored again.
func TestGet_DropsADamagedFile(t *testing.T) {
	cut := func(n func(int) int) func([]byte) []byte {
		return func(p []byte) []byte { return p[:n(len(p))] }
	}
	flip := func(at func(int) int) func([]byte) []byte {
		return func(p []byte) []byte { p[at(len(p))] ^= 4; return p }
	}
	for name, tt := range map[string]struct {
		change func([]byte) []byte
		reason block.Reason
	}{
		"empty":          {cut(func(int) int { return 0 }), block.Truncated},
		"half":           {cut(func(n int) int { return n / 2 }), block.Truncated},
		"a byte short":   {cut(func(n int) int { return n - 1 }), block.Truncated},
		"flip in head":   {flip(func(int) int { return 130 }), block.Checksum},
		"flip in middle": {flip(func(n int) int { return n / 2 }), block.Checksum},
		"flip at end":    {flip(func(n int) int { return n - 1 }), block.Checksum},
		"random":         {func(p []byte) []byte { return slices.Repeat([]byte{0x5b}, len(p)) }, block.NotABlock},
		"next version":   {func(p []byte) []byte { p[8] = 2; return p }, block.Version},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tier := openTier(t, dir, opts())
			blocks := chain(root(""), 200, 1)
			put(t, tier, blocks...)
			for _, b := range []*block.Block{blocks[1], blocks[3]} {
				damage(t, fileOf(dir, b), tt.change)
				_, err := tier.Get(t.Context(), b.Name, memory)
				var f *block.Fault
				require.ErrorAs(t, err, &f)
				require.Equal(t, tt.reason, f.Reason)
				require.NoFileExists(t, fileOf(dir, b))
				_, err = tier.Get(t.Context(), b.Name, memory)
				require.ErrorIs(t, err, kvstore.ErrNotFound)
				put(t, tier, b)
				got, err := tier.Get(t.Context(), b.Name, memory)
				require.NoError(t, err)
				require.Equal(t, b, got)
			}
			st := tier.Stats(all)
			require.Equal(t, map[string]uint64{string(tt.reason): 2}, st.Drops)
			require.Equal(t, "on", st.State, "a damaged block is not a failing store")
			require.Zero(t, st.Failures)
		})
	}
}

func TestGet_DropsSwappedFiles(t *testing.T) {
	dir := t.TempDir()
	tier := openTier(t, dir, opts())
	a, b := chain(root("a"), 80, 1), chain(root("b"), 80, 2)
	put(t, tier, append(a, b...)...)
	swap := func(x, y string) {
		require.NoError(t, os.Rename(x, x+"~"))
		require.NoError(t, os.Rename(y, x))
		require.NoError(t, os.Rename(x+"~", y))
	}
	swap(fileOf(dir, a[0]), fileOf(dir, b[0])) // two scopes
	swap(fileOf(dir, a[1]), fileOf(dir, b[1])) // two tails
	for _, x := range append(a, b...) {
		_, err := tier.Get(t.Context(), x.Name, memory)
		var f *block.Fault
		require.ErrorAs(t, err, &f)
		require.Equal(t, block.Misplaced, f.Reason)
	}
	require.Equal(t, map[string]uint64{"misplaced": 4}, tier.Stats(all).Drops)
	require.Empty(t, buckettest.Files(t, dir))
}

func TestGet_DropsATailWithAnotherLengthInItsName(t *testing.T) {
	dir := t.TempDir()
	tier := openTier(t, dir, opts())
	settled(t, tier)
	b := chain(root(""), 10, 1)[0]
	put(t, tier, b)
	require.NoError(t, os.Rename(fileOf(dir, b), filepath.Join(dir, ObjectName(b.Name, 11))))
	_, err := tier.Tails(t.Context(), b.Root, b.Parent)
	require.NoError(t, err)
	_, err = tier.Get(t.Context(), b.Name, memory)
	var f *block.Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, block.Misplaced, f.Reason)
	require.Empty(t, buckettest.Files(t, dir))
}

func TestGet_DropsRowsOfAnotherSize(t *testing.T) {
	dir := t.TempDir()
	b := chain(root(""), 64, 1)[0]
	put(t, openTier(t, dir, opts()), b)
	o := opts()
	o.TokenBytes = rowBytes / 2
	_, err := openTier(t, dir, o).Get(t.Context(), b.Name, func(int) ([]byte, error) {
		t.Error("memory asked for rows of another size")
		return nil, nil
	})
	var f *block.Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, block.Size, f.Reason)
}

func TestGet_OpensNothingSealedWithAnotherKey(t *testing.T) {
	dir := t.TempDir()
	b := chain(root(""), 64, 1)[0]
	key := func(k byte) Options {
		o := opts()
		o.MasterKey = slices.Repeat([]byte{k}, KeyBytes)
		return o
	}
	for name, o := range map[string]Options{"other key": key(2), "no key": opts()} {
		put(t, openTier(t, dir, key(1)), b)
		p, err := os.ReadFile(fileOf(dir, b))
		require.NoError(t, err)
		require.NotContains(t, string(p), string(b.Data[:16]))
		_, err = openTier(t, dir, o).Get(t.Context(), b.Name, memory)
		var f *block.Fault
		require.ErrorAs(t, err, &f, name)
		require.Equal(t, block.Sealed, f.Reason, name)
	}
	put(t, openTier(t, dir, opts()), b)
	_, err := openTier(t, dir, key(1)).Get(t.Context(), b.Name, memory)
	require.ErrorContains(t, err, string(block.Sealed), "a block in the clear is not taken where a key is set")
}

func TestTier_TwoOnOneFolderNeverTearABlock(t *testing.T) {
	dir := t.TempDir()
	o := opts()
	blocks := chain(root(""), 64*12, 1)
	o.BudgetBytes = 8 * block.ObjectSize(blocks[0], false) // both evict all the time
	tiers := []*Tier{openTier(t, dir, o), openTier(t, dir, o)}
	var group sync.WaitGroup
	for i, tier := range tiers {
		for worker := range 3 {
			group.Go(func() {
				for round := range 30 {
					b := blocks[(round*(worker+1)+i)%len(blocks)]
					if err := tier.Put(t.Context(), b); err != nil && !errors.Is(err, kvstore.ErrNoRoom) {
						t.Errorf("put: %v", err)
					}
					got, err := tier.Get(t.Context(), b.Name, memory)
					if err != nil {
						if !errors.Is(err, kvstore.ErrNotFound) {
							t.Errorf("get: %v", err)
						}
					} else if !slices.Equal(b.Data, got.Data) {
						t.Error("other bytes came back")
					}
					if round%10 == 0 {
						if err := tier.sweep(t.Context()); err != nil {
							t.Errorf("sweep: %v", err)
						}
					}
				}
			})
		}
	}
	group.Wait()
	for _, tier := range tiers {
		st := tier.Stats(all)
		require.Empty(t, st.Drops)
		require.Zero(t, st.Failures)
	}
	require.Empty(t, temporary(buckettest.Files(t, dir)))
}

func TestTier_OutlivesItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kv")
	tier := openTier(t, dir, opts())
	settled(t, tier)
	b := chain(root(""), 64, 1)[0]
	put(t, tier, b)
	require.NoError(t, os.RemoveAll(dir))
	_, err := tier.Get(t.Context(), b.Name, memory)
	require.ErrorIs(t, err, kvstore.ErrNotFound)
	put(t, tier, b)
	i, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), i.Mode().Perm())
	require.Equal(t, "on", tier.Stats(all).State)
}

func TestObjectName_HasOneFormABlock(t *testing.T) {
	blocks := chain(root(""), 70, 1)
	for _, b := range blocks {
		n, tokens, ok := ParseObjectName(ObjectName(b.Name, len(b.Tokens)))
		require.True(t, ok)
		require.Equal(t, b.Name, n)
		require.Equal(t, len(b.Tokens), tokens)
	}
	name := ObjectName(blocks[0].Name, 64)
	for _, s := range []string{"", "a/b/c", name + "-64", name + "-0", name + "-07", name + "-", name + "-7.12ab.tmp", name + "/x", "/" + name, name[1:], "../" + name} {
		_, _, ok := ParseObjectName(s)
		require.False(t, ok, s)
	}
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
		require.ErrorContains(t, err, "THOTH_KV_KEY")
	}
	require.Empty(t, Fingerprint(nil))
	a, b := slices.Repeat([]byte{1}, KeyBytes), slices.Repeat([]byte{2}, KeyBytes)
	require.NotEqual(t, Fingerprint(a), Fingerprint(b))
	require.Equal(t, Fingerprint(a), Fingerprint(slices.Clone(a)))
}
