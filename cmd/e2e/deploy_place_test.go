//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The built tree, copied elsewhere as a whole, in the places that platforms
// give it: another user, no home, nothing writable but one folder.

// copyTree copies what was built, and links or copies the model, to where any
// user can read it.
func copyTree(t *testing.T) (entrypoint, modelPath string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "thoth-place-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	out, err := exec.Command("cp", "-a", filepath.Dir(filepath.Dir(binary("entrypoint"))), filepath.Join(dir, "app")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	modelPath = filepath.Join(dir, "model.gguf")
	place(t, model(), modelPath)
	return filepath.Join(dir, "app", "bin", "entrypoint"), modelPath
}

// place puts a file where it is wanted, as a second name of it if it may be.
func place(t *testing.T, from, to string) {
	t.Helper()
	if os.Link(from, to) == nil {
		return
	}
	out, err := exec.Command("cp", from, to).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// inTree runs the copied entrypoint without a home.
func inTree(entrypoint string, change func(*exec.Cmd)) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		c.Path, c.Args = entrypoint, []string{entrypoint}
		for i, kv := range c.Env {
			if kv == "HOME="+os.Getenv("HOME") {
				c.Env[i] = "HOME="
			}
		}
		if change != nil {
			change(c)
		}
	}
}

func TestDeploy_InPlacesThatPlatformsGive(t *testing.T) {
	entrypoint, modelPath := copyTree(t)
	scratch := filepath.Join(filepath.Dir(modelPath), "scratch")
	require.NoError(t, os.Mkdir(scratch, 0o700))
	require.NoError(t, os.Chmod(scratch, 0o777))
	serves := func(t *testing.T, change func(*exec.Cmd), env ...string) {
		s := startAs(t, inTree(entrypoint, change), append([]string{"THOTH_MODEL=" + modelPath}, env...)...)
		require.NoError(t, s.waitReady(), s.log())
		s.answersAgain(t)
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", s.child(stationProgram)))
		require.NoError(t, err)
		require.Contains(t, string(maps), filepath.Join(filepath.Dir(entrypoint), stationProgram), "the copy itself, not what it was copied from")
		require.Regexp(t, regexp.QuoteMeta(filepath.Join(filepath.Dir(entrypoint), "..", "lib", "ollama"))+`.*\.so`, string(maps), "with its own kernels")
		require.NotContains(t, string(maps), filepath.Dir(filepath.Dir(binary(stationProgram))))
		require.Equal(t, 0, s.stop())
	}
	t.Run("CopiedWithoutAHome", func(t *testing.T) {
		serves(t, nil, "THOTH_RUNTIME_DIR="+scratch)
	})
	t.Run("AsAnyUser", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("only root can become another user")
		}
		nobody := func(c *exec.Cmd) { c.SysProcAttr.Credential = &syscall.Credential{Uid: 65532, Gid: 65532} }
		serves(t, nobody, "TMPDIR="+scratch)

		private := filepath.Join(scratch, "private.gguf")
		require.NoError(t, os.WriteFile(private, []byte("GGUF"), 0o600))
		sentence := unusable(t, inTree(entrypoint, nobody), 64, "THOTH_MODEL="+private, "TMPDIR="+scratch)
		require.Contains(t, sentence, private+" cannot be read: permission denied")
	})
	t.Run("OnAReadOnlyRoot", func(t *testing.T) {
		// A namespace in which nothing can be written but the scratch folder.
		const script = `mount --make-rprivate / && mount --bind "$SCRATCH" "$SCRATCH" && mount -o remount,bind,ro / && exec "$0"`
		isolate := func(c *exec.Cmd) {
			shell(script)(c)
			c.Env = append(c.Env, "SCRATCH="+scratch)
			c.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
			if os.Getuid() != 0 {
				c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
				c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
				c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
			}
		}
		probe := command()
		probe.Path = "/bin/sh"
		isolate(probe)
		probe.Args[2] = script + ` -c 'touch "$SCRATCH/x" && ! touch /x /tmp/x 2>/dev/null'`
		probe.Args[3] = "/bin/sh"
		if out, err := probe.CombinedOutput(); err != nil {
			t.Skipf("no namespace with a read-only root to be had: %v %s", err, out)
		}
		serves(t, isolate, "TMPDIR="+scratch)

		// Without a folder to write to there is one clear sentence.
		s, err := launchAs(inTree(entrypoint, isolate), "THOTH_MODEL="+modelPath, "TMPDIR=/tmp")
		require.Error(t, err)
		require.Equal(t, 78, s.exits(t, soon))
		require.Contains(t, lastLine(s.log()), "set THOTH_RUNTIME_DIR to a writable folder")
	})
}
