//go:build unix && !linux

package entrypoint

import (
	"context"
	"syscall"

	"github.com/rs/zerolog"
)

// Elsewhere there is no parent-death signal, no peeking wait and no subreaper:
// enough for development, not for deployment.

func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func awaitExit(int) {}

func reap(ctx context.Context, _ zerolog.Logger) { <-ctx.Done() }

func listeners(int) []string { return nil }
