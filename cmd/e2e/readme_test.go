//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// readmeBase is where the README's commands find the server that its make run
// starts; here it listens elsewhere.
const readmeBase = "http://127.0.0.1:8080"

// commandBlock is a fenced block of the README that is a script.
type commandBlock struct {
	line int
	text string
}

// commandBlocks are the README's blocks with the word sh behind the fence: each
// runs as it is, by bash -eu in the repository's root.
func commandBlocks(t *testing.T) (blocks []commandBlock) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	require.NoError(t, err, "the project has a README.md")
	inside, n := false, 0
	for line := range strings.Lines(string(b)) {
		n++
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && inside:
			inside = false
		case isFence && fence == "sh":
			inside = true
			blocks = append(blocks, commandBlock{line: n + 1})
		case inside:
			blocks[len(blocks)-1].text += line
		}
	}
	require.False(t, inside, "the last block ends")
	return blocks
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	return dir
}

// bash is a script in the repository's root, without the caller's settings.
func bash(ctx context.Context, t *testing.T, script string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(ctx, "bash", "-eu", "-c", script)
	c.Dir = root(t)
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if own := strings.HasPrefix(name, "THOTH_") && name != "THOTH_CACHE"; !own && name != "PORT" && name != "FAT_STATION_URL" && !strings.HasPrefix(name, "MAKE") && name != "MFLAGS" {
			c.Env = append(c.Env, kv)
		}
	}
	c.Env = append(c.Env, "THOTH_LISTEN=127.0.0.1:0")
	return c
}

// What the README tells a newcomer to type works.
func TestReadme_CommandsWork(t *testing.T) {
	blocks := commandBlocks(t)
	require.NotEmpty(t, blocks, "README.md has blocks of commands (```sh)")

	started, asked := "", 0
	for _, block := range blocks {
		text := block.text
		switch {
		case strings.Contains(text, "make test") || strings.Contains(text, ".ci/run"):
			continue // this very test is part of it
		case strings.Contains(text, "make run"):
			if started == "" {
				started = makeRun(t, block)
			}
		case strings.Contains(text, "thoth ") && !strings.Contains(text, "--help"):
			continue // a download, or a measurement that wants the machine alone
		case regexp.MustCompile(`\b(curl|python3?|thoth)\b`).MatchString(text):
			require.NotEmpty(t, started, "README.md:%d: make run comes before what talks to it", block.line)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			var stderr strings.Builder
			c := bash(ctx, t, strings.ReplaceAll(text, readmeBase, started))
			c.Stderr = &stderr
			out, err := c.Output()
			cancel()
			require.NoError(t, err, "README.md:%d:\n%s%s%s", block.line, text, out, stderr.String())
			require.NotEmpty(t, out, "README.md:%d", block.line)
			require.NotContains(t, string(out), `"error":{`, "README.md:%d:\n%s", block.line, text)
			asked++
		}
	}
	require.NotEmpty(t, started, "README.md starts the server with make run")
	require.Positive(t, asked, "README.md shows how to talk to it")
}

// makeRun runs the block that starts the server, waits until it is ready, and
// returns where. At the test's end it is stopped as Ctrl-C does.
func makeRun(t *testing.T, block commandBlock) string {
	t.Helper()
	c := bash(context.Background(), t, block.text)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s := &server{cmd: c, exit: make(chan struct{}), listen: make(chan struct{}), ready: make(chan struct{})}
	c.Stderr = lockedWriter{&s.mu, &s.err}
	stdout, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	go s.read(bufio.NewReader(stdout))
	t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGINT)
		select {
		case <-s.exit:
		case <-time.After(15 * time.Second):
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			t.Errorf("Ctrl-C does not stop make run:\n%s", s.log())
		}
		if s.base != "" && s.probe(context.Background(), "/livez") != 0 {
			t.Error("make run has ended and something still listens")
		}
	})
	select {
	case <-s.ready:
	case <-s.exit:
		require.FailNow(t, "make run ended", "README.md:%d\n%s", block.line, s.log())
	case <-time.After(10 * time.Minute): // it may build
		require.FailNow(t, "make run is not ready", "README.md:%d\n%s", block.line, s.log())
	}
	require.Contains(t, s.log(), "ready: curl "+s.base)
	return s.base
}
