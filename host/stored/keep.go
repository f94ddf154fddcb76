package stored

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/cenkalti/backoff/v5"

	"thoth/internal/bucket"
)

const (
	firstRetry = time.Second
	lastRetry  = time.Minute
	// dropAfter is the age at which a temporary or foreign file goes.
	dropAfter = time.Hour
)

// opener opens the bucket; off says why there can be none, and then it is not tried again.
type opener func(ctx context.Context) (b *opened, off string, err error)

func (o Options) open(ctx context.Context) (b *opened, off string, err error) {
	var address string
	if o.Address == Auto {
		if address, off = bucket.InCache(o.CacheDir, folder, "THOTH_RESPONSES_STORE", "responses"); off != "" {
			return nil, off, nil
		}
	} else if address, err = bucket.Below(o.Address, folder); err != nil {
		return nil, "", err
	}
	objects, err := bucket.Open(ctx, address, true, o.Timeout)
	if err != nil {
		return nil, "", err
	}
	if err := bucket.Try(ctx, objects, name{}.folder()); err != nil {
		return nil, "", errors.Join(err, objects.Close())
	}
	return &opened{Objects: objects, folder: objects.Dir != ""}, "", nil
}

// keep opens the bucket, and then looks after it until ctx ends: it sweeps, and when the
// bucket fails it tries it again. tried is called when opening has been tried once.
func (s *Store) keep(ctx context.Context, open opener, tried func()) {
	if !s.openUp(ctx, open, tried) {
		return
	}
	tick := time.NewTicker(s.o.Sweep)
	defer tick.Stop()
	for {
		if err := s.sweep(ctx, s.objects.Load()); err != nil && ctx.Err() == nil {
			s.o.Log.Warn().Str("reason", bucket.Sentence(err)).Msg("the store of responses could not be swept")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.probes:
			if !retry(ctx, func() bool { return s.well(ctx) }) {
				return
			}
			s.o.Log.Info().Msg("the store of responses can be used again")
		}
	}
}

// openUp opens the bucket, with growing pauses. It is false when ctx has ended, or the
// store is off.
func (s *Store) openUp(ctx context.Context, open opener, tried func()) bool {
	var off string
	opens := func() bool {
		defer tried()
		type answer struct {
			b   *opened
			off string
		}
		a, err := call(ctx, s, func(ctx context.Context) (answer, error) {
			b, off, err := open(ctx)
			if b != nil && ctx.Err() != nil { // nobody waits for it any more
				return answer{}, errors.Join(ctx.Err(), b.Close())
			}
			return answer{b, off}, err
		})
		switch {
		case err == nil && a.b == nil:
			off = a.off
			s.counts.off(off)
			s.o.Log.Warn().Str("reason", off).Msg("responses are not stored")
		case err == nil:
			s.objects.Store(a.b)
			s.counts.because("")
			s.o.Log.Info().Str("store", s.kind()).Int64("budget_bytes", s.o.BudgetBytes).Dur("ttl", s.o.TTL).Msg("responses are stored")
		case ctx.Err() == nil:
			if s.counts.because("the store cannot be used: " + bucket.Sentence(err)) { // the log alone has the place
				s.o.Log.Error().Err(err).Str("store", s.kind()).Msg("the store of responses cannot be used; it is tried again behind")
			}
		}
		return err == nil
	}
	return retry(ctx, opens) && off == ""
}

// retry calls f until it succeeds, with growing pauses, or ctx ends.
func retry(ctx context.Context, f func() bool) bool {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstRetry, lastRetry
	for !f() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause.NextBackOff()):
		}
	}
	return true
}

