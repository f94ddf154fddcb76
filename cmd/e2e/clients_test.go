//go:build e2e && clients

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Real client libraries against the real server. Each is one script of the folder
// clients, or one file of Go here, with a check for every feature. make clients
// installs what the scripts need into build/clients first.

// features are what every client is to show, by chats, messages or responses; clientLacks
// says which a client does not have of its own.
var features = []string{"chat", "stream", "tools", "structured", "errors", "retries", "cancellation", "timeouts", "usage"}

var clientLacks = map[string]string{
	"with_llm.py timeouts": "it has no setting for it",
}

// clientScripts are the scripts with their argument, and what each is to show besides. Where
// responses have a script of their own it shows all of the features by them.
var clientScripts = []struct {
	name, argument string
	more           []string
}{
	{"with_openai.py", "", []string{"embeddings", "completions"}},
	{"with_openai_responses.py", "", []string{"turns", "background"}},
	{"with_node.cjs", "", []string{"embeddings", "completions"}},
	{"with_node_responses.cjs", "", []string{"turns", "background"}},
	{"with_ai_sdk.cjs", "", []string{"turns"}},
	{"with_anthropic.py", "", nil},
	{"with_langchain.py", "", []string{"embeddings", "completions", "responses"}},
	{"with_litellm.py", "", []string{"embeddings", "completions", "responses"}},
	{"with_agents.py", "", nil},
	{"with_agents.py", "responses", []string{"turns"}},
	{"with_llm.py", "", []string{"embeddings", "completions", "responses"}},
}

func TestClients_AreServed(t *testing.T) {
	on := newClientServers(t)
	for _, s := range clientScripts {
		t.Run(strings.TrimSpace(s.name+" "+s.argument), func(t *testing.T) { on.script(t, s.name, s.argument, slices.Concat(features, s.more)) })
	}
	t.Run("openai-go", func(t *testing.T) {
		officialGo(t, on)
		officialTexts(t, on)
		officialResponses(t, on)
	})
	t.Run("go-openai", func(t *testing.T) {
		communityGo(t, on)
		communityTexts(t, on)
	})
}

// clientServers are what the clients talk to.
type clientServers struct {
	open  string // base URLs, with /v1
	one   *server
	turns *turns
	keyed string
	embed string
}

// embedAlias is a name of OpenAI's, for a client that knows no others.
const embedAlias = "text-embedding-3-small"

func newClientServers(t *testing.T) *clientServers {
	t.Helper()
	vectors := os.Getenv("THOTH_TEST_EMBED_MODEL")
	require.NotEmpty(t, vectors, "THOTH_TEST_EMBED_MODEL must name the converted embedding model: run make clients")
	one := start(t, append([]string{"THOTH_MAX_BACKLOG=0"}, oneSlot...)...)
	return &clientServers{
		open:  shared.base + "/v1",
		one:   one,
		turns: newTurns(t, one),
		keyed: start(t, "THOTH_API_KEYS=secret").base + "/v1",
		embed: start(t, "THOTH_MODEL="+vectors, "THOTH_CONTEXT_LENGTH=0", "THOTH_MODEL_ALIASES="+embedAlias).base + "/v1",
	}
}

// line is a script's report on a feature.
type line struct {
	Feature string  `json:"feature"`
	Saw     string  `json:"saw"` // what was wrong; empty: it passed
	Seconds float64 `json:"seconds"`
}

// script runs one of the folder clients, and has a test for each feature.
func (on *clientServers) script(t *testing.T, name, argument string, features []string) {
	installed, err := filepath.Abs(filepath.Join("..", "..", "build", "clients"))
	require.NoError(t, err)
	program := filepath.Join(installed, "venv", "bin", "python")
	if filepath.Ext(name) == ".cjs" {
		program = "node"
	}
	on.turns.reset()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, program, append([]string{filepath.Join("clients", name)}, strings.Fields(argument)...)...)
	c.Stdout, c.Stderr = &stdout, &stderr
	home := t.TempDir()
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "NODE_PATH=" + filepath.Join(installed, "node_modules"),
		"LITELLM_LOCAL_MODEL_COST_MAP=True", // which it fetches otherwise
		"THOTH_CLIENTS_OPEN=" + on.open, "THOTH_CLIENTS_ONE=" + on.one.base + "/v1", "THOTH_CLIENTS_TURNS=" + on.turns.base, "THOTH_CLIENTS_KEYED=" + on.keyed,
		"THOTH_CLIENTS_EMBED=" + on.embed, "PYTHONDONTWRITEBYTECODE=1"}
	if err := c.Run(); err != nil {
		require.NoError(t, err, "%s%s", stdout.String(), stderr.String())
	}

	reports := map[string]line{}
	for sc := bufio.NewScanner(&stdout); sc.Scan(); {
		var l line
		if json.Unmarshal(sc.Bytes(), &l) == nil && l.Feature != "" {
			reports[l.Feature] = l
		}
	}
	for _, feature := range features {
		if _, lacks := clientLacks[name+" "+feature]; lacks {
			require.NotContains(t, reports, feature, "%s is said to lack it", name)
			continue
		}
		t.Run(feature, func(t *testing.T) {
			require.Contains(t, reports, feature, "%s does not report it: %s", name, stderr.String())
			l := reports[feature]
			require.Empty(t, l.Saw, "%s, %s:\n%s%s", name, feature, l.Saw, tail(stderr.Bytes(), 2000))
			t.Logf("%.1f s", l.Seconds)
			if feature == "retries" {
				on.turns.retried(t)
			}
		})
	}
}

