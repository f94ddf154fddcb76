package cold

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"thoth/internal/bucket"
	"thoth/station/kvstore/block"
)

const (
	minProbeBytes = 64 << 10 // less has no rate
	maxProbeBytes = 4 << 20
	minProbeDelay = 500 * time.Millisecond
	maxProbeDelay = time.Minute
	probeGap      = 5 * time.Second // between two rounds, or a store that is often missed was written to all day
)

// try finds out whether the store can be used at all.
func (t *Tier) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	return bucket.Try(ctx, t.store, (block.Key{}).String())
}

// probeLoop measures the store at first, and tries it again whenever that is asked for:
// after a miss or when a breaker has opened, with growing delays until it is well.
func (t *Tier) probeLoop(ctx context.Context) {
	t.probe(ctx, min(max(block.Tokens*t.o.TokenBytes, minProbeBytes), maxProbeBytes), true)
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.probes:
		}
		for delay, well := minProbeDelay, false; !well; delay = min(2*delay, maxProbeDelay) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(delay):
			}
			well = t.probe(ctx, minProbeBytes, false)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(probeGap):
		}
	}
}

// probe writes an object of so many bytes, reads it and deletes it. The first one also learns the
// rate, from some reads together, as a caller's are. It tells whether all that
// worked as it should.
func (t *Tier) probe(ctx context.Context, size int, rate bool) (well bool) {
	defer t.probed.Add(1)
	name, content := bucket.ProbeObject(size)
	err := t.call(ctx, func(ctx context.Context) error { return t.store.Write(ctx, name, bucket.Writing(content)) })
	if t.wrote(ctx, err) != nil {
		// Reading may go on while writing fails: any answer is good.
		_, err := t.stat(ctx, name)
		if errors.Is(err, bucket.ErrNotFound) {
			err = nil
		}
		_ = t.note(ctx, &t.reads, "reading", err)
		return false
	}
	defer func() { _ = t.delete(context.WithoutCancel(ctx), name) }()
	first, err := t.probeRead(ctx, name, rate)
	if t.note(ctx, &t.reads, "reading", err) != nil {
		return false
	}
	if rate {
		var group sync.WaitGroup
		for range parallel / 2 {
			group.Go(func() { _, _ = t.probeRead(ctx, name, rate) })
		}
		group.Wait()
	}
	return !t.speed.slower(first)
}

// probeRead reads an object to its end, and gives the time to its first byte.
func (t *Tier) probeRead(ctx context.Context, name string, rate bool) (first time.Duration, err error) {
	err = t.call(ctx, func(ctx context.Context) error {
		began, together := time.Now(), t.speed.begin()
		r, size, err := t.store.Read(ctx, name, -1)
		first = time.Since(began)
		if err == nil {
			defer r.Close()
			_, err = io.Copy(io.Discard, r)
		}
		if !rate && t.speed.measured() {
			size = 0 // too small to tell
		}
		t.speed.end(together, first, time.Since(began)-first, size, err == nil)
		return err
	})
	return first, err
}
