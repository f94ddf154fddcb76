package kv

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/cmd/thoth/internal/kv/kvtest"
	"thoth/station/kvstore/block"
	"thoth/station/kvstore/cold"
)

func store(t *testing.T, dir, key string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, key, true)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

const rowBytes = 32

func TestList_SumsUpRoots(t *testing.T) {
	dir := t.TempDir()
	a, b := kvtest.Chain("a", 64*3+5, rowBytes), kvtest.Chain("b", 64, rowBytes)
	kvtest.Fill(t, dir, "", append(a, b...)...)
	at := time.Now().Add(-50 * time.Hour).Truncate(time.Second)
	require.NoError(t, os.Chtimes(kvtest.File(dir, a[1]), at, at))
	require.NoError(t, os.WriteFile(kvtest.File(dir, b[0])+".17.tmp", make([]byte, 9), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "theirs"), nil, 0o600))
	s := store(t, dir, "")
	list, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 2)
	var size int64
	for _, x := range a {
		size += block.ObjectSize(x, false)
	}
	require.Equal(t, a[0].Root.String(), list[0].Root, "the largest first")
	require.Equal(t, []int{4, 1, 197, 0}, []int{list[0].Blocks, list[0].Tails, list[0].Tokens, list[0].Strays})
	require.Equal(t, size, list[0].Bytes)
	require.True(t, list[0].Oldest.Equal(at))
	require.Equal(t, []int{1, 0, 64, 1}, []int{list[1].Blocks, list[1].Tails, list[1].Tokens, list[1].Strays})
	require.EqualValues(t, 9, list[1].Loose)

	var out strings.Builder
	require.NoError(t, WriteRoots(&out, list, time.Now()))
	require.Contains(t, out.String(), a[0].Root.String()+"  4       1      197     ")
	require.Contains(t, out.String(), "2d")
	require.Contains(t, out.String(), "1 temporary or foreign files of 9 B")
}

func TestBlocks_ReadsHeaders(t *testing.T) {
	dir := t.TempDir()
	blocks := kvtest.Chain("a", 64+5, rowBytes)
	kvtest.Fill(t, dir, "", blocks...)
	require.NoError(t, os.WriteFile(kvtest.File(dir, blocks[1]), []byte("THOTHKV?"), 0o600))
	s := store(t, dir, "")
	list, err := s.Blocks(t.Context(), blocks[0].Root.String())
	require.NoError(t, err)
	require.Len(t, list, 2)
	for _, b := range list {
		if strings.Contains(b.Key, "-5") {
			require.Equal(t, "truncated", b.Fault)
			continue
		}
		require.Equal(t, 64, b.Tokens)
		require.EqualValues(t, 64*rowBytes, b.Payload)
		require.Equal(t, "cpu-test", b.Kernel)
		require.Equal(t, "team", b.Group)
	}
	_, err = s.Blocks(t.Context(), "abc")
	require.ErrorContains(t, err, "--root")
}

func TestVerify_NamesWhatIsDamaged(t *testing.T) {
	dir := t.TempDir()
	blocks := kvtest.Chain("a", 64*4, rowBytes)
	kvtest.Fill(t, dir, "", blocks...)
	kvtest.Fill(t, dir, kvtest.Key, kvtest.Chain("sealed", 64, rowBytes)...)
	p, err := os.ReadFile(kvtest.File(dir, blocks[1]))
	require.NoError(t, err)
	p[len(p)/2] ^= 1
	require.NoError(t, os.WriteFile(kvtest.File(dir, blocks[1]), p, 0o600))
	var out strings.Builder
	s := store(t, dir, "")
	v, err := s.Verify(t.Context(), "", false, &out)
	require.NoError(t, err)
	require.Equal(t, Verdict{Blocks: 3, Bytes: 3 * block.ObjectSize(blocks[0], false), Damaged: 2, Alone: 2, Sealed: 1}, v)
	require.Contains(t, out.String(), cold.ObjectName(blocks[1].Name, 64)+"\tchecksum\t")
	require.Contains(t, out.String(), "\tsealed\t")

	v, err = s.Verify(t.Context(), blocks[0].Root.String(), true, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 1, v.Dropped)
	require.NoFileExists(t, kvtest.File(dir, blocks[1]))
	v, err = s.Verify(t.Context(), "", true, io.Discard)
	require.NoError(t, err)
	require.Equal(t, Verdict{Blocks: 3, Bytes: 3 * block.ObjectSize(blocks[0], false), Damaged: 1, Alone: 2, Sealed: 1}, v,
		"what does not open is not dropped: the key may be the wrong one")

	v, err = store(t, dir, kvtest.Key).Verify(t.Context(), kvtest.Chain("sealed", 64, rowBytes)[0].Root.String(), false, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 1, v.Blocks)
}

