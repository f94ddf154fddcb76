package gguftest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
)

// Shape of [Window].
const (
	WindowVocabulary = 512
	WindowSize       = 32 // positions that five of the six layers see
	WindowWords      = 260

	windowEmbed, windowHeads, windowKVHeads, windowHead, windowFF, windowLayers = 64, 2, 1, 32, 128, 6
)

// Window gives a model that an engine loads: a small gemma3 of random weights,
// always the same ones, with sliding-window attention in five of its six layers.
// Tokens from [WindowWords] on are words that no text is made of, those below the
// space, bytes and three control tokens. more are further settings, such as a chat
// template.
func Window(more ...Setting) []byte {
	tokens, scores, types := make([]string, WindowVocabulary), make([]float32, WindowVocabulary), make([]int32, WindowVocabulary)
	const control, byteToken, normal = 3, 6, 1
	for i := range tokens {
		switch {
		case i < 3:
			tokens[i], types[i] = []string{"<unk>", "<bos>", "<eos>"}[i], control
		case i < WindowWords-1:
			tokens[i], types[i] = fmt.Sprintf("<0x%02X>", i-3), byteToken
		case i < WindowWords:
			tokens[i], types[i] = "\u2581", normal // as vocabularies of this kind write the space
		default:
			tokens[i], types[i], scores[i] = fmt.Sprintf("w%d", i), normal, float32(-i)
		}
	}
	f := File{Settings: append([]Setting{
		{"general.architecture", "gemma3"}, {"general.name", "window"},
		{"gemma3.context_length", uint32(2048)}, {"gemma3.embedding_length", uint32(windowEmbed)}, {"gemma3.block_count", uint32(windowLayers)},
		{"gemma3.feed_forward_length", uint32(windowFF)}, {"gemma3.attention.head_count", uint32(windowHeads)},
		{"gemma3.attention.head_count_kv", uint32(windowKVHeads)}, {"gemma3.attention.key_length", uint32(windowHead)},
		{"gemma3.attention.value_length", uint32(windowHead)}, {"gemma3.attention.layer_norm_rms_epsilon", float32(1e-6)},
		{"gemma3.attention.sliding_window", uint32(WindowSize)}, {"gemma3.rope.freq_base", float32(1e6)},
		{"tokenizer.ggml.model", "llama"}, {"tokenizer.ggml.tokens", tokens}, {"tokenizer.ggml.scores", scores}, {"tokenizer.ggml.token_type", types},
		{"tokenizer.ggml.bos_token_id", uint32(1)}, {"tokenizer.ggml.eos_token_id", uint32(2)}, {"tokenizer.ggml.unknown_token_id", uint32(0)},
		{"tokenizer.ggml.add_space_prefix", false},
	}, more...)}
	var data []byte
	r := rand.New(rand.NewPCG(1, 2))
	add := func(name string, ones bool, dims ...uint64) {
		f.Tensors = append(f.Tensors, Tensor{name, dims, 0, uint64(len(data))})
		n := uint64(1)
		for _, d := range dims {
			n *= d
		}
		for range n { // every size here is a multiple of the alignment
			v := float32(1)
			if !ones {
				v = float32(r.NormFloat64() * 0.2)
			}
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
	}
	add("token_embd.weight", false, windowEmbed, WindowVocabulary)
	add("output_norm.weight", true, windowEmbed)
	for l := range windowLayers {
		p := fmt.Sprintf("blk.%d.", l)
		for _, name := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"} {
			add(p+name+".weight", true, windowEmbed)
		}
		add(p+"attn_q_norm.weight", true, windowHead)
		add(p+"attn_k_norm.weight", true, windowHead)
		add(p+"attn_q.weight", false, windowEmbed, windowHeads*windowHead)
		add(p+"attn_k.weight", false, windowEmbed, windowKVHeads*windowHead)
		add(p+"attn_v.weight", false, windowEmbed, windowKVHeads*windowHead)
		add(p+"attn_output.weight", false, windowHeads*windowHead, windowEmbed)
		add(p+"ffn_gate.weight", false, windowEmbed, windowFF)
		add(p+"ffn_up.weight", false, windowEmbed, windowFF)
		add(p+"ffn_down.weight", false, windowFF, windowEmbed)
	}
	return append(f.Bytes(), data...)
}
