//go:build e2e

package e2e

import (
	"errors"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fullBlocks are the files of full blocks in a store, those of before left out.
func fullBlocks(t *testing.T, dir string, before map[string]int64) (paths []string) {
	t.Helper()
	for path := range stored(t, dir) {
		if _, old := before[path]; !old && !strings.ContainsAny(filepath.Base(path), "-.") {
			paths = append(paths, path)
		}
	}
	return paths
}

// rewrite changes a file in place.
func rewrite(t *testing.T, path string, change func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, change(b), 0o600))
}

// flip changes one bit; a place below zero counts from the end.
func flip(at int) func(b []byte) []byte {
	return func(b []byte) []byte {
		if at < 0 {
			at += len(b)
		}
		b[at] ^= 1
		return b
	}
}

// Each damage is a miss that says so, dropped and counted under its own reason;
// other models' and other KV types' blocks are no better under our names.
func TestFaultCold_EachDropHasItsReason(t *testing.T) {
	q := func(i int) obj {
		return obj{"messages": []obj{system(words(1100+uint64(i), 62)), user("Go.")}, "max_tokens": 6}
	}
	// A folder of another model's blocks, and one of another KV type, of one prompt.
	foreign := func(env ...string) []byte {
		dir := t.TempDir()
		s := start(t, append(env, storeIn(dir))...)
		s.say(t, q(0))
		var paths []string
		eventually(t, "its block to be written", func() bool { paths = fullBlocks(t, dir, nil); return len(paths) == 1 })
		require.Equal(t, 0, s.stop())
		b, err := os.ReadFile(paths[0])
		require.NoError(t, err)
		return b
	}
	otherModel, otherType := foreign(ownModel(t, quantized(t, "q8_0"))...), foreign("THOTH_KV_TYPE=q8_0")
	const headerBytes = 128
	damages := []struct {
		reason, name string
		do           func(b []byte) []byte
	}{
		{"misplaced", "another model's block", func([]byte) []byte { return otherModel }},
		{"size", "a block of another KV type", func([]byte) []byte { return otherType }},
		{"checksum", "another model's rows behind our header", func(b []byte) []byte {
			require.Len(t, otherModel, len(b))
			return append(b[:headerBytes:headerBytes], otherModel[headerBytes:]...)
		}},
		{"truncated", "half of it", func(b []byte) []byte { return b[:len(b)/2] }},
		{"truncated", "nothing of it", func([]byte) []byte { return nil }},
		{"no_block", "the first byte", flip(0)},
		{"version", "another version", func(b []byte) []byte { b[8]++; return b }},
		{"size", "the length of its payload", flip(17)},
		{"misplaced", "its parent's key", flip(60)},
		{"checksum", "the middle", flip(500_000)},
		{"checksum", "the last byte", flip(-1)},
	}
	dir := t.TempDir()
	writer := start(t, storeIn(dir))
	want, paths, seen := make([]said, len(damages)), make([]string, len(damages)), map[string]int64{}
	for i := range damages {
		want[i] = writer.say(t, q(i))
		var new []string
		eventually(t, "its block to be written", func() bool { new = fullBlocks(t, dir, seen); return len(new) > 0 })
		require.Len(t, new, 1, "a prompt of one block and a tail")
		paths[i], seen[new[0]] = new[0], 0
	}
	require.Equal(t, 0, writer.stop())
	for i, d := range damages {
		rewrite(t, paths[i], d.do)
	}
	s := start(t, storeIn(dir))
	drops, told := map[string]uint64{}, 0
	for i, d := range damages {
		a := s.say(t, q(i)).told(t)
		require.NoError(t, want[i].same(a), d.name)
		require.Equal(t, "miss", a.Gnosis.Memory, d.name)
		if a.why() == "stored prefix damaged" {
			told++
		} else {
			// On a machine with other work the read may have come too late to be waited for.
			require.Contains(t, []string{"computing is faster than the store", "prompt differs from what is stored"}, a.why(), d.name)
		}
		drops[d.reason]++
		eventually(t, "the drop", func() bool { return maps.Equal(drops, s.kv(t).Cold.Drops) })
	}
	require.Positive(t, told, "none was told as damaged")
	s.written(t)
	require.Equal(t, 0, s.stop())
	// What was dropped has been written anew.
	s = start(t, storeIn(dir))
	cold := 0
	for i, d := range damages {
		_, err := os.Stat(paths[i])
		require.NoError(t, err, d.name)
		a := s.say(t, q(i))
		require.NoError(t, want[i].same(a), d.name)
		cold += a.Gnosis.Tiers.Cold
	}
	require.Positive(t, cold)
	require.Empty(t, s.kv(t).Cold.Drops)
}

