package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/internal/gguf/gguftest"
)

func TestBench_AloneIsBenchServer(t *testing.T) {
	for want, args := range map[string][]string{
		"--rounds 0: want at least 1":    {"bench", "--rounds", "0"},
		`server address "nowhere"`:       {"bench", "--url", "nowhere"},
		`cohort "warm"`:                  {"bench", "server", "--cohorts", "warm"},
		"unknown flag --peer-command":    {"bench", "--peer-command", "x {port}"},
		"--peer-port 0: want at least 1": {"bench", "liquid", "--peer-port", "0"},
		"--tokens 0: want at least 1":    {"bench", "structured", "--tokens", "0"},
	} {
		var out, said bytes.Buffer
		require.Equal(t, 1, run(args, streams{&out, &said}), want)
		require.Contains(t, said.String(), want)
		require.Empty(t, out.String())
	}
}

func TestBenchLiquid_StartsWhatLiesBesideTheEntrypoint(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's here")
	require.NoError(t, os.Mkdir(dir, 0o755))
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
		return path
	}
	write("fat-station", "#!/bin/sh\n[ \"$1 $2\" = '--bench-engine --model' ] && [ -f \"$3\" ] && echo '{\"import_gb_s\":4.5}'\n")
	entrypoint := write("entrypoint", "#!/bin/sh\necho no cells >&2\nexit 4\n")
	model := write("m.gguf", string(gguftest.Model("m", 10, 1)))
	json := filepath.Join(t.TempDir(), "out.json")

	var out, said bytes.Buffer
	args := []string{"bench", "liquid", "--entrypoint", entrypoint, "--model", model, "--rounds", "1", "--out", json}
	require.Equal(t, 0, run(append(args, "--cohorts", "engine"), streams{&out, &said}), said.String())
	require.Regexp(t, `restore, warm to device\s+at least 3 GB/s\s+4.50 GB/s\s+-\s+-\s+ok`, out.String())
	b, err := os.ReadFile(json)
	require.NoError(t, err)
	require.Contains(t, string(b), `"verdict": "ok"`)

	out.Reset()
	require.Equal(t, 1, run(append(args, "--cohorts", "reuse"), streams{&out, &said}))
	require.Contains(t, out.String(), "no cells", "what the server said is in the report")
}
