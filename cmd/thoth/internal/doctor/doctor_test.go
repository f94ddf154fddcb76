package doctor

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/internal/gguf/gguftest"
	"thoth/station/wire"
)

const avx512 = "avx2 fma f16c bmi2 avx512f avx512cd avx512vl avx512dq avx512bw"

// installation is a healthy one, in a folder of its own; tests break parts of it.
func installation(t *testing.T) (*Options, string) {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
	}
	for _, name := range []string{"entrypoint", "openai-server", "fat-station"} {
		write("bin/"+name, fmt.Sprintf("#!/bin/sh\necho %s abc123, wire %d\n", name, wire.Version), 0o755)
	}
	for _, name := range []string{"haswell", "skylakex", "icelake"} {
		write("lib/ollama/libggml-cpu-"+name+".so", "", 0o755)
	}
	write("proc/cpuinfo", "processor: 0\nmodel name\t: Test CPU\nflags\t\t: fpu "+avx512+"\n", 0o644)
	write("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:    8388608 kB\n", 0o644)
	write("proc/self/cgroup", "0::/a/b\n", 0o644)
	write("m.gguf", string(gguftest.Model("tiny", 100, 1)), 0o644)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := ln.Addr().(*net.TCPAddr).Port
	require.NoError(t, ln.Close())
	return &Options{BinDir: filepath.Join(root, "bin"), Model: filepath.Join(root, "m.gguf"), CacheDir: filepath.Join(root, "cache"),
		Port: port, procDir: filepath.Join(root, "proc"), cgroupDir: filepath.Join(root, "cgroup")}, root
}

// find gives the finding about what.
func find(t *testing.T, o *Options, what string) Finding {
	t.Helper()
	all, err := Run(t.Context(), *o)
	require.NoError(t, err)
	for _, f := range all {
		if f.What == what {
			if f.Level != OK {
				require.NotEmpty(t, f.Fix, "a finding without a fix: %+v", f)
			}
			return f
		}
	}
	t.Fatalf("no finding about %s in %+v", what, all)
	return Finding{}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
}

func TestRun_FindsNothingWrongWithAHealthyInstallation(t *testing.T) {
	o, _ := installation(t)
	all, err := Run(t.Context(), *o)
	require.NoError(t, err)
	require.False(t, Failed(all))
	for _, f := range all {
		if f.What != "cache" { // the machine's disk is not ours to fill
			require.Equal(t, OK, f.Level, "%+v", f)
		}
	}
	var b bytes.Buffer
	require.NoError(t, Write(&b, all))
	require.Contains(t, b.String(), "abc123, wire 1")
}

func TestBinaries_EachFaultHasItsFinding(t *testing.T) {
	for name, tt := range map[string]struct {
		script string // "" removes the binary
		level  Level
		want   string
	}{
		"missing":    {"", Fail, "not in"},
		"dies":       {"echo libstdc++.so.6: cannot open >&2; exit 127", Fail, "libstdc++.so.6"},
		"other wire": {"echo fat-station abc123, wire 99", Fail, "speaks wire 99"},
		"no wire":    {"echo something", Warn, "does not tell its wire version"},
	} {
		t.Run(name, func(t *testing.T) {
			o, root := installation(t)
			path := filepath.Join(root, "bin", "fat-station")
			if tt.script == "" {
				require.NoError(t, os.Remove(path))
			} else {
				put(t, path, "#!/bin/sh\n"+tt.script+"\n")
			}
			f := find(t, o, "fat-station")
			require.Equal(t, tt.level, f.Level)
			require.Contains(t, f.Detail, tt.want)
		})
	}
	o, root := installation(t)
	put(t, filepath.Join(root, "bin", "entrypoint"), "#!/bin/sh\necho entrypoint def456, wire 1\n")
	require.Contains(t, find(t, o, "builds").Detail, "def456: entrypoint")
}

func TestLibraries_NamesTheVariantThatFits(t *testing.T) {
	for flags, want := range map[string]string{
		"avx2 fma f16c bmi2":               "haswell of",
		avx512:                             "skylakex of",
		avx512 + " avx512vbmi avx512_vnni": "icelake of",
		avx512 + " avx512_vbmi avx512_vnni avx512_bf16": "icelake of",
		"sse4_2 avx": "none of haswell, icelake, skylakex fits this CPU (Test CPU)",
	} {
		o, root := installation(t)
		put(t, filepath.Join(root, "proc/cpuinfo"), "model name: Test CPU\nflags: "+flags+"\n")
		f := find(t, o, "kernels")
		require.Contains(t, f.Detail, want)
		require.Equal(t, strings.HasPrefix(want, "none"), f.Level == Fail)
	}
	o, root := installation(t)
	require.NoError(t, os.RemoveAll(filepath.Join(root, "lib")))
	require.Equal(t, Fail, find(t, o, "kernels").Level)
}