// A chain with a hole is used up to the hole, and whole again once that is filled.
func TestFaultCold_MissingParent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	s := start(t, storeIn(dir))
	before := remember(t, s, 1, 200, 1120)
	require.Equal(t, 0, s.stop())
	for _, up := range []string{".", "..", "../.."} {
		info, err := os.Stat(filepath.Join(dir, up))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), up)
	}
	blocks := fullBlocks(t, dir, nil)
	require.GreaterOrEqual(t, len(blocks), 3)
	// In a chain, a block's folder has the name of its parent.
	isParent := func(path string) bool {
		return slices.ContainsFunc(blocks, func(p string) bool { return filepath.Base(filepath.Dir(p)) == filepath.Base(path) })
	}
	second := slices.IndexFunc(blocks, func(path string) bool {
		parent := filepath.Base(filepath.Dir(path))
		return isParent(path) && slices.ContainsFunc(blocks, func(p string) bool { return filepath.Base(p) == parent })
	})
	require.NotEqual(t, -1, second)
	require.NoError(t, os.Remove(blocks[second]))

	s = start(t, storeIn(dir))
	a := s.say(t, before.q[0])
	require.NoError(t, before.want[0].same(a))
	require.Less(t, a.Cached, a.Prompt/2, "nothing behind the hole is used without it")
	s.written(t)
	require.Equal(t, 0, s.stop())
	s = start(t, storeIn(dir))
	a = s.restored(t, before.want[0], before.q[0])
	require.Greater(t, a.Cached, a.Prompt*9/10)
	require.Empty(t, s.kv(t).Cold.Drops)
}

// A store that cannot be used at the start does not keep the server from serving;
// the log and the numbers say why there is none, and it is used once it can be.
func TestFaultCold_StoreThatCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, url := range map[string]string{"a file": "file://" + file, "no bucket": "s3://kv?region=us-east-1&endpoint=http://127.0.0.1:9"} {
		t.Run(name, func(t *testing.T) {
			s := start(t, "THOTH_KV_STORE="+url, "THOTH_KV_COLD_TIMEOUT=2s", "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret")
			reason := s.cannotUse(t)
			require.NotContains(t, reason, filepath.Dir(file), "no path leaves the station")
			q := obj{"messages": []obj{system(words(1130, 60)), user("Go.")}, "max_tokens": 6}
			want := s.fresh(t, q)
			require.True(t, s.say(t, q).Gnosis.Saved, "RAM is there")
			require.False(t, s.restored(t, want, q).Gnosis.Durable)
			require.Equal(t, 0, s.stop())
			require.Regexp(t, `"kept":0,"lost":[1-9][0-9]*,`, s.log())
		})
	}
	t.Run("a folder that comes later", func(t *testing.T) {
		dir := filepath.Join(file, "kv")
		s := start(t, storeIn(dir))
		s.cannotUse(t)
		q := obj{"messages": []obj{system(words(1131, 90)), user("Go.")}, "max_tokens": 6}
		want := s.say(t, q)
		require.NoError(t, os.Remove(file))
		s.heals(t)
		require.Equal(t, 0, s.stop())
		require.NotEmpty(t, stored(t, dir))
		s = start(t, storeIn(dir))
		require.Positive(t, s.restored(t, want, q).Gnosis.Tiers.Cold)
	})
}

// cannotUse wants a server that serves without its store, and says why.
func (s *server) cannotUse(t *testing.T) (reason string) {
	t.Helper()
	eventually(t, "a reason", func() bool {
		x := s.kv(t).Cold
		reason = x.Reason
		return x.State == "failing" && strings.HasPrefix(reason, "the store cannot be used: ")
	})
	require.Contains(t, s.log(), "the KV store cannot be used: KV will not survive a restart")
	require.Equal(t, http.StatusOK, s.probe(t.Context(), "/readyz"))
	return reason
}

