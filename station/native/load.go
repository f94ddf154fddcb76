package native

// #include <stdlib.h>
// #include "embed.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/cgo"
	"strings"
	"unsafe"

	"thoth/internal/gguf"
	"thoth/station/engine"
)

// What of the module and of our own makes stored KV readable or not.
const (
	llamaCommit = "ec98e2002"
	stateFormat = 1
)

var (
	_ engine.Engine   = (*native)(nil)
	_ engine.Embedder = (*native)(nil)
)

// ABI names what stored KV depends on beside the model: module, llama.cpp,
// state format. It is none of our own commits, which change nothing in it.
func ABI() string {
	return fmt.Sprintf("ollama-%s+llama.cpp-%s+state%d", moduleVersion, llamaCommit, stateFormat)
}

// native is the engine. used, sharing, sizes and the C context belong to the
// loop; the vocabulary is constant.
type native struct {
	c    *C.station_engine
	info engine.Info
	log  func(level, line string)

	ballast, scratch C.int // sequence ids after the caller's
	used             int   // cells taken since Reset
	sharing          sharing
	sizes            map[int]int
	pieces           []C.station_rows // of the move under way

	done    *os.File // becomes readable when the computing thread has finished a batch
	vocab   vocabulary
	samples sampleBuffers

	embedding engine.Embedding
	embedOpts embedOptions
	embedder  *C.station_embedder // nil until the first text, but for an encoder
	embedded  int                 // tokens evaluated of a text that comes in parts
	ranker    *ranker             // nil where the model gives no scores
	err       C.station_error
}

