package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"thoth/cmd/thoth/internal/bench"
)

type benchCmd struct {
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

func (c *benchCmd) Run(ctx context.Context, s streams) error {
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
	if werr := rep.WriteTable(s.out); werr != nil {
		return errors.Join(err, werr)
	}
	if c.Out == "" {
		return err
	}
	f, ferr := os.Create(c.Out)
	if ferr != nil {
		return errors.Join(err, ferr)
	}
	return errors.Join(err, rep.WriteJSON(f), f.Close())
}
