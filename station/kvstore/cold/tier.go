package cold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"thoth/internal/bucket"
	"thoth/station/kvstore"
	"thoth/station/kvstore/block"
)

var (
	_ kvstore.Cold = (*Tier)(nil)
)

// Options of a tier.
type Options struct {
	BudgetBytes int64         // of all that lies in the store; must be set: 0 is off, and off is no tier
	TokenBytes  int           // KV bytes of one position; objects of another size are dropped
	MasterKey   []byte        // of KeyBytes bytes, seals the blocks; nil: stored in the clear
	Timeout     time.Duration // of one call to the store; default 10s
	Sweep       time.Duration // between two sweeps; default 10m
	DropAfter   time.Duration // age at which temporary and foreign files, empty folders and blocks without a parent go; default 1h
	Now         func() time.Time
	Logger      zerolog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Sweep == 0 {
		o.Sweep = 10 * time.Minute
	}
	if o.DropAfter == 0 {
		o.DropAfter = time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	switch {
	case o.BudgetBytes <= 0:
		return o, fmt.Errorf("a budget of %d bytes is no cold store: want more than 0, or THOTH_KV_STORE empty", o.BudgetBytes)
	case o.TokenBytes < 1 || o.TokenBytes > block.MaxTokenBytes:
		return o, fmt.Errorf("%d bytes of KV for a token: want 1 to %d", o.TokenBytes, block.MaxTokenBytes)
	case len(o.MasterKey) != 0 && len(o.MasterKey) != KeyBytes:
		return o, fmt.Errorf("THOTH_KV_KEY: a key of %d bytes, want %d", len(o.MasterKey), KeyBytes)
	case o.Timeout < 0 || o.Sweep < 0 || o.DropAfter < 0:
		return o, errors.New("timeout, sweep and drop-after of the cold store: want positive times")
	}
	return o, nil
}

// Tier is the cold tier: kvstore's Cold over a folder or bucket. Its methods are safe
// for concurrent use. A call ends when its context or its timeout does, except that
// an operating system that hangs in a file call is waited for: the memory of a
// block must not be written after its reader gave it up.
type Tier struct {
	o     Options
	store bucket.Objects
	kind  string
	dir   string // of a folder
	seals *Sealer

	index  *index
	speed  speed
	reads  bucket.Breaker
	writes bucket.Breaker
	counts counts

	probed  atomic.Int64 // probes that came to their end
	stop    context.CancelFunc
	workers sync.WaitGroup
	sweeps  chan struct{} // asks for a sweep
	probes  chan struct{} // asks for a probe
}

// Open opens the store of a URL (see package bucket) and tries it out: it
// writes, lists, reads and deletes a small object. Sweeping and measuring go on behind.
func Open(ctx context.Context, address string, o Options) (*Tier, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := bucket.Open(ctx, address, true, o.Timeout)
	if err != nil {
		return nil, fmt.Errorf("THOTH_KV_STORE: %w", err)
	}
	t, err := open(ctx, s, s.Kind, s.Dir, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("THOTH_KV_STORE: the store cannot be used: %w", err), s.Close())
	}
	return t, nil
}

func open(ctx context.Context, s bucket.Objects, kind, dir string, o Options) (*Tier, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &Tier{
		o: o, store: s, kind: kind, dir: dir, seals: NewSealer(o.MasterKey), index: newIndex(),
		sweeps: make(chan struct{}, 1), probes: make(chan struct{}, 1),
	}
	if err := t.try(ctx); err != nil {
		return nil, err
	}
	t.measureDisk()
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.stop = stop
	t.workers.Go(func() { t.sweepLoop(work) })
	t.workers.Go(func() { t.probeLoop(work) })
	return t, nil
}

// Close ends what goes on behind and waits for it. Calls must have ended.
func (t *Tier) Close() error {
	t.stop()
	t.workers.Wait()
	return t.store.Close()
}

