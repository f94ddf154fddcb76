package stored

import (
	"context"
	"time"
)

// A sync is most of what it costs to store a response, and costs the same for one as for
// many. So nobody waits for it: records are put without, and synced behind, all of a
// second together. What a loss of power takes, or tears, are those of the last second; the
// checksum tells a torn one.

// syncAfter is how long a record waits for its sync, for others to join it.
const syncAfter = time.Second

// syncLoop syncs what was put, until ctx ends. A sync takes as long as the disk needs for
// all that waits for it, which may be others' gigabytes: a slow one says nothing about the
// bucket, and holds up nobody. One that fails speaks of all who were told that their
// record is stored: it opens the breaker.
func (s *Store) syncLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.unsynced:
		}
		select {
		case <-ctx.Done():
			ask(s.unsynced) // Close does it
			return
		case <-time.After(syncAfter):
		}
		select {
		case <-s.unsynced: // by those who joined
		default:
		}
		if _, err := run(ctx, s, s.sync); err != nil && ctx.Err() == nil && s.writes.Trip(err) {
			s.tripped("syncing", err)
		}
	}
}

func (s *Store) sync(context.Context) (struct{}, error) {
	return struct{}{}, s.objects.Load().Sync()
}
