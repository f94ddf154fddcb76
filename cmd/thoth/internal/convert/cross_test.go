package convert

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/ollama/ollama/fs/ggml"
	"github.com/stretchr/testify/require"

	"thoth/internal/gguf"
)

const crossConfig = `{"architectures":["BertForSequenceClassification"],"hidden_size":8,"intermediate_size":16,"layer_norm_eps":1e-12,"max_position_embeddings":32,
	"num_attention_heads":2,"num_hidden_layers":1,"vocab_size":7,"hidden_act":"gelu"}`

// crossTensors are those of a cross-encoder of one layer.
func crossTensors() map[string][]int {
	return map[string][]int{
		"bert.embeddings.word_embeddings.weight": {7, 8}, "bert.embeddings.position_embeddings.weight": {32, 8}, "bert.embeddings.token_type_embeddings.weight": {2, 8},
		"bert.embeddings.LayerNorm.weight": {8}, "bert.embeddings.LayerNorm.bias": {8}, "bert.encoder.layer.0.attention.self.query.weight": {8, 8},
		"bert.pooler.dense.weight": {8, 8}, "bert.pooler.dense.bias": {8}, "classifier.weight": {1, 8}, "classifier.bias": {1}}
}

// counted are weights of which each has another value.
func counted(t *testing.T, shapes map[string][]int) string {
	b := []byte(safetensors(t, shapes))
	n := 8 + int(binary.LittleEndian.Uint64(b))
	for i := 0; n+4*i < len(b); i++ {
		binary.LittleEndian.PutUint32(b[n+4*i:], math.Float32bits(float32(i)))
	}
	return string(b)
}

func TestFolder_ConvertsACrossEncoder(t *testing.T) {
	weights := counted(t, crossTensors())
	folder := tinyBERT(t, map[string]string{"config.json": crossConfig, "modules.json": "", "1_Pooling/config.json": "", "model.safetensors": weights})
	out := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, Folder(context.Background(), folder, out, Options{Name: "tiny"}))
	h, err := gguf.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, "bert", h.Architecture())
	pooling, _ := h.Number("bert.pooling_type")
	require.EqualValues(t, 4, pooling)
	for _, name := range []string{"token_embd.weight", "position_embd.weight", "token_types.weight", "blk.0.attn_q.weight", "cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias"} {
		require.True(t, h.Has(name), name)
	}
	require.Len(t, h.Tensors, 10, "and nothing else")

	f, err := os.Open(out)
	require.NoError(t, err)
	defer f.Close()
	model, err := ggml.Decode(f, -1)
	require.NoError(t, err)
	tensors := model.Tensors()
	was := map[string]safetensor{}
	n := int(binary.LittleEndian.Uint64([]byte(weights)))
	require.NoError(t, json.Unmarshal([]byte(weights[8:8+n]), &was))
	for name, original := range map[string]string{"cls.bias": "bert.pooler.dense.bias", "cls.output.bias": "classifier.bias", "token_types.weight": "bert.embeddings.token_type_embeddings.weight"} {
		for _, tensor := range tensors.Items() {
			if tensor.Name != name {
				continue
			}
			got := make([]byte, tensor.Size())
			_, err := io.ReadFull(io.NewSectionReader(f, int64(tensors.Offset+tensor.Offset), int64(tensor.Size())), got)
			require.NoError(t, err)
			var at [2]int
			require.NoError(t, json.Unmarshal(was[original].Offsets, &at))
			require.Equal(t, []byte(weights)[8+n+at[0]:8+n+at[1]], got, "%s is %s", name, original)
		}
	}
}

func TestFolder_RefusesHeadsThatAreNoRerankers(t *testing.T) {
	three := crossTensors()
	three["classifier.weight"], three["classifier.bias"] = []int{3, 8}, []int{3}
	headless := crossTensors()
	delete(headless, "bert.pooler.dense.weight")
	for says, change := range map[string]map[string]string{
		"its classifier has the shape [3 8]; a reranker has one label": {"model.safetensors": safetensors(t, three)},
		"its head is not all there":                                    {"model.safetensors": safetensors(t, headless)},
		`its activation is "relu"`:                                     {"model.safetensors": safetensors(t, crossTensors()), "config.json": `{"architectures":["BertForSequenceClassification"],"hidden_act":"relu"}`},
		`unsupported architecture "XLMRobertaForSequenceClassifi`:      {"config.json": `{"architectures":["XLMRobertaForSequenceClassification"]}`},
	} {
		if change["config.json"] == "" {
			change["config.json"] = crossConfig
		}
		out := filepath.Join(t.TempDir(), "m.gguf")
		require.ErrorContains(t, Folder(context.Background(), tinyBERT(t, change), out, Options{}), says)
		require.NoFileExists(t, out)
	}
}
