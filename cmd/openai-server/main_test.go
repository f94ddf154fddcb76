package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/host/stored"
	"thoth/station/wire"
)

// The test binary is the program itself when told so: what is tested is the
// real main, in a process of its own.
const asProgram = "OPENAI_SERVER_TEST_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Args = append(os.Args[:1], strings.Fields(os.Getenv(asProgram))[1:]...)
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// station answers what a chat needs, and streams until its caller goes.
func station(t *testing.T) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		no := false
		switch r.URL.Path {
		case wire.RouteHealth:
			_ = json.NewEncoder(w).Encode(wire.Health{Status: wire.StatusOK, Wire: wire.Version, KVSession: &no})
		case wire.RouteModel:
			_ = json.NewEncoder(w).Encode(wire.Model{Name: "m", Digest: "d"})
		default:
			_, _ = io.Copy(io.Discard, r.Body)
			for r.Context().Err() == nil {
				_ = json.NewEncoder(w).Encode(wire.Frame{Type: wire.FrameText, Text: "x", Tokens: []int32{1}})
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(5 * time.Millisecond):
				}
			}
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	stdout  *bufio.Reader
	pipe    io.Closer
	stderr  *tail
	base    string
	hs      wire.Handshake
	waiting sync.Once
	err     error
}

type tail struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *tail) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }
func (l *tail) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

func launch(t *testing.T, args string, env ...string) *process {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append([]string{asProgram + "=run " + args, "PATH=" + os.Getenv("PATH")}, env...)
	p := &process{t: t, cmd: cmd, stderr: new(tail)}
	cmd.Stderr = p.stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p.stdout, p.pipe = bufio.NewReader(out), out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = p.wait() })
	return p
}

func (p *process) wait() error {
	p.waiting.Do(func() { p.err = p.cmd.Wait() })
	return p.err
}

