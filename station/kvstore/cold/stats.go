package cold

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"thoth/internal/bucket"
	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// counts are what the tier has done.
type counts struct {
	evictions atomic.Int64
	free      atomic.Int64 // bytes the disk has left, when last looked at

	mu         sync.Mutex
	drops      map[string]uint64
	reading    time.Duration
	verifying  time.Duration
	readBytes  uint64
	writing    time.Duration
	wrote      uint64
	sinceSweep int64 // bytes written since the last one was asked for
}

func (c *counts) drop(reason string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops == nil {
		c.drops = map[string]uint64{}
	}
	c.drops[reason] += uint64(n)
}

func (c *counts) read(took time.Duration, bytes int64, verify time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading += took
	c.readBytes += uint64(bytes)
	c.verifying += verify
}

// write notes a write, and tells when so many bytes were written that the store
// should be looked at again.
func (c *counts) write(took time.Duration, bytes, lookAfter int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing += took
	c.wrote += uint64(bytes)
	if c.sinceSweep += bytes; c.sinceSweep < lookAfter {
		return false
	}
	c.sinceSweep = 0
	return true
}

// Stats are the tier's numbers. Bytes count all that lies in the store, temporary
// and foreign files included; usable says which roots are this model's.
func (t *Tier) Stats(usable func(root block.Key) bool) wire.KVTier {
	s := wire.KVTier{
		State: "on", Store: t.kind, BudgetBytes: t.o.BudgetBytes,
		FreeBytes:   t.counts.free.Load(),
		UsableBytes: t.index.usable(usable),
		Evictions:   uint64(t.counts.evictions.Load()),
		Failures:    t.reads.Count() + t.writes.Count(),
	}
	t.index.mu.Lock()
	s.Bytes, s.Blocks = t.index.bytes+t.index.strays, t.index.blocks
	t.index.mu.Unlock()
	if why, open := t.reads.Open(); open {
		s.State, s.Reason = "failing", "reading: "+why
	} else if why, open := t.writes.Open(); open {
		s.State, s.Reason = "failing", "writing: "+why
	}
	c := &t.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Drops = maps.Clone(c.drops)
	s.ReadSeconds, s.ReadBytes = c.reading.Seconds(), c.readBytes
	s.WriteSeconds, s.WrittenBytes = c.writing.Seconds(), c.wrote
	s.VerifySeconds = c.verifying.Seconds()
	return s
}

// measureDisk looks how much the disk has left.
func (t *Tier) measureDisk() {
	if t.dir != "" {
		t.counts.free.Store(bucket.FreeBytes(t.dir))
	}
}
