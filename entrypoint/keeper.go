package entrypoint

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// keeper keeps one program alive: Child after Child, until it is stopped or the
// program's fault cannot be mended.
type keeper struct {
	name     string
	log      zerolog.Logger
	backoff  backoff
	maxFails int

	spec func() (Spec, error)
	// watch runs beside a running Child until ctx ends, and calls served once
	// the child does its work: from then on its end is a crash and not a failed
	// start.
	watch func(ctx context.Context, c *Child, served func())
	// replan is asked about an end before anything was served: true means that
	// the next spec differs and is worth an immediate try.
	replan func(e *Exit) bool

	bounceGrace time.Duration // time to end for a child that is replaced
	bounce      chan struct{}

	grace time.Duration // of Stop; set before stopping ends

	stopping, killing context.Context
	stop, kill        context.CancelFunc

	ended  chan struct{}
	err    error // why it ended; nil when it was stopped. Read after ended.
	forced bool  // the last child had to be killed. Read after ended.
}

func (k *keeper) init() {
	k.stopping, k.stop = context.WithCancel(context.Background())
	k.killing, k.kill = context.WithCancel(context.Background())
	k.bounce = make(chan struct{}, 1)
	k.ended = make(chan struct{})
}

// Stop ends the child within grace and starts no other. It does not wait.
func (k *keeper) Stop(grace time.Duration) {
	if k.stopping.Err() == nil {
		k.grace = grace
		k.stop()
	}
}

// Kill ends the child at once and starts no other. It does not wait.
func (k *keeper) Kill() {
	k.kill()
	k.stop()
}

// Bounce replaces the child by one with a new spec.
func (k *keeper) Bounce() {
	select {
	case k.bounce <- struct{}{}:
	default:
	}
}

// run is the keeper's goroutine.
func (k *keeper) run() {
	defer close(k.ended)
	fails := 0
	for k.stopping.Err() == nil {
		spec, err := k.spec()
		if err != nil {
			k.err = err
			return
		}
		served, exit := k.once(spec)
		if k.stopping.Err() != nil {
			k.forced = exit.Forced
			return
		}
		if exit.Asked {
			continue // bounced
		}
		if !served && k.replan(exit) {
			continue
		}
		if code, yes := exit.permanent(); yes {
			k.err = fatal(k.name, code, exit)
			return
		}
		fails++
		if served {
			fails = 0
		}
		if fails >= k.maxFails {
			k.err = &ExitError{Code: ExitFailed, Tail: exit.Tail,
				Msg: fatal(k.name, ExitFailed, exit).Msg + "; it never came up, giving up"}
			return
		}
		pause := k.backoff.next(exit.Ran)
		k.log.Error().Str("child", k.name).Int("exit_code", exit.Code).Int("signal", int(exit.Signal)).
			Dur("ran_ms", exit.Ran).Dur("restart_in_ms", pause).Int("failed_starts", fails).
			Strs("stderr", exit.Tail).Msg(exit.Sentence(k.name))
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-k.stopping.Done():
		}
		timer.Stop()
	}
}

// once is one life, from start to burial.
func (k *keeper) once(spec Spec) (served bool, exit *Exit) {
	child := Start(spec)
	ctx, cancel := context.WithCancel(context.Background())
	var watcher sync.WaitGroup
	works := make(chan struct{})
	up, stopping, killing := child.Up(), k.stopping.Done(), k.killing.Done()
	for {
		select {
		case <-up:
			up = nil
			watcher.Go(func() { k.watch(ctx, child, sync.OnceFunc(func() { close(works) })) })
		case <-k.bounce:
			child.Stop(k.bounceGrace)
		case <-stopping:
			stopping = nil
			child.Stop(k.grace)
		case <-killing:
			killing = nil
			child.Kill()
		case <-child.Done():
			cancel()
			watcher.Wait()
			select {
			case <-works:
				served = true
			default:
			}
			return served, child.Exit()
		}
	}
}