// turns stands before a server with one place and no line. It takes the place
// before every first, third, ... request and gives it back when that one has been
// refused, so that whoever comes again finds it free. What it passes on are
// the server's own answers.
type turns struct {
	base string
	s    *server

	mu   sync.Mutex
	seen []answered
}

// answered is an answer that a client got.
type answered struct {
	status    int
	after     time.Duration // Retry-After
	came, end time.Time
}

func newTurns(t *testing.T, s *server) *turns {
	t.Helper()
	target, err := url.Parse(s.base)
	require.NoError(t, err)
	o := &turns{s: s}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		seconds, _ := strconv.Atoi(r.Header.Get("Retry-After"))
		o.seen[len(o.seen)-1].status = r.StatusCode
		o.seen[len(o.seen)-1].after = time.Duration(seconds) * time.Second
		return nil
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock() // one after the other
		defer o.mu.Unlock()
		o.seen = append(o.seen, answered{came: time.Now()})
		free := func() {}
		if len(o.seen)%2 == 1 {
			free = o.take(t)
		}
		proxy.ServeHTTP(w, r)
		free() // the end of the answer is sent after it
		o.seen[len(o.seen)-1].end = time.Now()
	}))
	t.Cleanup(front.Close)
	o.base = front.URL + "/v1"
	return o
}

// take fills the one place; the function it returns frees it.
func (o *turns) take(t *testing.T) func() {
	ctx, cancel := context.WithCancel(context.Background())
	resp, err := o.s.open(ctx, http.MethodPost, chatPath, P(endless, obj{"stream": true}))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the place cannot be taken: %v", err)
		cancel()
		return func() {}
	}
	return func() {
		cancel()
		_ = resp.Body.Close()
		o.s.freed(t)
	}
}

// inFlight is the number of places taken; -1 when it is not to be had. Safe on any goroutine.
func (s *server) inFlight() int {
	stats := struct {
		Host struct {
			InFlight *int `json:"in_flight"`
		} `json:"host"`
	}{}
	r, err := s.try(context.Background(), http.MethodGet, "/stats", nil)
	if err != nil || json.Unmarshal(r.Body, &stats) != nil || stats.Host.InFlight == nil {
		return -1
	}
	return *stats.Host.InFlight
}

// freed waits until no place is taken, for far less than an endless answer takes.
// Safe on any goroutine.
func (s *server) freed(t *testing.T) {
	for end := time.Now().Add(soon); s.inFlight() != 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("the server still works %s after the client has left", soon)
			return
		}
	}
}

func (o *turns) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = nil
}

// retried checks that the client came again of its own accord when it was told to,
// not earlier.
func (o *turns) retried(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := slices.Clone(o.seen)
	require.GreaterOrEqual(t, len(seen), 2, "the client did not come again")
	const overloaded = 529 // what being busy is at Anthropic
	require.Contains(t, []int{http.StatusTooManyRequests, overloaded}, seen[0].status)
	require.Equal(t, http.StatusOK, seen[1].status)
	require.Positive(t, seen[0].after, "Retry-After")
	require.GreaterOrEqual(t, seen[1].came.Sub(seen[0].end), seen[0].after, "it came earlier than Retry-After says")
	for i, a := range seen[2:] {
		require.Equal(t, seen[0].status, a.status, "request %d, of a client that does not retry", i+2)
	}
}

// The table of docs/clients.md names the versions that are installed.
func TestClients_VersionsAreDocumented(t *testing.T) {
	read := func(path ...string) string {
		b, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
		require.NoError(t, err)
		return string(b)
	}
	python, node, mod := read("cmd", "e2e", "clients", "requirements.txt"), read("cmd", "e2e", "clients", "package.json"), read("go.mod")
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \| ([0-9.]+) \|`).FindAllStringSubmatch(read("docs", "clients.md"), -1)
	require.Len(t, rows, 10)
	for _, row := range rows {
		switch name, version := row[1], row[2]; name {
		case "openai (Node)":
			require.Contains(t, node, `"openai": "`+version+`"`)
		case "ai (Vercel)":
			require.Contains(t, node, `"ai": "`+version+`"`)
		case "openai-go":
			require.Contains(t, mod, "openai/openai-go/v3 v"+version+"\n")
		case "go-openai":
			require.Contains(t, mod, "sashabaranov/go-openai v"+version+"\n")
		default:
			distribution, _, _ := strings.Cut(name, " ")
			require.Contains(t, python, "\n"+distribution+"=="+version+"\n")
		}
	}
}
