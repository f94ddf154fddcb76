package main

import (
	"errors"
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestLimitMemory_IsAShareOfTheCgroup(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	unset := func(t *testing.T) {
		t.Setenv("GOMEMLIMIT", "") // so that it is put back
		require.NoError(t, os.Unsetenv("GOMEMLIMIT"))
	}
	const own = 3 << 30
	for name, c := range map[string]struct {
		provider memlimit.Provider
		set      string // GOMEMLIMIT
		want     int64
	}{
		"a share":                 {memlimit.Limit(4 << 30), "", 1 << 30},
		"the least":               {memlimit.Limit(100 << 20), "", memoryLeast},
		"none":                    {func() (uint64, error) { return 0, memlimit.ErrNoLimit }, "", math.MaxInt64},
		"not known":               {func() (uint64, error) { return 0, errors.New("no cgroup") }, "", own},
		"the operator has chosen": {memlimit.Limit(4 << 30), "3GiB", own},
	} {
		t.Run(name, func(t *testing.T) {
			unset(t)
			if c.set != "" {
				t.Setenv("GOMEMLIMIT", c.set)
			}
			debug.SetMemoryLimit(own)
			limitMemory(zerolog.Nop(), c.provider)
			require.Equal(t, c.want, debug.SetMemoryLimit(-1))
		})
	}
}
