//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience tells a hang from a slow machine.
const patience = 90 * time.Second

// shared is the server with default settings that most tests use.
var shared *server

func TestMain(m *testing.M) {
	s, err := launch("THOTH_MODEL_NAME=test-model", "THOTH_MODEL_ALIASES=test-alias", "THOTH_CONTEXT_LENGTH=4096")
	if err == nil {
		err = s.waitReady()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the shared server did not start:", err)
		if s != nil {
			fmt.Fprintln(os.Stderr, s.log())
			s.kill()
		}
		os.Exit(1)
	}
	shared = s
	code := m.Run()
	if exit := s.stop(); exit != 0 && code == 0 {
		fmt.Fprintf(os.Stderr, "the shared server ended with %d:\n%s", exit, s.log())
		code = 1
	}
	os.Exit(code)
}

// server is a running entrypoint with its children.
type server struct {
	cmd  *exec.Cmd
	base string // http://127.0.0.1:port
	exit chan struct{}

	mu     sync.Mutex
	out    bytes.Buffer // stdout
	err    bytes.Buffer // stderr, the children's included
	listen chan struct{}
	ready  chan struct{}
}

// binary is the path of a built program.
func binary(name string) string {
	p, err := filepath.Abs(filepath.Join("..", "..", "build", "bin", name))
	if err != nil {
		panic(err)
	}
	return p
}

// model is the path of the test model; make sets it.
func model() string { return os.Getenv("THOTH_TEST_MODEL") }

// launch starts entrypoint with settings on top of a clean environment and
// waits until it listens.
func launch(env ...string) (*server, error) { return launchAs(nil, env...) }

// launchAs is launch with last changes to the command; nil: none.
func launchAs(change func(*exec.Cmd), env ...string) (*server, error) {
	if model() == "" {
		return nil, fmt.Errorf("THOTH_TEST_MODEL must name the GGUF of the default model: run make test")
	}
	s := &server{cmd: command(env...), exit: make(chan struct{}), listen: make(chan struct{}), ready: make(chan struct{})}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.cmd.Stderr = lockedWriter{&s.mu, &s.err}
	if change != nil {
		change(s.cmd)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go s.read(stdout)
	select {
	case <-s.listen:
		return s, nil
	case <-s.exit:
		return s, fmt.Errorf("entrypoint ended before it listened")
	case <-time.After(patience):
		return s, fmt.Errorf("entrypoint does not listen")
	}
}

// command is entrypoint in a clean environment, not yet started.
func command(env ...string) *exec.Cmd {
	c := exec.Command(binary("entrypoint"))
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "THOTH_MODEL=" + model(), "THOTH_LISTEN=127.0.0.1:0"}, env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return c
}

// read follows stdout: "listening on URL, loading model", then "ready: curl ...".
func (s *server) read(stdout io.Reader) {
	listening, ready := false, false
	for sc := bufio.NewScanner(stdout); sc.Scan(); {
		line := sc.Text()
		s.mu.Lock()
		s.out.WriteString(line + "\n")
		s.mu.Unlock()
		if rest, ok := strings.CutPrefix(line, "listening on "); ok && !listening {
			s.base, _, _ = strings.Cut(rest, ",")
			listening = true
			close(s.listen)
		}
		if strings.HasPrefix(line, "ready: ") && !ready {
			ready = true
			close(s.ready)
		}
	}
	_ = s.cmd.Wait()
	close(s.exit)
}

func (s *server) waitReady() error {
	select {
	case <-s.ready:
		return nil
	case <-s.exit:
		return fmt.Errorf("entrypoint ended before it was ready")
	case <-time.After(patience):
		return fmt.Errorf("not ready in time")
	}
}

// start is launch for a test, with the server stopped at its end.
func start(t *testing.T, env ...string) *server {
	t.Helper()
	s := startLoading(t, env...)
	if err := s.waitReady(); err != nil {
		t.Fatalf("%v\n%s", err, s.log())
	}
	return s
}

// startLoading is start without waiting for the model.
func startLoading(t *testing.T, env ...string) *server {
	t.Helper()
	return startAs(t, nil, env...)
}

// startAs is startLoading with last changes to the command; nil: none.
func startAs(t *testing.T, change func(*exec.Cmd), env ...string) *server {
	t.Helper()
	s, err := launchAs(change, append([]string{"THOTH_MODEL_NAME=test-model", "THOTH_CONTEXT_LENGTH=4096"}, env...)...)
	if s != nil {
		t.Cleanup(func() {
			s.kill()
			if line := crash.FindString(s.log()); line != "" {
				t.Errorf("the log tells of a crash: %s", line)
			}
			if t.Failed() {
				t.Logf("its log ends so:\n%s", tail([]byte(s.log()), 6000))
			}
		})
	}
	require.NoError(t, err)
	return s
}

