package doctor

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"thoth/station/wire"
)

// versionWait bounds one "--version" call.
const versionWait = 10 * time.Second

var (
	wireOf  = regexp.MustCompile(`wire (\d+)`)
	buildOf = regexp.MustCompile(`^\S+ ([^\s,]+)`)
)

// binaries asks each program for its version: that it starts at all (libraries,
// architecture), speaks this wire, and comes from the same build as the others.
func binaries(ctx context.Context, o *Options) []Finding {
	var out []Finding
	builds := map[string][]string{}
	for _, name := range []string{"entrypoint", "openai-server", "fat-station"} {
		f, build := binary(ctx, o, name)
		out = append(out, f)
		if build != "" {
			builds[build] = append(builds[build], name)
		}
	}
	if len(builds) > 1 {
		var parts []string
		for b, names := range builds {
			parts = append(parts, b+": "+strings.Join(names, ", "))
		}
		out = append(out, warn("builds", "make build", "the binaries come from different builds (%s)", strings.Join(parts, "; ")))
	}
	return out
}

func binary(ctx context.Context, o *Options, name string) (Finding, string) {
	path := filepath.Join(o.BinDir, name)
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fail(name, "make build, or --bin-dir", "not in %s", o.BinDir), ""
	case err != nil:
		return fail(name, "see the message", "%v", err), ""
	case st.IsDir() || st.Mode()&0o111 == 0:
		return fail(name, "chmod +x "+path, "%s is not executable", path), ""
	}
	ctx, cancel := context.WithTimeout(ctx, versionWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	said, err := cmd.CombinedOutput()
	line := firstLine(string(said))
	if err != nil {
		return fail(name, "make clean build on this machine", "does not run (%v): %s", err, line), ""
	}
	if info, err := buildinfo.ReadFile(path); err == nil {
		line += " (" + info.GoVersion + ")"
	}
	m := wireOf.FindStringSubmatch(line)
	if m == nil {
		return warn(name, "make build", "does not tell its wire version: %s", line), ""
	}
	if v, _ := strconv.Atoi(m[1]); v != wire.Version {
		return fail(name, "make build", "speaks wire %d, this tool and its siblings speak %d", v, wire.Version), ""
	}
	build := ""
	if m := buildOf.FindStringSubmatch(line); m != nil {
		build = m[1]
	}
	return ok(name, "%s", strings.TrimSpace(strings.TrimPrefix(line, name))), build
}

// libraries looks for the kernel libraries and for the one that fits this CPU:
// without it the station would be ten times slower, and refuses to start.
func libraries(_ context.Context, o *Options) []Finding {
	const what = "kernels"
	dir := filepath.Clean(o.LibraryDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return []Finding{fail(what, "make backends, or THOTH_LIBRARY_DIR", "no kernel libraries in %s", dir)}
	}
	flags, err := cpuFlags(filepath.Join(o.procDir, "cpuinfo"))
	if err != nil {
		return []Finding{warn(what, "none needed if the station starts", "the CPU's features are unknown: %v", err)}
	}
	var all, fit []string
	best, bestRank := "", -1
	for _, e := range entries {
		name, isCPU := strings.CutPrefix(e.Name(), "libggml-cpu-")
		name, isLib := strings.CutSuffix(name, ".so")
		if !isCPU || !isLib {
			continue
		}
		all = append(all, name)
		rank, needs, known := variant(name)
		if !known || !flags.has(needs) {
			continue
		}
		fit = append(fit, name)
		if rank > bestRank {
			best, bestRank = name, rank
		}
	}
	switch {
	case len(all) == 0:
		return []Finding{fail(what, "make backends", "%s holds no libggml-cpu-*.so", dir)}
	case len(fit) == 0:
		return []Finding{fail(what, "run on a CPU with AVX2, or set THOTH_ALLOW_SLOW_CPU=1 to run about ten times slower",
			"none of %s fits this CPU (%s)", strings.Join(all, ", "), flags.model)}
	}
	return []Finding{ok(what, "%s of %s fits best on %s", best, strings.Join(all, ", "), flags.model)}
}

// variants are ggml's CPU builds in rising order, and the features each needs
// beyond the one before; see GGML_CPU_ALL_VARIANTS in ggml's CMake files.
var variants = []struct {
	name  string
	needs string
}{
	{"x64", ""},
	{"sse42", "sse4_2"},
	{"sandybridge", "sse4_2 avx"},
	{"haswell", "avx2 fma f16c bmi2"},
	{"alderlake", "avx2 fma f16c bmi2 avx_vnni"},
	{"skylakex", "avx2 fma f16c bmi2 avx512f avx512cd avx512vl avx512dq avx512bw"},
	{"icelake", "avx2 fma f16c bmi2 avx512f avx512cd avx512vl avx512dq avx512bw avx512vbmi avx512_vnni"},
	{"zen4", "avx2 fma f16c bmi2 avx512f avx512cd avx512vl avx512dq avx512bw avx512vbmi avx512_vnni avx512_bf16"},
	{"sapphirerapids", "avx2 fma f16c bmi2 avx512f avx512cd avx512vl avx512dq avx512bw avx512vbmi avx512_vnni avx512_bf16 amx_tile amx_int8"},
}

func variant(name string) (rank int, needs []string, known bool) {
	for i, v := range variants {
		if v.name == name {
			return i, strings.Fields(v.needs), true
		}
	}
	return 0, nil, false
}

type cpu struct {
	model string
	flags map[string]bool
}

func (c cpu) has(needs []string) bool {
	for _, f := range needs {
		// Linux writes this one both ways, by version.
		if !c.flags[f] && !(f == "avx512vbmi" && c.flags["avx512_vbmi"]) {
			return false
		}
	}
	return true
}

func cpuFlags(file string) (cpu, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return cpu{}, err
	}
	c := cpu{model: "this CPU"}
	for line := range strings.SplitSeq(string(b), "\n") {
		k, v, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(k) {
		case "model name":
			c.model = strings.TrimSpace(v)
		case "flags":
			c.flags = map[string]bool{}
			for _, f := range strings.Fields(v) {
				c.flags[f] = true
			}
			return c, nil // all processors are alike
		}
	}
	return cpu{}, fmt.Errorf("%s has no flags line", file)
}
