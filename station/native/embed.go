package native

// #include "embed.h"
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"thoth/station/engine"
)

// embedOptions are kept until the embedding context is made.
type embedOptions struct {
	threads, poll  int
	typeK, typeV   string
	flashAttention bool
}

// Embedding is constant after load.
func (e *native) Embedding() engine.Embedding { return e.embedding }

// describeEmbedding says what a decoder's vectors or scores would be.
func (e *native) describeEmbedding(o Options, model *modelFile) error {
	m := &e.embedding
	m.Pooling, m.Reason = choosePooling(o, model.header)
	m.Dimensions, m.BatchTexts, m.Parts = e.info.Embedding, embedTexts, true
	m.MaxTokens = o.EmbedContext
	if m.MaxTokens == 0 {
		m.MaxTokens = maxAutoEmbed
	}
	m.MaxTokens = min(m.MaxTokens, e.info.ContextLength)
	m.BatchTokens = embedBatch(o, e.info.Vocabulary)
	if !e.info.KVCut {
		m.Pooling, m.Reason = "", "the vectors of models with recurrent layers are not tested here"
	}
	e.keepEnds(o)
	return e.makeRanker(o, model)
}

// keepEnds notes what stands around a text, and what a context is made with.
func (e *native) keepEnds(o Options) {
	var first, last C.int32_t
	C.station_vocab_ends(e.c, &first, &last)
	if first >= 0 {
		e.embedding.Prefix = []engine.Token{engine.Token(first)}
	}
	if last >= 0 {
		e.embedding.Suffix = []engine.Token{engine.Token(last)}
	}
	e.embedOpts = embedOptions{threads: o.Threads, poll: o.Poll, typeK: o.KVTypeK, typeV: o.KVTypeV, flashAttention: !o.NoFlashAttention}
}

// makeEncoder is makeContext for a model that keeps no KV: its only context is
// that of embeddings.
func (e *native) makeEncoder(o Options, model *modelFile, p plan, backend engine.Backend) error {
	var m C.station_model_info
	C.station_model(e.c, &m)
	e.fillInfo(o, model.header, p, backend, &m)
	i := &e.info
	i.KVTypeK, i.KVTypeV, i.KVCut, i.Sequences, i.KVBytesToken = "", "", false, 0, 0
	i.KVCutReason = "the model is an encoder and keeps no KV"
	i.KVRowsReason = i.KVCutReason
	if err := e.readVocabulary(o, model.header, &m); err != nil {
		return err
	}
	e.embedding = engine.Embedding{Only: true, Dimensions: i.Embedding, MaxTokens: p.contextLength,
		BatchTokens: max(p.contextLength, o.BatchSize), BatchTexts: embedTexts}
	e.embedding.Pooling, e.embedding.Reason = choosePooling(o, model.header)
	i.BatchSize = e.embedding.BatchTokens
	e.keepEnds(o)
	if err := e.makeRanker(o, model); err != nil {
		return err
	}
	if n := e.embedding; n.Pooling == "" && !n.Scores {
		return loadError(engine.LoadBadSetting, "model file %s is an encoder, good for vectors or scores only. It gives no vectors: %s. It gives no scores: %s", o.Model, n.Reason, n.NoScores)
	}
	if err := e.openEmbedder(); err != nil {
		return loadError(engine.LoadEngineFailed, "the embedding context (texts of %d tokens) could not be made: %v", p.contextLength, err)
	}
	// The first graph is slow, and a broken kernel shows here.
	text := engine.Text{Tokens: append(append([]engine.Token{}, e.embedding.Prefix...), e.embedding.Suffix...)}
	if len(text.Tokens) == 0 {
		text.Tokens = []engine.Token{0}
	}
	if _, err := e.Embed([]engine.Text{text}); err != nil {
		return loadError(engine.LoadEngineFailed, "the first text could not be embedded: %v", err)
	}
	return nil
}

// openEmbedder makes the context, once.
func (e *native) openEmbedder() error {
	if e.embedder != nil {
		return nil
	}
	m, o := e.embedding, e.embedOpts
	if !m.Only {
		need := int64(align(max(m.MaxTokens, m.BatchTokens)))*int64(e.info.KVBytesToken) + computeBytes(m.BatchTokens, 2*e.info.Vocabulary, m.MaxTokens)
		if free := readMemory().free; need > free {
			return fmt.Errorf("%w: vectors of texts of up to %d tokens need %s, %s are free (THOTH_EMBED_CONTEXT makes it less)",
				engine.ErrEmbedMemory, m.MaxTokens, sizeText(need), sizeText(free))
		}
	}
	p := C.station_embed_params{
		tokens: C.uint32_t(max(m.MaxTokens, 1)), batch: C.uint32_t(m.BatchTokens), sequences: C.uint32_t(m.BatchTexts),
		pooling: C.int32_t(poolings[e.pools()]), threads: C.int32_t(o.threads), poll: C.int32_t(o.poll),
		type_k: C.int32_t(kvTypes[o.typeK].ggml), type_v: C.int32_t(kvTypes[o.typeV].ggml), flash_attention: C.bool(o.flashAttention),
		segments: C.bool(e.ranker != nil && e.ranker.layout.typed),
	}
	if !m.Only {
		p.tokens = C.uint32_t(align(max(m.MaxTokens, m.BatchTokens)))
	}
	e.embedder = C.station_embed_new(e.c, &p, &e.err)
	drainLog(func(level, line string) {
		// That we pool ourselves is no news to the operator, nor that a text is
		// shorter than what the model was trained for.
		if !strings.Contains(line, "model default pooling_type") && !strings.Contains(line, "n_ctx_seq") {
			e.log(level, line)
		}
	})
	if e.embedder == nil {
		return fmt.Errorf("%w: %s", engine.ErrDecode, message(&e.err, "no reason given"))
	}
	if e.done == nil {
		e.done = os.NewFile(uintptr(C.station_done_fd(e.c)), "decode done")
	}
	return nil
}

