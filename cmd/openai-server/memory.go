package main

import (
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"
)

// The host's part of the memory of a cgroup that it shares with the station: what the
// weights and the KV take is theirs. With less than the least of it a plain request
// would make a collection.
const (
	memoryShare = 0.25
	memoryLeast = 128 << 20
)

// limitMemory has garbage collected early where memory is bounded: the collector would
// let it grow to as much again as is in use, and the kernel ends who takes too much,
// garbage or not. What is in use is bounded elsewhere, and no request is refused here.
// Whoever sets GOMEMLIMIT has decided otherwise.
func limitMemory(log zerolog.Logger, provider memlimit.Provider) {
	before := debug.SetMemoryLimit(-1)
	limit, err := memlimit.Set(memlimit.WithProvider(provider), memlimit.WithRatio(memoryShare), memlimit.WithMin(memoryLeast))
	switch {
	case err != nil:
		log.Debug().Err(err).Msg("no memory limit is known")
	case limit != before:
		log.Debug().Int64("bytes", limit).Msg("Go memory limit")
	}
}
