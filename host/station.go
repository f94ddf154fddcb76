package host

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/rs/zerolog"

	"thoth/host/dialect"
	"thoth/host/openai"
	"thoth/host/prompt"
	"thoth/liquid"
	"thoth/station/client"
	"thoth/station/wire"
)

// watcher keeps the view of the station. One goroutine, run, writes it; any
// number read it.
type watcher struct {
	o      Options
	client *client.Client
	memory *liquid.Manager
	log    zerolog.Logger
	view   atomic.Pointer[view]
	poke   chan struct{} // a request met a station that is not what the view says

	// silentSince is when the probes stopped being answered; only run uses it.
	silentSince time.Time

	// alive ends, with an *openai.Error as cause, when a station has been silent
	// for too long: calls in flight would wait for ever.
	//
	// A request that met a station that is not what the view says suspects it: until a
	// look that began afterwards, the view is in doubt.
	mu struct {
		sync.Mutex
		alive     context.Context
		giveUp    context.CancelCauseFunc
		suspected int           // how often
		answers   int           // to how many of these the view is the answer
		seen      chan struct{} // closed, and replaced, at each view
	}
}

// Bounds of the pause between looks at a station that is not serving.
const (
	retryFirst = 100 * time.Millisecond
	retryMost  = 2 * time.Second
)

func newWatcher(o Options) *watcher {
	w := &watcher{o: o, client: o.Station, log: o.Log, poke: make(chan struct{}, 1)}
	w.mu.alive, w.mu.giveUp = context.WithCancelCause(context.Background())
	w.mu.seen = make(chan struct{})
	w.view.Store(&view{phase: phaseUnknown, reason: "it has not answered yet", since: time.Now(),
		names: o.names("")})
	return w
}

// current is the last view.
func (w *watcher) current() *view { return w.view.Load() }

// suspect asks for a look now, after a request failed.
func (w *watcher) suspect() {
	w.mu.Lock()
	w.mu.suspected++
	w.mu.Unlock()
	select {
	case w.poke <- struct{}{}:
	default: // a look is due already
	}
}

// ready tells whether the last view is of a station that serves, and is not in doubt;
// seen is closed at the next.
func (w *watcher) ready() (ok bool, seen <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current().ready() && w.mu.answers == w.mu.suspected, w.mu.seen
}

// suspicions is how often the station was suspected so far.
func (w *watcher) suspicions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.suspected
}

// bind makes cancel happen when the station is given up; stop unbinds.
func (w *watcher) bind(cancel context.CancelCauseFunc) (stop func() bool) {
	w.mu.Lock()
	alive := w.mu.alive
	w.mu.Unlock()
	return context.AfterFunc(alive, func() { cancel(context.Cause(alive)) })
}

// run looks at the station until ctx ends.
func (w *watcher) run(ctx context.Context) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = retryFirst, retryMost
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-w.poke:
		}
		answers := w.suspicions()
		next := w.look(ctx)
		if ctx.Err() != nil {
			return
		}
		w.set(next, answers)
		switch {
		case next.phase == phaseServing && next.unread:
			timer.Reset(pause.NextBackOff())
		case next.phase == phaseServing:
			pause.Reset()
			timer.Reset(w.o.HealthInterval)
		default:
			timer.Reset(pause.NextBackOff())
		}
	}
}

