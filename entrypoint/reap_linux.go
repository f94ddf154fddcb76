package entrypoint

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// reap collects orphans that become our children, until ctx ends: process 1
// inherits them, and any other entrypoint asks the kernel for the same. What a
// Child has started is left alone, or its exit status would be lost.
func reap(ctx context.Context, log zerolog.Logger) {
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			log.Debug().Err(err).Msg("orphans go to process 1")
		}
	}
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	for {
		reapOrphans()
		select {
		case <-died:
		case <-owned.released:
		case <-ctx.Done():
			return
		}
	}
}

// reapOrphans waits for every dead child that no Child claims. The kernel may
// show a claimed one first and hide the others behind it: then its owner's
// release calls again.
func reapOrphans() {
	owned.mu.Lock()
	defer owned.mu.Unlock()
	for {
		pid := peekDead()
		if pid == 0 || owned.pids[pid] {
			return
		}
		_, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// peekDead is a dead child's id, 0 for none, without collecting it.
func peekDead() int {
	// unix.Siginfo hides what follows its head: for a child it is the process
	// id, at the next place where a pointer may stand (sigaction(2)).
	var info struct {
		signo, errno, code int32
		child              struct {
			_   [0]uintptr
			pid int32
		}
		_ [128]byte
	}
	for {
		err := unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		switch {
		case err == nil:
			return int(info.child.pid)
		case !errors.Is(err, unix.EINTR):
			return 0
		}
	}
}
