package station

import (
	"context"
	"errors"
	"math"
	"net/http"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"time"

	"thoth/station/engine"
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
		l.publish()
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

// Drain refuses new work and waits for what runs; when ctx ends, what still runs
// ends with an error frame.
func (st *Station) Drain(ctx context.Context) {
	st.draining.Store(true)
	l := st.loop.Load()
	if l == nil {
		return
	}
	l.drain(false)
	quiet := st.gate.close()
	select {
	case <-quiet:
	case <-ctx.Done():
		l.drain(true)
		within(quiet, lastWords)
	}
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

// Close stops the loop, or a load under way, and waits for it.
func (st *Station) Close() {
	st.draining.Store(true)
	st.sessions.close()
	if st.cancel != nil {
		st.cancel()
		<-st.done
	}
}

// SetDigest tells the weights' SHA-256 (hex) once it is known.
func (st *Station) SetDigest(hex string) { st.digest.Store(&hex) }

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
		KVSession: &no, DecodeNext: &no, KVReason: "this build of the station does not save KV sessions",
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
		proven := l.unproven == nil
		h.DecodeNext = &proven
		if !proven {
			h.KVReason = "the self-test at load failed: " + l.unproven.Error()
		}
	}
	if st.draining.Load() {
		h.Status = wire.StatusDraining
	}
	return h
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
