package native

import (
	"fmt"
	"math"

	"thoth/station/engine"
)

// memory is what this process may use, in bytes.
type memory struct {
	total int64 // of the machine or the cgroup, whichever is less
	free  int64 // of it, at the time of asking
}

// readMemory asks the kernel and the cgroup.
func readMemory() memory {
	info := readText("/proc/meminfo")
	m := memory{total: meminfo(info, "MemTotal"), free: meminfo(info, "MemAvailable")}
	if m.total == 0 {
		m.total, m.free = math.MaxInt64, math.MaxInt64 // unknown: refuse nothing
	}
	if limit, used, ok := cgroupMemory(cgroupRoot, selfCgroup()); ok {
		m.total = min(m.total, limit)
		m.free = min(m.free, limit-used)
	}
	return m
}

const (
	minGoLimit = 96 << 20
	goReserve  = 64 << 20 // C++ heap, stacks, kernel
)

// FreeMemory is what this process may still take, in bytes.
func FreeMemory() int64 { return readMemory().free }

// GoMemoryLimit is what is left of this machine's memory for Go's own heap
// beside the loaded engine and stored KV of so many bytes: the limit to give to
// the runtime, which sees nothing of what C or the kernel holds. At least 96 MiB.
func GoMemoryLimit(i engine.Info, stored int64) int64 {
	return goMemoryLimit(readMemory().total, i, stored)
}

func goMemoryLimit(total int64, i engine.Info, stored int64) int64 {
	if total == math.MaxInt64 {
		return total
	}
	kv := 2 * int64(i.Cells) * int64(i.KVBytesToken) // and its copy during compaction
	left := total - stored - int64(i.SizeBytes) - kv - computeBytes(i.BatchSize, i.Vocabulary, i.Cells) - goReserve
	return max(left-left/10, minGoLimit)
}

// computeBytes estimates the buffers of a context: the logits of a whole batch,
// its attention mask, and the activations, which are small beside them.
func computeBytes(batch, vocabulary, cells int) int64 {
	logits := int64(batch) * int64(vocabulary) * 4
	mask := int64(batch) * int64(cells) * 4
	return logits + mask + 64<<20
}

// sizeText writes bytes for people.
func sizeText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
