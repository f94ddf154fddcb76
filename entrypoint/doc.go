// Package entrypoint starts, watches and stops thoth's two programs: the
// station, which owns the model, and the host, which owns the public port. It
// is process 1 of the container, and what `make run` starts.
//
// Words. A [Child] is one life of one program: starting, running (it has
// announced itself), stopping, and then stopped or failed. A keeper keeps one
// program alive by starting Child after Child, under a back-off that decays
// while a child runs. The [Supervisor] owns the keepers, chooses the station's
// backend, and stops everything in stages when told to.
//
// Invariants.
//   - One goroutine owns a Child's state; everybody else asks it by channel. It
//     is locked to its OS thread, because the kernel sends a child its
//     parent-death signal when the thread that forked it ends.
//   - A child's pipes are read to their end before the child is waited for, and
//     its process group is killed before its process id is given back.
//   - A child leads a process group of its own and dies with the entrypoint,
//     however that ends (parent-death signal SIGKILL).
//   - The host is stopped before the station, so that no request finds its
//     engine gone; all of it inside [Options.Shutdown].
//   - A station that has served is asked for its health as long as it lives, and
//     one that no longer answers is killed like one that died.
//   - A fault that a restart cannot mend ends the entrypoint with the child's
//     own exit code and one sentence; any other is retried, and a program that
//     will not come up ends it after [Options.MaxFailedStarts] tries.
//   - Nothing else in the process may start processes: the reaper takes every
//     dead child that no Child claims.
package entrypoint
