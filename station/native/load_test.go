//go:build cgo

package native

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/internal/gguf/gguftest"
	"thoth/station/engine"
)

func loadTest(t testing.TB, o Options) (engine.Engine, error) {
	o.LibraryDir, o.Threads, o.Backend = libraryDir(t), 1, BackendCPU
	return Load(t.Context(), o, nil)
}

func TestLoad_BadFiles(t *testing.T) {
	whole, err := os.ReadFile(testModel(t))
	require.NoError(t, err)
	dir := t.TempDir()
	file := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, b, 0o644))
		return path
	}
	otherArch := []byte(strings.Replace(string(whole[:1<<16]), "llama", "notre", 1))
	otherArch = append(otherArch, whole[1<<16:]...)
	cases := []struct {
		name, path string
		kind       engine.LoadErrorKind
		says       string
	}{
		{"empty", file("0.gguf", nil), engine.LoadTruncated, "truncated"},
		{"four bytes", file("4.gguf", whole[:4]), engine.LoadTruncated, "truncated"},
		{"one KiB", file("1k.gguf", whole[:1024]), engine.LoadTruncated, "truncated"},
		{"half", file("half.gguf", whole[:len(whole)/2]), engine.LoadTruncated, "tensor"},
		{"all but a byte", file("all.gguf", whole[:len(whole)-1]), engine.LoadTruncated, "tensor"},
		{"missing", filepath.Join(dir, "none.gguf"), engine.LoadNotFound, "none.gguf"},
		{"unknown architecture", file("arch.gguf", otherArch), engine.LoadUnknownArch, `"notre"`},
		{"a header and no model", gguftest.Small().Write(t, filepath.Join(dir, "small.gguf")), engine.LoadEngineFailed, "small.gguf"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := loadTest(t, Options{Model: c.path})
			le := loadErrorOf(t, err)
			require.Equal(t, c.kind, le.Kind, le.Msg)
			require.Contains(t, le.Msg, c.says)
			require.Contains(t, le.Msg, c.path)
		})
	}
}

func TestLoad_NoMemory(t *testing.T) {
	_, err := loadTest(t, Options{Model: testModel(t), MemoryBudget: 64 << 20})
	require.Equal(t, engine.LoadNoMemory, loadErrorOf(t, err).Kind)
	_, err = loadTest(t, Options{Model: testModel(t), ContextLength: 1 << 24})
	require.Equal(t, engine.LoadNoMemory, loadErrorOf(t, err).Kind)

	e, err := loadTest(t, Options{Model: testModel(t), MemoryBudget: 350 << 20})
	require.NoError(t, err)
	defer e.Close()
	require.Less(t, e.Info().ContextLength, 8192)
	require.Contains(t, e.Info().Backend.Reason, "instead of 8192")
}

func TestLoad_Cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	_, err := Load(ctx, Options{Model: testModel(t), LibraryDir: libraryDir(t), Threads: 1, Backend: BackendCPU, NoMmap: true}, func(float32) {
		calls++
		cancel()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, calls, "the first call's end ends the loading")
}

func TestLoad_RefusesTheOtherBackend(t *testing.T) {
	if matches, _ := filepath.Glob(filepath.Join(libraryDir(t), "cuda_v*")); len(matches) > 0 {
		t.Skip("this machine has CUDA libraries")
	}
	o := Options{Model: testModel(t), LibraryDir: libraryDir(t), Threads: 1, Backend: BackendCUDA}
	_, err := Load(t.Context(), o, nil)
	le := loadErrorOf(t, err)
	require.Equal(t, engine.LoadBadSetting, le.Kind)
	require.Contains(t, le.Msg, "cuda")
}

// TestMain lets the test binary be a process of its own with other libraries:
// ggml cannot load a second set.
func TestMain(m *testing.M) {
	if dir := os.Getenv("NATIVE_TEST_PROBE"); dir != "" {
		b, err := Probe(Options{LibraryDir: dir, AllowSlow: os.Getenv("NATIVE_TEST_SLOW") != "", Backend: BackendCPU})
		text := ""
		if err != nil {
			text = err.Error()
		}
		_ = json.NewEncoder(os.Stdout).Encode(probed{Backend: b, Err: text})
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type probed struct {
	Backend engine.Backend
	Err     string
}

// probeIn runs Probe in a process of its own.
func probeIn(t testing.TB, dir string, slow bool) probed {
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "NATIVE_TEST_PROBE="+dir)
	if slow {
		cmd.Env = append(cmd.Env, "NATIVE_TEST_SLOW=1")
	}
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	require.NoError(t, err)
	var p probed
	require.NoError(t, json.Unmarshal(out, &p), "%s", out)
	return p
}

func TestProbe_MovedLibrariesStayFast(t *testing.T) {
	moved := filepath.Join(t.TempDir(), "with space", "lib", "ollama")
	require.NoError(t, os.CopyFS(moved, os.DirFS(libraryDir(t))))
	p := probeIn(t, moved, false)
	require.Empty(t, p.Err)
	require.False(t, p.Backend.Slow)
	require.Empty(t, p.Backend.Errors)
	require.Len(t, p.Backend.Libraries, 1)
	require.True(t, strings.HasPrefix(p.Backend.Libraries[0], moved), p.Backend.Libraries[0])
	require.Contains(t, fmt.Sprint(p.Backend.Features), "AVX2=1")
}

func TestProbe_NoFastKernelsIsRefused(t *testing.T) {
	empty := t.TempDir()
	p := probeIn(t, empty, false)
	require.Contains(t, p.Err, "no fast CPU kernels")
	require.Contains(t, p.Err, empty)

	p = probeIn(t, empty, true)
	require.Empty(t, p.Err)
	require.True(t, p.Backend.Slow)
	require.NotEmpty(t, p.Backend.Errors)
}

func TestProbe_KeepsTheLoadersWords(t *testing.T) {
	broken := t.TempDir()
	require.NoError(t, os.CopyFS(broken, os.DirFS(libraryDir(t))))
	matches, err := filepath.Glob(filepath.Join(broken, "libggml-base.so*"))
	require.NoError(t, err)
	require.NotEmpty(t, matches)
	for _, m := range matches {
		require.NoError(t, os.Remove(m))
	}
	p := probeIn(t, broken, true)
	require.True(t, p.Backend.Slow)
	require.Contains(t, strings.Join(p.Backend.Errors, "\n"), "libggml-base.so.0")
}