// pools is how the token vectors of a text become one. What stands for a pair is
// the first token's, or the last's of a decoder, which has seen no other whole.
func (e *native) pools() string {
	switch {
	case !e.embedding.Scores:
		return e.embedding.Pooling
	case e.embedding.Only:
		return "cls"
	}
	return "last"
}

// Embed gives each text's pooled vector, or its score.
func (e *native) Embed(texts []engine.Text) ([][]float32, error) {
	if len(texts) < 1 || len(texts) > e.embedding.BatchTexts {
		return nil, fmt.Errorf("%w: a batch holds 1 to %d texts, not %d", engine.ErrDecode, e.embedding.BatchTexts, len(texts))
	}
	var b engine.Batch
	var second []bool
	for s, text := range texts {
		n := len(text.Tokens)
		if n == 0 || n > e.embedding.MaxTokens {
			return nil, fmt.Errorf("%w: a text has 1 to %d tokens, not %d", engine.ErrDecode, e.embedding.MaxTokens, n)
		}
		for pos, t := range text.Tokens {
			b.Add(t, pos, engine.SeqID(s), true)
		}
		if e.ranker != nil && e.ranker.layout.typed {
			for pos := range text.Tokens {
				second = append(second, text.Second > 0 && pos >= text.Second)
			}
		}
	}
	if err := e.evaluateTexts(&b, second, true); err != nil {
		return nil, err
	}
	out := make([][]float32, len(texts))
	for s := range texts {
		var err error
		if out[s], err = e.pooled(s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// EmbedPart evaluates the next tokens of a long text.
func (e *native) EmbedPart(tokens []engine.Token, first, last bool) ([]float32, error) {
	if !e.embedding.Parts {
		return nil, fmt.Errorf("%w: the model sees a text as a whole", engine.ErrDecode)
	}
	if first {
		e.embedded = 0
	}
	if e.embedded+len(tokens) > e.embedding.MaxTokens {
		return nil, fmt.Errorf("%w: a text has at most %d tokens", engine.ErrDecode, e.embedding.MaxTokens)
	}
	var b engine.Batch
	for i, t := range tokens {
		b.Add(t, e.embedded+i, 0, true)
	}
	if err := e.evaluateTexts(&b, nil, first); err != nil {
		return nil, err
	}
	e.embedded += len(tokens)
	if !last {
		return nil, nil
	}
	return e.pooled(0)
}

// evaluateTexts has the computing thread evaluate a batch in the embedding
// context, which forgets what it had before when clear. second, where not nil,
// says which tokens are of a pair's second text.
func (e *native) evaluateTexts(b *engine.Batch, second []bool, clear bool) error {
	if e.embedding.Pooling == "" && !e.embedding.Scores {
		return fmt.Errorf("%w: %s", engine.ErrDecode, e.embedding.Reason)
	}
	n := b.Len()
	if n < 1 || n > e.embedding.BatchTokens {
		return fmt.Errorf("%w: a batch of texts holds 1 to %d tokens, not %d", engine.ErrDecode, e.embedding.BatchTokens, n)
	}
	for _, t := range b.Tokens {
		if t < 0 || int(t) >= e.info.Vocabulary {
			return fmt.Errorf("%w: token %d is not in the vocabulary of %d", engine.ErrDecode, t, e.info.Vocabulary)
		}
	}
	if err := e.openEmbedder(); err != nil {
		return err
	}
	rc := C.station_embed_start(e.embedder, C.bool(clear), C.int(n),
		(*C.int32_t)(unsafe.Pointer(unsafe.SliceData(b.Tokens))), (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(b.Pos))),
		(*C.int32_t)(unsafe.Pointer(unsafe.SliceData(b.Seq))), (*C.bool)(unsafe.SliceData(second)), &e.err)
	runtime.KeepAlive(b)
	if rc == C.STATION_OK {
		var err error
		if rc, err = e.wait(); err != nil {
			return err
		}
	}
	drainLog(e.log)
	if rc != C.STATION_OK {
		return fmt.Errorf("%w: %s", engine.ErrDecode, message(&e.err, "no reason given"))
	}
	return nil
}

// pooled is the vector of sequence s, or the score that its head makes of it.
func (e *native) pooled(s int) ([]float32, error) {
	out := make([]float32, e.info.Embedding)
	if C.station_embed_vector(e.embedder, C.int(s), (*C.float)(unsafe.Pointer(&out[0])), &e.err) != C.STATION_OK {
		return nil, fmt.Errorf("%w: %s", engine.ErrDecode, message(&e.err, "no reason given"))
	}
	if e.ranker != nil {
		return []float32{float32(e.ranker.head.score(out))}, nil
	}
	return out, nil
}
