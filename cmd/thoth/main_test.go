package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/internal/gguf/gguftest"
)

// asTool makes the test binary be the tool, for tests that need a process to
// send signals to.
const asTool = "THOTH_TEST_AS_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		main()
	}
	os.Exit(m.Run())
}

func tool(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.Env = append(os.Environ(), asTool+"=1")
	return cmd, &out, &said
}

func TestPull_SurvivesSignalsAsAProcess(t *testing.T) {
	body := gguftest.Model("m", 1_000_000, 1)
	for name, tt := range map[string]struct {
		sig  syscall.Signal
		code int
	}{"SIGTERM": {syscall.SIGTERM, 143}, "SIGINT": {syscall.SIGINT, 130}, "SIGKILL": {syscall.SIGKILL, -1}} {
		t.Run(name, func(t *testing.T) {
			third := len(body) * 3 / 10
			sent := make(chan struct{}, 1)
			src := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", `"v1"`)
				if r.Header.Get("Range") == "" {
					w.Header().Set("Content-Length", strconv.Itoa(len(body)))
					_, _ = w.Write(body[:third])
					_ = http.NewResponseController(w).Flush()
					sent <- struct{}{}
					<-r.Context().Done()
					return
				}
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
			}))
			defer src.Close()
			dir := t.TempDir()
			cmd, _, said := tool(t, "pull", "--dir", dir, src.URL+"/m.gguf")
			require.NoError(t, cmd.Start())
			<-sent
			partial := func() int64 {
				found, _ := filepath.Glob(filepath.Join(dir, "models", "*", "*", "*", "*.partial"))
				if len(found) != 1 {
					return -1
				}
				st, err := os.Stat(found[0])
				if err != nil {
					return -1
				}
				return st.Size()
			}
			require.Eventually(t, func() bool { return partial() == int64(third) }, 10*time.Second, 5*time.Millisecond)
			began := time.Now()
			require.NoError(t, cmd.Process.Signal(tt.sig))
			require.Error(t, cmd.Wait())
			require.Less(t, time.Since(began), 3*time.Second) // far below the stall timeout, also on a busy machine
			require.Equal(t, tt.code, cmd.ProcessState.ExitCode(), said.String())
			require.Equal(t, int64(third), partial())

			cmd, out, said := tool(t, "pull", "--print-path", "--dir", dir, src.URL+"/m.gguf")
			require.NoError(t, cmd.Run(), said.String())
			got, err := os.ReadFile(strings.TrimSpace(out.String()))
			require.NoError(t, err)
			require.True(t, bytes.Equal(body, got))
			require.Contains(t, said.String(), "resuming")
		})
	}
}

func TestPull_PrintsThePathAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(path, gguftest.Model("m", 10, 1), 0o600))
	var out, said bytes.Buffer
	require.Equal(t, 0, run([]string{"pull", "--print-path", path}, streams{&out, &said}))
	require.Equal(t, path+"\n", out.String())
}

func TestRun_ErrorsNameTheFlag(t *testing.T) {
	for args, want := range map[string]string{
		"pull --tries 0":         "--tries 0: want at least 1",
		"pull --stall-timeout 0": "--stall-timeout",
		"pull --no-such":         "unknown flag --no-such",
		"fetch":                  "unexpected argument fetch",
	} {
		var out, said bytes.Buffer
		require.Equal(t, 1, run(strings.Fields(args), streams{&out, &said}), args)
		require.Contains(t, said.String(), want)
		require.Empty(t, out.String())
	}
	var out, said bytes.Buffer
	require.Equal(t, 0, run([]string{"pull", "--help"}, streams{&out, &said}))
	require.Contains(t, out.String(), "THOTH_CACHE")
}
