//go:build e2e

package e2e

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// damages are what may happen to a block's file. other is another block's file.
var damages = []struct {
	name string
	do   func(b, other []byte) []byte
}{
	{"empty", func(b, _ []byte) []byte { return nil }},
	{"half", func(b, _ []byte) []byte { return b[:len(b)/2] }},
	{"a byte short", func(b, _ []byte) []byte { return b[:len(b)-1] }},
	{"a byte more", func(b, _ []byte) []byte { return append(b, 0) }},
	{"a flipped byte in the header", func(b, _ []byte) []byte { b[20] ^= 1; return b }},
	{"another version", func(b, _ []byte) []byte { b[8]++; return b }},
	{"a flipped byte in the middle", func(b, _ []byte) []byte { b[len(b)/2] ^= 0x10; return b }},
	{"a flipped byte near the end", func(b, _ []byte) []byte { b[len(b)-700] ^= 0x80; return b }},
	{"other bytes", func(b, _ []byte) []byte { _, _ = rand.Read(b); return b }},
	{"another block", func(_, other []byte) []byte { return other }},
}

// A damaged block is a miss, counted and dropped, on a server that runs and on
// one that starts: nothing else of the answer, or of other conversations, changes.
func TestLiquidDamage_IsComputedInstead(t *testing.T) {
	dir := t.TempDir()
	writer := start(t, storeIn(dir))
	type conversation struct {
		q      obj
		want   said
		blocks []string // files of its full blocks
	}
	all := make([]conversation, len(damages))
	seen := map[string]int64{}
	for i := range all {
		c := &all[i]
		turn := obj{"messages": []obj{system(words(uint64(200+i), 110)), user("Go.")}, "max_tokens": 16}
		reply := writer.say(t, turn)
		c.q = obj{"messages": append(slices.Clone(turn["messages"].([]obj)), assistant(reply.Text), user("On.")), "max_tokens": 10}
		c.want = writer.fresh(t, c.q)
		eventually(t, "its full blocks to be written", func() bool {
			for path := range stored(t, dir) {
				if _, old := seen[path]; !old && !strings.ContainsAny(path[len(dir):], "-.") {
					c.blocks = append(c.blocks, path)
					seen[path] = 0
				}
			}
			return len(c.blocks) >= (reply.Prompt+reply.Completion-1)/64
		})
	}
	unrelated := obj{"messages": []obj{user("Name a color.")}, "max_tokens": 12}
	wantUnrelated := writer.fresh(t, unrelated)
	require.Equal(t, 0, writer.stop())

	// damage spoils a full block of each conversation; another one of it each time.
	damage := func(which int) (spoiled map[string][]byte) {
		spoiled = map[string][]byte{}
		for i, c := range all {
			path, other := c.blocks[which%len(c.blocks)], all[(i+1)%len(all)].blocks[0]
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			from, err := os.ReadFile(other)
			require.NoError(t, err)
			b = damages[i].do(b, from)
			require.NoError(t, os.WriteFile(path, b, 0o600))
			spoiled[path] = slices.Clone(b)
		}
		return spoiled
	}
	check := func(s *server, spoiled map[string][]byte) {
		for i, c := range all {
			a := s.say(t, c.q)
			require.NoError(t, c.want.same(a), damages[i].name)
			require.NoError(t, wantUnrelated.same(s.say(t, unrelated)), damages[i].name)
		}
		x := s.kv(t)
		n := 0
		for _, count := range x.Cold.Drops {
			n += int(count)
		}
		require.GreaterOrEqual(t, n, len(damages), "each is counted: %v", x.Cold.Drops)
		require.GreaterOrEqual(t, len(x.Cold.Drops), 3, "by its reason: %v", x.Cold.Drops)
		s.written(t)
		for path, bad := range spoiled {
			b, err := os.ReadFile(path)
			require.True(t, os.IsNotExist(err) || err == nil && !bytes.Equal(bad, b), "dropped or renewed: %s", path)
		}
		require.Contains(t, s.log(), `"level":"warn"`)
	}
	t.Run("while it runs", func(t *testing.T) {
		s := start(t, storeIn(dir)) // it has none of the blocks in RAM
		check(s, damage(0))
		require.Equal(t, 0, s.stop())
	})
	t.Run("before it starts", func(t *testing.T) {
		spoiled := damage(1)
		s := start(t, storeIn(dir))
		check(s, spoiled)
		require.Equal(t, 0, s.stop())
	})
}

