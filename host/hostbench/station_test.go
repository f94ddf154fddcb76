package hostbench

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// promptTokens is the length of every prompt, as far as this station knows.
const promptTokens = 200

// dimensions are a vector's.
const dimensions = 384

// station is a fake that answers with as many text frames as a request may have
// tokens, one a step of its clock. A request at the temperature of calls gets one in a few
// frames, another with a grammar one frame that fits the tests' schema.
type station struct {
	address string
	clock   *clock
	health  wire.Health
	model   wire.Model
	idle    idle
}

// words are the texts of its tokens, in turn.
var words = []string{" The", " river", " bends", " here", ",", " and", " \"the\"", " old", " café", " is", " open", ".\n"}

// call is its answer to a request at callTemperature, which every API can ask for.
var call = []string{"I will", " look.", "<tool_call>", "\n{\"name\": \"get_weather\",", " \"arguments\": {\"city\"", ": \"Paris\"", "}}\n", "</tool_call>"}

const (
	callTemperature    = 0.25
	temperatureOfCalls = `"temperature":0.25`
)

// structured is its answer to a request with a grammar.
const structured = `{"city":"Paris","days":3}`

// newStation serves on a unix socket until the test ends; a step of 0 sends
// everything at once. template is a file of host/prompt's.
func newStation(t testing.TB, template string, step time.Duration, liquid bool) *station {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "prompt", "testdata", "templates", template))
	require.NoError(t, err)
	s := &station{clock: newClock(step),
		health: wire.Health{Status: wire.StatusOK, Wire: wire.Version, Build: "fake", EngineABI: "fake", ContextLength: 8192, Cells: 8192, Sequences: 32,
			Fork: 4, Embeddings: &wire.Embeddings{Pooling: "mean", Dimensions: dimensions, MaxTokens: 512, MaxInputs: 2048}, Rerank: &wire.Rerank{Scores: true, MaxTokens: 512, MaxDocuments: 2048},
			KVSession: &liquid, DecodeNext: &liquid, KVTurn: liquid, Backend: wire.Backend{Selected: "cpu"}},
		model: wire.Model{Name: "fake", File: "fake.gguf", Digest: "d", Architecture: "qwen3", Vocabulary: 151936, KVCut: true, ChatTemplate: string(text),
			Special: wire.SpecialTokens{EOSText: "<|im_end|>"}}}
	path := filepath.Join(t.TempDir(), "station.sock")
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	s.address = "unix://" + path
	srv := &http.Server{Handler: s.routes(), ConnState: s.idle.note}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		s.clock.stop()
	})
	return s
}

func (s *station) routes() http.Handler {
	r := http.NewServeMux()
	r.HandleFunc(wire.RouteHealth, func(w http.ResponseWriter, _ *http.Request) { answer(w, s.health) })
	r.HandleFunc(wire.RouteModel, func(w http.ResponseWriter, _ *http.Request) { answer(w, s.model) })
	r.HandleFunc(wire.RouteGenerate, func(w http.ResponseWriter, r *http.Request) {
		if q, ok := take[wire.GenerateRequest](w, r); ok {
			if q.KV != nil {
				send(w, wire.Frame{Type: wire.FrameRestored, Restored: &wire.KVRestored{PromptTokens: promptTokens, KVLoadResponse: loaded}})
				_ = json.NewEncoder(w).Encode(wire.Frame{Type: wire.FrameEvaluated, Forward: &evaluated}) // with the first token
			}
			s.stream(w, r, q.Answers(), texts(q.MaxTokens, &q.Sampling), q.KV != nil)
		}
	})
	r.HandleFunc(wire.RouteEmbed, func(w http.ResponseWriter, r *http.Request) {
		if q, ok := take[wire.EmbedRequest](w, r); ok {
			n := len(q.Input)
			answer(w, wire.VectorsResponse{Vectors: slices.Repeat([]wire.Vector{vector()}, n), Tokens: slices.Repeat([]int{promptTokens}, n), Dimensions: dimensions, Pooling: "mean"})
		}
	})
	r.HandleFunc(wire.RouteRerank, func(w http.ResponseWriter, r *http.Request) {
		if q, ok := take[wire.RerankRequest](w, r); ok {
			n := len(q.Documents)
			answer(w, wire.RerankResponse{Scores: slices.Repeat([]float64{1.25}, n), Tokens: slices.Repeat([]int{promptTokens}, n)})
		}
	})
	return r
}

