//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Two hosts with two stations share a folder while eight clients ask each: what
// both write is whole, answers are those of a server alone, and what one has
// written the other finds.
func TestFaultReplica_TwoShareAFolderUnderLoad(t *testing.T) {
	const clients, common, own = 8, 3, 2
	dir := t.TempDir()
	servers := []*server{start(t, storeIn(dir)), start(t, storeIn(dir))}
	question := func(kind, i int) obj {
		return obj{"messages": []obj{system(words(uint64(1300+100*kind+i), 150)), user("Go.")}, "max_tokens": 8}
	}
	// kind 0 is asked at both, 1 and 2 at one each.
	prompts := func(side int) (list [][2]int) {
		for i := range common {
			list = append(list, [2]int{0, i})
		}
		for i := range own {
			list = append(list, [2]int{1 + side, i})
		}
		return list
	}
	type answered struct {
		prompt [2]int
		said
	}
	got := make(chan answered, 2*clients*(common+own))
	parallelClients(t, 2*clients, func(ctx context.Context, i int) error {
		list := prompts(i % 2)
		for n := range list {
			p := list[(n+i/2)%len(list)]
			a, err := servers[i%2].trySay(ctx, P(question(p[0], p[1]), obj{"stream": i%3 == 0}))
			if err != nil {
				return fmt.Errorf("client %d: %w", i, err)
			}
			got <- answered{p, a}
		}
		return nil
	})
	close(got)
	want := map[[2]int]said{}
	for a := range got {
		if _, known := want[a.prompt]; !known {
			want[a.prompt] = shared.fresh(t, question(a.prompt[0], a.prompt[1]))
		}
		require.NoError(t, want[a.prompt].same(a.said), "%v", a.prompt)
	}
	for side, s := range servers {
		s.written(t)
		x := s.kv(t)
		require.Empty(t, x.Cold.Drops)
		require.Zero(t, x.Cold.Failures)
		require.Positive(t, x.Cold.WrittenBytes, "server %d", side)
	}
	for side, s := range servers {
		found := 0
		for i := range own {
			p := [2]int{2 - side, i} // the other's
			a := s.say(t, question(p[0], p[1]))
			require.NoError(t, want[p].same(a))
			found += a.Gnosis.Tiers.Cold
		}
		require.Greater(t, found, 64, "server %d finds what the other wrote", side)
		require.Empty(t, s.kv(t).Cold.Drops)
	}
	require.Regexp(t, "[1-9][0-9]* blocks of .* are whole; 0 damaged", kvTool(t, 0, "verify", dir))
	for _, s := range servers {
		require.Equal(t, 0, s.stop())
	}
	require.Contains(t, kvTool(t, 0, "verify", dir), " 0 damaged", "nor at the end")
}

// ready is how long a server takes from its start to being ready.
func ready(t *testing.T, env ...string) time.Duration {
	t.Helper()
	began := time.Now()
	s := start(t, env...)
	took := time.Since(began)
	require.Equal(t, 0, s.stop())
	return took
}

// Ten thousand stored blocks keep nobody waiting: a server is ready as soon as
// with none, and finds its own among them.
func TestFaultReplica_TenThousandBlocksAreNotReadAtTheStart(t *testing.T) {
	dir := t.TempDir()
	s := start(t, storeIn(dir))
	before := remember(t, s, 1, 90, 1600)
	require.Equal(t, 0, s.stop())
	var root string
	for path := range stored(t, dir) {
		rel, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		root = filepath.Dir(filepath.Dir(rel))
	}
	const blocks = 10_000
	key := func(i int) string { k := sha256.Sum256([]byte(strconv.Itoa(i))); return hex.EncodeToString(k[:]) }
	for i := range blocks { // chains of a hundred
		parent := root
		if i%100 > 0 {
			parent = key(i - 1)
		}
		folder := filepath.Join(dir, root, parent)
		require.NoError(t, os.MkdirAll(folder, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(folder, key(i)), []byte("THOTHKV\x1a\x01\x00 and so on"), 0o600))
	}
	var none, many time.Duration
	for range 3 { // a slow start may have been another process's doing
		none, many = ready(t, storeIn(t.TempDir())), ready(t, storeIn(dir))
		if many < none+2*time.Second {
			break
		}
	}
	t.Logf("ready after %s with none, after %s with %d blocks", none, many, blocks)
	require.Less(t, many, none+2*time.Second)

	s = start(t, storeIn(dir))
	before.found(t, s, 0)
	eventually(t, "all to be counted, behind", func() bool { return s.kv(t).Cold.Blocks >= blocks })
	require.Equal(t, 0, s.stop())
}

var writtenDown = regexp.MustCompile(`"kept":([0-9]+),"lost":([0-9]+),`)

// What is not written yet is written at SIGTERM, and the log says how much.
func TestFaultReplica_SIGTERMWritesDownWhatIsDirty(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kv")
	s := start(t, storeIn(dir))
	q := obj{"messages": []obj{system(words(1700, 200)), user("Go.")}, "max_tokens": 8}
	want := s.say(t, q)
	require.Equal(t, 0, s.stop()) // at once: ends of prompts are written later than this
	m := writtenDown.FindStringSubmatch(s.log())
	require.NotNil(t, m, s.log())
	kept, _ := strconv.Atoi(m[1])
	require.Positive(t, kept)
	require.Equal(t, "0", m[2])
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		if d.IsDir() {
			require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), path)
			return nil
		}
		files++
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), path)
		require.NotContains(t, d.Name(), ".", "a temporary file")
		return nil
	}))
	require.GreaterOrEqual(t, files, kept)
	s = start(t, storeIn(dir))
	a := s.restored(t, want, q)
	require.Equal(t, a.Prompt-1, a.Cached, "all of the prompt was kept")
	require.Equal(t, a.Cached, a.Gnosis.Tiers.Cold)
	require.Equal(t, http.StatusOK, s.probe(t.Context(), "/readyz"))
}
