//go:build cgo

package native

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/internal/gguf/gguftest"
	"thoth/station/engine"
)

// recurrentModel writes a model of random weights with four layers: mamba's, or
// jamba's, where every other layer is attention.
func recurrentModel(t testing.TB, arch string) string {
	const embed, inner, conv, state, rank, ff, layers, vocabulary = 64, 128, 4, 16, 8, 128, 4, 512
	tokens, scores, types := make([]string, vocabulary), make([]float32, vocabulary), make([]int32, vocabulary)
	for i := range tokens {
		tokens[i], types[i] = fmt.Sprintf("w%d", i), 1
		if i < 3 {
			types[i] = 3
		} else if i < 259 {
			tokens[i], types[i] = fmt.Sprintf("<0x%02X>", i-3), 6
		}
	}
	attention := func(l int) bool { return arch == "jamba" && l%2 == 1 }
	heads := make([]int32, layers)
	for l := range heads {
		if attention(l) {
			heads[l] = 2
		}
	}
	set := gguftest.Set
	f := gguftest.File{Settings: []gguftest.Setting{
		set("general.architecture", arch), set("general.name", arch),
		set(arch+".context_length", uint32(1024)), set(arch+".embedding_length", uint32(embed)), set(arch+".block_count", uint32(layers)),
		set(arch+".feed_forward_length", uint32(ff)), set(arch+".attention.head_count", uint32(2)), set(arch+".attention.head_count_kv", heads),
		set(arch+".attention.layer_norm_rms_epsilon", float32(1e-6)),
		set(arch+".ssm.conv_kernel", uint32(conv)), set(arch+".ssm.inner_size", uint32(inner)), set(arch+".ssm.state_size", uint32(state)),
		set(arch+".ssm.time_step_rank", uint32(rank)), set(arch+".vocab_size", uint32(vocabulary)),
		set("tokenizer.ggml.model", "llama"), set("tokenizer.ggml.tokens", tokens), set("tokenizer.ggml.scores", scores), set("tokenizer.ggml.token_type", types),
		set("tokenizer.ggml.bos_token_id", uint32(1)), set("tokenizer.ggml.eos_token_id", uint32(2)), set("tokenizer.ggml.unknown_token_id", uint32(0)),
	}}
	var data []byte
	r := rand.New(rand.NewPCG(1, 2))
	add := func(name string, dims ...uint64) {
		f.Tensors = append(f.Tensors, gguftest.Tensor{Name: name, Dims: dims, Offset: uint64(len(data))})
		n := uint64(1)
		for _, d := range dims {
			n *= d
		}
		for range n { // every size here is a multiple of the alignment
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(r.NormFloat64()*0.2)))
		}
	}
	add("token_embd.weight", embed, vocabulary)
	add("output_norm.weight", embed)
	for l := range layers {
		p := fmt.Sprintf("blk.%d.", l)
		add(p+"attn_norm.weight", embed)
		if attention(l) {
			for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
				add(p+name+".weight", embed, embed)
			}
		} else {
			add(p+"ssm_in.weight", embed, 2*inner)
			add(p+"ssm_conv1d.weight", conv, inner)
			add(p+"ssm_conv1d.bias", inner)
			add(p+"ssm_x.weight", inner, rank+2*state)
			add(p+"ssm_dt.weight", rank, inner)
			add(p+"ssm_dt.bias", inner)
			add(p+"ssm_a", state, inner)
			add(p+"ssm_d", inner)
			add(p+"ssm_out.weight", inner, embed)
		}
		if arch == "jamba" {
			if !attention(l) {
				add(p+"ssm_dt_norm.weight", rank)
				add(p+"ssm_b_norm.weight", state)
				add(p+"ssm_c_norm.weight", state)
			}
			add(p+"ffn_norm.weight", embed)
			add(p+"ffn_gate.weight", embed, ff)
			add(p+"ffn_up.weight", embed, ff)
			add(p+"ffn_down.weight", ff, embed)
		}
	}
	path := filepath.Join(t.TempDir(), arch+".gguf")
	require.NoError(t, os.WriteFile(path, append(f.Bytes(), data...), 0o644))
	return path
}

// What a recurrent layer keeps has no positions: it is not cut and not moved in
// blocks, and the engine says why.
func TestRecurrent_IsNotMovedInBlocks(t *testing.T) {
	for arch, why := range map[string]string{"mamba": "recurrent model", "jamba": "hybrid model"} {
		t.Run(arch, func(t *testing.T) {
			e := open(t, func(o *Options) { o.Model, o.Sequences = recurrentModel(t, arch), 4 })
			require.False(t, e.info.KVCut)
			require.Contains(t, e.info.KVCutReason, why)
			require.Empty(t, e.info.KVRows)
			require.Contains(t, e.info.KVRowsReason, why)

			prompt := small(40, 1)
			row := prefill(t, e, 0, prompt, 0, 16)
			want := greedy(t, e, 0, len(prompt), row, 8)
			b := engine.Piece{Data: slab(t, 4096), Rows: 16, Take: 16}
			require.ErrorContains(t, e.Export(0, 0, []engine.Piece{b}), why)
			require.ErrorContains(t, e.Import(1, 0, []engine.Piece{b}), why)
			e.Retire(0)
			e.Reset()
			row = prefill(t, e, 1, prompt, 0, 16)
			require.Equal(t, want, greedy(t, e, 1, len(prompt), row, 8), "and serves")
		})
	}
}
