package native

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/internal/gguf"
	"thoth/internal/gguf/gguftest"
	"thoth/station/engine"
)

// bytewise is a tokeniser that gives a token for each byte, and counts its calls.
func bytewise(calls *[]string) func(string) ([]engine.Token, error) {
	return func(text string) (out []engine.Token, err error) {
		*calls = append(*calls, text)
		for _, c := range []byte(text) {
			out = append(out, engine.Token(c))
		}
		return out, nil
	}
}

// shown writes tokens below 256 as bytes, others as <n>.
func shown(tokens []engine.Token) string {
	var b strings.Builder
	for _, t := range tokens {
		if t < 256 {
			b.WriteByte(byte(t))
		} else {
			b.WriteString(map[engine.Token]string{1000: "<A>", 1001: "<B>", 1002: "<BB>"}[t])
		}
	}
	return b.String()
}

func TestPairLayout_PutsTextsBetweenControlTokens(t *testing.T) {
	template, err := templated("<A>say {query} or\n<BB>{document}<B>", map[string]engine.Token{"<A>": 1000, "<B>": 1001, "<BB>": 1002})
	require.NoError(t, err)
	for _, c := range []struct {
		layout *pairLayout
		want   []string
		second int
	}{
		{separated(1000, 1001, false, true), []string{"<A>q<B>d<B>", "<A>q<B>{query}<B>"}, 3},
		{separated(1000, 1001, true, false), []string{"<A>q<B><B>d<B>", "<A>q<B><B>{query}<B>"}, 0},
		{template, []string{"<A>say q or\n<BB>d<B>", "<A>say q or\n<BB>{query}<B>"}, 0},
	} {
		var calls []string
		pairs, err := c.layout.pairs(bytewise(&calls), "q", []string{"d", "{query}"})
		require.NoError(t, err)
		for i, p := range pairs {
			require.Equal(t, c.want[i], shown(p.Tokens))
			require.Equal(t, c.second, p.Second)
		}
		require.Len(t, calls, 3, "the query is tokenised once: %q", calls)
	}

	around, err := templated("{query}: {document}<A>", map[string]engine.Token{"<A>": 1000})
	require.NoError(t, err)
	var calls []string
	pairs, err := around.pairs(bytewise(&calls), "{document}", []string{"<A>"})
	require.NoError(t, err)
	require.Equal(t, []string{"{document}: <A>"}, calls, "tokens may reach over the marks")
	require.Equal(t, engine.Token('<'), pairs[0].Tokens[12], "what a caller wrote is text")
}

func TestPairLayout_RefusesTemplatesWithoutBothTexts(t *testing.T) {
	for _, text := range []string{"", "{query}", "{document}{document}{query}"} {
		_, err := templated(text, nil)
		require.ErrorContains(t, err, "{query} and {document}")
	}
}

func TestHead_MakesOneNumberOfAVector(t *testing.T) {
	v := []float32{1, -2}
	plain := head{inputs: 2, output: []float32{0.5, 0.25}, labels: 1}
	require.Equal(t, 0.0, plain.score(v))
	plain.outputBias = []float32{-3}
	require.Equal(t, -3.0, plain.score(v))
	deep := head{inputs: 2, dense: []float32{1, 0, 0, 1}, denseBias: []float32{0, 2}, output: []float32{2, 5}, labels: 1}
	require.InDelta(t, 2*math.Tanh(1)+5*math.Tanh(0), deep.score(v), 1e-12)
	two := head{inputs: 2, output: []float32{1, 0, 0, 1}, labels: 2}
	logit := two.score(v)
	require.Equal(t, 3.0, logit)
	require.InDelta(t, math.Exp(1)/(math.Exp(1)+math.Exp(-2)), 1/(1+math.Exp(-logit)), 1e-12, "its logistic function is the first label's share")
}

func TestCannotScore_SaysWhy(t *testing.T) {
	model := func(arch string, tensors string, more ...gguftest.Setting) *modelFile {
		f := gguftest.File{Settings: append([]gguftest.Setting{gguftest.Set("general.architecture", arch)}, more...), Data: 4}
		for _, name := range strings.Fields(tensors) {
			f.Tensors = append(f.Tensors, gguftest.Tensor{Name: name, Dims: []uint64{1}})
		}
		h, err := gguf.Read(strings.NewReader(string(f.Bytes())), int64(len(f.Bytes())))
		require.NoError(t, err)
		return &modelFile{header: h, shards: 1}
	}
	const whole = "cls.weight cls.bias cls.output.weight cls.output.bias token_types.weight"
	labels := func(arch string, l ...string) gguftest.Setting {
		return gguftest.Set(arch+".classifier.output_labels", l)
	}
	template := gguftest.Set("tokenizer.chat_template.rerank", "{query}{document}")
	for _, c := range []struct {
		m     *modelFile
		words bool
		says  string
	}{
		{model("bert", whole), true, ""},
		{model("bert", whole, labels("bert", "x")), false, ""},
		{model("bert", "cls.weight cls.output.weight"), false, ""},
		{model("bert", "cls.weight cls.output.weight"), true, "DistilBERT"},
		{model("bert", "token_embd.weight"), true, "no classification head"},
		{model("bert", "cls.output.weight"), false, "lacks a part"},
		{model("jina-bert-v2", "cls.weight cls.bias"), false, "lacks a part"},
		{model("bert", whole, labels("bert", "x", "y", "z")), true, "3 labels"},
		{model("neo-bert", whole), true, ""},
		{model("llama", "cls.output.weight"), false, `architecture "llama"`},
		{model("qwen3", "cls.output.weight", template, labels("qwen3", "yes", "no")), false, ""},
		{model("qwen3", "cls.output.weight", template), false, "1 labels"},
		{model("qwen3", "cls.output.weight", labels("qwen3", "yes", "no")), false, "no template"},
	} {
		why := cannotScore(Options{}, c.m, c.words)
		if c.says == "" {
			require.Empty(t, why)
			require.Contains(t, cannotScore(Options{EmbedPooling: "cls"}, c.m, c.words), "THOTH_EMBED_POOLING")
			c.m.shards = 2
			require.Contains(t, cannotScore(Options{}, c.m, c.words), "several files")
		} else {
			require.Contains(t, why, c.says)
		}
	}
}
