//go:build e2e

package e2e

import (
	"bytes"
	bin "encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/client"
	"thoth/station/wire"
)

// kvTool runs thoth kv, wants an exit status, and returns all it said.
func kvTool(t *testing.T, status int, args ...string) string {
	t.Helper()
	out, said := kvOutput(t, status, nil, args...)
	return out + said
}

func kvOutput(t *testing.T, status int, env []string, args ...string) (stdout, stderr string) {
	t.Helper()
	c := exec.Command(binary("thoth"), append([]string{"kv"}, args...)...)
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	_ = c.Run()
	require.NotNil(t, c.ProcessState)
	require.Equal(t, status, c.ProcessState.ExitCode(), "%v: %s%s", args, &out, &said)
	return out.String(), said.String()
}

// The operator's tool on a store that real servers use.
func TestFaultTool_ListsVerifiesMovesAndRemoves(t *testing.T) {
	dir := t.TempDir()
	s := start(t, storeIn(dir))
	before := remember(t, s, 3, 90, 1800)
	files := stored(t, dir)

	var roots []struct {
		Root          string
		Blocks, Tails int
		Bytes         int64
	}
	out, _ := kvOutput(t, 0, nil, "ls", "--json", dir)
	require.NoError(t, json.Unmarshal([]byte(out), &roots), out)
	require.Len(t, roots, 1, "one model, one scope")
	require.Equal(t, len(files), roots[0].Blocks)
	require.Equal(t, sum(files), roots[0].Bytes)
	require.Contains(t, kvTool(t, 0, "ls", "file://"+dir), roots[0].Root[:8])
	require.Contains(t, kvTool(t, 0, "verify", dir), " 0 damaged", "beside the server that uses it")

	// Taken elsewhere, it is found there.
	archive := filepath.Join(t.TempDir(), "kv.tar")
	kvTool(t, 0, "export", dir, archive)
	info, err := os.Stat(archive)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Greater(t, info.Size(), sum(files))
	there := filepath.Join(t.TempDir(), "other", "machine")
	kvTool(t, 0, "import", there, archive)
	require.Len(t, stored(t, there), len(files))
	for path := range stored(t, there) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	other := start(t, storeIn(there))
	for i := range before.q {
		before.found(t, other, i)
	}
	require.Equal(t, 0, other.stop())

	// A damaged block is named, and dropped when that is asked for.
	bad := fullBlocks(t, there, nil)[0]
	rewrite(t, bad, flip(-100))
	said := kvTool(t, 1, "verify", there)
	require.Contains(t, said, filepath.Base(bad))
	require.Contains(t, said, "checksum")
	require.FileExists(t, bad)
	kvTool(t, 1, "verify", "--fix", there)
	require.NoFileExists(t, bad)
	kvTool(t, 0, "verify", there)
	damaged := filepath.Join(t.TempDir(), "damaged.tar")
	b, err := os.ReadFile(archive)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(damaged, flip(len(b)/2)(b), 0o600))
	kvTool(t, 1, "import", filepath.Join(t.TempDir(), "new"), damaged)

	// Removed below a server that runs, it is computed.
	fresh := start(t, storeIn(dir))
	before.found(t, fresh, 0)
	kvTool(t, 0, "rm", "--all", dir)
	require.Empty(t, stored(t, dir))
	a := fresh.say(t, before.q[1])
	require.NoError(t, before.want[1].same(a))
	require.Zero(t, a.Gnosis.Tiers.Cold)
	require.Empty(t, fresh.kv(t).Cold.Drops, "a block that is gone is not damaged")
	for i := range before.q {
		s.restored(t, before.want[i], before.q[i]) // the writer has it in RAM
	}
	kvTool(t, 1, "verify", filepath.Join(t.TempDir(), "nothing"))
}

// With a key nothing of a prompt can be read in the store, and another key, or
// none, finds nothing.
func TestFaultTool_AKeySealsWhatIsStored(t *testing.T) {
	const text = 90
	q := obj{"messages": []obj{system(words(1900, text)), user("Go.")}, "max_tokens": 8}
	keyA, keyB := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	address := "127.0.0.1:" + freePort(t)

	open, sealed := t.TempDir(), t.TempDir()
	plain := start(t, storeIn(open), "THOTH_STATION_LISTEN="+address)
	want := plain.say(t, q)
	// Words in the middle are the same tokens in any text.
	middle := " " + strings.Join(strings.Fields(words(1900, text))[20:36], " ")
	c, err := client.New("http://"+address, client.Options{})
	require.NoError(t, err)
	defer c.Close()
	tokens, err := c.Tokenize(t.Context(), &wire.TokenizeRequest{Prompt: wire.Prompt{Text: middle}})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(tokens.Tokens), 16)
	plain.written(t)
	require.Equal(t, 0, plain.stop())
	readable := func(dir string) bool {
		for path := range stored(t, dir) {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			for i := range len(tokens.Tokens) - 4 {
				var run []byte
				for _, token := range tokens.Tokens[i : i+4] {
					run = bin.LittleEndian.AppendUint32(run, uint32(token))
				}
				if bytes.Contains(b, run) {
					return true
				}
			}
			if bytes.Contains(b, []byte(strings.Fields(middle)[0])) {
				return true
			}
		}
		return false
	}
	require.True(t, readable(open), "or the search finds nothing anywhere")

	s := start(t, storeIn(sealed), "THOTH_KV_KEY="+keyA)
	require.NoError(t, want.same(s.say(t, q)))
	s.written(t)
	require.Equal(t, 0, s.stop())
	require.NotEmpty(t, stored(t, sealed))
	require.False(t, readable(sealed))
	require.NotContains(t, s.log(), keyA)

	for name, env := range map[string][]string{"another key": {"THOTH_KV_KEY=" + keyB}, "no key": nil} {
		s := start(t, append(env, storeIn(sealed))...)
		a := s.say(t, q)
		require.NoError(t, want.same(a), name)
		require.Equal(t, "no stored prefix", a.why(), name)
		require.Zero(t, a.Cached, name)
		require.Empty(t, s.kv(t).Cold.Drops, "%s: what is another's is left alone", name)
		require.Equal(t, 0, s.stop())
	}
	s = start(t, storeIn(sealed), "THOTH_KV_KEY="+keyA)
	require.Positive(t, s.restored(t, want, q).Gnosis.Tiers.Cold)
	require.Equal(t, 0, s.stop())

	only := t.TempDir()
	s = start(t, storeIn(only), "THOTH_KV_KEY="+keyA)
	s.say(t, q)
	require.Equal(t, 0, s.stop())
	_, said := kvOutput(t, 0, []string{"THOTH_KV_KEY=" + keyA}, "verify", only)
	require.Contains(t, said, " 0 damaged")
	_, said = kvOutput(t, 1, nil, "verify", only)
	require.Contains(t, said, "THOTH_KV_KEY")
	kvOutput(t, 1, []string{"THOTH_KV_KEY=" + keyB}, "verify", "--fix", only)
	kvOutput(t, 0, []string{"THOTH_KV_KEY=" + keyA}, "verify", only)
}
