package station

import (
	"context"
	"errors"
	"math"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"thoth/station/engine"
	"thoth/station/kvstore"
	"thoth/station/wire"
)

// Station serves one model. It answers /health from the moment it is made, and
// the other routes once its engine is loaded.
type Station struct {
	opts     Options
	handler  http.Handler
	started  time.Time
	progress atomic.Uint32 // load progress, float32 bits
	digest   atomic.Pointer[string]

	loop     atomic.Pointer[loop] // nil until loaded
	sessions *sessions
	metrics  *metrics
	texts    *embedQueue
	draining atomic.Bool

	gate    gate // handlers that may use the engine
	cancel  context.CancelFunc
	done    chan struct{} // closed when load or loop has ended
	failure atomic.Pointer[error]
}

// New makes a station without an engine.
func New(opts Options) *Station {
	st := &Station{opts: opts.withDefaults(), started: time.Now(), done: make(chan struct{})}
	st.sessions = newSessions(st.opts.SessionLease, st.opts.MaxSessions, func(s *sequence) {
		if l := st.loop.Load(); l != nil {
			l.end(s)
		}
	})
	st.texts = newEmbedQueue(st.opts)
	st.metrics = newMetrics(st)
	st.handler = st.routes()
	return st
}

// Handler serves the wire.
func (st *Station) Handler() http.Handler { return st.handler }

// Start loads the engine and runs the loop, both on one goroutine. It returns at
// once; loaded, if not nil, is told once the engine serves.
func (st *Station) Start(load engine.Loader, loaded func(engine.Info)) {
	ctx, cancel := context.WithCancel(context.Background())
	st.cancel = cancel
	go func() {
		defer close(st.done)
		eng, err := load(ctx, func(p float32) { st.progress.Store(math.Float32bits(p)) })
		if err != nil {
			st.failure.Store(&err)
			return
		}
		unproven := selfCheck(eng)
		if unproven != nil {
			st.opts.Logger.Error().Err(unproven).Msg("the self-test failed: sessions are not offered")
		}
		l := newLoop(eng, st.opts, st.metrics.stepSeconds, func() bool { return within(st.gate.close(), lastWords) })
		l.unproven = unproven
		l.kvOff = kvOff(st.opts, l)
		kv := storeOptions(st.opts, eng.Info(), l.kvOff != "")
		if kv.Cold != nil {
			defer func() { _ = kv.Cold.Close() }()
		}
		l.cold = kv.Cold != nil
		kv.Busy = func() bool { return l.gauges.running.Load() > 0 }
		l.store = kvstore.New(kv)
		defer l.store.Close() // after the loop: what it still copies must not fill freed memory
		if l.kvOff != "" {
			st.opts.Logger.Warn().Str("reason", l.kvOff).Msg("KV sessions are off")
		}
		l.publish()
		l.publishKV()
		st.loop.Store(l)
		if loaded != nil {
			loaded(eng.Info())
		}
		l.run(ctx)
	}()
}

// Done is closed when the engine could not be loaded, or after Close.
func (st *Station) Done() <-chan struct{} { return st.done }

// Err is why the engine could not be loaded: an *engine.LoadError, or nil.
func (st *Station) Err() error {
	if p := st.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// drainShare is the part of a drain's time that running calls have at most; the
// rest is for writing KV down.
const drainShare = 0.5

// Drain refuses new work and waits for what runs; halfway to ctx's deadline, what
// still runs ends with an error frame. Then it writes down what only RAM has,
// until ctx ends, and says how much that was.
func (st *Station) Drain(ctx context.Context) wire.KVFlushResponse {
	st.draining.Store(true)
	l := st.loop.Load()
	if l == nil {
		return wire.KVFlushResponse{}
	}
	l.drain(false)
	quiet := st.gate.close()
	calls, stop := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		calls, stop = context.WithTimeout(ctx, time.Duration(float64(time.Until(end))*drainShare))
	}
	defer stop()
	select {
	case <-quiet:
	case <-calls.Done():
		l.drain(true)
		words := lastWords
		if end, ok := ctx.Deadline(); ok { // a handler that is stuck must not cost the writing
			words = min(words, time.Until(end)/4)
		}
		within(quiet, words)
	}
	l.do(func() {
		for _, s := range l.idle {
			l.keep(s)
		}
		l.copyAll()
	})
	return l.store.Flush(ctx)
}

// lastWords is how long handlers of ended calls may take to write the end: one
// whose client does not read must not keep the station.
const lastWords = 2 * time.Second

