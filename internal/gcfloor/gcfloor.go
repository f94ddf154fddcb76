// Package gcfloor keeps the garbage collector of a program with a small heap from
// running all the time.
//
// By default a cycle begins when the heap has doubled, but at 4 MiB at the earliest.
// A server whose requests leave nothing behind lives just there: each request makes
// some ten kilobytes of garbage, so a few dozen make a cycle, and the cycles' fixed
// costs, stopping all and walking every stack, were over a third of the host's
// processor time. A *floor* moves the first cycle up: [Hold] allocates memory that is never
// touched, so that it costs addresses and no RAM, and the collector counts it as
// live. What it does cost is garbage: up to as much again may wait for a cycle.
//
// It is not a percentage (GOGC): that would grow with what is live, and a server
// full of large requests would take several times their memory.
package gcfloor

import "os"

// held is the untouched memory.
var held []byte

// Hold makes the first cycle begin at twice so many bytes of heap. Whoever sets
// GOGC or GOMEMLIMIT has decided otherwise, and nothing is done.
func Hold(bytes int) {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		held = make([]byte, bytes)
	}
}