// Put writes a block, unless the store has it. A block that needs room in the budget
// pushes out the longest unused ones.
func (t *Tier) Put(ctx context.Context, b *block.Block) error {
	if _, open := t.writes.Open(); open {
		return kvstore.ErrFailing
	}
	if len(b.Data) != len(b.Tokens)*t.o.TokenBytes {
		return fmt.Errorf("%d bytes of KV for %d tokens: want %d for each", len(b.Data), len(b.Tokens), t.o.TokenBytes)
	}
	seal := t.seals.For(b.Root)
	name, size := ObjectName(b.Name, len(b.Tokens)), block.ObjectSize(b, seal != nil)

	// Another replica may have written it, and writing wears. Sizes say nothing: labels
	// differ in length, and a damaged object is dropped when it is read.
	there, err := t.stat(ctx, name)
	if err == nil {
		t.index.see(b.Name, len(b.Tokens), there.Size, t.o.Now())
		return nil
	}
	if err != nil && !errors.Is(err, bucket.ErrNotFound) {
		return t.wrote(ctx, err)
	}

	gone, ok := t.index.reserve(name, size, t.o.BudgetBytes, b.Name)
	if !ok {
		return kvstore.ErrNoRoom
	}
	landed := false
	defer func() { t.index.release(name, b.Name, len(b.Tokens), size, t.o.Now(), landed) }()
	if err := t.drop(ctx, gone, &t.counts.evictions); err != nil {
		return t.wrote(ctx, err)
	}
	began := time.Now()
	err = t.call(ctx, func(ctx context.Context) error {
		return t.store.Write(ctx, name, func(w io.Writer) error { return block.Encode(w, b, seal) })
	})
	if err = t.wrote(ctx, err); err != nil {
		return err
	}
	landed = true
	t.measureDisk()
	if t.counts.write(time.Since(began), size, t.o.BudgetBytes/16) {
		ask(t.sweeps) // others may write as well
	}
	return nil
}

// Get reads and checks a block. A tail is found when this tier has put it, Tails
// has listed it or a sweep has seen it: its name tells its length.
func (t *Tier) Get(ctx context.Context, name block.Name, into func(positions int) ([]byte, error)) (*block.Block, error) {
	return t.GetTail(ctx, name, t.index.tokens(name), into)
}

// GetTail is Get of a block of so many tokens, which its object's name tells.
func (t *Tier) GetTail(ctx context.Context, name block.Name, tokens int, into func(positions int) ([]byte, error)) (*block.Block, error) {
	if _, open := t.reads.Open(); open {
		return nil, kvstore.ErrFailing
	}
	object := ObjectName(name, tokens)
	var b *block.Block
	err := t.call(ctx, func(ctx context.Context) (err error) {
		b, err = t.read(ctx, object, name, into)
		return err
	})
	if err == nil && len(b.Tokens) != tokens {
		err = &block.Fault{Reason: block.Misplaced, Detail: "it is of another length than its name says"}
	}
	var (
		fault   *block.Fault
		refused intoError
	)
	switch {
	case err == nil:
		t.reads.Record(ctx, nil)
		t.index.see(name, tokens, block.ObjectSize(b, t.seals != nil), time.Time{})
		t.index.touch(name, t.o.Now())
		return b, nil
	case errors.Is(err, bucket.ErrNotFound):
		t.reads.Record(ctx, nil)
		t.index.forget(name)
		return nil, kvstore.ErrNotFound
	case errors.As(err, &refused):
		return nil, refused.error
	case errors.As(err, &fault):
		t.reads.Record(ctx, nil)
		t.damaged(ctx, object, name, fault)
		return nil, fault
	}
	return nil, t.readFailed(ctx, err)
}

// read reads one object, and learns from it how fast the store is.
func (t *Tier) read(ctx context.Context, object string, name block.Name, into func(int) ([]byte, error)) (*block.Block, error) {
	began, together := time.Now(), t.speed.begin()
	r, size, err := t.store.Read(ctx, object, -1)
	first := time.Since(began)
	if err != nil {
		t.speed.end(together, first, 0, 0, errors.Is(err, bucket.ErrNotFound))
		return nil, err
	}
	defer r.Close()
	timed := &timedReader{r: r}
	var memory time.Duration // into may have to evict: no fault of the store
	b, err := block.Decode(timed, size, name, t.o.TokenBytes, t.seals.For(name.Root), func(n int) ([]byte, error) {
		asked := time.Now()
		p, err := into(n)
		memory = time.Since(asked)
		if err != nil {
			return nil, intoError{err}
		}
		return p, nil
	})
	all := time.Since(began) - memory
	t.speed.end(together, first, all-first, timed.bytes, err == nil)
	t.counts.read(first+timed.took, timed.bytes, all-first-timed.took)
	return b, err
}

// intoError is an error of the caller's, not the store's.
type intoError struct{ error }

// timedReader tells reading from checking.
type timedReader struct {
	r     io.Reader
	took  time.Duration
	bytes int64
}

func (t *timedReader) Read(p []byte) (int, error) {
	began := time.Now()
	n, err := t.r.Read(p)
	t.took += time.Since(began)
	t.bytes += int64(n)
	return n, err
}

