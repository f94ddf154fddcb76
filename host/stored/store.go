package stored

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"thoth/internal/bucket"
)

var (
	// ErrNotFound says that there is no such record in this scope; see [Missing].
	ErrNotFound = errors.New("no such response is stored")
	// ErrOff says that the store is off; see [Store.State].
	ErrOff = errors.New("the store of responses is off")
	// ErrFailing says that the bucket fails, or is not open yet, and was not asked.
	ErrFailing = errors.New("the store of responses cannot be used")
	// ErrTooLarge says that a record, or a chain, is larger than allowed.
	ErrTooLarge = errors.New("larger than the store of responses takes")
	// ErrNoRoom says that what is being put at once exceeds the budget.
	ErrNoRoom = errors.New("the store of responses has no room")
	// ErrTooLong says that a chain has more records than were asked for.
	ErrTooLong = errors.New("too many responses go on from each other")
)

// Missing is an ErrNotFound that tells which record there is not.
type Missing struct{ ID string }

func (m *Missing) Error() string        { return fmt.Sprintf("no response %q is stored", m.ID) }
func (m *Missing) Is(target error) bool { return target == ErrNotFound }

// TooLarge is an ErrTooLarge that tells how large a record is, and may be.
type TooLarge struct{ Bytes, Most int64 }

func (t *TooLarge) Error() string {
	return fmt.Sprintf("it has %d bytes with its input, and the store of responses takes at most %d bytes of one", t.Bytes, t.Most)
}
func (t *TooLarge) Is(target error) bool { return target == ErrTooLarge }

const (
	// openGrace is how long Open waits for the bucket: a folder takes milliseconds, and then
	// the store is there from the first request on.
	openGrace = 250 * time.Millisecond
	// tellUse is how often the bucket is told of a record's use.
	tellUse = time.Minute
	// mostChainRecords is how many records of the largest size a chain may have in bytes.
	mostChainRecords = 4
)

// Store is the store of responses. Its methods are safe for concurrent use, and so are
// several stores on one bucket.
type Store struct {
	o     Options
	codec codec
	index *index

	objects atomic.Pointer[opened] // nil: not open
	reads   bucket.Breaker
	writes  bucket.Breaker
	counts  counts

	calls  chan struct{} // a place for each call
	probes chan struct{} // asks the keeper to try the bucket again
	stop   context.CancelFunc
	keeper sync.WaitGroup
}

// opened is a bucket that has been tried.
type opened struct {
	bucket.Objects
	folder bool // it knows when an object was last used
}

// Open makes a store. The bucket is opened behind, and tried again until that succeeds:
// Open waits a moment for it and never fails by it. What can be no setting is an error.
func Open(ctx context.Context, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return start(ctx, o, o.open), nil
}

// start makes a store of what open gives.
func start(ctx context.Context, o Options, open opener) *Store {
	s := &Store{o: o, codec: newCodec(o.Key), index: newIndex(), stop: func() {},
		calls: make(chan struct{}, mostCalls), probes: make(chan struct{}, 1)}
	if o.Address == None {
		s.counts.off("turned off by THOTH_RESPONSES_STORE")
		return s
	}
	s.counts.because(opening)
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	tried := make(chan struct{})
	s.keeper.Go(func() { s.keep(work, open, sync.OnceFunc(func() { close(tried) })) })
	grace := time.NewTimer(openGrace)
	defer grace.Stop()
	select {
	case <-tried:
	case <-grace.C:
	}
	return s
}

// Close ends what goes on behind and waits for all calls, in the time of one. A call that
// the operating system does not give back is left, and told.
func (s *Store) Close() error {
	s.stop()
	s.keeper.Wait()
	late := time.NewTimer(s.o.Timeout)
	defer late.Stop()
	for range cap(s.calls) {
		select {
		case s.calls <- struct{}{}:
		case <-late.C:
			return errors.New("calls to the store of responses have not come back")
		}
	}
	if b := s.objects.Load(); b != nil {
		if err := b.Close(); err != nil {
			return fmt.Errorf("closing the store of responses: %w", err)
		}
	}
	return nil
}