// Load loads a model and makes its context. progress is called with values in
// [0, 1] from this goroutine's thread; ending ctx aborts. Errors are
// *engine.LoadError, or ctx's.
func Load(ctx context.Context, o Options, progress func(float32)) (engine.Engine, error) {
	o, err := o.fill()
	if err != nil {
		return nil, err
	}
	model, err := checkModel(o.Model)
	if err != nil {
		return nil, err
	}
	if err := checkKind(model); err != nil {
		return nil, err
	}
	backend, mem, err := chooseBackend(o)
	if err != nil {
		return nil, err
	}
	encoder := encoders[model.header.Architecture()]
	fit := makePlan
	if encoder {
		fit = planEncoder
	}
	p, err := fit(o, model, mem)
	if err != nil {
		return nil, err
	}
	backend.Reason = joinReasons(backend.Reason, p.reason)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e := &native{log: o.Log, sizes: map[int]int{}}
	defer drainLog(o.Log)
	if err := e.loadModel(ctx, o, backend.Selected, progress); err != nil {
		return nil, err
	}
	if encoder {
		err = e.makeEncoder(o, model, p, backend)
	} else {
		err = e.makeContext(o, model, p, backend)
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// loading is what stationProgress reaches.
type loading struct {
	ctx      context.Context
	progress func(float32)
}

//export stationProgress
func stationProgress(handle C.uintptr_t, progress C.float) C.bool {
	l := cgo.Handle(handle).Value().(*loading)
	if l.progress != nil {
		l.progress(min(max(float32(progress), 0), 1))
	}
	return l.ctx.Err() == nil
}

var unknownArch = regexp.MustCompile(`unknown model architecture: '([^']*)'`)

func (e *native) loadModel(ctx context.Context, o Options, selected string, progress func(float32)) error {
	path := C.CString(o.Model)
	defer C.free(unsafe.Pointer(path))
	handle := cgo.NewHandle(&loading{ctx: ctx, progress: progress})
	defer handle.Delete()
	mp := C.station_model_params{path: path, mmap: C.bool(!o.NoMmap), handle: C.uintptr_t(handle)}
	if selected != BackendCPU {
		mp.gpu_layers = C.int32_t(o.GPULayers)
		if mp.gpu_layers == 0 {
			mp.gpu_layers = 1 << 20
		}
	}
	e.c = C.station_load(&mp, &e.err)
	if e.c != nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	text := message(&e.err, "no reason given")
	drainLog(func(level, line string) { // the reason may stand in an earlier line than the last
		if m := unknownArch.FindStringSubmatch(line); m != nil {
			text = m[0]
		}
		o.Log(level, line)
	})
	if m := unknownArch.FindStringSubmatch(text); m != nil {
		return loadError(engine.LoadUnknownArch, "model file %s has architecture %q, which this engine does not know", o.Model, m[1])
	}
	return loadError(engine.LoadEngineFailed, "model file %s does not load: %s", o.Model, text)
}

func (e *native) makeContext(o Options, model *modelFile, p plan, backend engine.Backend) error {
	var m C.station_model_info
	C.station_model(e.c, &m)
	if !m.decoder || m.encoder {
		return loadError(engine.LoadBadSetting, "model file %s is no decoder-only model: it cannot generate here", o.Model)
	}
	cp := C.station_context_params{
		cells:           C.uint32_t(p.cells),
		batch:           C.uint32_t(o.BatchSize),
		sequences:       C.uint32_t(o.Sequences + 2),
		threads:         C.int32_t(o.Threads),
		poll:            C.int32_t(o.Poll),
		type_k:          C.int32_t(kvTypes[o.KVTypeK].ggml),
		type_v:          C.int32_t(kvTypes[o.KVTypeV].ggml),
		flash_attention: C.bool(!o.NoFlashAttention),
		offload_kv:      true,
	}
	if C.station_context(e.c, &cp, &e.err) != C.STATION_OK {
		return loadError(engine.LoadEngineFailed, "the context (%d cells, KV %s/%s) could not be made: %s",
			p.cells, o.KVTypeK, o.KVTypeV, message(&e.err, "no reason given"))
	}
	e.done = os.NewFile(uintptr(C.station_done_fd(e.c)), "decode done")
	e.ballast, e.scratch = C.int(o.Sequences), C.int(o.Sequences+1)
	e.sharing = newSharing(o.Sequences)
	e.fillInfo(o, model.header, p, backend, &m)
	if err := e.readVocabulary(o, model.header, &m); err != nil {
		return err
	}
	for t := range e.info.Vocabulary {
		if C.station_is_eog(e.c, C.int32_t(t)) {
			e.info.EOG = append(e.info.EOG, engine.Token(t))
		}
	}
	if err := e.describeEmbedding(o, model); err != nil {
		return err
	}
	return e.warmUp()
}

func (e *native) readVocabulary(o Options, h *gguf.Header, m *C.station_model_info) error {
	if err := e.vocab.read(e.c, int(m.vocabulary), m.vocabulary_type == vocabularyBPE); err != nil {
		return loadError(engine.LoadEngineFailed, "the vocabulary of %s cannot be read: %v", o.Model, err)
	}
	if m.vocabulary_type == vocabularyWPM {
		unknown, ok := h.Number("tokenizer.ggml.unknown_token_id")
		if !ok {
			unknown = 100 // the first BERT's, as llama.cpp takes it
		}
		e.vocab.words = newWordPiece(int(m.vocabulary), func(t int) []byte { return e.Piece(engine.Token(t), false) }, engine.Token(unknown))
	}
	return nil
}

func (e *native) fillInfo(o Options, h *gguf.Header, p plan, backend engine.Backend, m *C.station_model_info) {
	name, file := h.Name(), filepath.Base(o.Model)
	if name == "" {
		name = strings.TrimSuffix(file, filepath.Ext(file))
	}
	i := &e.info
	i.Name, i.File, i.Architecture = name, file, h.Architecture()
	i.Description = C.GoString(&m.description[0])
	i.Parameters, i.SizeBytes = uint64(m.parameters), uint64(m.size)
	i.Vocabulary, i.Embedding, i.Layers = int(m.vocabulary), int(m.embedding), int(m.layers)
	i.ContextTrain = int(m.context_train)
	if m.chat_template != nil {
		i.ChatTemplate = C.GoString(m.chat_template)
	}
	i.BOS, i.EOS, i.EOT, i.PAD = engine.Token(m.bos), engine.Token(m.eos), engine.Token(m.eot), engine.Token(m.pad)
	i.AddBOS = bool(m.add_bos)
	i.KVBytesToken = p.kvBytesToken
	i.KVCut = true
	switch {
	case bool(m.recurrent):
		i.KVCut, i.KVCutReason = false, "recurrent model: its state has no positions to cut at"
	case bool(m.hybrid):
		i.KVCut, i.KVCutReason = false, "hybrid model: its recurrent layers have no positions to cut at"
	}
	i.ABI, i.RoPE = ABI(), p.rope
	i.Cells, i.Sequences, i.ContextLength, i.BatchSize = p.cells, o.Sequences, p.contextLength, o.BatchSize
	i.KVTypeK, i.KVTypeV, i.FlashAttention = o.KVTypeK, o.KVTypeV, !o.NoFlashAttention
	i.Backend = backend
}

// warmUp evaluates one token: the first graph is slow, a broken kernel shows
// here, and the state it leaves tells the layout of KV.
func (e *native) warmUp() error {
	t := e.info.BOS
	if t < 0 {
		t = 0
	}
	b := engine.Batch{}
	b.Add(t, 0, 0, true)
	if err := e.Decode(&b); err != nil {
		return loadError(engine.LoadEngineFailed, "the first decode failed: %v", err)
	}
	if _, err := e.Logprobs(0, nil, t, 1); err != nil {
		return loadError(engine.LoadEngineFailed, "the first decode gave no result: %v", err)
	}
	e.learnLayout(0)
	e.Reset()
	return nil
}

// Info is constant after load.
func (e *native) Info() engine.Info { return e.info }

// Close frees the model. No call may follow.
func (e *native) Close() {
	C.station_embed_free(e.embedder)
	e.embedder = nil
	if e.c != nil {
		C.station_free(e.c)
		e.c = nil
	}
	if e.done != nil {
		_ = e.done.Close()
	}
	drainLog(e.log)
}

// quantize writes the file out, or a part of it before it fails.
func quantize(in, out string, fileType int) error {
	_ = logPending // what llama.cpp prints is kept from here on
	cin, cout := C.CString(in), C.CString(out)
	defer C.free(unsafe.Pointer(cin))
	defer C.free(unsafe.Pointer(cout))
	var e C.station_error
	if C.station_quantize(cin, cout, C.int(fileType), C.int(AvailableThreads()), &e) != C.STATION_OK {
		return errors.New(message(&e, "no reason given"))
	}
	return nil
}
