//go:build cgo

package native

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/internal/gguf/gguftest"
)

// Sizes of the made-up models.
const (
	madeEmbed, madeHeads, madeFF, madeLayers, madeContext = 64, 4, 128, 2, 96
	madeExperts                                           = 4
)

// madeModel is a small model of random weights under construction.
type madeModel struct {
	file gguftest.File
	data []byte
	rand *rand.Rand
	arch string
	size int // of the vocabulary

	layers int
}

func newMadeModel(arch string) *madeModel {
	m := &madeModel{rand: rand.New(rand.NewPCG(1, 2)), arch: arch, layers: madeLayers}
	if arch == "gemma-embedding" {
		m.layers = 6 // five that look through a window, and one that sees all
	}
	m.set("general.architecture", arch)
	m.set("general.name", arch)
	m.of("context_length", uint32(madeContext))
	m.of("embedding_length", uint32(madeEmbed))
	m.of("block_count", uint32(m.layers))
	m.of("feed_forward_length", uint32(madeFF))
	m.of("attention.head_count", uint32(madeHeads))
	m.of("attention.layer_norm_epsilon", float32(1e-6))
	m.of("attention.layer_norm_rms_epsilon", float32(1e-6))
	return m
}

// set adds a setting; of adds one of the architecture's.
func (m *madeModel) set(key string, v any) {
	m.file.Settings = append(m.file.Settings, gguftest.Set(key, v))
}
func (m *madeModel) of(key string, v any) { m.set(m.arch+"."+key, v) }

// add adds tensors of random numbers.
func (m *madeModel) add(name string, dims ...uint64) {
	n := uint64(1)
	for _, d := range dims {
		n *= d
	}
	mean, spread := 0.0, 0.2
	if strings.HasSuffix(name, "norm.weight") || strings.HasSuffix(name, "norm_2.weight") {
		mean = 1
	}
	m.file.Tensors = append(m.file.Tensors, gguftest.Tensor{Name: name, Dims: dims, Offset: uint64(len(m.data))})
	for range n {
		m.data = binary.LittleEndian.AppendUint32(m.data, math.Float32bits(float32(mean+m.rand.NormFloat64()*spread)))
	}
	m.data = append(m.data, make([]byte, -len(m.data)&31)...)
}

// with adds a weight of these dimensions and a bias of the last one.
func (m *madeModel) with(name string, dims ...uint64) {
	m.add(name+".weight", dims...)
	m.add(name+".bias", dims[len(dims)-1])
}

func (m *madeModel) write(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), m.arch+".gguf")
	require.NoError(t, os.WriteFile(path, append(m.file.Bytes(), m.data...), 0o644))
	return path
}

const madeWords = "the river carried boats past old mill and nobody on bank said a word"

