package main

import (
	"errors"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"
)

// The host's part of the memory of a cgroup that it shares with the station: what the
// weights and the KV take is theirs. It is more where the requests may hold more, as far
// as the station can do without.
const (
	memoryShare = 0.25
	memoryMost  = 0.60
	// memoryLeast is what the host needs for itself: with less of it a plain request would
	// make a collection.
	memoryLeast = 128 << 20
	// bodyMemories is how often THOTH_MAX_BODY_MEMORY may be in use: once by bodies, and
	// half of it each by answers that are made at once, by those of the model and by what
	// waits in the background.
	bodyMemories = 2.5
)

// limitMemory has garbage collected early where memory is bounded: the collector would
// let it grow to as much again as is in use, and the kernel ends who takes too much,
// garbage or not. What is in use is bounded elsewhere, and no request is refused here. A
// limit below it would have the collector do nothing but run.
// Whoever sets GOMEMLIMIT has decided otherwise.
func limitMemory(log zerolog.Logger, provider memlimit.Provider, bodies int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	of, err := provider()
	switch {
	case errors.Is(err, memlimit.ErrNoLimit):
		return
	case err != nil:
		log.Debug().Err(err).Msg("no memory limit is known")
		return
	}
	all := float64(of)
	needed, most := bodyMemories*float64(bodies)+memoryLeast, memoryMost*all
	limit := int64(max(memoryLeast, min(most, max(memoryShare*all, needed))))
	debug.SetMemoryLimit(limit)
	if needed > most {
		log.Warn().Int64("bytes", limit).Uint64("of", of).Float64("needed", needed).
			Msg("Go memory limit: requests may hold more, and are slow when they do; lower THOTH_MAX_BODY_MEMORY or give more memory")
		return
	}
	log.Info().Int64("bytes", limit).Uint64("of", of).Msg("Go memory limit")
}