// A store that goes away, in part or as a whole, is a store with nothing in it.
func TestLiquidDamage_StoreThatIsGone(t *testing.T) {
	dir := t.TempDir() + "/store"
	s := start(t, storeIn(dir))
	var questions []obj
	for i := range uint64(3) {
		questions = append(questions, obj{"messages": []obj{system(words(220+i, 100)), user("Go.")}, "max_tokens": 8})
	}
	var want []said
	for _, q := range questions {
		want = append(want, s.say(t, q))
	}
	s.written(t)
	replica := start(t, storeIn(dir))
	replica.restored(t, want[0], questions[0])
	for path := range stored(t, dir) {
		if len(path)%2 == 0 || strings.HasSuffix(path, "0") || strings.HasSuffix(path, "7") {
			require.NoError(t, os.Remove(path))
		}
	}
	for i, q := range questions {
		require.NoError(t, want[i].same(replica.say(t, q)), "some blocks are gone")
	}
	require.NoError(t, os.Rename(dir, dir+" is away"), "in one step: the writers go on")
	for _, server := range []*server{s, replica} {
		for i, q := range questions {
			require.NoError(t, want[i].same(server.say(t, q)), "the folder is gone")
		}
		q := obj{"messages": []obj{user(words(230, 90))}}
		a := server.say(t, q)
		require.True(t, a.Gnosis.Saved, "RAM is still there")
		server.restored(t, a, q)
		require.Equal(t, 0, server.stop())
	}
	s = start(t, storeIn(dir))
	require.NoError(t, want[1].same(s.say(t, questions[1])))
}

// The station's own routes, asked for what is not there.
func TestLiquidDamage_UnknownSessionsAreNoFailure(t *testing.T) {
	address := "127.0.0.1:" + freePort(t)
	s := start(t, "THOTH_STATION_LISTEN="+address, storeIn(t.TempDir()))
	post := func(path string, body string, header ...string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+path, strings.NewReader(body))
		require.NoError(t, err)
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(b)
	}
	session := func(length int) []string {
		return []string{wire.HeaderSessionID, "nobody's", wire.HeaderPrefixLength, fmt.Sprint(length)}
	}
	kv := wire.RouteKVSession + "/"
	for _, c := range []struct {
		path   string
		length int
		status int
	}{
		{kv + wire.VerbLoad, 0, 410}, {kv + wire.VerbLoad, 7, 410}, {kv + wire.VerbSave, 0, 200}, {kv + wire.VerbSave, 7, 410},
		{kv + wire.VerbDelete, 0, 410}, {kv + wire.VerbLoad, -1, 400}, {kv + wire.VerbSave, -1, 400}, {kv + "nothing", 0, 404}, {kv + wire.VerbFlush, 0, 200},
	} {
		for range 2 {
			status, body := post(c.path, "", session(c.length)...)
			require.Equal(t, c.status, status, "%s %d: %s", c.path, c.length, body)
		}
	}
	status, body := post(kv+wire.VerbSave, "", wire.HeaderSessionID, "x", wire.HeaderPrefixLength, "many")
	require.Equal(t, 400, status, body)
	status, body = post(kv+wire.VerbLookup, `{"prompt":{"text":"hello"}}`)
	require.Equal(t, 200, status, body)
	require.Equal(t, 0, s.kv(t).Warm.Blocks, "nothing was left")
	s.answersAgain(t)
	require.Equal(t, 0, s.stop())
}
