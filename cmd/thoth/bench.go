package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"thoth/cmd/thoth/internal/bench"
	"thoth/cmd/thoth/internal/pull"
)

// benchCmd measures a running server unless told what else.
type benchCmd struct {
	Server benchServerCmd `cmd:"" default:"withargs" help:"Measure a running OpenAI-compatible server, alone or beside another one (what bench alone does)."`
	Liquid benchLiquidCmd `cmd:"" help:"Measure liquid memory: start the servers, fill, repeat, restart, and compare settings."`

	Structured benchStructuredCmd `cmd:"" help:"Measure what structured output costs: answers by a JSON schema beside free ones of the same length."`
}

type benchServerCmd struct {
	URL    string `name:"url" env:"THOTH_BENCH_URL" default:"http://127.0.0.1:8080" help:"Server to measure."`
	Model  string `env:"THOTH_BENCH_MODEL" help:"Model name to ask for. Default: the first one the server lists."`
	Key    string `env:"THOTH_BENCH_KEY" help:"API key of the server."`
	URL2   string `name:"url2" env:"THOTH_BENCH_URL2" help:"Second server, measured in turn with the first one."`
	Model2 string `name:"model2" env:"THOTH_BENCH_MODEL2" help:"Model name to ask the second server for."`
	Key2   string `name:"key2" env:"THOTH_BENCH_KEY2" help:"API key of the second server."`

	EngineCmd string `env:"THOTH_BENCH_ENGINE_CMD" help:"Shell command that measures the bare engine and prints {\"decode_1\":…,\"decode_16\":…,\"prefill_718\":…}; it runs in every round while the servers idle, e.g. 'build/bin/fat-station --bench-engine --model X'."`

	Rounds       int           `env:"THOTH_BENCH_ROUNDS" default:"3" help:"Measured rounds."`
	Warmup       int           `env:"THOTH_BENCH_WARMUP" default:"1" help:"Unmeasured requests per server before the first round."`
	Cohorts      []string      `env:"THOTH_BENCH_COHORTS" default:"stream,cold,clients" help:"What to measure: stream, cold, clients."`
	Clients      []int         `env:"THOTH_BENCH_CLIENTS" default:"1,4,16" help:"Numbers of clients at once."`
	Tokens       int           `env:"THOTH_BENCH_TOKENS" default:"64" help:"Answer length in the clients' cohorts."`
	StreamTokens int           `env:"THOTH_BENCH_STREAM_TOKENS" default:"128" help:"Answer length of the one-stream cohort."`
	ColdTokens   int           `env:"THOTH_BENCH_COLD_TOKENS" default:"718" help:"Prompt length of the cold cohort, in tokens."`
	Timeout      time.Duration `env:"THOTH_BENCH_TIMEOUT" default:"10m" help:"Limit of one request."`
	Out          string        `env:"THOTH_BENCH_OUT" placeholder:"FILE" help:"Write the report as JSON, too."`
}

func (c *benchServerCmd) Run(ctx context.Context, s streams) error {
	targets := []bench.Target{{URL: c.URL, Model: c.Model, Key: c.Key}}
	if c.URL2 != "" {
		targets = append(targets, bench.Target{URL: c.URL2, Model: c.Model2, Key: c.Key2})
	}
	if c.Rounds < 1 {
		return fmt.Errorf("--rounds %d: want at least 1", c.Rounds)
	}
	rep, err := bench.Run(ctx, bench.Options{
		Targets: targets, EngineCmd: c.EngineCmd,
		Rounds: c.Rounds, Warmup: c.Warmup, Cohorts: c.Cohorts, Clients: c.Clients,
		Tokens: c.Tokens, StreamTokens: c.StreamTokens, ColdTokens: c.ColdTokens, Timeout: c.Timeout,
		Log: s.err,
	})
	if rep == nil {
		return err
	}
	return errors.Join(err, writeReport(rep, s, c.Out))
}

type benchLiquidCmd struct {
	Entrypoint string `env:"THOTH_BENCH_ENTRYPOINT" placeholder:"FILE" help:"Supervisor program, with host and station beside it. Default: entrypoint beside this program."`
	Model      string `env:"THOTH_MODEL" help:"Model to serve: a path or a spec, as for pull. Default: the default model."`
	Dir        string `env:"THOTH_CACHE" placeholder:"DIR" help:"Cache folder, as for pull."`

	PeerCommand string `env:"THOTH_BENCH_PEER_COMMAND" placeholder:"COMMAND" help:"Shell command of another server that does the same in turn; {port} is where it is to listen, e.g. 'llama-server -m X.gguf -c 16384 -np 16 -t 2 --port {port}'."`
	PeerPort    int    `env:"THOTH_BENCH_PEER_PORT" default:"18099" help:"What {port} becomes."`
	EngineCmd   string `env:"THOTH_BENCH_ENGINE_CMD" help:"Shell command that measures the bare engine and prints {\"import_gb_s\":…}. Default: the station beside the entrypoint, with --bench-engine."`

	Rounds       int           `env:"THOTH_BENCH_LIQUID_ROUNDS" default:"5" help:"Measured rounds; each restarts everything once."`
	Cohorts      []string      `env:"THOTH_BENCH_LIQUID_COHORTS" default:"engine,reuse,off,tiers" help:"What to measure: engine (moves between RAM and device), reuse (fill, repeat, shared prefix, turns, evict, restart, replica), off (a miss, on against off), tiers (decode, tiers full against empty)."`
	Tokens       int           `env:"THOTH_BENCH_LIQUID_TOKENS" default:"32" help:"Answer length where answers are compared."`
	TierSettings []string      `env:"THOTH_BENCH_TIER_SETTINGS" placeholder:"NAME=VALUE,..." help:"Settings of the servers whose tiers are filled; small budgets fill soon. Default: some 100 MiB."`
	StoreDir     string        `env:"THOTH_BENCH_STORE_DIR" placeholder:"DIR" help:"Where the servers' stores are made and removed. Default: the temporary folder."`
	StartTimeout time.Duration `env:"THOTH_BENCH_START_TIMEOUT" default:"2m" help:"A server must be ready within it."`
	Timeout      time.Duration `env:"THOTH_BENCH_TIMEOUT" default:"10m" help:"Limit of one request."`
	Out          string        `env:"THOTH_BENCH_OUT" placeholder:"FILE" help:"Write the report as JSON, too."`
}

