//go:build e2e

package e2e

import (
	"bytes"
	bin "encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a restart restores is not computed again: the work says so.
func TestLiquidRestart_SavesTheWork(t *testing.T) {
	dir := t.TempDir()
	s := start(t, storeIn(dir))
	q := obj{"messages": []obj{system(words(100, 480)), user("Where does it begin?")}, "max_tokens": 24}
	before := s.say(t, q)
	require.Greater(t, before.Prompt, 450)
	next := obj{"messages": append(slices.Clone(q["messages"].([]obj)), assistant(before.Text), user("And where does it end?")), "max_tokens": 24}
	want := s.fresh(t, next)
	require.Equal(t, 0, s.stop(), "it writes down what it has on its way out")
	require.Regexp(t, `"kept":[0-9]+,"lost":0,`, s.log())

	s = start(t, storeIn(dir))
	computed := s.station(t).PromptTokens
	after := s.restored(t, want, next).told(t)
	require.Greater(t, after.Cached*10, before.Prompt*8)
	require.Greater(t, after.Gnosis.Tiers.Cold*10, before.Prompt*8)
	computed = s.station(t).PromptTokens - computed
	require.LessOrEqual(t, computed, uint64(after.Prompt-after.Cached), "what is told as restored was not computed")
}

// templated writes the test model with another chat template.
func templated(t *testing.T, template string) string {
	t.Helper()
	g := readGGUF(t, model())
	name := []byte("tokenizer.chat_template\x08\x00\x00\x00")
	at := bytes.Index(g.keysRaw, name)
	require.Positive(t, at)
	at += len(name)
	length := int(bin.LittleEndian.Uint64(g.keysRaw[at:]))
	value := append(bin.LittleEndian.AppendUint64(nil, uint64(len(template))), template...)
	g.keysRaw = slices.Concat(g.keysRaw[:at], value, g.keysRaw[at+8+length:])

	var b bytes.Buffer
	put := func(v any) { require.NoError(t, bin.Write(&b, bin.LittleEndian, v)) }
	b.WriteString("GGUF\x03\x00\x00\x00")
	put(uint64(len(g.tensors)))
	put(g.keys)
	b.Write(g.keysRaw)
	for _, x := range g.tensors {
		b.Write(x.raw)
		put(x.offset)
	}
	for b.Len()%ggufAlignment != 0 {
		b.WriteByte(0)
	}
	b.Write(g.data)
	path := filepath.Join(t.TempDir(), "templated.gguf")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	return path
}

// tuned is the test model with other weights: same file size, same shapes.
func tuned(t *testing.T) []byte {
	t.Helper()
	all, err := os.ReadFile(model())
	require.NoError(t, err)
	g := readGGUF(t, model())
	data := all[len(all)-len(g.data):]
	const name = "output_norm.weight"
	i := slices.IndexFunc(g.tensors, func(x partTensor) bool { return bytes.HasPrefix(x.raw[8:], []byte(name)) })
	require.NotEqual(t, -1, i)
	const kind, width = 0, 576 // float32
	require.EqualValues(t, kind, bin.LittleEndian.Uint32(g.tensors[i].raw[len(g.tensors[i].raw)-4:]))
	for n := 0; n < width; n += 2 {
		at := data[int(g.tensors[i].offset)+4*n:]
		bin.LittleEndian.PutUint32(at, math.Float32bits(0.6*math.Float32frombits(bin.LittleEndian.Uint32(at))))
	}
	// The last layers' own norms change what their KV is, not only what is read from it.
	for j, x := range g.tensors {
		if bytes.Contains(x.raw, []byte("attn_norm.weight")) {
			at := data[int(g.tensors[j].offset):]
			for n := range width {
				v := math.Float32frombits(bin.LittleEndian.Uint32(at[4*n:]))
				bin.LittleEndian.PutUint32(at[4*n:], math.Float32bits(v*float32(1+0.05*math.Sin(float64(n+j)))))
			}
		}
	}
	return all
}

// A restart with other settings, or another model, uses what is right for it and
// nothing else.
func TestLiquidRestart_WithOtherSettingsOrAnotherModel(t *testing.T) {
	dir := t.TempDir()
	q := obj{"messages": []obj{system(words(110, 180)), user("Which of these is a color?")}, "max_tokens": 16}
	s := start(t, storeIn(dir))
	want := s.say(t, q)
	require.Equal(t, 0, s.stop())

	other := filepath.Join(t.TempDir(), "other.gguf")
	require.NoError(t, os.WriteFile(other, tuned(t), 0o644))
	for name, c := range map[string]struct {
		env  []string
		uses bool
	}{
		"another quantisation of it":      {ownModel(t, quantized(t, "q8_0")), false},
		"another model of the same shape": {ownModel(t, other), false},
		"KV of another type":              {[]string{"THOTH_KV_TYPE=q8_0"}, false},
		"other numbers":                   {[]string{"THOTH_SEQUENCES=5", "THOTH_CELLS=3000", "THOTH_CONTEXT_LENGTH=3000", "THOTH_THREADS=1", "THOTH_BATCH_SIZE=64", "THOTH_GPU_LAYERS=7"}, true},
		"a renamed model":                 {ownModel(t, modelCopy(t)), true},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, append(c.env, storeIn(dir))...)
			if c.uses {
				// The digest of a file never seen before takes a moment.
				eventually(t, "the model's digest", func() bool { return s.kv(t).Root != "" })
				a := s.restored(t, want, q)
				require.Positive(t, a.Gnosis.Tiers.Cold, "%+v", a.Gnosis)
				return
			}
			a := s.say(t, q)
			require.Zero(t, a.Cached, "%+v", a.Gnosis)
			require.NoError(t, s.fresh(t, q).same(a))
		})
	}
	t.Run("a context smaller than what is stored", func(t *testing.T) {
		s := start(t, storeIn(dir), "THOTH_CONTEXT_LENGTH=128", "THOTH_CELLS=512")
		require.Equal(t, "context_length_exceeded", s.chat(t, q).Err(t, 400)["code"])
		require.Equal(t, "context_length_exceeded", s.chat(t, q, obj{"stream": true}).Err(t, 400)["code"])
		s.answersAgain(t)
	})
}

