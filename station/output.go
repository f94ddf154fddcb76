package station

import (
	"context"
	"sync"

	"thoth/station/wire"
)

// output carries frames from the loop to one handler. The loop never waits: the
// frames of a call are bounded by its tokens, and those by context_length.
//
// Invariant: exactly one final frame (done or error), the last one.
type output struct {
	wake chan struct{} // buffered 1: there may be frames

	mu struct {
		sync.Mutex
		frames []wire.Frame
		ended  bool
	}
}

func newOutput() *output { return &output{wake: make(chan struct{}, 1)} }

func (o *output) put(f wire.Frame) {
	o.mu.Lock()
	if !o.mu.ended {
		o.mu.frames = append(o.mu.frames, f)
		o.mu.ended = f.Type == wire.FrameDone || f.Type == wire.FrameError
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take waits for frames and returns all there are. After the final frame was
// returned, it must not be called again.
func (o *output) take(ctx context.Context) ([]wire.Frame, error) {
	for {
		o.mu.Lock()
		frames := o.mu.frames
		o.mu.frames = nil
		o.mu.Unlock()
		if len(frames) > 0 {
			return frames, nil
		}
		select {
		case <-o.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// drain waits for the final frame, drops the others and returns it. The loop
// always ends a call, a cancelled one before its next step.
func (o *output) drain() wire.Frame {
	for {
		frames, _ := o.take(context.Background())
		last := frames[len(frames)-1]
		if last.Type == wire.FrameDone || last.Type == wire.FrameError {
			return last
		}
	}
}