// damaged drops an object that failed a check.
func (t *Tier) damaged(ctx context.Context, object string, name block.Name, f *block.Fault) {
	t.counts.drop(string(f.Reason), 1)
	t.o.Logger.Warn().Str("reason", string(f.Reason)).Str("detail", f.Detail).Msg("a stored block is damaged, and dropped")
	// The reader may be in a hurry; a damaged object must go all the same.
	_ = t.delete(context.WithoutCancel(ctx), object)
	t.index.forget(name)
}

// maxTails bounds what Tails gives: each has to be read to know whether it matches.
const maxTails = 16

// Tails lists the tails below parent: the last written of one page of a listing,
// newest first. Below a shared prompt there may be any number of them.
func (t *Tier) Tails(ctx context.Context, root, parent block.Key) ([]kvstore.Tail, error) {
	if _, open := t.reads.Open(); open {
		return nil, kvstore.ErrFailing
	}
	type dated struct {
		kvstore.Tail
		at time.Time
	}
	var found []dated
	listed := 0
	err := t.call(ctx, func(ctx context.Context) error {
		return t.store.List(ctx, root.String()+"/"+parent.String()+"/", func(o bucket.Object) error {
			if n, tokens, ok := ParseObjectName(o.Name); ok {
				t.index.see(n, tokens, o.Size, o.Time)
				if tokens < block.Tokens {
					found = append(found, dated{kvstore.Tail{Name: n, Tokens: tokens}, o.Time})
				}
			}
			if listed++; listed == bucket.PageSize {
				return errEnough
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, t.readFailed(ctx, err)
	}
	t.reads.Record(ctx, nil)
	slices.SortFunc(found, func(a, b dated) int { return b.at.Compare(a.at) })
	tails := make([]kvstore.Tail, 0, maxTails)
	for _, d := range found[:min(len(found), maxTails)] {
		tails = append(tails, d.Tail)
	}
	return tails, nil
}

// errEnough ends a listing.
var errEnough = errors.New("enough")

// Predict tells how long it takes to read so many blocks of so many bytes together.
func (t *Tier) Predict(blocks int, bytes int64) (time.Duration, bool) {
	if _, open := t.reads.Open(); open {
		return 0, false
	}
	return t.speed.predict(blocks, bytes)
}

// Missed tells that a read did not come within d: predictions rise, and the store
// is measured again.
func (t *Tier) Missed(d time.Duration) {
	t.speed.missed(d)
	ask(t.probes)
}

// Has says whether this tier has put the block, or a sweep has seen it.
func (t *Tier) Has(name block.Name) bool { return t.index.has(name) }

// Touch notes a use, for eviction.
func (t *Tier) Touch(name block.Name) { t.index.touch(name, t.o.Now()) }

// call gives f the time of one call.
func (t *Tier) call(ctx context.Context, f func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err // not every driver looks
	}
	ctx, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	return f(ctx)
}

func (t *Tier) stat(ctx context.Context, name string) (o bucket.Object, err error) {
	err = t.call(ctx, func(ctx context.Context) error {
		o, err = t.store.Stat(ctx, name)
		return err
	})
	return o, err
}

func (t *Tier) delete(ctx context.Context, name string) error {
	err := t.call(ctx, func(ctx context.Context) error { return t.store.Delete(ctx, name) })
	if errors.Is(err, bucket.ErrNotFound) {
		return nil // another process was first
	}
	return err
}

// readFailed notes a failure of the store's to read.
func (t *Tier) readFailed(ctx context.Context, err error) error {
	return t.note(ctx, &t.reads, "reading", err)
}

// wrote notes how a write went.
func (t *Tier) wrote(ctx context.Context, err error) error {
	return t.note(ctx, &t.writes, "writing", err)
}

func (t *Tier) note(ctx context.Context, b *bucket.Breaker, doing string, err error) error {
	if b.Record(ctx, err) {
		t.o.Logger.Error().Str("reason", bucket.Sentence(err)).Msgf("the cold store fails at %s; it is tried again behind", doing)
		ask(t.probes)
	}
	if err != nil {
		return fmt.Errorf("%s the cold store: %w", doing, err)
	}
	return nil
}

// notThere tells whether err says that there is no such block, or none that is usable.
func notThere(err error) bool {
	var fault *block.Fault
	return errors.Is(err, bucket.ErrNotFound) || errors.As(err, &fault)
}

// ask wakes a loop, unless it is to wake already.
func ask(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
