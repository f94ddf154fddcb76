package native

import (
	"fmt"
	"math"

	"thoth/internal/gguf"
)

// head makes the score of a pair out of the vector that stands for it, the last
// layers of a cross-encoder: a dense layer with tanh (BERT's pooler, RoBERTa's
// classifier.dense), where there is one, and a projection on its labels. It is a
// few rows, computed here in float64: llama.cpp's own needs a context that pools
// within one batch, and gives decoders' scores behind a softmax only.
type head struct {
	inputs     int
	dense      []float32 // inputs x inputs, a row for each output; nil for none
	denseBias  []float32 // nil for none
	output     []float32 // labels x inputs
	outputBias []float32 // nil for none
	labels     int       // 1, or 2: yes and no
}

// score is the label's logit; of two, the first's less the second's, whose
// logistic function is the first's share of their softmax.
func (h *head) score(v []float32) float64 {
	x := make([]float64, h.inputs)
	for i := range x {
		x[i] = float64(v[i])
	}
	if h.dense != nil {
		y := make([]float64, h.inputs)
		for i := range y {
			y[i] = math.Tanh(row(h.dense, h.denseBias, i, x))
		}
		x = y
	}
	s := row(h.output, h.outputBias, 0, x)
	if h.labels == 2 {
		s -= row(h.output, h.outputBias, 1, x)
	}
	return s
}

// row is one output of a layer.
func row(weight, bias []float32, i int, x []float64) float64 {
	sum := 0.0
	if bias != nil {
		sum = float64(bias[i])
	}
	for k, w := range weight[i*len(x) : (i+1)*len(x)] {
		sum += float64(w) * x[k]
	}
	return sum
}

// Heads: the tensors that make scores, as llama.cpp's files name them.
const (
	headDense  = "cls"
	headOutput = "cls.output"
)

// cannotScore says why a model gives no scores; "" when it does. words says that
// its vocabulary is BERT's.
func cannotScore(o Options, m *modelFile, words bool) string {
	h := m.header
	arch := h.Architecture()
	dense, output := h.Has(headDense+".weight"), h.Has(headOutput+".weight")
	labels := max(h.Len(arch+".classifier.output_labels"), 1)
	switch {
	case !dense && !output:
		return "the model has no classification head: it is no reranker"
	case o.EmbedPooling != "":
		return "THOTH_EMBED_POOLING is set: the model gives vectors instead"
	case m.shards > 1:
		return "the model is split over several files"
	case arch == "qwen3" && (labels != 2 || !output):
		return fmt.Sprintf("its head has %d labels; a reranker of this architecture has two, yes and no", labels)
	case arch == "qwen3" && h.Text("tokenizer.chat_template.rerank") == "":
		return "the model file has no template for pairs (tokenizer.chat_template.rerank)"
	case arch == "qwen3":
		return ""
	case arch != "bert" && arch != "neo-bert" && arch != "jina-bert-v2":
		return fmt.Sprintf("the classification heads of architecture %q are not known here", arch)
	case labels != 1:
		return fmt.Sprintf("its head has %d labels; a reranker has one", labels)
	case !dense || !output:
		// Known of files by llama.cpp's own conversion of BertForSequenceClassification.
		return "the model file lacks a part of the classification head: the dense layer before the classifier (BERT's pooler), without which scores are others than the model's; thoth convert keeps it"
	case arch == "bert" && words && !h.Has("token_types.weight"):
		return "its head is DistilBERT's, which is not known here"
	}
	return ""
}

// hasHead says that a file is a reranker's, whether or not it is whole.
func hasHead(h *gguf.Header) bool {
	return h.Has(headDense+".weight") || h.Has(headOutput+".weight")
}
