package bench

import "syscall"

// endWithParent makes the kernel send SIGTERM to a child when the thread that
// forked it ends: a run that is killed leaves no server behind, which would
// compute beside the next run. RunLiquid stays on one thread for it.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }
