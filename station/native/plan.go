package native

import (
	"fmt"

	"thoth/internal/gguf"
	"thoth/station/engine"
)

const (
	maxAutoContext = 32768
	minContext     = 256
	cellAlign      = 256 // llama.cpp pads the pool to it
)

// plan is how a model and its pool fit into memory.
type plan struct {
	cells         int
	contextLength int
	kvBytesToken  int
	rope          string // engine.Info.RoPE
	reason        string // what became smaller than wished, and why
}

// kvBytesToken is the size of one token's KV over all layers, from the header.
func kvBytesToken(h *gguf.Header, typeK, typeV string) int {
	arch := h.Architecture()
	num := func(key string, def int64) int64 {
		if v, ok := h.Number(arch + "." + key); ok && v > 0 {
			return v
		}
		return def
	}
	layers, heads, embedding := num("block_count", 0), num("attention.head_count", 1), num("embedding_length", 0)
	dim := embedding / max(heads, 1)
	k, v := num("attention.key_length", dim), num("attention.value_length", dim)
	kvHeads, ok := h.Numbers(arch + ".attention.head_count_kv")
	if !ok {
		for range min(layers, 4096) {
			kvHeads = append(kvHeads, num("attention.head_count_kv", heads))
		}
	}
	row := func(t string, n int64) int64 {
		kt := kvTypes[t]
		return (n + kt.blockLen - 1) / kt.blockLen * kt.blockBytes
	}
	var sum int64
	for _, n := range kvHeads {
		sum += row(typeK, n*k) + row(typeV, n*v)
	}
	return int(sum)
}

// makePlan chooses cells and context length, or says why nothing fits. o is filled.
func makePlan(o Options, m *modelFile, mem memory) (plan, error) {
	h := m.header
	arch := h.Architecture()
	p := plan{kvBytesToken: kvBytesToken(h, o.KVTypeK, o.KVTypeV)}
	vocabulary := h.Len("tokenizer.ggml.tokens")
	free := mem.free
	if o.MemoryBudget > 0 {
		free = min(free, o.MemoryBudget)
	}

	trained := h.ContextLength()
	if trained == 0 {
		trained = 2048
	}
	wish := o.ContextLength
	if wish == 0 {
		wish = int(min(trained, maxAutoContext))
	}

	kvRoom := free - m.weights - computeBytes(o.BatchSize, vocabulary, 0)
	perCell := int64(p.kvBytesToken) + int64(o.BatchSize)*4 // KV, and a column of the mask
	// Compaction copies what lives out before it puts it back: KV counts twice.
	fits := int(max(min(kvRoom/max(perCell+int64(p.kvBytesToken), 1), 1<<30), 0)) &^ (cellAlign - 1)
	if fits < minContext {
		return p, loadError(engine.LoadNoMemory,
			"model %s does not fit into memory: weights %s, buffers %s and at least %s of KV are needed, %s are free",
			m.path, sizeText(m.weights), sizeText(computeBytes(o.BatchSize, vocabulary, 0)), sizeText(minContext*perCell), sizeText(free))
	}

	switch {
	case o.Cells > 0:
		p.cells = align(o.Cells)
		if p.cells > fits {
			return p, loadError(engine.LoadNoMemory, "%d cells of KV need %s, %s are free beside the weights (%s): at most %d cells fit",
				p.cells, sizeText(int64(p.cells)*perCell), sizeText(kvRoom), sizeText(m.weights), fits)
		}
	default:
		quarter := int(max(min(free/4/max(perCell, 1), 1<<30), 0)) &^ (cellAlign - 1)
		p.cells = min(align(4*wish), max(quarter, align(wish)), fits)
	}
	// LongRoPE models take their long factors when the pool, which llama.cpp
	// takes for the context, is larger than what they were first trained for.
	orig, ok := h.Number(arch + ".rope.scaling.original_context_length")
	if !ok {
		orig = trained
	}
	longRoPE := h.Has("rope_factors_long.weight")
	if longRoPE && int64(wish) <= orig && orig < int64(p.cells) {
		p.cells = int(orig) &^ (cellAlign - 1)
		p.reason = fmt.Sprintf("%d cells: a larger pool would change the model's RoPE factors", p.cells)
	}
	switch { // KV computed with the one is nothing to the other
	case longRoPE && int64(p.cells) > orig:
		p.rope = "long factors"
	case longRoPE:
		p.rope = "short factors"
	}
	p.contextLength = wish
	if p.contextLength > p.cells {
		if o.ContextLength > 0 {
			return p, loadError(engine.LoadNoMemory, "a context of %d tokens needs %s of KV, %s are free beside the weights (%s): at most %d tokens fit",
				wish, sizeText(int64(align(wish))*perCell), sizeText(kvRoom), sizeText(m.weights), fits)
		}
		p.contextLength = p.cells
		why := fmt.Sprintf("%s are free beside the weights", sizeText(kvRoom))
		if o.Cells > 0 {
			why = fmt.Sprintf("the pool has %d cells", p.cells)
		}
		p.reason = fmt.Sprintf("context length %d instead of %d: %s", p.contextLength, wish, why)
	}
	return p, nil
}

