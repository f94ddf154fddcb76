package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree is a built tree with stand-ins for the programs that scripts/run.sh uses.
func tree(t *testing.T, thoth, entrypoint string) (script string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "a tree")
	for name, text := range map[string]string{"thoth": thoth, "entrypoint": entrypoint} {
		path := filepath.Join(root, "build", "bin", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	b, err := os.ReadFile("../../scripts/run.sh")
	require.NoError(t, err)
	script = filepath.Join(root, "scripts", "run.sh")
	require.NoError(t, os.MkdirAll(filepath.Dir(script), 0o755))
	require.NoError(t, os.WriteFile(script, b, 0o755))
	return script
}

func TestRunScript_BecomesTheSupervisorWithTheModel(t *testing.T) {
	script := tree(t, `echo "fetching $*" >&2; echo "/cache/a model.gguf"`, `echo "$THOTH_MODEL by $$"; exit 7`)
	out, said := new(bytes.Buffer), new(bytes.Buffer)
	cmd := exec.Command(script, "hf:o/r/m.gguf")
	cmd.Stdout, cmd.Stderr = out, said
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Run(), &exit)
	require.Equal(t, 7, exit.ExitCode(), "the supervisor's status is the script's")
	require.Equal(t, fmt.Sprintf("/cache/a model.gguf by %d\n", cmd.Process.Pid), out.String(),
		"no process stands between the caller and the supervisor")
	require.Equal(t, "fetching pull --print-path hf:o/r/m.gguf\n", said.String())
}

func TestRunScript_StartsNothingWithoutAModel(t *testing.T) {
	script := tree(t, `echo "thoth: no space" >&2; exit 1`, `echo started`)
	out, err := exec.Command(script).CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Equal(t, "thoth: no space\n", string(out))
}

func TestRunScript_NamesTheDefaultModelAlone(t *testing.T) {
	script := tree(t, `echo /cache/m.gguf`, `echo "${THOTH_MODEL_NAME-none}"`)
	for _, c := range []struct {
		args, env []string
		name      string
	}{
		{name: "smollm2-135m"},
		{env: []string{"THOTH_MODEL="}, name: "smollm2-135m"},
		{env: []string{"THOTH_MODEL_NAME=mine"}, name: "mine"},
		{args: []string{"/x.gguf"}, name: "none"},
		{env: []string{"THOTH_MODEL=/x.gguf"}, name: "none"},
		{env: []string{"THOTH_MODEL=/x.gguf", "THOTH_MODEL_NAME=mine"}, name: "mine"},
	} {
		cmd := exec.Command(script, c.args...)
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, c.env...)
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, c.name+"\n", string(out), "%v %v", c.args, c.env)
	}
}
