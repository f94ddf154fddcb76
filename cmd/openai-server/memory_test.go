package main

import (
	"bytes"
	"errors"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestLimitMemory_IsAShareOfTheCgroupThatHoldsWhatRequestsMay(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	const own = 3 << 30
	for name, c := range map[string]struct {
		provider memlimit.Provider
		bodies   int64
		set      string // GOMEMLIMIT
		want     int64
		level    string // of the one line; "": none
	}{
		"a share":                 {memlimit.Limit(4 << 30), 256 << 20, "", 1 << 30, "info"},
		"what requests may hold":  {memlimit.Limit(2 << 30), 256 << 20, "", 640<<20 + memoryLeast, "info"},
		"more than there is":      {memlimit.Limit(1000 << 20), 256 << 20, "", 600 << 20, "warn"},
		"far more":                {memlimit.Limit(1000 << 20), math.MaxInt64, "", 600 << 20, "warn"},
		"the least":               {memlimit.Limit(100 << 20), 1 << 20, "", memoryLeast, "warn"},
		"none":                    {func() (uint64, error) { return 0, memlimit.ErrNoLimit }, 256 << 20, "", own, ""},
		"not known":               {func() (uint64, error) { return 0, errors.New("no cgroup") }, 256 << 20, "", own, "debug"},
		"the operator has chosen": {memlimit.Limit(4 << 30), 256 << 20, "3GiB", own, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", c.set) // so that it is put back
			if c.set == "" {
				require.NoError(t, os.Unsetenv("GOMEMLIMIT"))
			}
			debug.SetMemoryLimit(own)
			var log bytes.Buffer
			limitMemory(zerolog.New(&log), c.provider, c.bodies)
			require.Equal(t, c.want, debug.SetMemoryLimit(-1))
			if c.level == "" {
				require.Empty(t, log.String())
				return
			}
			require.Equal(t, 1, strings.Count(log.String(), "\n"))
			require.Contains(t, log.String(), `"level":"`+c.level+`"`)
			require.Equal(t, c.level == "warn", strings.Contains(log.String(), "THOTH_MAX_BODY_MEMORY"))
		})
	}
}