// look asks the station and makes the next view. What an unchanged station has
// told before is kept.
func (w *watcher) look(ctx context.Context) *view {
	ctx, cancel := context.WithTimeout(ctx, w.o.HealthTimeout)
	defer cancel()
	last := w.current()
	next := *last
	asked := time.Now()
	h, err := w.client.Health(ctx)
	if err != nil {
		next.phase, next.reason = phaseDown, err.Error()
		var we *wire.Error
		if errors.As(err, &we) && we.Code == wire.CodeTimeout {
			next.phase, next.reason = phaseStalled, "it does not answer"
		}
		w.silent(asked)
		return &next
	}
	w.answered()
	restarted := last.health == nil || last.health.Build != h.Build || last.health.EngineABI != h.EngineABI ||
		h.UptimeSeconds < last.health.UptimeSeconds
	next.health = h
	switch h.Status {
	case wire.StatusOK, "": // an older station has no status: it answers when it serves
	case wire.StatusLoading:
		next.phase, next.reason = phaseLoading, "the model is still loading"
		return &next
	case wire.StatusFailed:
		next.phase, next.reason = phaseFailed, h.Error
		return &next
	default:
		next.phase, next.reason = phaseDown, "it is shutting down"
		return &next
	}
	fresh := restarted || last.phase != phaseServing
	if fresh || last.model == nil || last.model.Digest == "" {
		m, err := w.client.Model(ctx)
		if err != nil {
			next.phase, next.reason = phaseDown, err.Error()
			return &next
		}
		w.learn(&next, m)
	}
	next.unread = w.memory.Look(ctx, liquid.Look{Health: h, Model: next.model, Fresh: fresh, Render: renderer(next.template, w.o.Limits)}) != nil
	next.phase, next.reason = phaseServing, ""
	if next.template == nil {
		next.reason = next.templateErr.Error()
	}
	return &next
}

// learn takes a model into the view, compiling its template when it changed.
func (w *watcher) learn(v *view, m *wire.Model) {
	same := v.model != nil && v.model.ChatTemplate == m.ChatTemplate && v.model.Architecture == m.Architecture &&
		v.model.Special.BOSText == m.Special.BOSText && v.model.Special.EOSText == m.Special.EOSText
	if !same {
		v.template, v.templateErr = prompt.Compile(prompt.Source{ChatTemplate: m.ChatTemplate, Architecture: m.Architecture,
			BOS: m.Special.BOSText, EOS: m.Special.EOSText})
		v.dialect = dialect.Detect(m.ChatTemplate, m.Architecture)
		v.stripsReasoning = v.templateErr == nil && stripsReasoning(v.template)
	}
	if v.model == nil || v.model.File != m.File || v.model.SizeBytes != m.SizeBytes {
		v.loaded = time.Now()
	}
	v.model = m
	v.names = w.o.names(servedName(m))
	v.fingerprint = fingerprint(v.health, m)
}

// set publishes a view, the answer to so many suspicions, and logs what changed.
func (w *watcher) set(next *view, answers int) {
	last := w.current()
	if next.phase != last.phase || next.reason != last.reason {
		next.since = time.Now()
		e := w.log.Info()
		if !next.ready() && next.phase != phaseLoading {
			e = w.log.Warn()
		}
		e.Str("station", string(next.phase)).Str("was", string(last.phase)).Str("reason", next.reason)
		if next.ready() {
			e.Str("model", next.names[0]).Str("backend", next.health.Backend.Selected).Str("template", next.template.Origin).Str("dialect", next.dialect.Name).
				Bool("liquid_memory", w.memory.State().LiquidMemory).Str("liquid_reason", w.memory.State().Reason)
		}
		e.Msg("station")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.view.Store(next)
	w.mu.answers = answers
	close(w.mu.seen)
	w.mu.seen = make(chan struct{})
}

// silent notes an unanswered look and gives the station up after a while.
func (w *watcher) silent(asked time.Time) {
	if w.silentSince.IsZero() {
		w.silentSince = asked
	}
	if time.Since(w.silentSince) < w.o.StallTimeout {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.giveUp(openai.NewError(openai.CodeTimeout, "", "the station has not answered for %s", w.o.StallTimeout).Retry(5 * time.Second))
}

func (w *watcher) answered() {
	w.silentSince = time.Time{}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.alive.Err() != nil {
		w.mu.alive, w.mu.giveUp = context.WithCancelCause(context.Background())
	}
}