// Largest is how many bytes a record may have; see [TooLarge].
func (s *Store) Largest() int64 { return s.o.RecordBytes }

// TTL is how long a record is found after it was created.
func (s *Store) TTL() time.Duration { return s.o.TTL }

// Fits is a [TooLarge] for a record that Put would refuse, whether the store can be used
// or not.
func (s *Store) Fits(r *Record) error {
	if n := s.codec.size(r); n > s.o.RecordBytes {
		return &TooLarge{n, s.o.RecordBytes}
	}
	return nil
}

// Put stores a record, in place of one of the same id. It is found from now on, by
// every host, and after the end of this process. It is not synced: a loss of power takes
// what the system has not written down by itself, usually of the last half minute, and with
// it may go the record in whose place it came; see [Store.Replace].
func (s *Store) Put(ctx context.Context, r *Record) error {
	return s.store(ctx, r, func(ctx context.Context, b *opened, name string, object []byte) error {
		return b.Put(ctx, name, object)
	})
}

// Replace is Put in place of a record that must not be lost. It is synced before it has the
// name: some file systems write a new name down before the bytes, and after a loss of power
// a torn new record would stand where a whole old one had been on the disk for long.
func (s *Store) Replace(ctx context.Context, r *Record) error {
	return s.store(ctx, r, func(ctx context.Context, b *opened, name string, object []byte) error {
		return b.Write(ctx, name, bucket.Writing(object))
	})
}

func (s *Store) store(ctx context.Context, r *Record, write func(_ context.Context, b *opened, name string, object []byte) error) error {
	if err := s.Fits(r); err != nil {
		return err
	}
	b, err := s.usable(&s.writes)
	if err != nil {
		return err
	}
	n := s.codec.name(r.Scope, r.ID)
	object := s.codec.encode(n, r)
	takes := cost(int64(len(object)))
	victims, ok := s.index.reserve(n, takes, s.o.BudgetBytes)
	if !ok {
		return ErrNoRoom
	}
	var landed *Record
	defer func() { s.index.release(n, takes, landed) }()
	if err := s.drop(ctx, b, victims, &s.counts.evictions); err != nil {
		return s.note(ctx, &s.writes, "writing", err)
	}
	_, err = call(ctx, s, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, write(ctx, b, n.String(), object)
	})
	if err = s.note(ctx, &s.writes, "writing", err); err != nil {
		return err
	}
	landed = r
	return nil
}

// Get gives a record, and notes its use.
func (s *Store) Get(ctx context.Context, scope, id string) (*Record, error) {
	return s.GetCharged(ctx, scope, id, nil)
}

// GetCharged is Get for one who pays for what is read.
func (s *Store) GetCharged(ctx context.Context, scope, id string, charge Charge) (*Record, error) {
	t := &tab{charge: charge}
	defer t.close()
	return s.get(ctx, scope, id, t)
}

func (s *Store) get(ctx context.Context, scope, id string, t *tab) (*Record, error) {
	b, err := s.usable(&s.reads)
	if err != nil {
		return nil, err
	}
	n := s.codec.name(scope, id)
	r, err := call(ctx, s, func(ctx context.Context) (*Record, error) {
		r, err := s.read(ctx, b, n, t)
		if now := time.Now(); err == nil && b.folder && s.index.tell(n, now, tellUse) {
			b.Used(n.String(), now)
		}
		return r, err
	})
	var (
		damaged fault
		unpaid  *refused
	)
	switch {
	case errors.As(err, &unpaid):
		_ = s.note(ctx, &s.reads, "reading", nil)
		return nil, unpaid.err
	case errors.Is(err, bucket.ErrNotFound):
		_ = s.note(ctx, &s.reads, "reading", nil)
		s.index.remove(n)
		return nil, &Missing{id}
	case errors.As(err, &damaged):
		_ = s.note(ctx, &s.reads, "reading", nil)
		s.damaged(ctx, b, n, damaged)
		return nil, &Missing{id}
	case err != nil:
		return nil, s.note(ctx, &s.reads, "reading", err)
	}
	_ = s.note(ctx, &s.reads, "reading", nil)
	if time.Since(r.Created) > s.o.TTL {
		return nil, &Missing{id} // the next sweep deletes it
	}
	r.Scope = scope
	return r, nil
}