// well tries a bucket that failed. Reading may go on while writing fails: a full disk
// still reads, and any answer is good.
func (s *Store) well(ctx context.Context) bool {
	b := s.objects.Load()
	_, err := call(ctx, s, func(ctx context.Context) (bucket.Object, error) { return b.Stat(ctx, name{}.String()) })
	if errors.Is(err, bucket.ErrNotFound) {
		err = nil
	}
	reads := s.note(ctx, &s.reads, "reading", err)
	_, err = call(ctx, s, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, bucket.Try(ctx, b, name{}.folder())
	})
	writes := s.note(ctx, &s.writes, "writing", err)
	return reads == nil && writes == nil
}

// sweep looks at all that the bucket holds, drops what does not belong there, deletes
// what has come to its end, and evicts what the budget does not hold.
func (s *Store) sweep(ctx context.Context, b *opened) error {
	s.index.begin()
	whole := false
	defer func() { s.index.end(whole) }()
	var folders, foreign []string
	_, err := run(ctx, s, func(ctx context.Context) (struct{}, error) {
		before := time.Now().Add(-dropAfter)
		return struct{}{}, b.Top(ctx, func(o bucket.Object) error {
			switch {
			case o.Folder && isFolder(o.Name):
				folders = append(folders, o.Name)
			case !o.Folder && bucket.ProbeName(o.Name) && o.Time.Before(before):
				foreign = append(foreign, o.Name)
			}
			return ctx.Err()
		})
	})
	if err != nil {
		return err
	}
	for _, folder := range folders {
		more, err := s.sweepFolder(ctx, b, folder)
		if err != nil {
			return err
		}
		foreign = append(foreign, more...)
	}
	whole = true
	for _, f := range foreign {
		_, err := call(ctx, s, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.Delete(ctx, f) })
		if err != nil && !errors.Is(err, bucket.ErrNotFound) {
			return err
		}
		s.counts.drop(stray)
	}
	if err := s.drop(ctx, b, s.index.expired(time.Now().Add(-s.o.TTL)), &s.counts.expired); err != nil {
		return err
	}
	if err := s.drop(ctx, b, s.index.over(s.o.BudgetBytes), &s.counts.evictions); err != nil {
		return err
	}
	_, err = run(ctx, s, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.Prune(ctx, time.Now().Add(-dropAfter), isFolder)
	})
	return err
}

// mostStrays bounds what one sweep remembers to delete; the next finds the others.
const mostStrays = 10_000

// sweepFolder lists the records of one scope, and gives what lies between them.
func (s *Store) sweepFolder(ctx context.Context, b *opened, folder string) (foreign []string, err error) {
	return run(ctx, s, func(ctx context.Context) (foreign []string, err error) {
		before := time.Now().Add(-dropAfter)
		err = b.List(ctx, folder+"/", func(o bucket.Object) error {
			n, ours := parseName(o.Name)
			switch {
			case ours && !s.index.met(n, cost(o.Size), o.Time):
				// A bucket's time is that of writing, a file's that of its last use.
				born := o.Time
				if b.folder {
					var err error
					if born, err = s.born(ctx, b, n, o.Time); err != nil {
						return err
					}
				}
				if !born.IsZero() {
					s.index.see(n, cost(o.Size), o.Time, born)
				}
			case !ours && o.Time.Before(before) && len(foreign) < mostStrays:
				foreign = append(foreign, o.Name)
			}
			return ctx.Err()
		})
		return foreign, err
	})
}

// born reads from a file when its record was created; zero when it is gone meanwhile. One
// that is damaged, which its reader finds out, has the time of its file: a loss of power
// may leave such, and nobody may ever ask for them.
func (s *Store) born(ctx context.Context, b *opened, n name, written time.Time) (time.Time, error) {
	in, _, err := b.Read(ctx, n.String(), headerBytes)
	if errors.Is(err, bucket.ErrNotFound) {
		s.index.remove(n)
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	defer in.Close()
	header := make([]byte, headerBytes)
	if _, err := io.ReadFull(in, header); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return time.Time{}, err
	}
	created, _, err := decodeHeader(header)
	if err != nil {
		return written, nil
	}
	return created, nil
}
