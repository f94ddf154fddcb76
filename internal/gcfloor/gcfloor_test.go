package gcfloor

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const floor = 64 << 20

func TestHold_RaisesTheFirstCycleAndTakesNoMemory(t *testing.T) {
	t.Cleanup(func() { held = nil })
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := resident(t)
	Hold(floor)
	require.Less(t, resident(t)-before, floor/4)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	require.GreaterOrEqual(t, m.NextGC, uint64(2*floor))
	require.Less(t, m.NextGC, uint64(4*floor))
	require.Less(t, resident(t)-before, floor/4, "a cycle does not touch it")
}

func TestHold_LeavesTheOperatorsSettingsAlone(t *testing.T) {
	for name, value := range map[string]string{"GOGC": "50", "GOMEMLIMIT": "1GiB"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			t.Setenv(name, value)
			Hold(floor)
			require.Nil(t, held)
		})
	}
}

// resident is this process's memory in RAM, in bytes.
func resident(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("this system does not tell a process's memory: ", err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	require.NoError(t, err)
	return pages * os.Getpagesize()
}