func align(n int) int { return (n + cellAlign - 1) &^ (cellAlign - 1) }

// encoders are the architectures for which llama.cpp makes no KV cache.
var encoders = map[string]bool{
	"bert": true, "nomic-bert": true, "nomic-bert-moe": true, "neo-bert": true, "jina-bert-v2": true, "jina-bert-v3": true, "gemma-embedding": true,
}

// checkKind refuses models that the engine would load, and could not serve: those
// without KV that are no encoders end the process at their first sequence.
func checkKind(m *modelFile) error {
	arch := m.header.Architecture()
	bad := func(format string, args ...any) error {
		return loadError(engine.LoadUnknownArch, "model file %s %s", m.path, fmt.Sprintf(format, args...))
	}
	layers, _ := m.header.Number(arch + ".block_count")
	causal, said := m.header.Flag(arch + ".attention.causal")
	switch {
	case arch == "dream" || arch == "llada" || arch == "llada-moe" || arch == "rnd1":
		return bad("is a diffusion model (%s), which writes no token after the other: this engine does not serve it", arch)
	case arch == "wavtokenizer-dec":
		return bad("makes sound (%s): this engine does not serve it", arch)
	case arch == "t5" || arch == "t5encoder":
		return bad("is of the family of T5 (%s), whose encoder this engine does not serve", arch)
	case arch == "gemma-embedding" && layers < 6:
		return bad("has %d layers; llama.cpp needs 6, of which one sees the whole text", layers)
	case said && !causal && !encoders[arch]:
		return bad("looks at a text from both sides (%s.attention.causal is false), which this engine serves of encoders only", arch)
	}
	return nil
}

const (
	maxAutoEmbed = 8192 // tokens of a text, where nothing is set
	embedTexts   = 64   // of one batch
	// embedLogits bounds the logits that a decoder computes beside its vectors, in
	// bytes: they are what its batches are small for.
	embedLogits   = 64 << 20
	minEmbedBatch = 32
)

// poolings are llama.cpp's numbers of the ways to make one vector of many.
var poolings = map[string]int64{"mean": 1, "cls": 2, "last": 3}

// choosePooling says how the model's token vectors become one, or why not.
func choosePooling(o Options, h *gguf.Header) (pooling, reason string) {
	if o.EmbedPooling != "" {
		return o.EmbedPooling, ""
	}
	said, ok := h.Number(h.Architecture() + ".pooling_type")
	switch {
	case !ok && hasHead(h):
		said = 4
	case !ok:
		return "mean", ""
	}
	for name, n := range poolings {
		if n == said {
			return name, ""
		}
	}
	switch said {
	case 0:
		return "", "the model file says that its token vectors are not pooled (pooling_type 0): THOTH_EMBED_POOLING may choose mean, cls or last"
	case 4:
		return "", "the model is a reranker: it gives scores, not vectors"
	}
	return "", fmt.Sprintf("the model file asks for a pooling this engine does not know (pooling_type %d)", said)
}

// planEncoder chooses the longest text of an encoder, which is evaluated at once.
func planEncoder(o Options, m *modelFile, mem memory) (plan, error) {
	trained := int(min(m.header.ContextLength(), 1<<20))
	if trained == 0 {
		trained = 512
	}
	wish := o.ContextLength
	if wish == 0 {
		wish = min(trained, maxAutoEmbed)
	}
	if wish > trained {
		return plan{}, loadError(engine.LoadBadSetting, "context length %d is more than the %d positions that model %s has", wish, trained, m.path)
	}
	vocabulary := m.header.Len("tokenizer.ggml.tokens")
	free := mem.free
	if o.MemoryBudget > 0 {
		free = min(free, o.MemoryBudget)
	}
	room := free - m.weights
	for length := wish; ; length /= 2 {
		// llama.cpp keeps room for logits, although an encoder has none.
		need := computeBytes(max(length, o.BatchSize), vocabulary, max(length, o.BatchSize))
		switch {
		case need <= room:
			p := plan{contextLength: length}
			if length < wish {
				p.reason = fmt.Sprintf("context length %d instead of %d: %s are free beside the weights", length, wish, sizeText(room))
			}
			return p, nil
		case o.ContextLength > 0 || length/2 < 64:
			return plan{}, loadError(engine.LoadNoMemory, "model %s does not fit into memory: weights %s and buffers of %s for texts of %d tokens are needed, %s are free",
				m.path, sizeText(m.weights), sizeText(need), length, sizeText(free))
		}
	}
}

// embedBatch is the most tokens of one batch of a decoder's embedding context.
func embedBatch(o Options, vocabulary int) int {
	return max(min(o.BatchSize, embedLogits/max(vocabulary*4, 1)), minEmbedBatch)
}