// ready reads the handshake and waits for readiness.
func (p *process) ready() *process {
	p.t.Helper()
	line, err := p.stdout.ReadString('\n')
	require.NoError(p.t, err, p.stderr.String())
	require.NoError(p.t, json.Unmarshal([]byte(line), &p.hs))
	p.base = p.hs.Address
	require.Eventually(p.t, func() bool {
		resp, err := http.Get(p.base + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	}, 10*time.Second, 10*time.Millisecond, p.stderr.String())
	return p
}

// alive asks once more: a signal that must do nothing has been handled.
func (p *process) alive() {
	resp, err := http.Get(p.base + "/livez")
	require.NoError(p.t, err)
	resp.Body.Close()
	require.Equal(p.t, 200, resp.StatusCode)
}

func (p *process) signal(s syscall.Signal) { require.NoError(p.t, p.cmd.Process.Signal(s)) }

// stream opens a chat that does not end by itself and reads its first event.
func (p *process) stream() *bufio.Reader {
	resp, err := http.Post(p.base+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}`))
	require.NoError(p.t, err)
	require.Equal(p.t, 200, resp.StatusCode)
	p.t.Cleanup(func() { resp.Body.Close() })
	r := bufio.NewReader(resp.Body)
	_, err = r.ReadString('\n')
	require.NoError(p.t, err)
	return r
}

func TestProgram_HandshakeThenSIGTERMEndsWithZero(t *testing.T) {
	p := launch(t, "--listen=127.0.0.1:0", "FAT_STATION_URL="+station(t), "THOTH_API_KEYS=").ready()
	require.Equal(t, wire.Version, p.hs.Wire)
	require.Equal(t, "host", p.hs.Role)
	require.Equal(t, p.cmd.Process.Pid, p.hs.PID)
	p.signal(syscall.SIGHUP)
	p.alive()
	p.signal(syscall.SIGTERM)
	require.NoError(t, p.wait(), p.stderr.String())
}

func TestProgram_DrainEndsStreamsWithAnErrorEventInItsTime(t *testing.T) {
	p := launch(t, "", "THOTH_LISTEN=127.0.0.1:0", "PORT=abc", "FAT_STATION_URL="+station(t), "THOTH_HOST_DRAIN_SECONDS=0.2").ready()
	s := p.stream()
	p.signal(syscall.SIGTERM)
	rest, err := io.ReadAll(s)
	require.NoError(t, err)
	require.Contains(t, string(rest), `"code":"draining"`)
	require.NoError(t, p.wait(), p.stderr.String())
}

func TestProgram_SecondSignalEndsAtOnce(t *testing.T) {
	p := launch(t, "--listen=127.0.0.1:0", "FAT_STATION_URL="+station(t), "THOTH_HOST_DRAIN_SECONDS=3600").ready()
	s := p.stream()
	p.signal(syscall.SIGTERM)
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), "draining") }, 10*time.Second, 5*time.Millisecond)
	p.signal(syscall.SIGINT)
	rest, err := io.ReadAll(s)
	require.NoError(t, err)
	require.Contains(t, string(rest), "draining")
	require.NoError(t, p.wait(), p.stderr.String())
}

func TestProgram_ClosedOutputsDoNotEndServing(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{asProgram + "=run --listen=127.0.0.1:0", "FAT_STATION_URL=" + station(t), "THOTH_LOG_LEVEL=trace"}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{t: t, cmd: cmd, stdout: bufio.NewReader(out), stderr: new(tail)}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = p.wait() })
	p.ready()
	require.NoError(t, out.Close())
	require.NoError(t, errs.Close())
	for range 5 { // each writes a log line into a pipe without a reader
		p.alive()
	}
	p.signal(syscall.SIGTERM)
	require.NoError(t, p.wait())
}

func TestProgram_BadSettingsFailFastAndByName(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(empty, []byte("# none\n\n"), 0o600))
	warm := filepath.Join(t.TempDir(), "warm")
	require.NoError(t, os.WriteFile(warm, []byte(`[{"name":"a","messages":[{"role":"system","content":"x"}],"ttl":"soon"}]`), 0o600))
	strange := filepath.Join(t.TempDir(), "strange")
	require.NoError(t, os.WriteFile(strange, []byte(`[{"name":"a","messages":[{"role":"banana","content":"x"}]}]`), 0o600))
	for want, env := range map[string]string{
		`PORT is "abc"`:                      "PORT=abc",
		`PORT is "0"`:                        "PORT=0",
		`PORT is "70000"`:                    "PORT=70000",
		`THOTH_LISTEN is "nowhere"`:          "THOTH_LISTEN=nowhere",
		"FAT_STATION_URL":                    "FAT_STATION_URL=ftp://x",
		"THOTH_PING_INTERVAL is 0":           "THOTH_PING_INTERVAL=0s",
		"THOTH_MAX_IN_FLIGHT is 0":           "THOTH_MAX_IN_FLIGHT=0",
		"THOTH_MAX_BODY_MEMORY is 1":         "THOTH_MAX_BODY_MEMORY=1",
		"THOTH_API_KEYS holds no key":        "THOTH_API_KEYS= , ",
		empty + " holds no key":              "THOTH_API_KEYS_FILE=" + empty,
		"THOTH_API_KEYS_FILE":                "THOTH_API_KEYS_FILE=/nowhere/keys",
		"THOTH_ADMIN_KEYS holds no":          "THOTH_ADMIN_KEYS= , ",
		"THOTH_ADMIN_KEYS_FILE: open":        "THOTH_ADMIN_KEYS_FILE=/nowhere/keys",
		`entry 0: ttl: "soon"`:               "THOTH_LIQUID_WARM=" + warm,
		"THOTH_LIQUID_WARM":                  "THOTH_LIQUID_WARM=/nowhere/warm",
		`the warm prompt "a"`:                "THOTH_LIQUID_WARM=" + strange,
		`THOTH_RESPONSES_STORE: "here"`:      "THOTH_RESPONSES_STORE=here",
		"THOTH_RESPONSES_BYTES is 0":         "THOTH_RESPONSES_BYTES=0",
		"THOTH_RESPONSES_BYTES is 9":         "THOTH_RESPONSES_BYTES=9",
		"THOTH_RESPONSES_TTL is -1s":         "THOTH_RESPONSES_TTL=-1s",
		"THOTH_RESPONSES_KEY: want 32 bytes": "THOTH_RESPONSES_KEY=short",
		"--log-level must be one of":         "THOTH_LOG_LEVEL=loud",
		"--max-in-flight: expected":          "THOTH_MAX_IN_FLIGHT=many",
		"--idle-timeout: expected":           "THOTH_IDLE_TIMEOUT=soon",
		"THOTH_HOST_DRAIN_SECONDS is ":       "THOTH_HOST_DRAIN_SECONDS=-1",
	} {
		p := launch(t, "", env)
		require.Error(t, p.wait(), env)
		require.Contains(t, p.stderr.String(), want)
		code := 78
		if strings.HasPrefix(want, "--") {
			code = 80 // kong's
		}
		require.Equal(t, code, p.cmd.ProcessState.ExitCode(), env)
	}
}

func TestProgram_ASocketLeftByAKilledOneIsTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.sock")
	env := []string{"THOTH_LISTEN=unix://" + path, "FAT_STATION_URL=" + station(t)}
	announced := func(p *process) {
		line, err := p.stdout.ReadString('\n')
		require.NoError(t, err, p.stderr.String())
		require.Contains(t, line, path)
	}
	p := launch(t, "", env...)
	announced(p)
	p.signal(syscall.SIGKILL)
	require.Error(t, p.wait())
	require.FileExists(t, path, "or this test proves nothing")
	p = launch(t, "", env...)
	announced(p)

	q := launch(t, "", env...)
	require.Error(t, q.wait(), "the socket is in use")
	require.Contains(t, q.stderr.String(), "cannot listen: "+path+" is in use by another process")
}

func parse(t *testing.T, args ...string) *settings {
	t.Helper()
	var set settings
	k, err := kong.New(&set, kong.Exit(func(int) {}))
	require.NoError(t, err)
	_, err = k.Parse(args)
	require.NoError(t, err)
	return &set
}

func TestSettings_PortListensOnAllAddressesAndListenWins(t *testing.T) {
	for _, c := range []struct {
		args             []string
		network, address string
	}{
		{nil, "tcp", "127.0.0.1:8080"},
		{[]string{"--port=9191"}, "tcp", "0.0.0.0:9191"},
		{[]string{"--port=9191", "--listen=127.0.0.1:1"}, "tcp", "127.0.0.1:1"},
		{[]string{"--port=abc", "--listen=[::1]:0"}, "tcp", "[::1]:0"},
		{[]string{"--listen=unix:///run/x.sock"}, "unix", "/run/x.sock"},
	} {
		network, address, err := parse(t, c.args...).listen()
		require.NoError(t, err)
		require.Equal(t, c.network, network)
		require.Equal(t, c.address, address)
	}
}

func TestSettings_KeysComeFromVariableAndFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte("# team a\nalpha\n\n  beta  \r\n"), 0o600))
	s := parse(t, "--api-keys=one, two", "--api-keys-file="+file)
	o, err := s.options(zerolog.Nop())
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two", "alpha", "beta"}, o.APIKeys)
	require.Empty(t, o.AdminKeys)
	o, err = parse(t, "--api-keys=one", "--admin-keys=root", "--admin-keys-file="+file).options(zerolog.Nop())
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, o.APIKeys)
	require.Equal(t, []string{"root", "alpha", "beta"}, o.AdminKeys)
}

func TestSettings_AKeyIsOfOneKind(t *testing.T) {
	_, err := parse(t, "--api-keys=one,two", "--admin-keys=three,two").options(zerolog.Nop())
	require.ErrorContains(t, err, "THOTH_ADMIN_KEYS and THOTH_API_KEYS hold the same key")
	require.NotContains(t, err.Error(), "two", "a key is no text for a log")
}

func TestSettings_WarmPromptsAreReadAtStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "warm.json")
	require.NoError(t, os.WriteFile(file, []byte(`[{"name":"support","messages":[{"role":"system","content":"Be kind."}],"pin":true},
		{"name":"code","messages":[{"role":"system","content":"Be terse."}],"ttl":"24h"}]`), 0o600))
	o, err := parse(t, "--liquid-warm="+file).options(zerolog.Nop())
	require.NoError(t, err)
	require.Len(t, o.LiquidWarm, 2)
	require.True(t, o.LiquidWarm[0].Pin)
	require.Equal(t, 24*time.Hour, o.LiquidWarm[1].TTL)
	require.Empty(t, parse(t).LiquidWarm, "none by default")
}

func TestSettings_WhereResponsesAreStoredReachesTheHost(t *testing.T) {
	t.Setenv("THOTH_CACHE", "/cache")
	o, err := parse(t).options(zerolog.Nop())
	require.NoError(t, err)
	r := o.Responses
	require.Equal(t, []any{stored.Auto, "/cache", int64(1 << 30), int64(16 << 20), 720 * time.Hour, 5 * time.Second},
		[]any{r.Address, r.CacheDir, r.BudgetBytes, r.RecordBytes, r.TTL, r.Timeout})
	require.Nil(t, r.Key)
	o, err = parse(t, "--responses-store=s3://b", "--responses-bytes=99999999", "--responses-ttl=1h", "--responses-key="+strings.Repeat("0a", 32)).options(zerolog.Nop())
	require.NoError(t, err)
	r = o.Responses
	require.Equal(t, []any{"s3://b", int64(99999999), time.Hour, bytes.Repeat([]byte{10}, 32)}, []any{r.Address, r.BudgetBytes, r.TTL, r.Key})
}

func TestSettings_ZeroBacklogMeansNone(t *testing.T) {
	o, err := parse(t, "--max-backlog=0", "--no-liquid-memory").options(zerolog.Nop())
	require.NoError(t, err)
	require.Negative(t, o.MaxBacklog)
	require.False(t, o.LiquidMemory)
	require.True(t, parse(t).LiquidMemory)
	t.Setenv("THOTH_LIQUID_MEMORY", "0")
	require.False(t, parse(t).LiquidMemory)
}

func TestSettings_EveryFlagHasAVariableAndHelp(t *testing.T) {
	var set settings
	k, err := kong.New(&set)
	require.NoError(t, err)
	for _, f := range k.Model.Flags {
		if f.Name == "help" || f.Name == "version" {
			continue
		}
		require.NotEmpty(t, f.Help, f.Name)
		require.Len(t, f.Envs, 1, f.Name)
		require.Regexp(t, `^(THOTH_[A-Z_]+|PORT|FAT_STATION_URL)$`, f.Envs[0])
	}
}