// vocabulary adds one of a kind: bert (WordPiece), t5 (unigram, of XLM-RoBERTa),
// llama (SentencePiece) or gpt2 (byte pairs).
func (m *madeModel) vocabulary(kind string) {
	var tokens []string
	var types []int32
	add := func(kind int32, all ...string) {
		for _, s := range all {
			tokens, types = append(tokens, s), append(types, kind)
		}
	}
	words := strings.Fields(madeWords)
	special := map[string]uint32{}
	switch kind {
	case "bert":
		add(3, "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
		for _, w := range words {
			add(1, "▁"+w)
		}
		for c := 'b'; c <= 'z'; c++ {
			add(1, "▁"+string(c), string(c))
		}
		special = map[string]uint32{"padding_token_id": 0, "unknown_token_id": 1, "bos_token_id": 2, "cls_token_id": 2, "seperator_token_id": 3, "mask_token_id": 4}
	case "t5":
		add(3, "<s>", "<pad>", "</s>")
		add(2, "<unk>")
		add(1, "▁")
		for _, w := range words {
			add(1, "▁"+w)
		}
		for c := 'b'; c <= 'z'; c++ {
			add(1, string(c))
		}
		special = map[string]uint32{"bos_token_id": 0, "padding_token_id": 1, "eos_token_id": 2, "seperator_token_id": 2, "unknown_token_id": 3}
		m.set("tokenizer.ggml.add_bos_token", true)
		m.set("tokenizer.ggml.add_eos_token", true)
	case "llama":
		add(3, "<unk>", "<s>", "</s>")
		for b := range 256 {
			add(6, fmt.Sprintf("<0x%02X>", b))
		}
		for _, w := range words {
			add(1, "▁"+w)
		}
		special = map[string]uint32{"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
		m.set("tokenizer.ggml.add_eos_token", true)
	case "gpt2":
		add(3, "<s>", "<pad>", "</s>", "<|im_start|>", "<|im_end|>")
		other := rune(256)
		for b := range 256 {
			if b > 32 && b < 127 || b > 160 && b != 173 {
				add(1, string(rune(b)))
			} else {
				add(1, string(other))
				other++
			}
		}
		add(1, "th", "Ġth", "Ġthe")
		m.set("tokenizer.ggml.merges", []string{"t h", "Ġ th", "Ġth e"})
		special = map[string]uint32{"bos_token_id": 0, "padding_token_id": 1, "eos_token_id": 2, "seperator_token_id": 2}
	}
	for len(tokens)%8 != 0 {
		add(5, fmt.Sprintf("<unused%d>", len(tokens)))
	}
	scores := make([]float32, len(tokens))
	for i := range scores {
		scores[i] = -float32(i) / 100
	}
	m.set("tokenizer.ggml.model", kind)
	m.set("tokenizer.ggml.tokens", tokens)
	m.set("tokenizer.ggml.token_type", types)
	m.set("tokenizer.ggml.scores", scores)
	for name, id := range special {
		m.set("tokenizer.ggml."+name, id)
	}
	m.size = len(tokens)
}

// bert adds what the family of BERT has in common; each kind its own layers.
func (m *madeModel) bert(layer func(p string)) {
	m.of("attention.causal", false)
	m.add("token_embd.weight", madeEmbed, uint64(m.size))
	m.with("token_embd_norm", madeEmbed)
	for l := range m.layers {
		p := fmt.Sprintf("blk.%d.", l)
		m.with(p+"attn_output_norm", madeEmbed)
		m.with(p+"layer_output_norm", madeEmbed)
		layer(p)
	}
}

// types adds the token types of BERT.
func (m *madeModel) types(n int) {
	m.set("tokenizer.ggml.token_type_count", uint32(n))
	m.add("token_types.weight", madeEmbed, uint64(n))
}

func (m *madeModel) pooling(n int) *madeModel {
	m.of("pooling_type", uint32(n))
	return m
}

// roberta adds the vocabulary of RoBERTa, whose texts stand between <s> and </s>.
func (m *madeModel) roberta() {
	m.vocabulary("gpt2")
	m.set("tokenizer.ggml.pre", "roberta-bpe")
	m.set("tokenizer.ggml.add_bos_token", true)
	m.set("tokenizer.ggml.add_eos_token", true)
}

// plainBERT is the architecture "bert" with a vocabulary of a kind.
func plainBERT(kind string) *madeModel {
	m := newMadeModel("bert")
	switch kind {
	case "bert":
		m.vocabulary(kind)
		m.types(2)
	case "gpt2":
		m.roberta()
		m.types(1)
	default:
		m.vocabulary(kind)
		m.types(1)
	}
	m.add("position_embd.weight", madeEmbed, madeContext)
	m.bert(func(p string) {
		for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			m.with(p+name, madeEmbed, madeEmbed)
		}
		m.with(p+"ffn_up", madeEmbed, madeFF)
		m.with(p+"ffn_down", madeFF, madeEmbed)
	})
	return m
}

// madeEncoders are all architectures of encoders that the engine has.
var madeEncoders = map[string]func() *madeModel{
	"bert, WordPiece":  func() *madeModel { return plainBERT("bert").pooling(1) },
	"bert, unigram":    func() *madeModel { return plainBERT("t5").pooling(2) },
	"bert, byte pairs": func() *madeModel { return plainBERT("gpt2").pooling(2) },
	"nomic-bert": func() *madeModel {
		m := newMadeModel("nomic-bert")
		m.vocabulary("bert")
		m.types(2)
		m.bert(func(p string) {
			m.add(p+"attn_qkv.weight", madeEmbed, 3*madeEmbed)
			m.add(p+"attn_output.weight", madeEmbed, madeEmbed)
			for _, name := range []string{"ffn_up", "ffn_gate"} {
				m.add(p+name+".weight", madeEmbed, madeFF)
			}
			m.add(p+"ffn_down.weight", madeFF, madeEmbed)
		})
		return m.pooling(1)
	},
	"nomic-bert-moe": func() *madeModel {
		m := newMadeModel("nomic-bert-moe")
		m.vocabulary("t5")
		m.types(1)
		m.of("moe_every_n_layers", uint32(2))
		m.of("expert_count", uint32(madeExperts))
		m.of("expert_used_count", uint32(2))
		m.bert(func(p string) {
			m.with(p+"attn_qkv", madeEmbed, 3*madeEmbed)
			m.with(p+"attn_output", madeEmbed, madeEmbed)
			if p == "blk.1." {
				m.add(p+"ffn_gate_inp.weight", madeEmbed, madeExperts)
				m.add(p+"ffn_up_exps.weight", madeEmbed, madeFF, madeExperts)
				m.add(p+"ffn_down_exps.weight", madeFF, madeEmbed, madeExperts)
				return
			}
			m.with(p+"ffn_up", madeEmbed, madeFF)
			m.with(p+"ffn_down", madeFF, madeEmbed)
		})
		return m.pooling(1)
	},
	"jina-bert-v2": func() *madeModel {
		m := newMadeModel("jina-bert-v2")
		m.roberta()
		m.types(2)
		m.bert(func(p string) {
			for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
				m.with(p+name, madeEmbed, madeEmbed)
			}
			for _, name := range []string{"ffn_up", "ffn_gate"} {
				m.add(p+name+".weight", madeEmbed, madeFF)
			}
			m.with(p+"ffn_down", madeFF, madeEmbed)
		})
		return m.pooling(1)
	},
	"jina-bert-v3": func() *madeModel {
		m := newMadeModel("jina-bert-v3")
		m.vocabulary("t5")
		m.types(1)
		m.bert(func(p string) {
			m.with(p+"attn_qkv", madeEmbed, 3*madeEmbed)
			m.with(p+"attn_output", madeEmbed, madeEmbed)
			m.with(p+"ffn_up", madeEmbed, madeFF)
			m.with(p+"ffn_down", madeFF, madeEmbed)
		})
		return m.pooling(1)
	},
	"neo-bert": func() *madeModel {
		m := newMadeModel("neo-bert")
		m.vocabulary("bert")
		m.of("attention.causal", false)
		m.add("token_embd.weight", madeEmbed, uint64(m.size))
		m.add("enc.output_norm.weight", madeEmbed)
		for l := range m.layers {
			p := fmt.Sprintf("blk.%d.", l)
			m.add(p+"attn_norm.weight", madeEmbed)
			m.add(p+"attn_qkv.weight", madeEmbed, 3*madeEmbed)
			m.add(p+"attn_output.weight", madeEmbed, madeEmbed)
			m.add(p+"ffn_norm.weight", madeEmbed)
			m.add(p+"ffn_up.weight", madeEmbed, 2*madeFF)
			m.add(p+"ffn_down.weight", madeFF, madeEmbed)
		}
		return m.pooling(2)
	},
	"gemma-embedding": func() *madeModel {
		m := newMadeModel("gemma-embedding")
		m.vocabulary("llama")
		m.of("attention.sliding_window", uint32(8))
		m.decoder(true)
		return m.pooling(1)
	},
}