func TestLimits_ReadTheCgroupAndItsParents(t *testing.T) {
	o, root := installation(t)
	put(t, filepath.Join(root, "cgroup/a/cpu.max"), "50000 100000")
	put(t, filepath.Join(root, "cgroup/a/b/cpu.max"), "max 100000")
	put(t, filepath.Join(root, "cgroup/a/b/memory.max"), "2147483648")
	put(t, filepath.Join(root, "cgroup/a/b/memory.current"), "1610612736")
	require.Contains(t, find(t, o, "cpu").Detail, "quota is 0.50 CPUs")
	f := find(t, o, "memory")
	require.Equal(t, Warn, f.Level)
	require.Equal(t, "0.5 GiB available (cgroup limit 2.0 GiB)", f.Detail)

	o, root = installation(t)
	put(t, filepath.Join(root, "proc/self/cgroup"), "4:memory:/x\n1:cpu,cpuacct:/x\n")
	put(t, filepath.Join(root, "cgroup/cpu/x/cpu.cfs_quota_us"), "150000")
	put(t, filepath.Join(root, "cgroup/cpu/x/cpu.cfs_period_us"), "100000")
	require.Contains(t, find(t, o, "cpu").Detail, "quota is 1.5")
}

func TestModel_IsJudgedByItsBytes(t *testing.T) {
	o, root := installation(t)
	require.Equal(t, "tiny (llama, GGUF 3, 1 tensors, context 2048, 0.0 GiB in 1 file(s))", find(t, o, "model").Detail)
	whole := gguftest.Model("tiny", 100, 1)
	for text, want := range map[string]string{string(whole[:len(whole)-1]): "incomplete", "<html>": "not a GGUF"} {
		put(t, o.Model, text)
		f := find(t, o, "model")
		require.Equal(t, Fail, f.Level)
		require.Contains(t, f.Detail, want)
	}
	require.NoError(t, os.Remove(o.Model))
	require.Equal(t, Fail, find(t, o, "model").Level)

	o.Model = "hf:o/r/x.gguf"
	f := find(t, o, "model")
	require.Equal(t, Warn, f.Level)
	require.Equal(t, "thoth pull 'hf:o/r/x.gguf'", f.Fix)
	put(t, filepath.Join(o.CacheDir, "models/hf/o/r/main/x.gguf"), string(gguftest.Model("cached", 9, 1)))
	require.Contains(t, find(t, o, "model").Detail, "cached")

	o.Model = filepath.Join(root, "big.gguf")
	put(t, o.Model, string(gguftest.Model("big", 100_000, 1)))
	put(t, filepath.Join(root, "proc/meminfo"), "MemAvailable: 400 kB\n")
	require.Contains(t, find(t, o, "model").Detail, "big needs about")
}

func TestCache_MustBeWritable(t *testing.T) {
	o, root := installation(t)
	put(t, filepath.Join(root, "file"), "")
	o.CacheDir = filepath.Join(root, "file", "cache")
	require.Equal(t, Fail, find(t, o, "cache").Level)
}

func TestServers_TellAHostFromAStranger(t *testing.T) {
	for body, want := range map[string]struct {
		what  string
		level Level
		text  string
	}{
		`{"status":"ok","liquid_memory":true}`:                                 {"server", OK, "liquid memory true"},
		`{"status":"ok","liquid_memory":false,"liquid_reason":"not built"}`:    {"server", OK, "(not built)"},
		`{"status":"loading","liquid_memory":false,"station_kv_session":null}`: {"server", Warn, "status loading"},
		`{"status":"failed","liquid_memory":false}`:                            {"server", Fail, "status failed"},
		`{"hello":"world"}`: {"port", Fail, "cannot be used"},
	} {
		o, _ := installation(t)
		ln, err := net.Listen("tcp", ":0")
		require.NoError(t, err)
		srv := &httptest.Server{Listener: ln, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })}}
		srv.Start()
		o.Port = ln.Addr().(*net.TCPAddr).Port
		f := find(t, o, want.what)
		require.Equal(t, want.level, f.Level, body)
		require.Contains(t, f.Detail, want.text)
		srv.Close()
	}
}

func TestServers_AskTheStation(t *testing.T) {
	for body, want := range map[string]struct {
		level Level
		text  string
	}{
		`{"status":"ok","wire":1,"build":"abc","backend":{"selected":"cpu","device":"x","threads":2}}`: {OK, "cpu on x, 2 threads"},
		`{"status":"ok","wire":9}`:                                           {Fail, "speaks wire 9"},
		`{"status":"failed","wire":1,"error":"no memory"}`:                   {Fail, "no memory"},
		`{"status":"loading","wire":1}`:                                      {Warn, "loading"},
		`{"status":"ok","wire":1,"backend":{"slow":true}}`:                   {Warn, "slow baseline"},
		`{"status":"ok","wire":1,"backend":{"errors":["icelake: no file"]}}`: {Warn, "icelake: no file"},
	} {
		o, _ := installation(t)
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
		o.StationURL = srv.URL
		f := find(t, o, "station")
		require.Equal(t, want.level, f.Level, body)
		require.Contains(t, f.Detail, want.text)
		srv.Close()
	}
	o, _ := installation(t)
	o.StationURL = "unix://" + filepath.Join(t.TempDir(), "none.sock")
	require.Equal(t, Fail, find(t, o, "station").Level)
}