// What it tells of a prompt of which it has the first two blocks.
var (
	loaded    = wire.KVLoadResponse{Position: 128, Staged: promptTokens - 128, Tiers: wire.KVTiers{Warm: 128}, Reason: wire.KVEnds, DiffersAt: -1, LoadMS: 0.5}
	evaluated = wire.ForwardResponse{Position: promptTokens, Evaluated: promptTokens - 128, PrefillMS: 12.5, EngineMS: 12.25}
	saved     = wire.KVSaveResponse{Saved: true, Tokens: promptTokens, Written: promptTokens - 128, Bytes: 1 << 20}
)

// take reads a request as the real station would; without ok it is refused.
func take[T any](w http.ResponseWriter, r *http.Request) (q *T, ok bool) {
	body, err := io.ReadAll(r.Body)
	q = new(T)
	if err == nil {
		err = json.Unmarshal(body, q)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		answer(w, wire.ErrorBody{Error: &wire.Error{Code: wire.CodeInvalid, Message: err.Error()}})
	}
	return q, err == nil
}

func answer(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func send(w http.ResponseWriter, f wire.Frame) {
	w.Header().Set("Content-Type", wire.ContentTypeStream)
	answer(w, f)
	_ = http.NewResponseController(w).Flush()
}

// vector has numbers as a model's are: none is short in decimal.
func vector() wire.Vector {
	v := make(wire.Vector, dimensions)
	for i := range v {
		v[i] = 1 / float32(i+3)
	}
	return v
}

// texts are those of an answer with so many tokens.
func texts(tokens int, q *wire.Sampling) []string {
	switch {
	case q.Temperature != nil && *q.Temperature == callTemperature:
		return call
	case q.Grammar != "":
		return []string{structured}
	}
	all := make([]string, tokens)
	for i := range all {
		all[i] = words[i%len(words)]
	}
	return all
}

// stream gives each of the answers the same texts.
func (s *station) stream(w http.ResponseWriter, r *http.Request, answers int, texts []string, keeps bool) {
	for i, text := range texts {
		s.clock.wait(r.Context().Done())
		for c := range answers {
			send(w, wire.Frame{Type: wire.FrameText, Choice: c, Text: text, Tokens: []int32{int32(1000 + i)}})
		}
	}
	// As the engine does: the end comes with the step behind the last token.
	s.clock.wait(r.Context().Done())
	tokens, reason := len(texts), wire.ReasonLength
	if tokens > 0 && texts[0] == call[0] {
		reason = wire.ReasonEOG
	}
	for c := range answers {
		d := wire.Done{Reason: reason, PromptTokens: promptTokens, CompletionTokens: tokens, Seed: 1 << 62,
			Timings: wire.Timings{QueueMS: 0.012, TokenizeMS: 0.125, PrefillMS: 12.5, TTFTMS: 13.75, EngineMS: 12.25, DecodeMS: 2.5 * float64(tokens), TokensPerSecond: 400}}
		if keeps {
			d.KVAnswer = &saved
			if c == 0 {
				d.KVPrompt = &saved
			}
		}
		answer(w, wire.Frame{Type: wire.FrameDone, Choice: c, Done: &d}) // the last one leaves with the end of the body
	}
}

// clock lets all who wait for its next step go at once.
type clock struct {
	mu    sync.Mutex
	next  chan struct{} // closed at the next step
	ended chan struct{}
	ran   sync.WaitGroup
}

// newClock makes a clock; with a step of 0 nobody waits.
func newClock(step time.Duration) *clock {
	c := &clock{ended: make(chan struct{})}
	if step == 0 {
		return c
	}
	c.next = make(chan struct{})
	c.ran.Go(func() {
		tick := time.NewTicker(step)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-c.ended:
				return
			}
			c.mu.Lock()
			close(c.next)
			c.next = make(chan struct{})
			c.mu.Unlock()
		}
	})
	return c
}

func (c *clock) wait(gone <-chan struct{}) {
	c.mu.Lock()
	next := c.next
	c.mu.Unlock()
	if next == nil {
		return
	}
	select {
	case <-next:
	case <-gone:
	}
}

func (c *clock) stop() {
	close(c.ended)
	c.ran.Wait()
}

// idle are the connections that carry no request.
type idle struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
	made  int // connections, ever
}

func (i *idle) note(c net.Conn, state http.ConnState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.conns == nil {
		i.conns = map[net.Conn]bool{}
	}
	delete(i.conns, c)
	switch state {
	case http.StateNew:
		i.made++
	case http.StateIdle:
		i.conns[c] = true
	}
}

func (i *idle) connections() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.made
}

// close ends them: how many a host keeps depends on chance.
func (i *idle) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for c := range i.conns {
		_ = c.Close()
	}
}
