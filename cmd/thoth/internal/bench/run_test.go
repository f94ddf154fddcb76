package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(fakeRole); role != "" {
		playFake(role) // the test binary as a server that the bench starts
		return
	}
	goleak.VerifyTestMain(m)
}

// journal is the order in which requests arrived at all servers of a test.
type journal struct {
	mu   sync.Mutex
	list []entry
}

type entry struct {
	server, prompt string
	max            int
	temperature    float64
	auth           string
}

func (j *journal) of(server string) (out []entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.list {
		if e.server == server {
			out = append(out, e)
		}
	}
	return out
}

// fakeServer answers with words made from the prompt; text may replace them.
func fakeServer(t *testing.T, name string, j *journal, text func(n int, prompt string) (string, int)) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprintf(w, `{"data":[{"id":"model-of-%s"}]}`, name)
			return
		case "/health":
			w.Header().Set("Server", "fake")
			fmt.Fprint(w, `{"status":"ok","station":{"build":"abc","backend":{"device":"cpu0"}}}`)
			return
		case "/v1/chat/completions":
		default:
			w.WriteHeader(404)
			return
		}
		var req struct {
			Model     string
			Messages  []struct{ Content string }
			MaxTokens int `json:"max_tokens"`
			Stream    bool
			Temp      float64 `json:"temperature"`
		}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || !req.Stream || req.Model != "model-of-"+name {
			w.WriteHeader(400)
			return
		}
		prompt := req.Messages[0].Content
		j.mu.Lock()
		j.list = append(j.list, entry{name, prompt, req.MaxTokens, req.Temp, r.Header.Get("Authorization")})
		n := len(j.list)
		j.mu.Unlock()
		word, status := prompt[:4], 200
		if text != nil {
			word, status = text(n, prompt)
		}
		if status != 200 {
			w.WriteHeader(status)
			fmt.Fprint(w, `{"error":{"message":"too busy"}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for range req.MaxTokens {
			b, _ := json.Marshal(word + " ")
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%s}}]}\n\n", b)
			_ = http.NewResponseController(w).Flush()
		}
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n")
		fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d},\"_gnosis\":{\"timings\":{\"engine_ms\":0.01,\"ttft_ms\":0.02}}}\n\n",
			2*len(strings.Fields(prompt))+10, req.MaxTokens)
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func small(targets ...Target) Options {
	return Options{Targets: targets, Rounds: 2, Clients: []int{1, 3}, Tokens: 4, StreamTokens: 4, ColdTokens: 100, idleWatch: time.Millisecond}
}

func TestRun_MeasuresTwoServersInTurn(t *testing.T) {
	j := new(journal)
	a, b := fakeServer(t, "a", j, nil), fakeServer(t, "b", j, nil)
	o := small(Target{URL: a + "/v1/", Key: "sesame"}, Target{URL: b})
	o.EngineCmd = `echo loading; echo '{"decode_1":100,"decode_3":200,"prefill_100":1000}'`
	rep, err := Run(t.Context(), o)
	require.NoError(t, err)

	// Interleaved: a's and b's stream requests alternate, and so do the cold ones.
	var order []string
	for _, e := range j.list {
		if e.max == o.StreamTokens && e.prompt == streamPrompt {
			order = append(order, e.server)
		}
	}
	require.Equal(t, []string{"a", "b", "a", "b"}, order)

	// Same work for both, and nothing but the stream prompt twice, save the one
	// greedy client that is asked again alone.
	seen := map[string]int{}
	colds := 0
	for _, e := range j.of("a") {
		seen[e.prompt]++
		require.Equal(t, "Bearer sesame", e.auth)
		if e.max == 1 {
			colds++
		}
	}
	require.Equal(t, 2+2, colds, "two rounds, and two to calibrate")
	repeated := 0
	for p, n := range seen {
		if n > 1 && p != streamPrompt {
			repeated++
		}
	}
	require.Equal(t, o.Rounds, repeated)
	for _, e := range j.of("b") {
		require.Empty(t, e.auth)
		if e.max != 16 {
			require.Positive(t, seen[e.prompt], "a was not asked what b was asked")
		}
	}

	names := map[string]map[string]MetricReport{}
	for _, c := range rep.Cohorts {
		names[c.Name] = map[string]MetricReport{}
		for _, m := range c.Metrics {
			names[c.Name][m.Name] = m
		}
	}
	require.Len(t, names, 6)
	require.Equal(t, 100.0, names["cold_prefill"]["prompt_tokens"].Targets[0].Median, "calibrated to the wanted length")
	require.Len(t, names["one_stream"]["decode_tok_s"].Ratio.Values, 2)
	require.InDelta(t, names["one_stream"]["decode_tok_s"].Targets[0].Values[0]/100, names["one_stream"]["decode_tok_s"].OfEngine[0].Values[0], 1e-9)
	require.NotNil(t, names["cold_prefill"]["prompt_tok_s"].OfEngine)
	require.Equal(t, 4.0, names["clients_3_greedy"]["tokens_min"].Targets[0].Min)
	require.NotNil(t, names["one_stream"]["over_engine_ms"].Targets[0])
	require.Contains(t, rep.Provenance.Servers[0].Facts, "station.build=abc")
	require.Equal(t, "fake", rep.Provenance.Servers[0].Server)

	var table, doc bytes.Buffer
	require.NoError(t, rep.WriteTable(&table))
	for _, want := range []string{"A:B", "A:engine", "clients_3_sampled", "station.build=abc", "model-of-b"} {
		require.Contains(t, table.String(), want)
	}
	require.NoError(t, rep.WriteJSON(&doc))
	var back Report
	require.NoError(t, json.Unmarshal(doc.Bytes(), &back))
	require.Equal(t, rep.Settings, back.Settings)
}

func TestRun_SampledClientsAreSampled(t *testing.T) {
	j := new(journal)
	o := small(Target{URL: fakeServer(t, "a", j, nil)})
	o.Rounds, o.Cohorts, o.Clients = 1, []string{"clients"}, []int{3}
	_, err := Run(t.Context(), o)
	require.NoError(t, err)
	greedy, sampled := 0, 0
	for _, e := range j.of("a") {
		if e.temperature == 0.8 {
			sampled++
		} else if e.max == o.Tokens {
			greedy++
		}
	}
	require.Equal(t, []int{4, 3}, []int{greedy, sampled}, "three and one again alone; three")
}

func TestRun_FailsWhenAnAnswerChanges(t *testing.T) {
	moody := func(n int, _ string) (string, int) { return fmt.Sprint("answer", n), 200 }
	for _, first := range []bool{true, false} {
		j := new(journal)
		a, b := Target{URL: fakeServer(t, "a", j, moody)}, Target{URL: fakeServer(t, "b", j, nil)}
		o := small(a, b)
		if !first {
			o = small(b, a)
		}
		rep, err := Run(t.Context(), o)
		if first {
			require.ErrorIs(t, err, ErrBad)
		} else {
			require.NoError(t, err, "the peer's changes are reported only")
		}
		require.Len(t, rep.Changes, 1+2, "one stream in round 2; among three clients in both rounds")
		require.Equal(t, a.URL, rep.Changes[0].URL)
		var table bytes.Buffer
		require.NoError(t, rep.WriteTable(&table))
		require.Contains(t, table.String(), "changed: round")
	}
}

func TestRun_ReportsWhatFailed(t *testing.T) {
	j := new(journal)
	o := small(Target{URL: fakeServer(t, "a", j, func(n int, p string) (string, int) {
		if strings.Contains(p, "Tell every detail") {
			return "", 429
		}
		return "word", 200
	})})
	o.EngineCmd = "echo no model >&2; exit 3"
	rep, err := Run(t.Context(), o)
	require.ErrorIs(t, err, ErrBad)
	all := strings.Join(rep.Errors, "\n")
	require.Contains(t, all, "429")
	require.Contains(t, all, "too busy")
	require.Contains(t, all, "no model")
	require.Len(t, rep.Cohorts, 2, "what went well is still reported")
}

func TestRun_EndsWithItsContext(t *testing.T) {
	j := new(journal)
	ctx, cancel := context.WithCancel(t.Context())
	o := small(Target{URL: fakeServer(t, "a", j, func(int, string) (string, int) { cancel(); return "x", 200 })})
	_, err := Run(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
}

func TestOptions_RefuseWithTheReason(t *testing.T) {
	ok := Target{URL: "http://h"}
	for want, o := range map[string]Options{
		"one or two":         {},
		"server address":     {Targets: []Target{{URL: "localhost:80"}}},
		"rounds -1":          {Targets: []Target{ok}, Rounds: -1},
		"clients 0":          {Targets: []Target{ok}, Clients: []int{0}},
		`cohort "warm"`:      {Targets: []Target{ok}, Cohorts: []string{"warm"}},
		"stream tokens 1":    {Targets: []Target{ok}, StreamTokens: 1},
		"warmup -1":          {Targets: []Target{ok}, Warmup: -1},
		"timeout -1ns: want": {Targets: []Target{ok}, Timeout: -1},
	} {
		require.ErrorContains(t, o.fill(), want)
	}
}