func TestLiquidRestart_WithOtherWeightsUnderTheSameName(t *testing.T) {
	dir, path := t.TempDir(), modelCopy(t)
	env := append(ownModel(t, path), storeIn(dir))
	q := obj{"messages": []obj{user("What is in here? " + words(120, 120))}, "max_tokens": 16}
	s := start(t, env...)
	before := s.say(t, q)
	s.written(t) // and so its digest is known
	require.Equal(t, 0, s.stop())

	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, tuned(t), 0o644))
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	s = start(t, env...)
	for range 2 { // before the new digest is known, and after
		a := s.say(t, q)
		require.Zero(t, a.Gnosis.Tiers.Cold, "%+v", a.Gnosis)
		require.NoError(t, s.fresh(t, q).same(a))
		require.NotEqual(t, before.Text, a.Text, "or these weights are as good as the others")
		s.written(t)
	}
}

func TestLiquidRestart_WithAnotherTemplate(t *testing.T) {
	dir := t.TempDir()
	q := obj{"messages": []obj{user("What is in here? " + words(130, 100))}, "max_tokens": 12}
	s := start(t, storeIn(dir))
	before := s.say(t, q)
	require.Equal(t, 0, s.stop())
	s = start(t, append(ownModel(t, templated(t, plainTemplate)), storeIn(dir))...)
	a := s.say(t, q)
	want := s.fresh(t, q)
	require.NoError(t, want.same(a))
	require.Less(t, a.Prompt, before.Prompt, "this one has no system prompt of its own")
}

// The whole tree is killed while it writes, twenty times: what is found
// afterwards is right, and the next start is none the worse.
func TestLiquidRestart_KilledWhileWriting(t *testing.T) {
	const kills = 20
	dir := t.TempDir()
	q := obj{"messages": []obj{system(words(140, 260)), user("Go.")}, "max_tokens": 12}
	s := start(t, storeIn(dir))
	first := s.fresh(t, q)
	next := obj{"messages": append(slices.Clone(q["messages"].([]obj)), assistant(first.Text), user("On.")), "max_tokens": 12}
	want := s.fresh(t, next)
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	found := 0
	for i := range kills {
		// Each session has blocks of its own to write: the salt sees to that.
		salt := obj{"cache_salt": "session " + strconv.Itoa(i)}
		with := func(q obj) obj { return P(q, salt) }
		require.NoError(t, first.same(s.say(t, with(q))), "session %d", i)
		delay := time.Duration(r.IntN(400)) * time.Millisecond
		if i%5 == 4 {
			delay *= 6 // ends of prompts are written later
		}
		time.Sleep(delay) // any moment is to be right
		children := s.children()
		require.NoError(t, s.cmd.Process.Kill())
		<-s.exit
		gone(t, s, children)

		s = start(t, storeIn(dir))
		a := s.say(t, with(next))
		require.NoError(t, want.same(a), "session %d, killed after %s", i, delay)
		found += a.Cached
		if i%7 == 6 {
			require.Empty(t, s.kv(t).Cold.Drops, "a file has its name only when all of it is there")
		}
	}
	require.Positive(t, found, "or nothing was ever written before a kill")
	t.Logf("%d of %d tokens were found after the kills", found, kills*want.Prompt)
	s.written(t)
	require.Equal(t, 0, s.stop())
	left := 0
	for path := range stored(t, dir) {
		if strings.HasSuffix(path, ".tmp") {
			left++
		} else {
			require.NotContains(t, filepath.Base(path), ".")
		}
	}
	require.LessOrEqual(t, left, kills, "what was being written then is left for the sweeper, no more")
}
