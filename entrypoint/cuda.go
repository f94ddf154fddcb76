package entrypoint

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// driverFloor is the oldest driver each CUDA runtime works with, by the folder
// its library lies in ("CUDA Toolkit Release Notes", table of driver versions).
var driverFloor = map[string]string{
	"cuda_v12": "525.60",
	"cuda_v13": "580",
}

// driverDirs are where container platforms mount the driver's libraries beside
// the loader's own folders.
var driverDirs = []string{
	"/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib",
	"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib/x86_64-linux-gnu", "/lib64",
}

// deviceNodes tell that a GPU is here; any one will do.
var deviceNodes = []string{"/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"}

// kernelModule finds the version in /proc/driver/nvidia/version, of the open
// module ("Open Kernel Module for x86_64  580.65") and the closed one.
var kernelModule = regexp.MustCompile(`Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)`)

// Machine is where to look for a GPU; tests give a tree of their own.
type Machine struct {
	Root        string   // "" for /
	LibraryDirs []string // ggml's backend libraries: .../lib/ollama
	LDPath      string   // LD_LIBRARY_PATH
}

// CUDA is what was found without loading anything: loading is the station's
// business, so that a broken driver cannot take the supervisor down.
type CUDA struct {
	Device  string // device node; "" for none
	LibCUDA string // path of libcuda.so.1; "" for none
	Driver  string // version; "" when unknown
	Runtime string // cuda_v12, cuda_v13: the newest the driver can run; "" for none
	Library string // the runtime's folder

	newest string // newest runtime there is, whether it runs or not
}

// DetectCUDA looks for a device, a driver and a runtime of ours.
func DetectCUDA(m Machine) CUDA {
	var c CUDA
	for _, node := range deviceNodes {
		if m.exists(node) {
			c.Device = node
			break
		}
	}
	c.LibCUDA = m.findLibCUDA()
	c.Driver = m.driverVersion()

	dirs := map[string]string{}
	var names []string
	for _, lib := range m.LibraryDirs {
		found, _ := filepath.Glob(filepath.Join(lib, "cuda_v*"))
		// The library folders may name a runtime's folder itself.
		if strings.HasPrefix(filepath.Base(lib), "cuda_v") {
			found = append(found, lib)
		}
		for _, dir := range found {
			name := filepath.Base(dir)
			if libs, _ := filepath.Glob(filepath.Join(dir, "libggml-cuda*")); len(libs) > 0 && dirs[name] == "" {
				dirs[name] = dir
				names = append(names, name)
			}
		}
	}
	sort.Slice(names, func(i, j int) bool { return less(trimRuntime(names[j]), trimRuntime(names[i])) })
	for _, name := range names {
		if c.newest == "" {
			c.newest = name
		}
		if floor := driverFloor[name]; c.Driver == "" || floor == "" || !less(c.Driver, floor) {
			c.Runtime, c.Library = name, dirs[name]
			break
		}
	}
	return c
}

// Unusable says why CUDA cannot be tried, "" when it can.
func (c *CUDA) Unusable() string {
	switch {
	case c.newest == "":
		return "this build has no CUDA library (no folder lib/ollama/cuda_v12 or cuda_v13)"
	case c.Device == "":
		return "no NVIDIA device (no " + strings.Join(deviceNodes, ", ") + ")"
	case c.LibCUDA == "":
		return "no NVIDIA driver library (libcuda.so.1 is in no library folder)"
	case c.Runtime == "":
		return fmt.Sprintf("the NVIDIA driver %s is too old for the CUDA runtime %s, which needs driver %s or newer",
			c.Driver, c.newest, driverFloor[c.newest])
	}
	return ""
}

// libraryPath is LD_LIBRARY_PATH for a station that uses CUDA: the runtime's
// own folder and the driver's, where the loader might not look.
func (c *CUDA) libraryPath(current string) string {
	path := []string{c.Library}
	if filepath.IsAbs(c.LibCUDA) {
		path = append(path, filepath.Dir(c.LibCUDA))
	}
	if current != "" {
		path = append(path, current)
	}
	return strings.Join(path, string(os.PathListSeparator))
}

func (m *Machine) path(p string) string { return filepath.Join("/", m.Root, p) }

func (m *Machine) exists(p string) bool {
	_, err := os.Stat(m.path(p))
	return err == nil
}

// findLibCUDA looks where the loader would, and where platforms mount it.
func (m *Machine) findLibCUDA() string {
	const lib = "libcuda.so.1"
	for _, dir := range filepath.SplitList(m.LDPath) {
		if _, err := os.Stat(filepath.Join(dir, lib)); dir != "" && err == nil {
			return filepath.Join(dir, lib)
		}
	}
	for _, dir := range driverDirs {
		if m.exists(filepath.Join(dir, lib)) {
			return m.path(filepath.Join(dir, lib))
		}
	}
	// The loader's cache holds names and paths as strings that end in NUL.
	cache, _ := os.ReadFile(m.path("/etc/ld.so.cache"))
	if bytes.Contains(cache, []byte("\x00"+lib+"\x00")) {
		return lib
	}
	return ""
}

func (m *Machine) driverVersion() string {
	b, _ := os.ReadFile(m.path("/proc/driver/nvidia/version"))
	if v := kernelModule.FindSubmatch(b); v != nil {
		return string(v[1])
	}
	b, _ = os.ReadFile(m.path("/sys/module/nvidia/version"))
	return strings.TrimSpace(string(b))
}

func trimRuntime(name string) string { return strings.TrimPrefix(name, "cuda_v") }

// less compares versions by their numbers: 525.9 is older than 525.60.
func less(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		var x, y int
		if i < len(as) {
			x, _ = strconv.Atoi(as[i])
		}
		if i < len(bs) {
			y, _ = strconv.Atoi(bs[i])
		}
		if x != y {
			return x < y
		}
	}
	return false
}