// within waits for c to be closed, but not longer than d, and says whether it was.
func within(c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// Busy is the number of handlers at work on the engine.
func (st *Station) Busy() int { return st.gate.count() }

// Close stops the loop, or a load under way, and waits for it.
func (st *Station) Close() {
	st.draining.Store(true)
	st.sessions.close()
	if st.cancel != nil {
		st.cancel()
		<-st.done
	}
}

// SetDigest tells the weights' SHA-256 (hex) once it is known, after the load.
// Stored KV has no lasting name before.
func (st *Station) SetDigest(hex string) {
	st.digest.Store(&hex)
	if l := st.loop.Load(); l != nil {
		l.store.SetDigest(hex)
	}
}

// serving gives the loop, or the error that stands in its place.
func (st *Station) serving() (*loop, *wire.Error) {
	if st.draining.Load() {
		return nil, errDraining()
	}
	if l := st.loop.Load(); l != nil {
		return l, nil
	}
	if err := st.Err(); err != nil {
		return nil, &wire.Error{Code: wire.CodeUnavailable, Message: err.Error()}
	}
	return nil, &wire.Error{Code: wire.CodeLoading, Message: "the model is still loading", Retryable: true}
}

func (st *Station) health() wire.Health {
	no := false
	h := wire.Health{
		Status: wire.StatusLoading, Wire: wire.Version, Build: st.opts.Build,
		KVSession: &no, DecodeNext: &no, KVReason: "the model is still loading",
		LoadProgress:  math.Float32frombits(st.progress.Load()),
		UptimeSeconds: time.Since(st.started).Seconds(),
	}
	if err := st.Err(); err != nil && !errors.Is(err, context.Canceled) {
		h.Status, h.Error = wire.StatusFailed, err.Error()
	}
	if l := st.loop.Load(); l != nil {
		i := l.info
		h.Status, h.LoadProgress = wire.StatusOK, 1
		h.EngineABI, h.Backend = i.ABI, shown(i.Backend)
		h.Cells, h.ContextLength, h.Sequences = i.Cells, i.ContextLength, i.Sequences
		h.KVTypeK, h.KVTypeV, h.FlashAttention = i.KVTypeK, i.KVTypeV, i.FlashAttention
		proven, saves := l.unproven == nil && !l.encoder(), l.kvOff == ""
		h.Embeddings, h.Rerank = l.embeddings(), l.reranks()
		h.Fork = l.forks()
		h.DecodeNext, h.KVSession, h.KVTurn, h.KVReason = &proven, &saves, saves, l.kvOff
	}
	if st.opts.NoKVSession {
		h.KVSession, h.DecodeNext, h.KVReason = nil, nil, ""
	}
	if st.draining.Load() {
		h.Status = wire.StatusDraining
	}
	return h
}

// kvOff says why a loaded engine's KV is not saved; "" when it is.
func kvOff(o Options, l *loop) string {
	i := l.info
	switch {
	case o.NoKVSession:
		return "left out by a setting"
	case l.encoder():
		return i.KVCutReason
	case !i.KVCut:
		return "the KV of this model cannot be cut: " + i.KVCutReason
	case len(i.KVRows) == 0:
		return "KV cannot be moved in blocks: " + i.KVRowsReason
	case l.unproven != nil:
		return "the self-test at load failed: " + l.unproven.Error()
	case o.KV.WarmBytes <= 0:
		return "no memory is given to stored KV (THOTH_KV_WARM_BYTES is 0)"
	}
	return ""
}

// storeOptions are the store's, with what only the engine knows.
func storeOptions(opts Options, i engine.Info, off bool) kvstore.Options {
	o := opts.KV
	o.Identity.ABI, o.Identity.KVTypeK, o.Identity.KVTypeV = i.ABI, i.KVTypeK, i.KVTypeV
	o.Identity.FlashAttention, o.Identity.RoPE = i.FlashAttention, i.RoPE
	o.Identity.Kernel = kernel(i.Backend)
	for _, n := range i.KVRows {
		o.TokenBytes += n
	}
	switch {
	case off:
		o.WarmBytes, o.Cold = 0, nil
	case opts.OpenCold != nil:
		o.Cold, o.ColdReason = opts.OpenCold(o.TokenBytes)
	case o.Cold == nil && o.ColdReason == "":
		o.ColdReason = "no store is set"
	}
	return o
}

// kernel names what computes: libraries by name, without folders of this machine.
func kernel(b engine.Backend) string {
	names := make([]string, len(b.Libraries))
	for i, l := range b.Libraries {
		names[i] = filepath.Base(l)
	}
	return b.Selected + " " + strings.Join(names, " ")
}

var folders = regexp.MustCompile(`(?:/[^/\s:]+)+/`)

// shown is a backend as others may see it: files by name, without the folders
// of this machine, which the log has.
func shown(b engine.Backend) wire.Backend {
	w := wire.Backend(b)
	w.Libraries, w.Errors = nil, nil
	for _, l := range b.Libraries {
		w.Libraries = append(w.Libraries, filepath.Base(l))
	}
	for _, e := range b.Errors {
		w.Errors = append(w.Errors, folders.ReplaceAllString(e, ""))
	}
	return w
}

func (st *Station) model(l *loop) wire.Model {
	i := l.info
	m := wire.Model{
		Name: i.Name, File: i.File, Architecture: i.Architecture, Description: i.Description,
		Parameters: i.Parameters, SizeBytes: i.SizeBytes, Vocabulary: i.Vocabulary, Embedding: i.Embedding, Layers: i.Layers,
		ContextTrain: i.ContextTrain, KVBytesToken: i.KVBytesToken, KVCut: i.KVCut, KVCutReason: i.KVCutReason,
		ChatTemplate: i.ChatTemplate,
		Special:      wire.SpecialTokens{BOS: i.BOS, EOS: i.EOS, EOT: i.EOT, PAD: i.PAD, EOG: i.EOG, AddBOS: i.AddBOS},
	}
	if i.BOS >= 0 {
		m.Special.BOSText = string(l.eng.Piece(i.BOS, true))
	}
	if i.EOS >= 0 {
		m.Special.EOSText = string(l.eng.Piece(i.EOS, true))
	}
	if d := st.digest.Load(); d != nil {
		m.Digest = *d
	}
	return m
}
