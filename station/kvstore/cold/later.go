package cold

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/rs/zerolog"

	"thoth/internal/bucket"
	"thoth/station/kvstore"
	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

const (
	// openGrace is how long OpenLater waits for the first try: a folder takes
	// milliseconds, and then the tier is there from the first request on.
	openGrace   = 250 * time.Millisecond
	firstReopen = time.Second
	lastReopen  = time.Minute
)

// Opening is the reason Stats gives while the first try to open the store goes on.
const Opening = "it is being opened"

// Later is a tier that is opened behind: a store that hangs, or is not there yet, must
// neither keep the station from serving nor be lost until a restart. Until it is open,
// it is a tier that fails.
type Later struct {
	kind string
	open func(context.Context) (*Tier, error)
	log  zerolog.Logger

	tier   atomic.Pointer[Tier] // nil: not open
	stop   context.CancelFunc
	worker sync.WaitGroup

	mu       sync.Mutex
	reason   string
	failures uint64
}

var _ kvstore.Cold = (*Later)(nil)

// OpenLater opens a tier of a kind (see [bucket.Kind]) behind, and tries again until that
// succeeds or Close. It returns after the first try, or before when that takes long.
func OpenLater(kind string, open func(context.Context) (*Tier, error), log zerolog.Logger) *Later {
	ctx, stop := context.WithCancel(context.Background())
	l := &Later{kind: kind, open: open, log: log, stop: stop, reason: Opening}
	tried := make(chan struct{})
	l.worker.Go(func() { l.try(ctx, sync.OnceFunc(func() { close(tried) })) })
	grace := time.NewTimer(openGrace)
	defer grace.Stop()
	select {
	case <-tried:
	case <-grace.C:
	}
	return l
}

// try opens the tier, with growing pauses; tried is called after each try.
func (l *Later) try(ctx context.Context, tried func()) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstReopen, lastReopen
	began := time.Now()
	for n := 1; ; n++ {
		t, err := l.open(ctx)
		if err == nil {
			l.tier.Store(t)
			if took := time.Since(began); n > 1 || took > openGrace {
				l.log.Info().Int("tries", n).Dur("took", took).Str("store", l.kind).Msg("the KV store is open")
			}
			tried()
			return
		}
		if ctx.Err() != nil {
			return
		}
		l.failed(err)
		tried()
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return
		}
	}
}

// failed notes why the store could not be opened. The log has the error, which names
// the place, once for each reason; others get the sentence.
func (l *Later) failed(err error) {
	reason := "the store cannot be used: " + bucket.Sentence(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures++
	if reason != l.reason {
		l.reason = reason
		l.log.Error().Err(err).Msg("the KV store cannot be used: KV will not survive a restart; it is tried again behind")
	}
}

// Put writes a block once the store is open.
func (l *Later) Put(ctx context.Context, b *block.Block) error {
	if t := l.tier.Load(); t != nil {
		return t.Put(ctx, b)
	}
	return kvstore.ErrFailing
}

// Get reads a block once the store is open.
func (l *Later) Get(ctx context.Context, name block.Name, into func(positions int) ([]byte, error)) (*block.Block, error) {
	if t := l.tier.Load(); t != nil {
		return t.Get(ctx, name, into)
	}
	return nil, kvstore.ErrFailing
}

// GetTail reads a block of so many tokens once the store is open.
func (l *Later) GetTail(ctx context.Context, name block.Name, tokens int, into func(positions int) ([]byte, error)) (*block.Block, error) {
	if t := l.tier.Load(); t != nil {
		return t.GetTail(ctx, name, tokens, into)
	}
	return nil, kvstore.ErrFailing
}

// Tails lists tails once the store is open.
func (l *Later) Tails(ctx context.Context, root, parent block.Key) ([]kvstore.Tail, error) {
	if t := l.tier.Load(); t != nil {
		return t.Tails(ctx, root, parent)
	}
	return nil, kvstore.ErrFailing
}

// Predict knows nothing before the store is open.
func (l *Later) Predict(blocks int, bytes int64) (time.Duration, bool) {
	if t := l.tier.Load(); t != nil {
		return t.Predict(blocks, bytes)
	}
	return 0, false
}

// Missed says nothing about a store that is not open.
func (l *Later) Missed(d time.Duration) {
	if t := l.tier.Load(); t != nil {
		t.Missed(d)
	}
}

// Has knows nothing before the store is open.
func (l *Later) Has(name block.Name) bool {
	t := l.tier.Load()
	return t != nil && t.Has(name)
}

// Touch notes a use once the store is open.
func (l *Later) Touch(name block.Name) {
	if t := l.tier.Load(); t != nil {
		t.Touch(name)
	}
}

// Delete deletes blocks; it fails before the store is open: they may be there.
func (l *Later) Delete(ctx context.Context, what kvstore.Which) (blocks int, bytes int64, err error) {
	if t := l.tier.Load(); t != nil {
		return t.Delete(ctx, what)
	}
	return 0, 0, kvstore.ErrFailing
}

// Stats are the tier's numbers, or why there are none yet.
func (l *Later) Stats(usable func(root block.Key) bool) wire.KVTier {
	l.mu.Lock()
	reason, failures := l.reason, l.failures
	l.mu.Unlock()
	if t := l.tier.Load(); t != nil {
		s := t.Stats(usable)
		s.Failures += failures // a counter does not go down
		return s
	}
	return wire.KVTier{State: "failing", Store: l.kind, Reason: reason, Failures: failures}
}

// Close gives opening up, waits for it, and closes what is open. Calls must have ended.
func (l *Later) Close() error {
	l.stop()
	l.worker.Wait()
	if t := l.tier.Load(); t != nil {
		return t.Close()
	}
	return nil
}
