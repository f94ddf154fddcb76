package station

import (
	"time"

	"github.com/rs/zerolog"

	"thoth/station/kvstore"
)

// Options of a station. Zero values take the defaults named here.
type Options struct {
	Build string // build id, shown in /health

	// MaxWaiting bounds calls that wait for a place in the batch; more get
	// "overloaded". Default 512.
	MaxWaiting int
	// MaxSessions bounds staged sessions alive at once. Default 256.
	MaxSessions int
	// SessionLease is how long a session may idle between calls. Default 10 s.
	SessionLease time.Duration
	// StepTarget is how long one step should take while answers are being
	// decoded: prefill chunks are sized to it from the speed seen, so a long
	// prompt cannot freeze the streams beside it. Default 100 ms.
	StepTarget time.Duration
	// PrefillTarget is the same while nothing is being decoded. It bounds how
	// long a new request waits to join. Default 500 ms.
	PrefillTarget time.Duration
	// SwapBytes bounds the KV kept in RAM of sequences that had to leave the pool;
	// beyond it their tokens are evaluated again. Default 512 MiB.
	SwapBytes int
	// MaxBodyBytes bounds a request body. Default 32 MiB.
	MaxBodyBytes int64

	// KV says what is kept of KV; its Identity and TokenBytes are filled from the
	// engine. WarmBytes 0 turns KV sessions off.
	KV kvstore.Options
	// OpenCold opens the cold tier once the size of a position's KV is known, or
	// says why there is none. nil: KV.Cold stands.
	OpenCold func(tokenBytes int) (kvstore.Cold, string)
	// NoKVSession leaves the routes of /kv-session out, and /health silent about
	// them, as a station does that was built before they were: for tests.
	NoKVSession bool

	Logger zerolog.Logger
}

func (o Options) withDefaults() Options {
	def(&o.MaxWaiting, 512)
	def(&o.MaxSessions, 256)
	def(&o.SessionLease, 10*time.Second)
	def(&o.StepTarget, 100*time.Millisecond)
	def(&o.PrefillTarget, 500*time.Millisecond)
	def(&o.SwapBytes, 512<<20)
	def(&o.MaxBodyBytes, 32<<20)
	return o
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
