//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// standIn is a station of a few lines: it serves model and answers with the
// prompt it got. It stands in where a test is about settings of the host or
// about templates the test model does not have.
func standIn(t *testing.T, model wire.Model) (url string) {
	no := false
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		enc := json.NewEncoder(w)
		switch r.URL.Path {
		case wire.RouteHealth:
			_ = enc.Encode(wire.Health{Status: wire.StatusOK, Wire: wire.Version, ContextLength: 4096, KVSession: &no})
		case wire.RouteModel:
			_ = enc.Encode(model)
		case wire.RouteGenerate:
			var q wire.GenerateRequest
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				t.Errorf("the host sent what cannot be read: %v", err)
			}
			var prompt strings.Builder
			for _, s := range q.Prompt.Segments {
				prompt.WriteString(s.Text)
			}
			w.Header().Set("Content-Type", wire.ContentTypeStream)
			_ = enc.Encode(wire.Frame{Type: wire.FrameText, Text: prompt.String(), Tokens: []int32{1, 2}})
			_ = enc.Encode(wire.Frame{Type: wire.FrameDone, Done: &wire.Done{Reason: wire.ReasonEOG, PromptTokens: 9, CompletionTokens: 2}})
		default:
			e := &wire.Error{Code: wire.CodeNoRoute, Message: "not here"}
			w.WriteHeader(e.Status())
			_ = enc.Encode(wire.ErrorBody{Error: e})
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// hostBefore starts the host alone in front of a station and waits until it
// answers; its readiness is the test's.
func hostBefore(t *testing.T, station string, env ...string) *server {
	t.Helper()
	s := &server{cmd: exec.Command(binary("openai-server")), exit: make(chan struct{})}
	s.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "THOTH_LISTEN=127.0.0.1:0", "FAT_STATION_URL=" + station}, env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Stderr = lockedWriter{&s.mu, &s.err}
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	stdout := bufio.NewReader(out)
	line, readErr := stdout.ReadString('\n')
	go func() {
		_, _ = io.Copy(io.Discard, stdout)
		_ = s.cmd.Wait()
		close(s.exit)
	}()
	t.Cleanup(s.kill)
	var hs wire.Handshake
	require.NoError(t, readErr, s.log())
	require.NoError(t, json.Unmarshal([]byte(line), &hs))
	s.base = strings.TrimSuffix(hs.Address, "/")
	return s
}

// serves waits until the host is ready.
func (s *server) serves(t *testing.T) {
	t.Helper()
	eventually(t, "readiness", func() bool { return s.do(t, http.MethodGet, "/readyz", nil).Status == http.StatusOK })
}