func (c *benchLiquidCmd) Run(ctx context.Context, s streams) error {
	for _, v := range []struct {
		name string
		n    int
	}{{"--rounds", c.Rounds}, {"--tokens", c.Tokens}, {"--peer-port", c.PeerPort}} {
		if v.n < 1 { // the option's own zero means its default
			return fmt.Errorf("%s %d: want at least 1", v.name, v.n)
		}
	}
	entrypoint := c.Entrypoint
	if entrypoint == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		entrypoint = filepath.Join(filepath.Dir(self), "entrypoint")
	}
	model, err := pull.Pull(ctx, c.Model, pull.Options{CacheDir: c.Dir, HFToken: os.Getenv("HF_TOKEN"), Progress: pull.NewProgress(s.err)})
	if err != nil {
		return err
	}
	engine := c.EngineCmd
	if engine == "" {
		engine = fmt.Sprintf("%s --bench-engine --model %s", quoted(filepath.Join(filepath.Dir(entrypoint), "fat-station")), quoted(model))
	}
	rep, err := bench.RunLiquid(ctx, bench.LiquidOptions{
		Entrypoint: entrypoint, Model: model, PeerCommand: c.PeerCommand, PeerPort: c.PeerPort, EngineCmd: engine, Dir: c.StoreDir,
		Rounds: c.Rounds, Tokens: c.Tokens, Families: c.Cohorts, TierSettings: c.TierSettings,
		StartTimeout: c.StartTimeout, Timeout: c.Timeout, Log: s.err,
	})
	if rep == nil {
		return err
	}
	return errors.Join(err, writeReport(rep, s, c.Out))
}

type benchStructuredCmd struct {
	URL   string `name:"url" env:"THOTH_BENCH_URL" default:"http://127.0.0.1:8080" help:"Server to measure."`
	Model string `env:"THOTH_BENCH_MODEL" help:"Model name to ask for. Default: the first one the server lists."`
	Key   string `env:"THOTH_BENCH_KEY" help:"API key of the server."`

	Rounds  int           `env:"THOTH_BENCH_STRUCTURED_ROUNDS" default:"5" help:"Measured rounds; one more warms both sides up."`
	Clients []int         `env:"THOTH_BENCH_STRUCTURED_CLIENTS" default:"1,8" help:"Numbers of clients at once."`
	Tokens  int           `env:"THOTH_BENCH_STRUCTURED_TOKENS" default:"96" help:"Length of each answer."`
	Timeout time.Duration `env:"THOTH_BENCH_TIMEOUT" default:"10m" help:"Limit of one request."`
	Out     string        `env:"THOTH_BENCH_OUT" placeholder:"FILE" help:"Write the report as JSON, too."`
}

func (c *benchStructuredCmd) Run(ctx context.Context, s streams) error {
	for _, v := range []struct {
		name string
		n    int
	}{{"--rounds", c.Rounds}, {"--tokens", c.Tokens}} {
		if v.n < 1 { // the option's own zero means its default
			return fmt.Errorf("%s %d: want at least 1", v.name, v.n)
		}
	}
	rep, err := bench.RunStructured(ctx, bench.StructuredOptions{
		Target: bench.Target{URL: c.URL, Model: c.Model, Key: c.Key},
		Rounds: c.Rounds, Tokens: c.Tokens, Clients: c.Clients, Timeout: c.Timeout, Log: s.err,
	})
	if rep == nil {
		return err
	}
	return errors.Join(err, writeReport(rep, s, c.Out))
}

// quoted makes one word of a shell command.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// writeReport writes a report for people, and to a file for programs.
func writeReport(rep interface {
	WriteTable(io.Writer) error
	WriteJSON(io.Writer) error
}, s streams, out string) error {
	err := rep.WriteTable(s.out)
	if out == "" {
		return err
	}
	f, ferr := os.Create(out)
	if ferr != nil {
		return errors.Join(err, ferr)
	}
	return errors.Join(err, rep.WriteJSON(f), f.Close())
}