// stop sends SIGTERM and returns the exit code.
func (s *server) stop() int {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	return s.wait()
}

func (s *server) wait() int {
	select {
	case <-s.exit:
	case <-time.After(30 * time.Second):
		s.kill()
		return -2
	}
	return s.cmd.ProcessState.ExitCode()
}

// kill ends what is left of the server at once. Two signals do it in order,
// with nothing left in the temporary folder; if they do not, the kernel ends
// the children of an entrypoint that is killed.
func (s *server) kill() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-s.exit:
	case <-time.After(5 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.exit
	}
}

func (s *server) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String() + s.err.String()
}

// child finds a child process of entrypoint by its program's name; 0: none.
func (s *server) child(name string) int {
	var pids []string
	// Children belong to the thread that forked them.
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.cmd.Process.Pid))
	for _, f := range tasks {
		b, _ := os.ReadFile(f)
		pids = append(pids, strings.Fields(string(b))...)
	}
	for _, p := range pids {
		exe, err := os.Readlink("/proc/" + p + "/exe")
		// A program built anew under a running one is shown as deleted.
		if err == nil && filepath.Base(strings.TrimSuffix(exe, " (deleted)")) == name {
			var pid int
			_, _ = fmt.Sscan(p, &pid)
			return pid
		}
	}
	return 0
}

// signalChild signals a child by its program's name.
func (s *server) signalChild(t *testing.T, name string, sig syscall.Signal) int {
	t.Helper()
	pid := s.child(name)
	require.NotZero(t, pid, "%s does not run", name)
	require.NoError(t, syscall.Kill(pid, sig))
	return pid
}

// obj is a JSON object.
type obj = map[string]any

// reply is an HTTP answer read to its end.
type reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// JSON decodes the body.
func (r reply) JSON(t *testing.T) obj {
	t.Helper()
	var o obj
	require.NoError(t, json.Unmarshal(r.Body, &o), "%s", r.Body)
	return o
}

// Err checks that the answer is an error envelope with this status and returns
// its error object.
func (r reply) Err(t *testing.T, status int) obj {
	t.Helper()
	require.Equal(t, status, r.Status, "%s", r.Body)
	require.Contains(t, r.Header.Get("Content-Type"), "application/json")
	e, ok := r.JSON(t)["error"].(obj)
	require.True(t, ok, "no error object: %s", r.Body)
	require.NotEmpty(t, e["message"])
	require.IsType(t, "", e["type"])
	for _, k := range []string{"param", "code"} {
		v, there := e[k]
		require.True(t, there, "no %s: %s", k, r.Body)
		if v != nil {
			require.IsType(t, "", v)
		}
	}
	return e
}

// Text is the first choice's content.
func (r reply) Text(t *testing.T) string {
	t.Helper()
	require.Equal(t, 200, r.Status, "%s", r.Body)
	m := r.choice(t)["message"].(obj)
	text, ok := m["content"].(string)
	require.True(t, ok, "content is no string: %s", r.Body)
	return text
}

// Finish is the first choice's finish_reason.
func (r reply) Finish(t *testing.T) any { t.Helper(); return r.choice(t)["finish_reason"] }

// Usage is one of the usage's numbers.
func (r reply) Usage(t *testing.T, name string) int {
	t.Helper()
	n, ok := r.JSON(t)["usage"].(obj)[name].(float64)
	require.True(t, ok, "usage.%s: %s", name, r.Body)
	return int(n)
}

func (r reply) choice(t *testing.T) obj {
	t.Helper()
	choices, ok := r.JSON(t)["choices"].([]any)
	require.True(t, ok && len(choices) > 0, "no choices: %s", r.Body)
	return choices[0].(obj)
}

// do sends a request; body may be nil, a string (sent as it is) or a value
// (sent as JSON).
func (s *server) do(t *testing.T, method, path string, body any, header ...string) reply {
	t.Helper()
	r, err := s.try(t.Context(), method, path, body, header...)
	require.NoError(t, err)
	return r
}

// try is do with the error returned; ctx may cut it short. Safe on any goroutine.
func (s *server) try(ctx context.Context, method, path string, body any, header ...string) (reply, error) {
	resp, err := s.open(ctx, method, path, body, header...)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, b}, err
}

