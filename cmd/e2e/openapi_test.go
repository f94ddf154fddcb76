//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/engine"
	"thoth/station/kvstore"
	"thoth/station/stationtest"
)

// The public surface against its own OpenAPI document: schemathesis makes
// requests of it, right ones and wrong ones, and checks what comes back. One run is
// over the fake engine, which answers thousands of requests in its time, one over
// the real one.

// checks are what must hold of every answer. That wrong data is refused and
// right data taken is not among them: rules between fields are not all in the
// document.
const checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance," +
	"response_headers_conformance,allow_header_conformance,unsupported_method,ignored_auth,missing_required_header"

// fuzzSettings keep single answers short. Keys are in use, so that the way past
// them is looked for.
var fuzzSettings = []string{"THOTH_ADMIN_KEYS=schemathesis", "THOTH_DEFAULT_MAX_TOKENS=8", "THOTH_MAX_CHOICES=3", "THOTH_LOG_LEVEL=warn"}

func TestOpenAPI_SchemathesisFindsNothing(t *testing.T) {
	fake := stationtest.NewEngine(stationtest.Options{ContextLength: 512, EOGEvery: 16})
	st := station.New(station.Options{Build: "fuzz", KV: kvstore.Options{WarmBytes: 64 << 20}, Logger: zerolog.Nop()})
	loaded := make(chan struct{})
	st.Start(fake.Load, func(engine.Info) { close(loaded) })
	<-loaded
	front := httptest.NewServer(st.Handler())
	t.Cleanup(func() {
		front.Close()
		st.Close()
	})

	schemathesis(t, start(t, append([]string{"FAT_STATION_URL=" + front.URL}, fuzzSettings...)...), 40*time.Second)
}

func TestOpenAPI_SchemathesisFindsNothingOverTheRealEngine(t *testing.T) {
	schemathesis(t, start(t, append([]string{"THOTH_CONTEXT_LENGTH=256"}, fuzzSettings...)...), 20*time.Second)
}

// pythonFault is a fault of CPython 3.11 where several threads compile: it ends
// the tool, whatever the server did.
var pythonFault = []byte("SystemError: AST constructor recursion depth mismatch")

// schemathesis runs for about so long over a server, which must be as it was
// afterwards.
func schemathesis(t *testing.T, s *server, budget time.Duration) {
	t.Helper()
	program := installSchemathesis(t)
	before := s.children()
	run := func() ([]byte, error) {
		// Beyond the budget a run ends the requests that are under way.
		ctx, cancel := context.WithTimeout(t.Context(), budget+patience)
		defer cancel()
		c := exec.CommandContext(ctx, program, "run", s.base+"/openapi.json", "--header", "Authorization: Bearer schemathesis",
			"--checks", checks, "--phases", "examples,coverage,fuzzing", "--max-examples", "40", "--max-time", strconv.Itoa(int(budget.Seconds())),
			"--request-timeout", "30", "--workers", "1", "--continue-on-failure", "--generation-database", "none", "--no-color")
		c.Dir = t.TempDir() // it leaves reports where it runs
		return c.CombinedOutput()
	}
	out, err := run()
	for range 2 {
		if err == nil || !bytes.Contains(out, pythonFault) {
			break
		}
		t.Logf("Python itself failed, once more")
		out, err = run()
	}
	// The testing package cuts longer lines off, and the end tells what was found.
	require.NoError(t, err, "%s", out[max(0, len(out)-16<<10):])
	t.Logf("%s", out[max(0, bytes.LastIndex(out, []byte("Test cases:"))):])
	require.Equal(t, before, s.children(), "a process was started anew")
}

// installSchemathesis puts the pinned requirements into a virtual environment
// below build, once for each list of them, and gives the program's path.
func installSchemathesis(t *testing.T) string {
	t.Helper()
	list, err := filepath.Abs(filepath.Join("testdata", "schemathesis.txt"))
	require.NoError(t, err)
	text, err := os.ReadFile(list)
	require.NoError(t, err)
	sum := sha256.Sum256(text)
	dir, err := filepath.Abs(filepath.Join("..", "..", "build", "schemathesis"))
	require.NoError(t, err)
	mark, want := filepath.Join(dir, "installed"), hex.EncodeToString(sum[:])
	program := filepath.Join(dir, "bin", "schemathesis")
	if is, _ := os.ReadFile(mark); string(is) == want {
		return program
	}
	python := os.Getenv("THOTH_PYTHON")
	if python == "" {
		python = "python3"
	}
	require.NoError(t, os.RemoveAll(dir))
	for _, args := range [][]string{{python, "-m", "venv", dir}, {filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "--requirement", list}} {
		out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
		require.NoError(t, err, "%s: %s", strings.Join(args, " "), out)
	}
	require.NoError(t, os.WriteFile(mark, []byte(want), 0o644))
	return program
}
