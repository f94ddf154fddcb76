//go:build cgo

package native

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/ollama/ollama/fs/ggml"
	"github.com/stretchr/testify/require"

	"thoth/station/engine"
)

// Shape of the random sliding-window model: small, with a window of 32.
const (
	winEmbed, winHeads, winKVHeads, winHead, winFF, winLayers, winVocab, winWindow = 64, 2, 1, 32, 128, 6, 512, 32
)

// weights are random values, or ones.
type weights struct {
	n    int
	seed int64
	ones bool
}

func (w weights) WriteTo(out io.Writer) (int64, error) {
	b := bufio.NewWriter(out)
	g := rand.New(rand.NewSource(w.seed))
	for range w.n {
		v := float32(1)
		if !w.ones {
			v = float32(g.NormFloat64() * 0.2)
		}
		_ = binary.Write(b, binary.LittleEndian, math.Float32bits(v))
	}
	return int64(4 * w.n), b.Flush()
}

// windowModel writes a gemma3 of random weights: five layers see a window, the sixth all.
func windowModel(t testing.TB) string {
	tokens, scores, types := make([]string, winVocab), make([]float32, winVocab), make([]int32, winVocab)
	for i := range tokens {
		switch {
		case i < 3:
			tokens[i], types[i] = []string{"<unk>", "<bos>", "<eos>"}[i], 3
		case i < 259:
			tokens[i], types[i] = fmt.Sprintf("<0x%02X>", i-3), 6
		default:
			tokens[i], types[i], scores[i] = fmt.Sprintf("w%d", i), 1, float32(-i)
		}
	}
	kv := ggml.KV{
		"general.architecture": "gemma3", "general.name": "window",
		"gemma3.context_length": uint32(2048), "gemma3.embedding_length": uint32(winEmbed), "gemma3.block_count": uint32(winLayers),
		"gemma3.feed_forward_length": uint32(winFF), "gemma3.attention.head_count": uint32(winHeads), "gemma3.attention.head_count_kv": uint32(winKVHeads),
		"gemma3.attention.key_length": uint32(winHead), "gemma3.attention.value_length": uint32(winHead),
		"gemma3.attention.layer_norm_rms_epsilon": float32(1e-6), "gemma3.attention.sliding_window": uint32(winWindow), "gemma3.rope.freq_base": float32(1e6),
		"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": scores, "tokenizer.ggml.token_type": types,
		"tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.eos_token_id": uint32(2), "tokenizer.ggml.unknown_token_id": uint32(0),
	}
	var ts []*ggml.Tensor
	add := func(name string, ones bool, shape ...uint64) {
		n := uint64(1)
		for _, s := range shape {
			n *= s
		}
		ts = append(ts, &ggml.Tensor{Name: name, Shape: shape, WriterTo: weights{n: int(n), seed: int64(len(ts)), ones: ones}})
	}
	add("token_embd.weight", false, winEmbed, winVocab)
	add("output_norm.weight", true, winEmbed)
	for l := range winLayers {
		p := fmt.Sprintf("blk.%d.", l)
		for _, name := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"} {
			add(p+name+".weight", true, winEmbed)
		}
		add(p+"attn_q_norm.weight", true, winHead)
		add(p+"attn_k_norm.weight", true, winHead)
		add(p+"attn_q.weight", false, winEmbed, winHeads*winHead)
		add(p+"attn_k.weight", false, winEmbed, winKVHeads*winHead)
		add(p+"attn_v.weight", false, winEmbed, winKVHeads*winHead)
		add(p+"attn_output.weight", false, winHeads*winHead, winEmbed)
		add(p+"ffn_gate.weight", false, winEmbed, winFF)
		add(p+"ffn_up.weight", false, winEmbed, winFF)
		add(p+"ffn_down.weight", false, winFF, winEmbed)
	}
	path := filepath.Join(t.TempDir(), "window.gguf")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, ggml.WriteGGUF(f, kv, ts))
	require.NoError(t, f.Close())
	return path
}

// small are tokens of the small vocabulary.
func small(n, seed int) []engine.Token {
	out := filler(n, seed)
	for i := range out {
		out[i] = 259 + out[i]%(winVocab-259)
	}
	return out
}

// TestWindow_CellsOutOfTheWindowStay: llama.cpp overwrites cells that fell out
// of the window of their only sequence; a save, and the order of cells, need them.
func TestWindow_CellsOutOfTheWindowStay(t *testing.T) {
	e := open(t, func(o *Options) { o.Model, o.Cells = windowModel(t), 768 })
	require.True(t, e.info.KVCut)
	prompt := small(200, 1)
	last := len(prompt) - 1

	prefill(t, e, 0, prompt[:last], 0, 50)
	row := prefill(t, e, 0, prompt[last:], last, 1)
	want := greedy(t, e, 0, len(prompt), row, 20)

	e.Reset()
	prefill(t, e, 1, small(30, 2), 0, 30)
	prefill(t, e, 0, prompt[:100], 0, 50)
	e.Retire(1)
	for i := range 5 { // others come, go, and would take what is masked
		prefill(t, e, 2, small(60, 3+i), 0, 60)
		e.Retire(2)
	}
	prefill(t, e, 0, prompt[100:last], 100, 50)
	prefill(t, e, 3, small(768-e.used-21, 4), 0, 64) // to the brim, but for the answer
	s, err := e.Save(0, 0, last)
	require.NoError(t, err, "every cell from the first on is there, in order")
	defer s.Free()
	var blocks []engine.State
	for from := 0; from < last; from += 64 {
		b, err := e.Save(0, from, min(from+64, last))
		require.NoError(t, err)
		defer b.Free()
		blocks = append(blocks, b)
	}
	row = prefill(t, e, 0, prompt[last:], last, 1)
	require.Equal(t, want, greedy(t, e, 0, len(prompt), row, 20), "beside others")

	for _, states := range [][]engine.State{{s}, blocks} {
		e.Reset()
		prefill(t, e, 1, small(77, 9), 0, 77)
		for _, b := range states {
			require.NoError(t, e.Restore(0, b))
		}
		prefill(t, e, 2, small(200, 8), 0, 100)
		row = prefill(t, e, 0, prompt[last:], last, 1)
		require.Equal(t, want, greedy(t, e, 0, len(prompt), row, 20), "restored")
	}
}

func TestWindow_PoolFillsExactly(t *testing.T) {
	e := open(t, func(o *Options) { o.Model, o.Cells = windowModel(t), 256 })
	prefill(t, e, 0, small(200, 1), 0, 50)
	e.Retire(0)
	prefill(t, e, 1, small(56, 1), 0, 56)
	require.ErrorIs(t, e.Decode(&engine.Batch{Tokens: []int32{300}, Pos: []int32{56}, Seq: []int32{1}, Output: []bool{true}}), engine.ErrPoolFull)
}
