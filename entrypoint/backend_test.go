package entrypoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	closedModule = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\nGCC version: 12\n"
	openModule   = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@U22)\n"
)

// machine makes a tree with the named files; content only matters for the
// driver's version.
func machine(t *testing.T, driver string, files ...string) Machine {
	t.Helper()
	root := t.TempDir()
	write := func(name, content string) {
		p := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(content), 0o644))
	}
	for _, f := range files {
		write(f, "")
	}
	if driver != "" {
		write("/proc/driver/nvidia/version", driver)
	}
	return Machine{Root: root, LibraryDirs: []string{filepath.Join(root, "lib/ollama")}}
}

const (
	dev     = "/dev/nvidiactl"
	libcuda = "/usr/local/nvidia/lib64/libcuda.so.1"
	cuda12  = "/lib/ollama/cuda_v12/libggml-cuda.so"
	cuda13  = "/lib/ollama/cuda_v13/libggml-cuda.so"
)

func TestBackendPlan_Auto(t *testing.T) {
	for name, c := range map[string]struct {
		m       Machine
		backend string
		runtime string
		reason  string
	}{
		"no library":      {machine(t, openModule, dev, libcuda), "cpu", "", "no CUDA library"},
		"no device":       {machine(t, openModule, libcuda, cuda13), "cpu", "cuda_v13", "no NVIDIA device"},
		"no driver":       {machine(t, "", dev, cuda13), "cpu", "cuda_v13", "libcuda.so.1"},
		"old driver":      {machine(t, closedModule, dev, libcuda, cuda13), "cpu", "", "driver 535.129.03 is too old for the CUDA runtime cuda_v13, which needs driver 580"},
		"older runtime":   {machine(t, closedModule, dev, libcuda, cuda12, cuda13), "cuda", "cuda_v12", ""},
		"newest runtime":  {machine(t, openModule, dev, libcuda, cuda12, cuda13), "cuda", "cuda_v13", ""},
		"unknown version": {machine(t, "", dev, libcuda, cuda13), "cuda", "cuda_v13", ""},
		"empty folder":    {machine(t, openModule, dev, libcuda, "/lib/ollama/cuda_v13/readme"), "cpu", "", "no CUDA library"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := planBackend(BackendAuto, "", c.m)
			require.NoError(t, err)
			require.Equal(t, c.backend, p.backend)
			require.Equal(t, c.runtime, p.cuda.Runtime)
			require.Contains(t, p.reason, c.reason)
			require.Equal(t, c.reason == "", p.reason == "")
		})
	}
}

func TestBackendPlan_ExplicitCUDANamesBothVersions(t *testing.T) {
	_, err := planBackend(BackendCUDA, "", machine(t, closedModule, dev, libcuda, cuda13))
	require.ErrorContains(t, err, "535.129.03")
	require.ErrorContains(t, err, "cuda_v13")
	require.ErrorContains(t, err, "580")

	p, err := planBackend(BackendCUDA, "", machine(t, openModule, dev, libcuda, cuda13))
	require.NoError(t, err)
	require.False(t, p.fall("it died"), "an explicit wish is not served on something else")
}

func TestBackendPlan_CPUByWish(t *testing.T) {
	m := machine(t, openModule, dev, libcuda, cuda13)
	p, err := planBackend(BackendCPU, "", m)
	require.NoError(t, err)
	require.Equal(t, []string{"THOTH_BACKEND=cpu", "THOTH_BACKEND_REASON="}, p.env(""))
	p, err = planBackend(BackendAuto, (&Options{PreferCPU: true}).onCPU(), m)
	require.NoError(t, err)
	require.Equal(t, []string{"THOTH_BACKEND=cpu", "THOTH_BACKEND_REASON=THOTH_STATION_PREFER_CPU is set"}, p.env(""))
	p, err = planBackend(BackendAuto, (&Options{Exact: true}).onCPU(), m)
	require.NoError(t, err)
	require.Equal(t, []string{"THOTH_BACKEND=cpu", "THOTH_BACKEND_REASON=THOTH_EXACT is set"}, p.env(""))
}

func TestBackendPlan_FallsOnceWithTheReason(t *testing.T) {
	m := machine(t, openModule, dev, libcuda, cuda13)
	p, err := planBackend(BackendAuto, "", m)
	require.NoError(t, err)
	require.Equal(t, "LD_LIBRARY_PATH="+m.LibraryDirs[0]+"/cuda_v13:"+m.Root+"/usr/local/nvidia/lib64:/mine", p.env("/mine")[2])
	require.True(t, p.fall("station ended with exit code 70"))
	require.Equal(t, []string{"THOTH_BACKEND=cpu",
		"THOTH_BACKEND_REASON=fell back from CUDA: station ended with exit code 70 (driver 580.65.06, runtime cuda_v13)"}, p.env(""))
	require.False(t, p.fall("again"))
}

func TestDetectCUDA_ReadsTheLoadersCache(t *testing.T) {
	m := machine(t, openModule, dev, cuda13)
	cache := filepath.Join(m.Root, "etc/ld.so.cache")
	require.NoError(t, os.MkdirAll(filepath.Dir(cache), 0o755))
	require.NoError(t, os.WriteFile(cache, []byte("glibc-ld.so.cache1.1\x00libcuda.so.1\x00/opt/libcuda.so.1\x00"), 0o644))
	c := DetectCUDA(m)
	require.Equal(t, "libcuda.so.1", c.LibCUDA)
	require.Empty(t, c.Unusable())
}

func TestLess_ComparesNumbers(t *testing.T) {
	require.True(t, less("525.9", "525.60"))
	require.False(t, less("525.60.13", "525.60"))
	require.False(t, less("580", "580"))
	require.True(t, less("535.129.03", "580"))
}
