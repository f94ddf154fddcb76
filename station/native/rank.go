package native

// #include "embed.h"
import "C"

import (
	"fmt"
	"os"
	"unsafe"

	"thoth/internal/gguf"
	"thoth/station/engine"
)

// ranker is what a model needs to score pairs.
type ranker struct {
	layout *pairLayout
	head   *head
}

// makeRanker gives the model its ranker, or notes why it has none.
func (e *native) makeRanker(o Options, model *modelFile) error {
	m := &e.embedding
	if m.NoScores = cannotScore(o, model, e.vocab.words != nil); m.NoScores != "" {
		return nil
	}
	r := &ranker{}
	var err error
	if r.layout, err = e.pairLayout(model.header); err != nil {
		m.NoScores = err.Error()
		return nil
	}
	if r.head, err = e.readHead(model); err != nil {
		return loadError(engine.LoadEngineFailed, "the classification head of %s cannot be read: %v", o.Model, err)
	}
	e.ranker = r
	m.Scores, m.Dimensions = true, 1
	return nil
}

func (e *native) pairLayout(h *gguf.Header) (*pairLayout, error) {
	if text := C.station_rerank_template(e.c); text != nil {
		control := map[string]engine.Token{}
		for t := range e.info.Vocabulary {
			if e.vocab.control[t/64]&(1<<(t%64)) != 0 && len(e.vocab.piece(t)) > 0 {
				control[string(e.vocab.piece(t))] = engine.Token(t)
			}
		}
		return templated(C.GoString(text), control)
	}
	first, last := e.info.BOS, engine.Token(C.station_vocab_separator(e.c))
	if first < 0 || last < 0 {
		return nil, fmt.Errorf("its vocabulary has no tokens that begin a pair and part it")
	}
	words := e.vocab.words != nil
	types, _ := h.Number("tokenizer.ggml.token_type_count")
	return separated(first, last, !words, words && types > 1 && h.Has("token_types.weight")), nil
}

// readHead reads the head out of the file: the engine may hold it on a device, or
// in an order of its kernels' own.
func (e *native) readHead(model *modelFile) (*head, error) {
	h := model.header
	d := &head{inputs: e.info.Embedding, labels: max(h.Len(h.Architecture()+".classifier.output_labels"), 1)}
	f, err := os.Open(model.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for _, part := range []struct {
		into *[]float32
		name string
		n    int
	}{
		{&d.dense, headDense + ".weight", d.inputs * d.inputs}, {&d.denseBias, headDense + ".bias", d.inputs},
		{&d.output, headOutput + ".weight", d.labels * d.inputs}, {&d.outputBias, headOutput + ".bias", d.labels},
	} {
		if *part.into, err = readFloats(f, h, part.name, part.n); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return d, nil
}

// readFloats reads a tensor of n values; nil when there is none of that name.
func readFloats(f *os.File, h *gguf.Header, name string, n int) ([]float32, error) {
	for _, t := range h.Tensors {
		if t.Name != name {
			continue
		}
		if t.Bytes <= 0 {
			return nil, fmt.Errorf("it is of an unknown type")
		}
		raw := make([]byte, t.Bytes)
		if _, err := f.ReadAt(raw, t.Offset); err != nil {
			return nil, err
		}
		out := make([]float32, n)
		var fail C.station_error
		if C.station_floats(C.int32_t(t.Kind), unsafe.Pointer(&raw[0]), C.int64_t(len(raw)), C.int64_t(n), (*C.float)(unsafe.Pointer(&out[0])), &fail) != C.STATION_OK {
			return nil, fmt.Errorf("%s", message(&fail, "no reason given"))
		}
		return out, nil
	}
	return nil, nil
}

// Pairs lays out a query with each document.
func (e *native) Pairs(query string, documents []string) ([]engine.Text, error) {
	if e.ranker == nil {
		return nil, fmt.Errorf("%w: %s", engine.ErrDecode, e.embedding.NoScores)
	}
	return e.ranker.layout.pairs(func(text string) ([]engine.Token, error) { return e.Tokenize(text, false) }, query, documents)
}
