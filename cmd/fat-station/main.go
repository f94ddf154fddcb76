// Command fat-station owns a model and its KV and serves the station's wire on
// loopback or a unix socket. It is the only program here that needs cgo.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"thoth/internal/build"
	"thoth/internal/env"
	"thoth/internal/listen"
	"thoth/station"
	"thoth/station/engine"
	"thoth/station/kvstore"
	"thoth/station/native"
	"thoth/station/wire"
)

// flags are the settings; each has an environment variable.
type flags struct {
	Model  string `env:"THOTH_MODEL" help:"GGUF file, the first shard of a split one."`
	Listen string `env:"THOTH_STATION_LISTEN" default:"127.0.0.1:8000" help:"host:port on loopback, or unix:///path.sock."`

	Cells            int    `env:"THOTH_CELLS" default:"0" help:"KV cells of all sequences together; 0: four contexts, within a quarter of the free memory."`
	ContextLength    int    `env:"THOTH_CONTEXT_LENGTH" default:"0" help:"Most tokens of one sequence; 0: what the model was trained for, at most 32768."`
	Sequences        int    `env:"THOTH_SEQUENCES" default:"64" help:"Sequences in the batch at once, 1 to 254."`
	BatchSize        int    `env:"THOTH_BATCH_SIZE" default:"512" help:"Most tokens of one decode."`
	EmbedContext     int    `env:"THOTH_EMBED_CONTEXT" default:"0" help:"Most tokens of one text to be embedded by a model that also generates; 0: the context length, at most 8192."`
	EmbedPooling     string `env:"THOTH_EMBED_POOLING" default:"" enum:",mean,cls,last" help:"How token vectors become one: mean, cls or last; empty: as the model says, mean where it says nothing."`
	KVType           string `name:"kv-type" env:"THOTH_KV_TYPE" default:"f16" enum:"f16,q8_0" help:"Type of the KV cells: f16 or q8_0."`
	NoFlashAttention bool   `env:"THOTH_NO_FLASH_ATTENTION" help:"Turn flash attention off: KV then cannot be moved, and liquid memory is off."`
	Threads          int    `env:"THOTH_THREADS" default:"0" help:"Compute threads; 0: the cgroup's CPU quota."`
	Poll             int    `env:"THOTH_POLL" default:"-1" help:"How hard idle compute threads spin, 0 to 100; -1: the measured default."`
	Backend          string `env:"THOTH_BACKEND" default:"auto" enum:"auto,cpu,cuda" help:"What computes: auto, cpu or cuda."`
	BackendReason    string `env:"THOTH_BACKEND_REASON" help:"Why the parent chose this backend; shown in /health."`
	GPULayers        int    `env:"THOTH_GPU_LAYERS" default:"0" help:"Layers on the GPU; 0: all."`
	LibraryDir       string `env:"THOTH_LIBRARY_DIR" help:"Folder of the kernel libraries; default ../lib/ollama beside the program."`
	Exact            bool   `env:"THOTH_EXACT" help:"Results that do not depend on the batch for F16, BF16 and F32 weights too, for a third of the prompt speed; CPU only."`
	AllowSlowCPU     bool   `env:"THOTH_ALLOW_SLOW_CPU" help:"Start even when only the slow baseline kernels are there."`
	NoMmap           bool   `env:"THOTH_NO_MMAP" help:"Read the weights instead of mapping them."`

	MaxWaiting    int           `env:"THOTH_STATION_MAX_WAITING" default:"512" help:"Calls that may wait for the batch."`
	MaxSessions   int           `env:"THOTH_STATION_MAX_SESSIONS" default:"256" help:"Staged sessions alive at once."`
	SessionLease  time.Duration `env:"THOTH_STATION_SESSION_LEASE" default:"10s" help:"How long a session may idle."`
	StepTarget    time.Duration `env:"THOTH_STEP_TARGET" default:"100ms" help:"Time of one step while answers are decoded; sizes prefill chunks."`
	PrefillTarget time.Duration `env:"THOTH_PREFILL_TARGET" default:"500ms" help:"Time of one step while only prompts are evaluated."`
	SwapBytes     int           `env:"THOTH_STATION_SWAP_BYTES" default:"536870912" help:"KV kept in RAM of sequences that had to leave the pool; beyond it their tokens are evaluated again."`
	MaxBodyBytes  int64         `env:"THOTH_STATION_MAX_BODY_BYTES" default:"33554432" help:"Largest request body from the host."`
	DrainSeconds  float64       `env:"THOTH_STATION_FLUSH_SECONDS" default:"3" help:"On SIGTERM, how long running calls and then the writing down of KV may take together."`

	kvFlags

	LogLevel string `env:"THOTH_LOG_LEVEL" default:"info" enum:"trace,debug,info,warn,error" help:"trace, debug, info, warn or error."`

	Selftest     bool   `help:"Load, prove the engine on this machine, print the result and end."`
	BenchEngine  bool   `help:"Measure the engine alone, print JSON and end."`
	QuantizeTo   string `placeholder:"FILE" help:"Write the model to FILE with weights of another type, and end."`
	QuantizeType string `default:"q8_0" help:"That type: f16, q8_0, q4_k_m, ..."`
	Version      bool   `help:"Print version, wire version and engine ABI, and end."`
}