// fails wants a failing store, whose reason says why, beside a server that answers.
func (s *server) fails(t *testing.T, reason string) {
	t.Helper()
	eventually(t, "the store to be called failing: "+reason, func() bool {
		x := s.kv(t).Cold
		return x.State == "failing" && strings.Contains(x.Reason, reason) && x.Failures > 0
	})
	require.Contains(t, s.log(), "the cold store fails at")
	require.Equal(t, http.StatusOK, s.probe(t.Context(), "/readyz"))
}

// heals wants a store that works again, with all written that waited. Looks at a
// store that fails, and tries of a write, come at growing pauses.
func (s *server) heals(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		x := s.kv(t)
		return x.Cold.State == "on" && x.Pending == 0 && x.Dirty == 0
	}, 2*patience, 50*time.Millisecond)
}

// unprivileged takes from a root's server the right to open any file.
func unprivileged(t *testing.T) func(*exec.Cmd) {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("root reads every folder, and there is no setpriv to take that from it")
	}
	return func(c *exec.Cmd) {
		const drop = "-dac_override,-dac_read_search"
		c.Args = []string{setpriv, "--bounding-set", drop, "--inh-caps", drop, c.Path}
		c.Path = setpriv
	}
}

func TestFaultCold_UnreadableFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kv")
	writer := start(t, storeIn(dir))
	before := remember(t, writer, 4, 90, 1140)
	require.Equal(t, 0, writer.stop())
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	s := startAs(t, unprivileged(t), storeIn(dir))
	require.NoError(t, s.waitReady())
	before.found(t, s, 0)
	require.NoError(t, os.Chmod(dir, 0))
	for i := 1; i <= 2; i++ {
		a := s.say(t, before.q[i]).told(t)
		require.NoError(t, before.want[i].same(a))
		require.Equal(t, "miss", a.Gnosis.Memory)
		require.Equal(t, "the store is failing", a.why())
		require.True(t, a.Gnosis.Saved, "RAM is there")
	}
	s.fails(t, "permission denied")
	require.Empty(t, s.kv(t).Cold.Drops, "what cannot be read is not damaged")
	require.NoError(t, os.Chmod(dir, 0o700))
	s.heals(t)
	require.NoError(t, before.want[3].same(s.say(t, before.q[3])))
	require.NoError(t, os.Chmod(dir, 0))
	require.Equal(t, 0, s.stop())

	s = startAs(t, unprivileged(t), storeIn(dir))
	require.NoError(t, s.waitReady())
	require.Contains(t, s.cannotUse(t), "permission denied")
	require.NoError(t, before.want[1].same(s.say(t, before.q[1])))
}

// smallDisk mounts a disk of so many bytes.
func smallDisk(t *testing.T, options string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.Mkdir(dir, 0o700))
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENODEV) {
		t.Skip("a small disk cannot be mounted here: " + err.Error())
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// A full disk keeps what it has and takes no more; RAM goes on, and what waits
// is written when there is room again.
func TestFaultCold_FullDisk(t *testing.T) {
	dir := smallDisk(t, "size=6m,mode=0700") // some four blocks
	env := []string{storeIn(dir), "THOTH_KV_COLD_BYTES=1000000000"}
	s := start(t, env...)
	before := remember(t, s, 1, 90, 1150)
	var more remembered
	for i := range uint64(3) {
		q := obj{"messages": []obj{system(words(1160+i, 140)), user("Go.")}, "max_tokens": 8}
		want := s.fresh(t, q)
		a := s.say(t, q)
		require.NoError(t, want.same(a))
		require.True(t, a.Gnosis.Saved)
		more.q, more.want = append(more.q, q), append(more.want, want)
	}
	s.fails(t, "the disk is full")
	for i, q := range more.q {
		require.Positive(t, s.restored(t, more.want[i], q).Cached, "from RAM")
	}
	require.Equal(t, 0, s.stop())
	require.Regexp(t, `"kept":[0-9]+,"lost":[1-9][0-9]*,`, s.log())
	for path := range stored(t, dir) {
		require.NotContains(t, filepath.Base(path), ".", "no half file stays")
	}

	s = start(t, env...)
	require.Greater(t, s.restored(t, before.want[0], before.q[0]).Gnosis.Tiers.Cold, 64, "it still reads")
	for i, q := range more.q {
		require.NoError(t, more.want[i].same(s.say(t, q)))
	}
	require.Empty(t, s.kv(t).Cold.Drops)
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"))
	s.heals(t)
	require.Equal(t, 0, s.stop())
	s = start(t, env...)
	more.found(t, s, 0)
}
