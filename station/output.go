package station

import (
	"context"
	"sync"

	"thoth/station/wire"
)

// output carries frames from the loop to one handler. The loop never waits: the
// frames of a call are bounded by its tokens, and those by context_length.
//
// Invariant: it ends with one error frame, or with the last of as many done frames
// as are expected.
type output struct {
	wake chan struct{} // buffered 1: there may be frames

	mu struct {
		sync.Mutex
		frames []wire.Frame
		left   int // done frames
	}
}

func newOutput() *output {
	o := &output{wake: make(chan struct{}, 1)}
	o.mu.left = 1
	return o
}

// expect is the number of done frames, told before the first frame.
func (o *output) expect(n int) { o.mu.left = n }

func (o *output) put(f wire.Frame) {
	o.mu.Lock()
	if o.mu.left > 0 {
		o.mu.frames = append(o.mu.frames, f)
		switch f.Type {
		case wire.FrameDone:
			o.mu.left--
		case wire.FrameError:
			o.mu.left = 0
		}
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take waits for frames and returns all there are, and whether that is all. After
// that it must not be called again.
func (o *output) take(ctx context.Context) (frames []wire.Frame, ended bool, err error) {
	for {
		o.mu.Lock()
		frames, ended = o.mu.frames, o.mu.left == 0
		o.mu.frames = nil
		o.mu.Unlock()
		if len(frames) > 0 {
			return frames, ended, nil
		}
		select {
		case <-o.wake:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// drain waits for the end and returns all frames until then. The loop always ends
// a call, a cancelled one before its next step.
func (o *output) drain() (all []wire.Frame) {
	for {
		frames, ended, _ := o.take(context.Background())
		if all = append(all, frames...); ended {
			return all
		}
	}
}
