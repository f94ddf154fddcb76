//go:build !linux

package bench

import "syscall"

// endWithParent needs Linux: elsewhere a run that is killed leaves its servers.
func endWithParent(*syscall.SysProcAttr) {}
