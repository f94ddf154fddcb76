//go:build cgo

package native

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/internal/gguf/gguftest"
	"thoth/station/engine"
)

// cos is the cosine of two vectors.
func cos(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}

// texts are three of different lengths, with what stands around them.
func texts(t *testing.T, e *native) (out []engine.Text) {
	t.Helper()
	m := e.Embedding()
	for _, s := range []string{"the river carried boats past the old mill", "word", "nobody on the bank said a word, and the boats carried mill and river"} {
		tokens := append(append(append([]engine.Token{}, m.Prefix...), text(t, e, s)...), m.Suffix...)
		require.LessOrEqual(t, len(tokens), m.MaxTokens)
		out = append(out, engine.Text{Tokens: tokens})
	}
	return out
}

// sameBesideOthers holds that a text's vector is finite, and the same alone and in
// a batch.
func sameBesideOthers(t *testing.T, e *native, all []engine.Text) [][]float32 {
	t.Helper()
	together, err := e.Embed(all)
	require.NoError(t, err)
	for i, one := range all {
		for _, x := range together[i] {
			require.False(t, math.IsNaN(float64(x)) || math.IsInf(float64(x), 0))
		}
		alone, err := e.Embed([]engine.Text{one})
		require.NoError(t, err)
		require.InDeltaSlice(t, together[i], alone[0], 1e-3, "text %d", i)
	}
	return together
}

// Every architecture of encoders loads without KV, and gives vectors and nothing
// else.
func TestEncoder_EachArchitectureGivesVectors(t *testing.T) {
	for name, arch := range encoders {
		require.True(t, arch)
		found := false
		for made := range madeEncoders {
			found = found || strings.HasPrefix(made, name)
		}
		require.True(t, found, "no model of %s is made", name)
	}
	for name, make := range madeEncoders {
		t.Run(name, func(t *testing.T) {
			e := open(t, func(o *Options) { o.Model, o.Cells = make().write(t), 0 })
			m := e.Embedding()
			require.True(t, m.Only)
			require.NotEmpty(t, m.Pooling)
			require.Equal(t, madeEmbed, m.Dimensions)
			require.Equal(t, madeContext, m.MaxTokens)
			require.False(t, m.Scores)
			require.Contains(t, m.NoScores, "no classification head")
			i := e.Info()
			require.Zero(t, i.Cells)
			require.Zero(t, i.KVBytesToken)
			require.False(t, i.KVCut)
			require.NotEmpty(t, m.Prefix, "all of them want something before a text")
			require.NotEmpty(t, m.Suffix, "and behind it")
			all := texts(t, e)
			vectors := sameBesideOthers(t, e, all)
			require.Less(t, cos(vectors[0], vectors[2]), 0.9999, "other texts have other vectors")
			turned := engine.Text{Tokens: append([]engine.Token{}, all[0].Tokens...)}
			turned.Tokens[2], turned.Tokens[3] = turned.Tokens[3], turned.Tokens[2]
			other, err := e.Embed([]engine.Text{turned})
			require.NoError(t, err)
			require.Less(t, cos(vectors[0], other[0]), 0.999999, "and so has the same in another order")
			whole := engine.Text{Tokens: filled(all[0].Tokens, m.MaxTokens)}
			_, err = e.Embed([]engine.Text{whole})
			require.NoError(t, err, "a text as long as the model takes")
		})
	}
}

// filled repeats tokens up to n.
func filled(tokens []engine.Token, n int) (out []engine.Token) {
	for len(out) < n {
		out = append(out, tokens[len(out)%len(tokens)])
	}
	return out
}

// A decoder's pooling is its file's: the last token's vector, or none.
func TestDecoder_PoolsAsItsFileSays(t *testing.T) {
	e := open(t, func(o *Options) { o.Model = qwen3(3).write(t) })
	m := e.Embedding()
	require.Equal(t, "last", m.Pooling)
	require.False(t, m.Only)
	require.True(t, m.Parts)
	require.Empty(t, m.Prefix)
	require.Len(t, m.Suffix, 1, "the last token is one that ends a text")
	require.Positive(t, e.Info().Cells)
	all := texts(t, e)
	vectors := sameBesideOthers(t, e, all)
	_, err := e.EmbedPart(all[0].Tokens[:5], true, false)
	require.NoError(t, err)
	parts, err := e.EmbedPart(all[0].Tokens[5:], false, true)
	require.NoError(t, err)
	require.InDeltaSlice(t, vectors[0], parts, 1e-3, "a text in parts has the vector it has whole")
	row := prefill(t, e, 0, all[0].Tokens, 0, 16)
	require.Len(t, greedy(t, e, 0, len(all[0].Tokens), row, 3), 3, "and it generates beside")

	e = open(t, func(o *Options) { o.Model = qwen3(0).write(t) })
	require.Empty(t, e.Embedding().Pooling)
	require.Contains(t, e.Embedding().Reason, "THOTH_EMBED_POOLING")
	_, err = e.Embed(all[:1])
	require.ErrorContains(t, err, "not pooled")
	row = prefill(t, e, 0, all[0].Tokens, 0, 16)
	require.Len(t, greedy(t, e, 0, len(all[0].Tokens), row, 3), 3)

	e = open(t, func(o *Options) { o.Model, o.EmbedPooling = qwen3(0).write(t), "mean" })
	sameBesideOthers(t, e, all)
}

// What cannot be served is refused before it is loaded, with a sentence.
func TestLoad_RefusesKindsByName(t *testing.T) {
	other := func(arch string) *madeModel { m := newMadeModel(arch); m.vocabulary("bert"); return m }
	flat := newMadeModel("gemma-embedding")
	flat.file.Settings = slices.DeleteFunc(flat.file.Settings, func(s gguftest.Setting) bool { return s.Key == "gemma-embedding.block_count" })
	flat.of("block_count", uint32(5))
	both := qwen3(1)
	both.of("attention.causal", false)
	for says, m := range map[string]*madeModel{
		"is a diffusion model (llada)":                                            other("llada"),
		"whose encoder this engine does not serve":                                other("t5encoder"),
		"has 5 layers; llama.cpp needs 6":                                         flat,
		"qwen3.attention.causal is false":                                         both,
		`has architecture "modern-bert", which this engine does not know`:         other("modern-bert"),
		"It gives no vectors: the model file says that its token vectors are not": plainBERT("bert").pooling(0),
		"lacks a part of the classification head":                                 headless(),
	} {
		_, err := Load(context.Background(), Options{Model: m.write(t), LibraryDir: libraryDir(t), Threads: 1, Poll: -1, Backend: BackendCPU}, nil)
		var le *engine.LoadError
		require.ErrorAs(t, err, &le, says)
		require.ErrorContains(t, err, says)
	}
}
