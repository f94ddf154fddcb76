//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	stationProgram = "fat-station"
	hostProgram    = "openai-server"
)

// endless is a request that goes on until the context is full.
var endless = obj{"max_tokens": nil, "ignore_eos": true}

// oneSlot are the settings with which one answer is decoded at a time.
var oneSlot = []string{"THOTH_MAX_IN_FLIGHT=1", "THOTH_SEQUENCES=1"}

// stat are the fields of /proc/PID/stat behind the name: state, parent, ...
func stat(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// dead tells whether a process has ended; whether its parent has noticed is
// not asked.
func dead(pid int) bool {
	f := stat(pid)
	return len(f) == 0 || f[0] == "Z" || f[0] == "X"
}

// cpuTicks is the CPU time a process has used, in clock ticks.
func cpuTicks(pid int) int {
	f := stat(pid)
	if len(f) < 13 {
		return 0
	}
	u, _ := strconv.Atoi(f[11])
	s, _ := strconv.Atoi(f[12])
	return u + s
}

// memory is a line of /proc/PID/status, such as VmRSS or VmHWM, in bytes.
func memory(t *testing.T, pid int, name string) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			require.NoError(t, err)
			return n << 10
		}
	}
	require.FailNow(t, "no "+name)
	return 0
}

// files counts a process's open file descriptors.
func files(pid int) int {
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return len(all)
}

// children are the running station and host, 0 for one that is not there.
func (s *server) children() [2]int {
	return [2]int{s.child(stationProgram), s.child(hostProgram)}
}

// gone waits until no process of a server is left.
func gone(t *testing.T, s *server, children [2]int) {
	t.Helper()
	for _, pid := range append(children[:], s.cmd.Process.Pid) {
		if pid != 0 {
			eventually(t, fmt.Sprintf("the end of process %d", pid), func() bool { return dead(pid) })
		}
	}
}

// exits waits for the server's end and returns its exit code; within bounds it.
func (s *server) exits(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-s.exit:
	case <-time.After(within):
		require.FailNow(t, "does not end", "within %s\n%s", within, s.log())
	}
	return s.cmd.ProcessState.ExitCode()
}

// number is a number of /stats, such as "host", "waiting"; -1 where there is none.
func (s *server) number(t *testing.T, part, name string) int {
	t.Helper()
	r := s.do(t, http.MethodGet, "/stats", nil)
	require.Equal(t, 200, r.Status, "%s", r.Body)
	o, _ := r.JSON(t)[part].(obj)
	n, ok := o[name].(float64)
	if !ok {
		return -1
	}
	return int(n)
}

// counts waits until a number of /stats is want.
func (s *server) counts(t *testing.T, part, name string, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s %s = %d", part, name, want), func() bool { return s.number(t, part, name) == want })
}

// idle waits until nothing runs or waits, in the host and in the station.
func (s *server) idle(t *testing.T) {
	t.Helper()
	s.counts(t, "host", "in_flight", 0)
	s.counts(t, "host", "waiting", 0)
	s.counts(t, "station", "running", 0)
	s.counts(t, "station", "waiting", 0)
}

// probe is a GET that may fail: the status, 0 without an answer.
func (s *server) probe(ctx context.Context, path string) int {
	r, err := s.try(ctx, http.MethodGet, path, nil)
	if err != nil {
		return 0
	}
	return r.Status
}

// readyAgain waits until /readyz says so.
func (s *server) readyAgain(t *testing.T) {
	t.Helper()
	eventually(t, "readiness", func() bool { return s.probe(t.Context(), "/readyz") == 200 })
}

// unavailable checks for a refusal that a client may retry: 503 with when.
func (r reply) unavailable(t *testing.T) {
	t.Helper()
	r.Err(t, 503)
	after, err := strconv.Atoi(r.Header.Get("Retry-After"))
	require.NoError(t, err, "Retry-After")
	require.Positive(t, after)
}

// live is a stream under way.
type live struct {
	r      *bufio.Reader
	cancel context.CancelFunc
	head   []byte // what was read already
	end    chan struct{}
	rest   []byte // once end is closed
	err    error
}

// begin opens a stream and reads its first event with text, comments before it
// included.
func (s *server) begin(t *testing.T, merge ...obj) *live {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	resp, err := s.open(ctx, http.MethodPost, chatPath, P(append(merge, obj{"stream": true})...))
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	l := &live{r: bufio.NewReader(resp.Body), cancel: cancel}
	require.Equal(t, 200, resp.StatusCode)
	for !bytes.Contains(l.head, []byte(`"content":"`)) || !bytes.HasSuffix(l.head, []byte("\n\n")) || bytes.Count(l.head, []byte("data: ")) < 2 {
		line, err := l.r.ReadBytes('\n')
		require.NoError(t, err, "%s", l.head)
		l.head = append(l.head, line...)
	}
	return l
}

// follow reads on in the background.
func (l *live) follow() *live {
	l.end = make(chan struct{})
	go func() {
		defer close(l.end)
		var b bytes.Buffer
		_, l.err = b.ReadFrom(l.r)
		l.rest = b.Bytes()
	}()
	return l
}

// finish reads the stream to its end.
func (l *live) finish(t *testing.T, within time.Duration) events {
	t.Helper()
	if l.end == nil {
		l.follow()
	}
	select {
	case <-l.end:
	case <-time.After(within):
		require.FailNow(t, "the stream does not end", "within %s", within)
	}
	require.NoError(t, l.err)
	e, err := parseEvents(append(l.head, l.rest...))
	require.NoError(t, err)
	return e
}

// ended tells whether a followed stream has ended.
func (l *live) ended() bool {
	select {
	case <-l.end:
		return true
	default:
		return false
	}
}

// background runs a request on a goroutine of its own.
func (s *server) background(ctx context.Context, merge ...obj) <-chan result {
	c := make(chan result, 1)
	go func() {
		r, err := s.try(ctx, http.MethodPost, chatPath, P(merge...))
		c <- result{r, err, time.Now()}
	}()
	return c
}

// result is what came of a request in the background.
type result struct {
	reply
	err error
	at  time.Time
}

// get waits for a result, which must be an answer.
func get(t *testing.T, c <-chan result, within time.Duration) reply {
	t.Helper()
	select {
	case r := <-c:
		require.NoError(t, r.err)
		return r.reply
	case <-time.After(within):
		require.FailNow(t, "no answer", "within %s", within)
		return reply{}
	}
}

// longPrompt has about so many tokens, all of them words.
func longPrompt(tokens int) string {
	words := []string{"river", "stone", "cloud", "seven", "green", "bread", "window", "north", "music", "paper"}
	var b strings.Builder
	for i := range tokens {
		b.WriteString(words[(i*i+i/7)%len(words)] + " ")
	}
	return b.String()
}

var hostListens = regexp.MustCompile(`"address":"(http://[^"]+)"[^\n]*"host listens"`)

// hostAddresses are the addresses of all hosts that a server has started, in order.
func (s *server) hostAddresses() (all []string) {
	for _, m := range hostListens.FindAllStringSubmatch(s.log(), -1) {
		all = append(all, m[1])
	}
	return all
}

// shell starts a shell script in place of the entrypoint: it must exec "$0".
func shell(script string) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		c.Args = []string{"/bin/sh", "-c", script, c.Path}
		c.Path = "/bin/sh"
	}
}

// hangUp is a signal of a terminal that is no more.
const hangUp = syscall.SIGHUP
