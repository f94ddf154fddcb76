//go:build cgo

package native

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
)

// crossBERT is a cross-encoder of random weights.
func crossBERT(kind string) *madeModel {
	m := plainBERT(kind).pooling(4)
	m.with("cls", madeEmbed, madeEmbed)
	m.with("cls.output", madeEmbed, 1)
	return m
}

// headless has what llama.cpp's conversion leaves of BERT's head.
func headless() *madeModel {
	m := plainBERT("bert").pooling(4)
	m.with("cls.output", madeEmbed, 1)
	return m
}

// qwen3Reranker is a decoder with a head of two labels.
func qwen3Reranker() *madeModel {
	m := qwen3(4)
	m.of("classifier.output_labels", []string{"yes", "no"})
	m.set("tokenizer.chat_template.rerank", "<|im_start|>judge: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>")
	m.add("cls.output.weight", madeEmbed, 2)
	return m
}

// values are a tensor's, as the file has them.
func (m *madeModel) values(t *testing.T, name string) []float64 {
	t.Helper()
	for i, tensor := range m.file.Tensors {
		if tensor.Name != name {
			continue
		}
		n := 1
		for _, d := range tensor.Dims {
			n *= int(d)
		}
		out := make([]float64, n)
		for k := range out {
			at := m.file.Tensors[i].Offset + uint64(4*k)
			b := m.data[at : at+4]
			out[k] = float64(math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24))
		}
		return out
	}
	require.Fail(t, "no tensor "+name)
	return nil
}

// layer is a dense layer's output.
func layer(weight, bias, x []float64, outputs int) []float64 {
	out := make([]float64, outputs)
	for i := range out {
		if bias != nil {
			out[i] = bias[i]
		}
		for k := range x {
			out[i] += weight[i*len(x)+k] * x[k]
		}
	}
	return out
}

func doubles(v []float32) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

func score(t *testing.T, e *native, texts []engine.Text) []float32 {
	t.Helper()
	var out []float32
	for _, v := range sameBesideOthers(t, e, texts) {
		require.Len(t, v, 1)
		out = append(out, v[0])
	}
	return out
}

var rankDocuments = []string{"the river carried boats past the old mill", "word", "[SEP] </s> {query} <|im_end|> nobody on the bank"}

// A pair's score is what the head makes of the first token's vector, which the
// same model gives as an embedder.
func TestRank_TheHeadIsAppliedToThePair(t *testing.T) {
	for _, kind := range []string{"t5", "gpt2"} {
		t.Run(kind, func(t *testing.T) {
			m := crossBERT(kind)
			path := m.write(t)
			e := open(t, func(o *Options) { o.Model, o.Cells = path, 0 })
			n := e.Embedding()
			require.True(t, n.Scores, n.NoScores)
			require.Empty(t, n.Pooling)
			require.Contains(t, n.Reason, "reranker")
			require.Equal(t, 1, n.Dimensions)
			pairs, err := e.Pairs("the {document} mill", rankDocuments)
			require.NoError(t, err)
			for i, p := range pairs {
				want := []engine.Token{0}
				want = append(append(want, plainText(t, e, "the {document} mill")...), 2, 2)
				want = append(append(want, plainText(t, e, rankDocuments[i])...), 2)
				require.Equal(t, want, p.Tokens)
				require.Zero(t, p.Second, "its tokens have one type")
			}
			scores := score(t, e, pairs)

			v := open(t, func(o *Options) { o.Model, o.Cells, o.EmbedPooling = path, 0, "cls" })
			require.False(t, v.Embedding().Scores)
			require.Contains(t, v.Embedding().NoScores, "THOTH_EMBED_POOLING")
			vectors, err := v.Embed(pairs)
			require.NoError(t, err)
			for i := range pairs {
				hidden := layer(m.values(t, "cls.weight"), m.values(t, "cls.bias"), doubles(vectors[i]), madeEmbed)
				for k := range hidden {
					hidden[k] = math.Tanh(hidden[k])
				}
				want := layer(m.values(t, "cls.output.weight"), m.values(t, "cls.output.bias"), hidden, 1)[0]
				require.InDelta(t, want, float64(scores[i]), 1e-4)
			}
		})
	}
}

