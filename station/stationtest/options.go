package stationtest

import (
	"context"
	"fmt"
	"slices"

	"thoth/station/engine"
)

// chatML is the template most small instruct models carry.
const chatML = `{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// Options of the fake; the zero value is usable.
type Options struct {
	Cells         int // KV pool; default 8192
	Sequences     int // ids, at most 256; default 32
	ContextLength int // tokens per sequence; default 2048, at most Cells
	BatchSize     int // default 256

	Name         string // default "fake-135m"
	ChatTemplate string // default chatml
	NoBOS        bool   // the model asks for no begin-of-sequence token

	// EOGEvery makes about one in so many tokens of the model's own text end
	// the turn; default 128, negative for never.
	EOGEvery int
	// Next forces the token after a history; it must be a pure function. Without
	// ok the model goes on as it would.
	Next func(history []engine.Token) (t engine.Token, ok bool)

	// OnDecode is called at the start of each decode, on its goroutine, with
	// the call's number from 1 and its batch.
	OnDecode func(number int, b *engine.Batch)
	// CannotAbort makes Abort do nothing, as on backends without it.
	CannotAbort bool
	// CannotMove, a sentence, makes a model whose KV cannot be moved in blocks:
	// Info has no KVRows, and KVCut is false for this reason.
	CannotMove string
	// ImportDrifts makes imported KV differ from what was exported: all answers
	// behind it are others.
	ImportDrifts bool

	// Encoder makes a model that gives vectors and nothing else.
	Encoder bool
	// Reranker makes a model that gives scores of pairs and no vectors; beside
	// generation unless Encoder is set too.
	Reranker bool
	// NoVectors, a sentence, makes a model that gives none.
	NoVectors string
	// OnEmbed is called at each batch of texts, with the call's number from 1 and
	// its tokens.
	OnEmbed func(number, tokens int)

	LoadGate  <-chan struct{} // Load waits for it, at progress 0.5
	LoadError error           // Load fails with it
}

// Load is the fake's engine.Loader: it waits for LoadGate, then gives e or
// fails with LoadError.
func (e *Engine) Load(ctx context.Context, progress func(float32)) (engine.Engine, error) {
	progress(0)
	if e.o.LoadGate != nil {
		progress(0.5)
		select {
		case <-e.o.LoadGate:
		case <-ctx.Done():
			return nil, &engine.LoadError{Kind: engine.LoadEngineFailed, Msg: "the load was given up: " + ctx.Err().Error()}
		}
	}
	if e.o.LoadError != nil {
		return nil, e.o.LoadError
	}
	progress(1)
	return e, nil
}

func (o *Options) fill() {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Cells, 8192)
	def(&o.Sequences, 32)
	def(&o.ContextLength, min(2048, o.Cells))
	def(&o.BatchSize, 256)
	def(&o.EOGEvery, 128)
	if o.Name == "" {
		o.Name = "fake-135m"
	}
	if o.ChatTemplate == "" {
		o.ChatTemplate = chatML
	}
	switch {
	case o.Cells < 1 || o.BatchSize < 1:
		panic("stationtest: Cells and BatchSize are at least 1")
	case o.Sequences < 1 || o.Sequences > maxSequences:
		panic(fmt.Sprintf("stationtest: Sequences is %d, want 1 to %d", o.Sequences, maxSequences))
	case o.ContextLength < 1 || o.ContextLength > o.Cells:
		panic(fmt.Sprintf("stationtest: ContextLength is %d, want 1 to Cells (%d)", o.ContextLength, o.Cells))
	}
}

func (o *Options) info(v *vocabulary) engine.Info {
	i := engine.Info{
		Name: o.Name, File: o.Name + ".gguf", Architecture: "fake",
		Description: "deterministic fake without weights", Parameters: 135_000_000, SizeBytes: 1 << 20,
		Vocabulary: v.size(), Embedding: 8, Layers: 1, ContextTrain: o.ContextLength,
		ChatTemplate: o.ChatTemplate, KVBytesToken: kvBytesToken, KVCut: true, KVRows: slices.Clone(kvRows),
		BOS: v.special[textBOS], EOS: v.special[textEOS], EOT: v.special[textIMEnd], PAD: v.special[textPAD],
		EOG: []engine.Token{v.special[textEOS], v.special[textIMEnd]}, AddBOS: !o.NoBOS,
		ABI:   "fake-1",
		Cells: o.Cells, Sequences: o.Sequences, ContextLength: o.ContextLength, BatchSize: o.BatchSize,
		KVTypeK: "f16", KVTypeV: "f16", FlashAttention: true,
		Backend: engine.Backend{Requested: "auto", Selected: "cpu", Device: "fake", Threads: 1, Features: []string{"FAKE"}},
	}
	if o.Encoder {
		i.Architecture, i.ChatTemplate, i.Cells, i.Sequences, i.KVBytesToken = "fake-encoder", "", 0, 0, 0
		i.KVTypeK, i.KVTypeV, i.KVRows, i.KVCut, i.KVCutReason = "", "", nil, false, "the model is an encoder and keeps no KV"
	}
	if o.CannotMove != "" {
		i.KVRows, i.KVCut, i.KVCutReason = nil, false, o.CannotMove
	}
	return i
}
