//go:build e2e

package e2e

import (
	bin "encoding/binary"
	"encoding/json"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ollama/ollama/fs/ggml"
	"github.com/stretchr/testify/require"
)

// crossEncoder makes the model of testdata/golden_rerank.py: the folder of a
// BertForSequenceClassification with the weights of the embedding model and a
// made-up head, as thoth convert takes it. It gives the GGUF.
func crossEncoder(t *testing.T) string {
	t.Helper()
	file := os.Getenv("THOTH_TEST_EMBED_MODEL")
	require.NotEmpty(t, file, "THOTH_TEST_EMBED_MODEL must name the converted embedding model: run make test")
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	model, err := ggml.Decode(f, -1)
	require.NoError(t, err)
	kv := model.KV()
	width := int(kv.EmbeddingLength())

	folder := filepath.Join(t.TempDir(), "cross-encoder")
	require.NoError(t, os.Mkdir(folder, 0o755))
	write := func(name string, v any) {
		b, ok := v.([]byte)
		if !ok {
			var err error
			b, err = json.Marshal(v)
			require.NoError(t, err)
		}
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), b, 0o644))
	}
	tokens := kv.Strings("tokenizer.ggml.tokens")
	vocab := map[string]int{}
	var added []obj
	for id, token := range tokens {
		word, starts := strings.CutPrefix(token, "▁")
		switch {
		case slices.Contains([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, token):
			added = append(added, obj{"id": id, "content": token, "special": true})
		case !starts && !(strings.HasPrefix(token, "[") && strings.HasSuffix(token, "]")):
			word = "##" + token
		}
		vocab[word] = id
	}
	require.Equal(t, len(tokens), len(vocab))
	write("tokenizer.json", obj{"added_tokens": added, "normalizer": obj{"type": "BertNormalizer", "lowercase": true},
		"model": obj{"type": "WordPiece", "vocab": vocab}})
	write("tokenizer_config.json", obj{"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]"})
	write("config.json", obj{"architectures": []string{"BertForSequenceClassification"}, "hidden_size": width, "hidden_act": "gelu",
		"intermediate_size": kv.Uint("feed_forward_length"), "layer_norm_eps": 1e-12, "max_position_embeddings": kv.Uint("context_length"),
		"num_attention_heads": kv.Uint("attention.head_count"), "num_hidden_layers": kv.Uint("block_count"), "vocab_size": len(tokens)})

	header, data := obj{}, []byte{}
	add := func(name, kind string, shape []int, raw []byte) {
		header[name] = obj{"dtype": kind, "shape": shape, "data_offsets": []int{len(data), len(data) + len(raw)}}
		data = append(data, raw...)
	}
	original := strings.NewReplacer("token_embd_norm", "embeddings.LayerNorm", "token_embd", "embeddings.word_embeddings",
		"token_types", "embeddings.token_type_embeddings", "position_embd", "embeddings.position_embeddings", "blk.", "encoder.layer.",
		"attn_output_norm", "attention.output.LayerNorm", "attn_output", "attention.output.dense", "attn_q", "attention.self.query", "attn_k", "attention.self.key",
		"attn_v", "attention.self.value", "ffn_up", "intermediate.dense", "ffn_down", "output.dense", "layer_output_norm", "output.LayerNorm")
	tensors := model.Tensors()
	for _, tensor := range tensors.Items() {
		var shape []int
		for _, n := range tensor.Shape {
			shape = append([]int{int(n)}, shape...)
		}
		raw := make([]byte, tensor.Size())
		_, err := io.ReadFull(io.NewSectionReader(f, int64(tensors.Offset+tensor.Offset), int64(len(raw))), raw)
		require.NoError(t, err)
		add("bert."+original.Replace(tensor.Name), map[uint32]string{0: "F32", 1: "F16"}[tensor.Kind], shape, raw)
	}
	add("bert.pooler.dense.weight", "F32", []int{width, width}, madeUp(width*width, 1, 0.25))
	add("bert.pooler.dense.bias", "F32", []int{width}, madeUp(width, 2, 0.1))
	add("classifier.weight", "F32", []int{1, width}, madeUp(width, 3, 0.5))
	add("classifier.bias", "F32", []int{1}, madeUp(1, 4, 0.5))
	head, err := json.Marshal(header)
	require.NoError(t, err)
	write("model.safetensors", append(append(bin.LittleEndian.AppendUint64(nil, uint64(len(head))), head...), data...))

	out := filepath.Join(t.TempDir(), "cross-encoder.gguf")
	said, err := exec.Command(binary("thoth"), "convert", folder, out).CombinedOutput()
	require.NoError(t, err, "%s", said)
	return out
}

// madeUp are the numbers of golden_rerank.py's function of this name.
func madeUp(n int, seed uint64, scale float64) []byte {
	var raw []byte
	for i := range uint64(n) {
		h := (i + seed) * 2654435761 % (1 << 32)
		raw = bin.LittleEndian.AppendUint32(raw, math.Float32bits(float32((float64(h)/(1<<31)-1)*scale)))
	}
	return raw
}
