package entrypoint

import (
	"context"
	"fmt"
	"time"
)

// frozenLooks is how many looks in a row go unanswered before a station counts
// as frozen; they share its time. They are counted, and not the time alone: a
// container that was paused as a whole wakes up with one of them.
const frozenLooks = 12

// watchFrozen looks at a station that serves until ctx ends, and has it killed
// when it answers no more: stopped, or stuck in the kernel or a driver, it would
// hold its memory and serve nobody until someone comes by. Health is answered
// from memory, so that being busy is not being frozen.
func (s *Supervisor) watchFrozen(ctx context.Context, c *Child, address string) {
	if s.o.StationFrozen < 0 {
		return
	}
	every := s.o.StationFrozen / frozenLooks
	tick := time.NewTicker(max(every, time.Millisecond))
	defer tick.Stop()
	for unanswered := 0; unanswered < frozenLooks; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		unanswered++
		if askHealth(ctx, address, every) != nil {
			unanswered = 0
		}
	}
	c.Fail(fmt.Errorf("frozen: its /health gave no answer for %s", s.o.StationFrozen))
}
