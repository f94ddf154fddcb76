// Package hostbench measures what the host itself costs: processor time a request
// and a streamed token, and memory over many requests.
//
// Its tests run three parties. The *host* is the real one with all its middleware,
// in a process of its own, so that what the kernel counts for that process is the
// host's and nobody else's; the test binary starts itself for it. The *station* is a
// fake in the test's process that speaks the real wire over a unix socket, as in
// production: it computes nothing, so a token comes when its *clock* says. The
// *clients* are in the test's process too.
//
// Processor time is what counts, not elapsed time: it means the same on a machine
// that others use. A stream's tokens come one frame each, a step of the clock apart,
// all streams at the same steps, as an engine that decodes a batch sends them: a host
// that gets many frames at once would look better than it is, because it hands on
// together what arrives together.
//
//	go test -run '^$' -bench . ./host/hostbench
//
// docs/benchmarks.md says how to read the figures. That memory does not grow is a
// count and no time, so it is an ordinary test.
package hostbench
