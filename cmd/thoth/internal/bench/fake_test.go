package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"thoth/station/wire"
)

// The environment of a fake server.
const (
	fakeRole    = "BENCH_FAKE"         // "entrypoint" or "peer"; "run" is a run of the bench itself
	fakeFault   = "BENCH_FAKE_FAULT"   // what it does wrong, on both
	fakeJournal = "BENCH_FAKE_JOURNAL" // file with a line for each start, request and stop
)

// fake is a server with a memory of prompts: of its store, where it has one.
type fake struct {
	role, fault, store string
	liquid             bool

	mu    sync.Mutex
	known []string // rendered conversations with their answers
	asked int
}

func playFake(role string) {
	if role == "run" { // a run, to be killed
		os.Setenv(fakeRole, "entrypoint")
		self, _ := os.Executable()
		_, _ = RunLiquid(context.Background(), LiquidOptions{Entrypoint: self, Model: self, Dir: os.Args[1], Rounds: 1000, Families: []string{familyReuse}, idleWatch: time.Microsecond})
		return
	}
	f := &fake{role: role, fault: os.Getenv(fakeFault), liquid: os.Getenv("THOTH_LIQUID_MEMORY") == "true",
		store: strings.TrimPrefix(os.Getenv("THOTH_KV_STORE"), "file://")}
	f.note("start %s", f.store)
	if f.fault == "mute" {
		fmt.Fprintln(os.Stderr, "no such model")
		os.Exit(3)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	listen := os.Getenv("THOTH_LISTEN")
	if role == "peer" {
		f.liquid, f.store = true, ""
		listen = "127.0.0.1:" + os.Args[1]
	}
	if b, err := os.ReadFile(filepath.Join(f.store, "known")); f.store != "" && err == nil {
		_ = json.Unmarshal(b, &f.known)
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[{"id":"m"}]}`) })
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"status":"ok","liquid_memory":%v,"liquid_reason":"the fake says so","station":{"build":"abc"}}`, f.liquid && f.fault != "off")
	})
	mux.HandleFunc("/v1/chat/completions", f.chat)
	go func() { _ = http.Serve(ln, mux) }()
	if role == "entrypoint" {
		station, err := net.Listen("unix", strings.TrimPrefix(os.Getenv("THOTH_STATION_LISTEN"), "unix://"))
		if err != nil {
			panic(err)
		}
		go func() { _ = http.Serve(station, http.HandlerFunc(f.index)) }()
		fmt.Printf("listening on http://%s, loading model\nready: curl\n", ln.Addr())
	}
	<-stop
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.store != "" {
		b, _ := json.Marshal(f.known)
		_ = os.MkdirAll(f.store, 0o700)
		_ = os.WriteFile(filepath.Join(f.store, "known"), b, 0o600)
	}
	f.note("stop")
	if f.fault == "status" {
		os.Exit(5)
	}
}

func (f *fake) note(format string, args ...any) {
	j, err := os.OpenFile(os.Getenv(fakeJournal), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer j.Close()
	fmt.Fprintf(j, "%s %d %s\n", f.role, os.Getpid(), fmt.Sprintf(format, args...))
}

func (f *fake) chat(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Messages  []message `json:"messages"`
		MaxTokens int       `json:"max_tokens"`
		Cache     *bool     `json:"cache_prompt"`
		IgnoreEOS bool      `json:"ignore_eos"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		w.WriteHeader(400)
		return
	}
	var prompt strings.Builder
	for _, m := range req.Messages {
		fmt.Fprintf(&prompt, "<%s> %s ", m.Role, m.Content)
	}
	p := prompt.String()
	tokens := len(strings.Fields(p))
	noReuse := r.Header.Get("X-Thoth-Liquid") == "off"
	if f.role == "peer" {
		noReuse = req.Cache != nil && !*req.Cache
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked++; f.fault == "dies" && f.asked > 12 {
		fmt.Fprintln(os.Stderr, "out of cells")
		os.Exit(9)
	}
	cached := 0
	if f.liquid && (!noReuse || f.fault == "deaf") {
		cached = min(f.restored(p), tokens-1)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(p))
	answer := fmt.Sprintf("a%08x", h.Sum32())
	if cached > tokens/2 && f.fault == "changes-"+f.role {
		answer = "other"
	}
	f.note("ask eos=%v %d of %d", req.IgnoreEOS, cached, tokens)
	state := "disabled"
	if f.liquid {
		state = "hit"
		f.known = append(f.known, p+"<assistant> "+strings.Repeat(answer+" ", req.MaxTokens))
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for range req.MaxTokens {
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"%s \"}}]}\n\n", answer)
		_ = http.NewResponseController(w).Flush()
	}
	fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n")
	fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"prompt_tokens_details\":{\"cached_tokens\":%d}},\"_gnosis\":{\"liquid_memory\":%q}}\n\ndata: [DONE]\n\n",
		tokens, req.MaxTokens, cached, state)
}

// restored counts the words of the longest known beginning.
func (f *fake) restored(prompt string) (best int) {
	want := strings.Fields(prompt)
	for _, k := range f.known {
		n := 0
		for i, word := range strings.Fields(k) {
			if i == len(want) || want[i] != word {
				break
			}
			n++
		}
		best = max(best, n)
	}
	return best
}

// index answers as a station whose every prompt takes 16 MiB of each tier.
func (f *fake) index(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	tier := func(setting string) wire.KVTier {
		budget, _ := strconv.ParseInt(os.Getenv(setting), 10, 64)
		bytes := int64(len(f.known)) << 24
		if budget == 0 {
			budget = 1 << 40
		}
		t := wire.KVTier{State: "on", BudgetBytes: budget, Bytes: min(bytes, budget)}
		if bytes > budget {
			t.Evictions = 1
		}
		return t
	}
	_ = json.NewEncoder(w).Encode(wire.KVIndex{Hot: wire.KVTier{State: "on", BudgetBytes: 1 << 30}, Warm: tier("FAKE_WARM"), Cold: tier("FAKE_COLD"), ImportGBps: 5})
}