// open sends a request and leaves the body to the caller.
func (s *server) open(ctx context.Context, method, path string, body any, header ...string) (*http.Response, error) {
	var rd io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		rd = strings.NewReader(b)
	default:
		j, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		rd = bytes.NewReader(j)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, rd)
	if err != nil {
		return nil, err
	}
	if rd != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return (&http.Client{Timeout: patience}).Do(req)
}

const chatPath = "/v1/chat/completions"

// chat posts the plain request P of the field cases with keys merged in; a nil
// value takes a key out, use null for JSON's null.
func (s *server) chat(t *testing.T, merge ...obj) reply {
	t.Helper()
	return s.do(t, http.MethodPost, chatPath, P(merge...))
}

var null = json.RawMessage("null")

// P is the smallest useful chat request, with keys merged in.
func P(merge ...obj) obj {
	p := obj{"model": "test-model", "messages": []obj{user("Say hi")}, "max_tokens": 8, "temperature": 0}
	for _, m := range merge {
		for k, v := range m {
			if v == nil {
				delete(p, k)
			} else {
				p[k] = v
			}
		}
	}
	return p
}

func user(text string) obj                 { return obj{"role": "user", "content": text} }
func message(role string, content any) obj { return obj{"role": role, "content": content} }

// events is a stream read to its end and checked: every event is data with one
// JSON, the last is [DONE].
type events struct {
	Raw    []byte
	Header http.Header
	JSON   []obj
	Done   bool
	Error  obj // an error event, which ends the stream without [DONE]
}

// stream posts P with stream set and reads it all.
func (s *server) stream(t *testing.T, merge ...obj) events {
	t.Helper()
	e, err := s.tryStream(t.Context(), merge...)
	require.NoError(t, err)
	return e
}

// tryStream is stream on any goroutine.
func (s *server) tryStream(ctx context.Context, merge ...obj) (events, error) {
	resp, err := s.open(ctx, http.MethodPost, chatPath, P(append(merge, obj{"stream": true})...))
	if err != nil {
		return events{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return events{Raw: raw, Header: resp.Header}, err
	}
	if resp.StatusCode != 200 {
		return events{Raw: raw, Header: resp.Header}, fmt.Errorf("status %d: %s", resp.StatusCode, raw)
	}
	e, err := parseEvents(raw)
	e.Header = resp.Header
	return e, err
}

func parseEvents(raw []byte) (events, error) {
	e := events{Raw: raw}
	if !bytes.HasSuffix(raw, []byte("\n\n")) {
		return e, fmt.Errorf("last event not terminated: %q", tail(raw, 80))
	}
	for _, block := range bytes.Split(bytes.TrimSuffix(raw, []byte("\n\n")), []byte("\n\n")) {
		if bytes.HasPrefix(block, []byte(":")) {
			continue
		}
		data, ok := bytes.CutPrefix(block, []byte("data: "))
		if !ok || bytes.ContainsRune(data, '\n') || e.Done || e.Error != nil {
			return e, fmt.Errorf("not one data line, or behind the end: %q", block)
		}
		if string(data) == "[DONE]" {
			e.Done = true
			continue
		}
		var o obj
		if err := json.Unmarshal(data, &o); err != nil {
			return e, fmt.Errorf("event %q: %w", data, err)
		}
		if bad, ok := o["error"].(obj); ok {
			e.Error = bad
			continue
		}
		e.JSON = append(e.JSON, o)
	}
	return e, nil
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// Text joins the content of one choice's deltas.
func (e events) Text(index int) string {
	var sb strings.Builder
	e.each(index, func(c obj) {
		if s, ok := c["delta"].(obj)["content"].(string); ok {
			sb.WriteString(s)
		}
	})
	return sb.String()
}

// Finishes lists the finish reasons of one choice that are not null.
func (e events) Finishes(index int) []string {
	var all []string
	e.each(index, func(c obj) {
		if r, ok := c["finish_reason"].(string); ok {
			all = append(all, r)
		}
	})
	return all
}

func (e events) each(index int, f func(choice obj)) {
	for _, o := range e.JSON {
		choices, _ := o["choices"].([]any)
		for _, c := range choices {
			if c := c.(obj); int(c["index"].(float64)) == index {
				f(c)
			}
		}
	}
}

// answersAgain is what holds after every case: P still answers.
func (s *server) answersAgain(t *testing.T) {
	t.Helper()
	require.NotEmpty(t, s.chat(t).Text(t))
}

// eventually polls another process, with a deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, 20*time.Millisecond, what)
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