// read reads one object, and notes in the index what it is.
func (s *Store) read(ctx context.Context, b *opened, n name, t *tab) (*Record, error) {
	in, size, err := b.Read(ctx, n.String(), -1)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if size > mostRecordBytes {
		return nil, faultFormat
	}
	if err := t.take(size); err != nil {
		return nil, err
	}
	// To its end, and not to its size: a folder tells that of the name, which another
	// process may have given to the next version by now.
	object := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	if _, err := object.ReadFrom(io.LimitReader(in, mostRecordBytes+1)); err != nil {
		return nil, err
	}
	if more := int64(object.Len()) - size; more > 0 {
		if err := t.take(more); err != nil {
			return nil, err
		}
	}
	r, err := s.codec.decode(n, object.Bytes())
	if err != nil {
		return nil, err
	}
	s.index.read(n, cost(int64(object.Len())), r)
	return r, nil
}

// damaged drops an object that failed a check.
func (s *Store) damaged(ctx context.Context, b *opened, n name, f fault) {
	s.counts.drop(f)
	s.o.Log.Warn().Str("reason", string(f)).Msg("a stored response is damaged, and dropped")
	// The reader may be in a hurry; a damaged object must go all the same.
	_ = s.delete(context.WithoutCancel(ctx), b, n)
	s.index.remove(n)
}

// Delete removes a record.
func (s *Store) Delete(ctx context.Context, scope, id string) error {
	b, err := s.usable(&s.writes)
	if err != nil {
		return err
	}
	n := s.codec.name(scope, id)
	err = s.delete(ctx, b, n)
	if err != nil && !errors.Is(err, bucket.ErrNotFound) {
		return s.note(ctx, &s.writes, "deleting", err)
	}
	_ = s.note(ctx, &s.writes, "deleting", nil)
	s.index.remove(n)
	if err != nil {
		return &Missing{id}
	}
	return nil
}

func (s *Store) delete(ctx context.Context, b *opened, n name) error {
	_, err := call(ctx, s, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.Delete(ctx, n.String()) })
	return err
}

// drop deletes objects that were taken out of the index, and counts them; those that
// could not be deleted are put back.
func (s *Store) drop(ctx context.Context, b *opened, gone []*entry, count *atomic.Uint64) error {
	return each(gone, func(e *entry) error {
		if err := s.delete(ctx, b, e.name); err != nil && !errors.Is(err, bucket.ErrNotFound) {
			s.index.restore(e)
			return err
		}
		count.Add(1)
		return nil
	})
}

// usable gives the bucket, unless it is not to be asked.
func (s *Store) usable(of *bucket.Breaker) (*opened, error) {
	if s.counts.isOff() {
		return nil, ErrOff
	}
	b := s.objects.Load()
	if _, open := of.Open(); open || b == nil {
		return nil, ErrFailing
	}
	return b, nil
}

// note notes how a call went. Three failures in a row, and the bucket is left alone.
func (s *Store) note(ctx context.Context, of *bucket.Breaker, doing string, err error) error {
	if of.Record(ctx, err) {
		s.o.Log.Error().Str("reason", bucket.Sentence(err)).Msgf("the store of responses fails at %s; it is tried again behind", doing)
		select {
		case s.probes <- struct{}{}:
		default:
		}
	}
	if err != nil {
		return fmt.Errorf("%s the store of responses: %w", doing, err)
	}
	return nil
}