func TestRemove_TakesKeysPlacesRootsOrAll(t *testing.T) {
	dir := t.TempDir()
	a, b := kvtest.Chain("a", 64*3+5, rowBytes), kvtest.Chain("b", 64*2, rowBytes)
	kvtest.Fill(t, dir, "", append(a, b...)...)
	s := store(t, dir, "")
	for _, tt := range []struct {
		what What
		want int
		err  string
	}{
		{What{}, 0, "exactly one of them"},
		{What{All: true, Root: a[0].Root.String()}, 0, "exactly one of them"},
		{What{Keys: []string{"xyz"}}, 0, "not a block key"},
		{What{Keys: []string{"../../etc/passwd"}}, 0, "no place of a block"},
		{What{Root: "xyz"}, 0, "--root"},
		{What{Keys: []string{a[3].Key.String(), cold.ObjectName(b[1].Name, 64)}}, 2, ""},
		{What{Keys: []string{a[3].Key.String()}}, 0, "no block"},
		{What{Root: strings.ToUpper(a[0].Root.String())}, 3, ""},
		{What{All: true}, 1, ""},
		{What{All: true}, 0, ""},
	} {
		n, size, err := s.Remove(t.Context(), tt.what)
		if tt.err != "" {
			require.ErrorContains(t, err, tt.err)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, tt.want, n, "%+v", tt.what)
		require.Equal(t, tt.want > 0, size > 0)
	}
}

func TestExport_ImportsEqually(t *testing.T) {
	for name, key := range map[string]string{"clear": "", "sealed": kvtest.Key} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), filepath.Join(t.TempDir(), "new")
			blocks := kvtest.Chain("a", 64*2+5, rowBytes)
			kvtest.Fill(t, from, key, append(blocks, kvtest.Chain("b", 64, rowBytes)...)...)
			at := time.Now().Add(-time.Hour).Truncate(time.Second)
			require.NoError(t, os.Chtimes(kvtest.File(from, blocks[0]), at, at))
			var archive bytes.Buffer
			n, _, err := store(t, from, "").Export(t.Context(), blocks[0].Root.String(), &archive)
			require.NoError(t, err)
			require.Equal(t, 3, n)

			s := store(t, to, key)
			done, err := s.Import(t.Context(), bytes.NewReader(archive.Bytes()), io.Discard)
			require.NoError(t, err)
			require.Equal(t, 3, done.Blocks)
			for _, b := range blocks {
				want, err := os.ReadFile(kvtest.File(from, b))
				require.NoError(t, err)
				got, err := os.ReadFile(kvtest.File(to, b))
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
			i, err := os.Stat(kvtest.File(to, blocks[0]))
			require.NoError(t, err)
			require.True(t, i.ModTime().Equal(at))
			done, err = s.Import(t.Context(), bytes.NewReader(archive.Bytes()), io.Discard)
			require.NoError(t, err)
			require.Equal(t, Imported{There: 3}, done)

			if key != "" {
				var said strings.Builder
				done, err = store(t, t.TempDir(), "").Import(t.Context(), bytes.NewReader(archive.Bytes()), &said)
				require.NoError(t, err)
				require.Equal(t, Imported{Refused: 3}, done, "what cannot be verified is not put")
				require.Contains(t, said.String(), "sealed")
			}
		})
	}
}

func TestImport_RefusesWhatIsNoBlock(t *testing.T) {
	b := kvtest.Chain("a", 64, rowBytes)[0]
	var object bytes.Buffer
	require.NoError(t, block.Encode(&object, b, nil))
	flipped := bytes.Clone(object.Bytes())
	flipped[300] ^= 1
	name := cold.ObjectName(b.Name, 64)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct {
		name string
		data []byte
		kind byte
	}{
		{"../../etc/cron.d/x", []byte("x"), tar.TypeReg},
		{name, nil, tar.TypeSymlink},
		{name, flipped, tar.TypeReg},
		{name + "-7", object.Bytes(), tar.TypeReg},
		{cold.ObjectName(block.Name{Root: b.Root, Parent: b.Key, Key: b.Parent}, 64), object.Bytes(), tar.TypeReg},
		{"folder/", nil, tar.TypeDir},
		{name, object.Bytes(), tar.TypeReg},
	} {
		h := &tar.Header{Name: f.name, Size: int64(len(f.data)), Mode: 0o777, Typeflag: f.kind}
		if f.kind == tar.TypeSymlink {
			h.Linkname = "/etc/passwd"
		}
		require.NoError(t, w.WriteHeader(h))
		_, err := w.Write(f.data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	dir := t.TempDir()
	var said strings.Builder
	done, err := store(t, dir, "").Import(t.Context(), bytes.NewReader(archive.Bytes()), &said)
	require.NoError(t, err)
	require.Equal(t, 1, done.Blocks)
	require.Equal(t, 5, done.Refused)
	for _, want := range []string{"no_block", "checksum", "misplaced"} {
		require.Contains(t, said.String(), want)
	}
	i, err := os.Stat(kvtest.File(dir, b))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), i.Mode().Perm())

	_, err = store(t, dir, "").Import(t.Context(), strings.NewReader("no archive at all, but long enough to look like one "+strings.Repeat("x", 600)), io.Discard)
	require.ErrorContains(t, err, "the archive")
}

func TestBytes_AreForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 40: "3.0 TiB"} {
		require.Equal(t, want, Bytes(n))
	}
}
