package native

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroups are the paths of this process below the cgroup mount.
type cgroups struct {
	unified string            // v2
	v1      map[string]string // controller to path
}

func selfCgroup() cgroups {
	b, _ := os.ReadFile("/proc/self/cgroup")
	return parseCgroup(string(b))
}

// parseCgroup reads /proc/self/cgroup: "0::/a/b" (v2), "4:cpu,cpuacct:/a/b" (v1).
func parseCgroup(text string) cgroups {
	c := cgroups{unified: "/", v1: map[string]string{}}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if parts[1] == "" {
			c.unified = parts[2]
			continue
		}
		for name := range strings.SplitSeq(parts[1], ",") {
			c.v1[name] = parts[2]
		}
	}
	return c
}

// up lists a cgroup's folder and those above it: each may carry the limit that
// binds. In a container's own namespace the path may not exist, but the root does.
func up(root, p string) []string {
	var out []string
	for p = path.Clean("/" + p); ; p = path.Dir(p) {
		out = append(out, filepath.Join(root, p))
		if p == "/" {
			return out
		}
	}
}

// cpuQuota is the least CPU quota in force, in CPUs.
func cpuQuota(root string, c cgroups) (float64, bool) {
	quota := math.Inf(1)
	for _, dir := range up(root, c.unified) {
		f := strings.Fields(readText(filepath.Join(dir, "cpu.max")))
		if len(f) != 2 || f[0] == "max" {
			continue
		}
		q, err1 := strconv.ParseFloat(f[0], 64)
		p, err2 := strconv.ParseFloat(f[1], 64)
		if err1 == nil && err2 == nil && p > 0 {
			quota = min(quota, q/p)
		}
	}
	for _, mount := range []string{"cpu", "cpu,cpuacct", "cpuacct,cpu"} {
		for _, dir := range up(filepath.Join(root, mount), c.v1["cpu"]) {
			q, err1 := strconv.ParseFloat(readText(filepath.Join(dir, "cpu.cfs_quota_us")), 64)
			p, err2 := strconv.ParseFloat(readText(filepath.Join(dir, "cpu.cfs_period_us")), 64)
			if err1 == nil && err2 == nil && q > 0 && p > 0 {
				quota = min(quota, q/p)
			}
		}
	}
	return quota, !math.IsInf(quota, 1)
}

// cgroupMemory is the least memory limit in force and what is used below it, in
// bytes. Page cache the kernel can drop is not counted as used.
func cgroupMemory(root string, c cgroups) (limit, used int64, ok bool) {
	limit = math.MaxInt64
	left := int64(math.MaxInt64)
	take := func(lim, use, cache int64) {
		if lim <= 0 || lim >= 1<<60 { // v1 writes a huge number for none
			return
		}
		use = max(use-cache, 0)
		if lim-use < left {
			left, limit, used, ok = lim-use, lim, use, true
		}
	}
	for _, dir := range up(root, c.unified) {
		take(readInt(filepath.Join(dir, "memory.max")), readInt(filepath.Join(dir, "memory.current")),
			statField(readText(filepath.Join(dir, "memory.stat")), "inactive_file"))
	}
	for _, dir := range up(filepath.Join(root, "memory"), c.v1["memory"]) {
		take(readInt(filepath.Join(dir, "memory.limit_in_bytes")), readInt(filepath.Join(dir, "memory.usage_in_bytes")),
			statField(readText(filepath.Join(dir, "memory.stat")), "total_inactive_file"))
	}
	return limit, used, ok
}

// meminfo gives fields of /proc/meminfo in bytes.
func meminfo(text, field string) int64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil {
				return n << 10
			}
		}
	}
	return 0
}

func statField(text, field string) int64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, field+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}

func readText(file string) string {
	b, _ := os.ReadFile(file)
	return strings.TrimSpace(string(b))
}

// readInt reads a number; 0 for none or "max".
func readInt(file string) int64 {
	n, _ := strconv.ParseInt(readText(file), 10, 64)
	return n
}
