package native

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree writes files below a new folder.
func tree(t testing.TB, files map[string]string) string {
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o644))
	}
	return root
}

func TestCPUQuota_TakesTheLeast(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		self  string
		want  float64
		ok    bool
	}{
		"none":          {map[string]string{"cpu.max": "max 100000"}, "0::/", 0, false},
		"v2":            {map[string]string{"cpu.max": "150000 100000"}, "0::/", 1.5, true},
		"v2 parent":     {map[string]string{"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, "0::/a/b", 2, true},
		"v2 own folder": {map[string]string{"a/cpu.max": "900000 100000", "a/b/cpu.max": "50000 100000"}, "0::/a/b", 0.5, true},
		"v2 namespace":  {map[string]string{"cpu.max": "300000 100000"}, "0::/not/here", 3, true},
		"v1":            {map[string]string{"cpu/x/cpu.cfs_quota_us": "400000", "cpu/x/cpu.cfs_period_us": "100000"}, "4:cpu,cpuacct:/x", 4, true},
		"v1 none":       {map[string]string{"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "4:cpu:/", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := cpuQuota(tree(t, c.files), parseCgroup(c.self))
			require.Equal(t, c.ok, ok)
			if ok {
				require.InDelta(t, c.want, got, 1e-9)
			}
		})
	}
}

func TestCgroupMemory_TakesTheTightest(t *testing.T) {
	for name, c := range map[string]struct {
		files       map[string]string
		self        string
		limit, used int64
		ok          bool
	}{
		"none": {map[string]string{"memory.max": "max", "memory.current": "5"}, "0::/", 0, 0, false},
		"v2, cache not counted": {map[string]string{"memory.max": "1000", "memory.current": "700", "memory.stat": "anon 1\ninactive_file 600"},
			"0::/", 1000, 100, true},
		"v2 parent": {map[string]string{"a/memory.max": "1000", "a/memory.current": "900", "a/b/memory.max": "5000", "a/b/memory.current": "10"},
			"0::/a/b", 1000, 900, true},
		"v1": {map[string]string{"memory/x/memory.limit_in_bytes": "2000", "memory/x/memory.usage_in_bytes": "500", "memory/x/memory.stat": "total_inactive_file 100"},
			"9:memory:/x", 2000, 400, true},
		"v1 none": {map[string]string{"memory/memory.limit_in_bytes": "9223372036854771712", "memory/memory.usage_in_bytes": "500"}, "9:memory:/", 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			limit, used, ok := cgroupMemory(tree(t, c.files), parseCgroup(c.self))
			require.Equal(t, c.ok, ok)
			if ok {
				require.Equal(t, c.limit, limit)
				require.Equal(t, c.used, used)
			}
		})
	}
}

func TestReadMemory_KnowsThisMachine(t *testing.T) {
	m := readMemory()
	require.Positive(t, m.free)
	require.GreaterOrEqual(t, m.total, m.free)
	require.GreaterOrEqual(t, AvailableThreads(), 1)
}