func main() {
	os.Exit(run())
}

func run() int {
	var f flags
	env.Parse(&f, kong.Name("fat-station"), kong.Description("Serves one GGUF model and its KV to the host."))
	if f.Version {
		fmt.Printf("fat-station %s, wire %d, engine %s\n", build.Version(), wire.Version, native.ABI())
		return 0
	}
	// A reader of our log that goes away must not end the serving.
	signal.Ignore(syscall.SIGPIPE)
	level, _ := zerolog.ParseLevel(f.LogLevel)
	log := zerolog.New(os.Stderr).Level(level).With().Timestamp().Str("part", "station").Logger()

	var err error
	switch {
	case f.Selftest:
		err = f.selftest(log)
	case f.BenchEngine:
		err = f.benchEngine(log)
	case f.QuantizeTo != "":
		err = native.Quantize(f.Model, f.QuantizeTo, f.QuantizeType)
	default:
		err = f.serve(log)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "fat-station: "+err.Error())
	var le *engine.LoadError
	if errors.As(err, &le) {
		return int(le.Kind)
	}
	return 1
}

// serve listens, says so, loads, and serves until a signal or a failed load.
func (f *flags) serve(log zerolog.Logger) error {
	if err := f.kvFlags.check(); err != nil {
		return err
	}
	network, address := "tcp", f.Listen
	if path, ok := strings.CutPrefix(f.Listen, "unix://"); ok {
		network, address = "unix", path
		if err := listen.ClearSocket(path); err != nil {
			return fmt.Errorf("cannot listen (THOTH_STATION_LISTEN): %w", err)
		}
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		return fmt.Errorf("cannot listen on %s (THOTH_STATION_LISTEN): %w", f.Listen, err)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	signal.Ignore(syscall.SIGHUP)

	kv := f.kvFlags.options(log)
	st := station.New(station.Options{
		KV: kv, OpenCold: func(tokenBytes int) (kvstore.Cold, string) { return f.open(tokenBytes, log) }, NoKVSession: f.NoKVSession,
		Build: build.Version(), MaxWaiting: f.MaxWaiting, MaxSessions: f.MaxSessions, SessionLease: f.SessionLease,
		StepTarget: f.StepTarget, PrefillTarget: f.PrefillTarget, SwapBytes: f.SwapBytes,
		MaxBodyBytes: f.MaxBodyBytes, Logger: log,
	})
	srv := &http.Server{Handler: st.Handler(), ReadHeaderTimeout: 10 * time.Second}
	own, stop := context.WithCancel(context.Background())
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { _ = srv.Serve(ln) })
	f.handshake(ln, network)

	opts := f.options(log)
	st.Start(func(ctx context.Context, progress func(float32)) (engine.Engine, error) {
		return native.Load(ctx, opts, progress)
	}, func(i engine.Info) {
		limitGo(i, kv.WarmBytes, log)
		log.Info().Str("model", i.Name).Str("arch", i.Architecture).Int("cells", i.Cells).Int("context", i.ContextLength).
			Str("backend", i.Backend.Selected).Strs("libraries", i.Backend.Libraries).Int("threads", i.Backend.Threads).
			Str("reason", i.Backend.Reason).Msg("model loaded")
		sayWhereKVIs(st.KV(), log)
		running.Go(func() {
			d, err := digest(own, f.Model)
			switch {
			case err == nil:
				st.SetDigest(d)
			case own.Err() == nil:
				log.Warn().Err(err).Msg("the model's digest cannot be computed")
			}
		})
	})

	select {
	case <-st.Done():
		err = st.Err()
	case <-signals:
		ctx, cancel := context.WithTimeout(context.Background(), max(0, time.Duration(f.DrainSeconds*float64(time.Second))-closeGrace))
		defer cancel()
		go func() {
			<-signals // a second one ends at once
			os.Exit(130)
		}()
		kept := st.Drain(ctx)
		log.Info().Int("kept", kept.Kept).Int("lost", kept.Lost).Int64("bytes", kept.Bytes).Msg("stored KV written down")
	}
	st.Close()
	if e := listen.Close(srv, closeGrace); e != nil { // removes a socket, too
		log.Warn().Err(e).Msg("the last answers")
	}
	stop()
	running.Wait()
	return err
}