// decoder adds the tensors of Qwen 3, or of Gemma 3 with its norms behind.
func (m *madeModel) decoder(behind bool) {
	const head = madeEmbed / madeHeads
	m.of("attention.key_length", uint32(head))
	m.of("attention.value_length", uint32(head))
	m.add("token_embd.weight", madeEmbed, uint64(m.size))
	m.add("output_norm.weight", madeEmbed)
	for l := range m.layers {
		p := fmt.Sprintf("blk.%d.", l)
		m.add(p+"attn_norm.weight", madeEmbed)
		for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			m.add(p+name+".weight", madeEmbed, madeEmbed)
		}
		m.add(p+"attn_q_norm.weight", head)
		m.add(p+"attn_k_norm.weight", head)
		m.add(p+"ffn_norm.weight", madeEmbed)
		for _, name := range []string{"ffn_up", "ffn_gate"} {
			m.add(p+name+".weight", madeEmbed, madeFF)
		}
		m.add(p+"ffn_down.weight", madeFF, madeEmbed)
		if behind {
			m.add(p+"post_attention_norm.weight", madeEmbed)
			m.add(p+"post_ffw_norm.weight", madeEmbed)
		}
	}
}

// qwen3 is a decoder with a pooling of its own.
func qwen3(pooling int) *madeModel {
	m := newMadeModel("qwen3")
	m.vocabulary("gpt2")
	m.set("tokenizer.ggml.pre", "qwen2")
	m.set("tokenizer.ggml.add_bos_token", false)
	m.set("tokenizer.ggml.add_eos_token", pooling == 3)
	m.decoder(false)
	return m.pooling(pooling)
}