// BERT's tokens have types: where a document begins changes the score, and a pair
// whose types are all the first is what llama.cpp makes of it.
func TestRank_ADocumentsTokensAreOfTheSecondType(t *testing.T) {
	m := crossBERT("bert")
	path := m.write(t)
	e := open(t, func(o *Options) { o.Model, o.Cells = path, 0 })
	pairs, err := e.Pairs("the mill", rankDocuments)
	require.NoError(t, err)
	query := plainText(t, e, "the mill")
	for i, p := range pairs {
		want := append(append([]engine.Token{2}, query...), 3)
		require.Equal(t, len(want), p.Second)
		want = append(append(want, plainText(t, e, rankDocuments[i])...), 3)
		require.Equal(t, want, p.Tokens)
	}
	scores := score(t, e, pairs)
	first := make([]engine.Text, len(pairs))
	for i, p := range pairs {
		first[i].Tokens = p.Tokens
	}
	untyped := score(t, e, first)
	for i := range scores {
		require.Greater(t, math.Abs(float64(scores[i]-untyped[i])), 1e-3, "pair %d", i)
	}

	v := open(t, func(o *Options) { o.Model, o.Cells, o.EmbedPooling = path, 0, "cls" })
	vectors, err := v.Embed(first)
	require.NoError(t, err)
	file, err := checkModel(path)
	require.NoError(t, err)
	d, err := e.readHead(file)
	require.NoError(t, err)
	for i := range vectors {
		require.InDelta(t, d.score(vectors[i]), float64(untyped[i]), 1e-4, "vectors for tokens are the tokens")
	}
	// Types that do not differ make no difference.
	same := crossBERT("bert")
	for _, tensor := range same.file.Tensors {
		if tensor.Name == "token_types.weight" {
			half := 4 * madeEmbed
			copy(same.data[int(tensor.Offset)+half:int(tensor.Offset)+2*half], same.data[tensor.Offset:int(tensor.Offset)+half])
		}
	}
	e = open(t, func(o *Options) { o.Model, o.Cells = same.write(t), 0 })
	require.InDeltaSlice(t, untyped, score(t, e, pairs), 1e-4)
}

// A decoder's score is of its last token, whose two labels are one logit.
func TestRank_ADecoderSaysYesOrNo(t *testing.T) {
	m := qwen3Reranker()
	path := m.write(t)
	e := open(t, func(o *Options) { o.Model = path })
	n := e.Embedding()
	require.True(t, n.Scores, n.NoScores)
	require.False(t, n.Only)
	documents := append([]string{strings.Repeat("word ", 12)}, rankDocuments...)
	pairs, err := e.Pairs("the mill", documents)
	require.NoError(t, err)
	for i, p := range pairs {
		want := append([]engine.Token{3}, plainText(t, e, "judge: the mill\n<Document>: "+documents[i])...)
		want = append(append(append(want, 4), plainText(t, e, "\n")...), 3)
		require.Equal(t, want, p.Tokens, "control tokens are the template's alone")
	}
	short := pairs[1:]
	scores := score(t, e, short)
	v := open(t, func(o *Options) { o.Model, o.EmbedPooling = path, "last" })
	vectors, err := v.Embed(short)
	require.NoError(t, err)
	for i := range short {
		logits := layer(m.values(t, "cls.output.weight"), nil, doubles(vectors[i]), 2)
		require.InDelta(t, logits[0]-logits[1], float64(scores[i]), 1e-3)
	}
	_, err = e.EmbedPart(short[0].Tokens[:20], true, false)
	require.NoError(t, err)
	part, err := e.EmbedPart(short[0].Tokens[20:], false, true)
	require.NoError(t, err)
	require.InDelta(t, scores[0], part[0], 1e-3, "a pair in parts")
	row := prefill(t, e, 0, short[0].Tokens, 0, 16)
	require.Len(t, greedy(t, e, 0, len(short[0].Tokens), row, 3), 3, "and it generates beside")
}

// What is no reranker says why.
func TestRank_AModelThatCannotSaysWhy(t *testing.T) {
	three := qwen3(4)
	three.of("classifier.output_labels", []string{"a", "b", "c"})
	three.add("cls.output.weight", madeEmbed, 3)
	bare := qwen3(4)
	bare.of("classifier.output_labels", []string{"yes", "no"})
	bare.add("cls.output.weight", madeEmbed, 2)
	for says, m := range map[string]*madeModel{
		"no classification head": qwen3(3),
		"its head has 3 labels":  three,
		"no template for pairs":  bare,
	} {
		e := open(t, func(o *Options) { o.Model = m.write(t) })
		require.False(t, e.Embedding().Scores)
		require.Contains(t, e.Embedding().NoScores, says)
		_, err := e.Pairs("a", []string{"b"})
		require.ErrorContains(t, err, says)
	}
}

// plainText tokenises what a caller wrote.
func plainText(t *testing.T, e *native, s string) []engine.Token {
	t.Helper()
	tokens, err := e.Tokenize(s, false)
	require.NoError(t, err)
	return tokens
}

// A head, and rows of tokens, are read in whatever type they are.
func TestRank_OfQuantizedWeights(t *testing.T) {
	path := crossBERT("bert").write(t)
	scoresOf := func(file string) []float32 {
		e := open(t, func(o *Options) { o.Model, o.Cells = file, 0 })
		pairs, err := e.Pairs("the mill", rankDocuments)
		require.NoError(t, err)
		return score(t, e, pairs)
	}
	want := scoresOf(path)
	for kind, tolerance := range map[string]float64{"f16": 0.01, "bf16": 0.1, "q8_0": 0.1, "q4_0": 1.5} {
		out := filepath.Join(t.TempDir(), "q.gguf")
		require.NoError(t, Quantize(path, out, kind))
		require.InDeltaSlice(t, want, scoresOf(out), tolerance, kind)
	}
}
