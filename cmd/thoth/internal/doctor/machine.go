package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"thoth/cmd/thoth/internal/pull"
	"thoth/internal/gguf"
)

// limits tells how much CPU and memory this process, and so the station, may use.
func limits(_ context.Context, o *Options) []Finding {
	var out []Finding
	cpus := runtime.NumCPU()
	quota, limited := cpuQuota(o)
	switch {
	case limited && quota < 1:
		out = append(out, warn("cpu", "give the container at least one CPU", "the cgroup's quota is %.2f CPUs of %d", quota, cpus))
	case limited:
		out = append(out, ok("cpu", "%d CPUs, the cgroup's quota is %.1f: the station uses %d threads", cpus, quota, min(cpus, int(quota))))
	default:
		out = append(out, ok("cpu", "%d CPUs, no quota", cpus))
	}
	have, where, err := memory(o)
	if err != nil {
		return append(out, warn("memory", "look at /proc/meminfo", "available memory is unknown: %v", err))
	}
	if have < 1<<30 {
		return append(out, warn("memory", "free memory, or give the container more", "%s available (%s)", gib(have), where))
	}
	return append(out, ok("memory", "%s available (%s)", gib(have), where))
}

// cgroups gives the folders of this process's cgroup and its parents, of version
// 2 or of a version-1 controller, innermost first.
func (o *Options) cgroups(controller string) []string {
	b, err := os.ReadFile(filepath.Join(o.procDir, "self", "cgroup"))
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.SplitSeq(string(b), "\n") {
		_, rest, _ := strings.Cut(line, ":")
		controllers, path, found := strings.Cut(rest, ":")
		if !found {
			continue
		}
		root := o.cgroupDir
		if controllers != "" {
			if !strings.Contains(","+controllers+",", ","+controller+",") {
				continue
			}
			root = filepath.Join(root, controller)
		}
		for p := filepath.Clean("/" + path); ; p = filepath.Dir(p) {
			out = append(out, filepath.Join(root, p))
			if p == "/" {
				break
			}
		}
	}
	return out
}

// cpuQuota is the least quota of the cgroup and its parents, in CPUs.
func cpuQuota(o *Options) (cpus float64, limited bool) {
	cpus = math.Inf(1)
	for _, dir := range o.cgroups("cpu") {
		var quota, period string
		if f := strings.Fields(readText(filepath.Join(dir, "cpu.max"))); len(f) == 2 {
			quota, period = f[0], f[1]
		} else {
			quota, period = readText(filepath.Join(dir, "cpu.cfs_quota_us")), readText(filepath.Join(dir, "cpu.cfs_period_us"))
		}
		q, err1 := strconv.ParseFloat(quota, 64)
		p, err2 := strconv.ParseFloat(period, 64)
		if err1 == nil && err2 == nil && q > 0 && p > 0 {
			cpus, limited = min(cpus, q/p), true
		}
	}
	return cpus, limited
}

// memory is what may still be used: the machine's, or the cgroup's if that is less.
func memory(o *Options) (bytes int64, where string, err error) {
	bytes, err = memAvailable(filepath.Join(o.procDir, "meminfo"))
	if err != nil {
		return 0, "", err
	}
	where = "machine"
	for _, dir := range o.cgroups("memory") {
		for _, names := range [][2]string{{"memory.max", "memory.current"}, {"memory.limit_in_bytes", "memory.usage_in_bytes"}} {
			limit, err := strconv.ParseInt(readText(filepath.Join(dir, names[0])), 10, 64)
			used, _ := strconv.ParseInt(readText(filepath.Join(dir, names[1])), 10, 64)
			if err == nil && limit-used < bytes {
				bytes, where = max(0, limit-used), fmt.Sprintf("cgroup limit %s", gib(limit))
			}
		}
	}
	return bytes, where, nil
}

func memAvailable(file string) (int64, error) {
	for line := range strings.SplitSeq(readText(file), "\n") {
		if v, found := strings.CutPrefix(line, "MemAvailable:"); found {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no MemAvailable", file)
}

func readText(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// model judges the model file: there, a whole GGUF, and small enough for memory.
func model(_ context.Context, o *Options) []Finding {
	const what = "model"
	s, err := pull.Parse(o.Model)
	if err != nil {
		return []Finding{fail(what, "thoth pull --help lists the forms", "%v", err)}
	}
	parts, err := s.Shards()
	if err != nil {
		return []Finding{fail(what, "name the first part", "%v", err)}
	}
	fetch := "thoth pull"
	if o.Model != "" {
		fetch += " '" + o.Model + "'"
	}
	var total int64
	var first *gguf.Header
	for _, part := range parts {
		path := pull.ModelPath(o.CacheDir, part)
		f, err := gguf.ReadFile(path)
		switch {
		case errors.Is(err, os.ErrNotExist) && part.Kind == pull.KindPath:
			return []Finding{fail(what, "correct the path, or THOTH_MODEL", "%s does not exist", path)}
		case errors.Is(err, os.ErrNotExist):
			return []Finding{warn(what, fetch, "not fetched yet: %s", s.Text)}
		case err != nil && part.Kind == pull.KindPath:
			return []Finding{fail(what, "copy the file again", "%s: %v", path, err)}
		case err != nil:
			return []Finding{fail(what, fetch+" --refresh", "%s: %v", path, err)}
		}
		total += f.SizeBytes
		if first == nil {
			first = f
		}
	}
	have, _, err := memory(o)
	// The weights, and a tenth more for KV and buffers.
	if need := total + total/10; err == nil && need > have {
		return []Finding{warn(what, "take a smaller quantisation, or give more memory", "%s needs about %s, %s are available", first.Name(), gib(need), gib(have))}
	}
	return []Finding{ok(what, "%s (%s, GGUF %d, %d tensors, context %d, %s in %d file(s))",
		first.Name(), first.Architecture(), first.Version, len(first.Tensors), first.ContextLength(), gib(total), len(parts))}
}

// cache tries to write where models are kept.
func cache(_ context.Context, o *Options) []Finding {
	const what = "cache"
	const fix = "chown or free the folder, or choose another with THOTH_CACHE"
	if err := os.MkdirAll(o.CacheDir, 0o755); err != nil {
		return []Finding{fail(what, fix, "%v", err)}
	}
	f, err := os.CreateTemp(o.CacheDir, ".doctor-")
	if err != nil {
		return []Finding{fail(what, fix, "not writable: %v", err)}
	}
	_, err = f.Write(make([]byte, 4096))
	err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	if err != nil {
		return []Finding{fail(what, fix, "not writable: %v", err)}
	}
	free, err := pull.FreeBytes(o.CacheDir)
	if err != nil {
		return []Finding{warn(what, fix, "%v", err)}
	}
	if free < 1<<30 {
		return []Finding{warn(what, fix, "%s has only %s free", o.CacheDir, gib(free))}
	}
	return []Finding{ok(what, "%s, %s free", o.CacheDir, gib(free))}
}
