package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/cmd/thoth/internal/kv"
	"thoth/cmd/thoth/internal/kv/kvtest"
)

func thoth(args ...string) (status int, out, said string) {
	var o, e bytes.Buffer
	status = run(args, streams{&o, &e})
	return status, o.String(), e.String()
}

// The life of a store in an operator's hands, as one script.
func TestKV_ListsVerifiesMovesAndRemoves(t *testing.T) {
	dir := t.TempDir()
	blocks := kvtest.Chain("", 64*2+5, 32)
	kvtest.Fill(t, dir, "", blocks...)
	root := blocks[0].Root.String()

	status, out, said := thoth("kv", "ls", dir)
	require.Zero(t, status, said)
	require.Contains(t, out, root)
	require.Contains(t, out, "total of 1")
	status, out, said = thoth("kv", "ls", "file://"+dir, "--json")
	require.Zero(t, status, said)
	var roots []kv.Root
	require.NoError(t, json.Unmarshal([]byte(out), &roots))
	require.Equal(t, 3, roots[0].Blocks)
	status, out, said = thoth("kv", "ls", dir, "--root", root, "--json")
	require.Zero(t, status, said)
	var list []kv.Block
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	require.Len(t, list, 3)
	status, out, _ = thoth("kv", "ls", dir, "--root", root)
	require.Zero(t, status)
	require.Equal(t, 4, strings.Count(out, "\n"))

	status, out, said = thoth("kv", "verify", dir)
	require.Zero(t, status, said)
	require.Empty(t, out)
	require.Contains(t, said, "3 blocks of 5.1 KiB are whole")

	archive := filepath.Join(t.TempDir(), "kv.tar")
	status, _, said = thoth("kv", "export", dir, archive, "--root", root)
	require.Zero(t, status, said)
	i, err := os.Stat(archive)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), i.Mode().Perm())

	require.NoError(t, os.Truncate(kvtest.File(dir, blocks[1]), 100))
	status, out, said = thoth("kv", "verify", dir)
	require.Equal(t, 1, status)
	require.Contains(t, out, blocks[1].Key.String()+"\ttruncated\t")
	require.Contains(t, said, "damaged blocks: 1")
	status, _, said = thoth("kv", "verify", dir, "--fix")
	require.Equal(t, 1, status, "there were some")
	require.Contains(t, said, "1 of them dropped")
	status, _, said = thoth("kv", "verify", dir)
	require.Zero(t, status, said)

	status, _, said = thoth("kv", "import", dir, archive)
	require.Zero(t, status, said)
	require.Contains(t, said, "put 1 blocks")
	require.Contains(t, said, "2 were there")

	status, _, said = thoth("kv", "rm", dir)
	require.Equal(t, 1, status)
	require.Contains(t, said, "give --all, --root HEX or keys")
	status, _, said = thoth("kv", "rm", dir, blocks[2].Key.String())
	require.Zero(t, status, said)
	require.Contains(t, said, "removed 1 blocks")
	status, _, said = thoth("kv", "rm", dir, "--root", root)
	require.Zero(t, status, said)
	require.Contains(t, said, "removed 2 blocks")
	status, _, said = thoth("kv", "rm", dir, "--all")
	require.Zero(t, status, said)
}

func TestKV_OpensSealedStoresWithTheKey(t *testing.T) {
	dir := t.TempDir()
	kvtest.Fill(t, dir, kvtest.Key, kvtest.Chain("", 64, 32)...)
	status, _, said := thoth("kv", "verify", dir, "--fix")
	require.Equal(t, 1, status)
	require.Contains(t, said, "set THOTH_KV_KEY")
	t.Setenv("THOTH_KV_KEY", kvtest.Key)
	status, _, said = thoth("kv", "verify", dir)
	require.Zero(t, status, said)
	t.Setenv("THOTH_KV_KEY", "short")
	status, _, said = thoth("kv", "verify", dir)
	require.Equal(t, 1, status)
	require.Contains(t, said, "THOTH_KV_KEY: want 32 bytes")
}

func TestKV_SaysWhatIsWrongWithAStore(t *testing.T) {
	for args, want := range map[string]string{
		"kv ls /no/such/folder":        "no such file or directory",
		"kv ls ftp://x/y":              "want an absolute path",
		"kv ls":                        "expected",
		"kv import " + t.TempDir():     "expected",
		"kv export /no/such/dir -":     "no such file",
		"kv ls " + t.TempDir() + " -x": "unknown flag",
	} {
		status, out, said := thoth(strings.Fields(args)...)
		require.Equal(t, 1, status, args)
		require.Contains(t, said, want, args)
		require.Empty(t, out)
	}
}

// As a process, with a pipe between two of them.
func TestKVScript_CopiesAStoreThroughAPipe(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	blocks := kvtest.Chain("", 64*2, 32)
	kvtest.Fill(t, from, "", blocks...)
	export, archive, said := tool(t, "kv", "export", from, "-")
	require.NoError(t, export.Run(), said.String())
	imp, _, said := tool(t, "kv", "import", to, "-")
	imp.Stdin = archive
	require.NoError(t, imp.Run(), said.String())
	for _, b := range blocks {
		require.FileExists(t, kvtest.File(to, b))
	}
}