// closeGrace is for the last answers to leave, whose handlers have returned; it is part of
// the drain's time.
const closeGrace = 250 * time.Millisecond

// handshake tells the parent, in one line on stdout, that we listen.
func (f *flags) handshake(ln net.Listener, network string) {
	address := "http://" + ln.Addr().String()
	if network == "unix" {
		address = "unix://" + ln.Addr().String()
	}
	b, _ := json.Marshal(wire.Handshake{Wire: wire.Version, Role: "station", Build: build.Version(),
		EngineABI: native.ABI(), Address: address, Backend: f.Backend, PID: os.Getpid()})
	fmt.Println(string(b))
}

func (f *flags) options(log zerolog.Logger) native.Options {
	return native.Options{
		Model: f.Model, Cells: f.Cells, ContextLength: f.ContextLength, Sequences: f.Sequences, BatchSize: f.BatchSize,
		KVTypeK: f.KVType, KVTypeV: f.KVType, NoFlashAttention: f.NoFlashAttention, Threads: f.Threads, Poll: f.Poll,
		Backend: f.Backend, BackendReason: f.BackendReason, GPULayers: f.GPULayers, LibraryDir: f.LibraryDir,
		EmbedContext: f.EmbedContext, EmbedPooling: f.EmbedPooling, Exact: f.Exact, AllowSlow: f.AllowSlowCPU, NoMmap: f.NoMmap,
		Log: func(level, line string) {
			l, _ := zerolog.ParseLevel(level)
			log.WithLevel(l).Str("from", "llama.cpp").Msg(strings.TrimSpace(line))
		},
	}
}

// limitGo gives Go's heap what the weights, the KV and the buffers leave: C's
// memory is invisible to the collector.
func limitGo(i engine.Info, warm int64, log zerolog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return // the operator has said it
	}
	if limit := native.GoMemoryLimit(i, warm); limit > 0 {
		debug.SetMemoryLimit(limit)
		log.Debug().Int64("bytes", limit).Msg("Go memory limit")
	}
}

// load gives an engine to a command that does not serve.
func (f *flags) load(log zerolog.Logger) (engine.Engine, error) {
	return native.Load(context.Background(), f.options(log), func(float32) {})
}

func (f *flags) selftest(log zerolog.Logger) error {
	if f.Model == "" {
		b, err := native.Probe(f.options(log))
		if err != nil {
			return err
		}
		fmt.Printf("ok    backend: %s, %s\n", b.Device, strings.Join(b.Libraries, " "))
		fmt.Println("no model given (--model): the engine's own tests are left out")
		return nil
	}
	eng, err := f.load(log)
	if err != nil {
		return err
	}
	defer eng.Close()
	b := eng.Info().Backend
	fmt.Printf("ok    backend: %s, %s, %d threads\n", b.Device, strings.Join(b.Libraries, " "), b.Threads)
	failed := 0
	for _, c := range station.SelfTest(eng) {
		word := "ok   "
		if !c.OK {
			word, failed = "FAIL ", failed+1
		}
		fmt.Printf("%s %s: %s (%d ms)\n", word, c.Name, c.Detail, c.Took.Milliseconds())
	}
	if failed > 0 {
		return fmt.Errorf("%d checks of the self-test failed", failed)
	}
	return nil
}

func (f *flags) benchEngine(log zerolog.Logger) error {
	eng, err := f.load(log)
	if err != nil {
		return err
	}
	defer eng.Close()
	r, err := native.BenchEngine(eng)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
