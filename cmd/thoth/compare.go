package main

import (
	"context"
	"errors"
	"time"

	"thoth/cmd/thoth/internal/compare"
)

// compareCmd asks one server, or two, and tells what was right. A wrong answer is a
// result and no failure of the command.
type compareCmd struct {
	URL    string `name:"url" env:"THOTH_COMPARE_URL" default:"http://127.0.0.1:8080" help:"Server to ask."`
	Name   string `env:"THOTH_COMPARE_NAME" default:"thoth" help:"Its name in the table."`
	Model  string `env:"THOTH_COMPARE_MODEL" help:"Model name to ask for. Default: the first one the server lists."`
	Key    string `env:"THOTH_COMPARE_KEY" help:"API key of the server."`
	URL2   string `name:"url2" env:"THOTH_COMPARE_URL2" help:"Second server, asked the same in turn with the first one."`
	Name2  string `name:"name2" env:"THOTH_COMPARE_NAME2" default:"the other" help:"Its name in the table."`
	Model2 string `name:"model2" env:"THOTH_COMPARE_MODEL2" help:"Model name to ask the second server for."`
	Key2   string `name:"key2" env:"THOTH_COMPARE_KEY2" help:"API key of the second server."`

	Cases   []string      `env:"THOTH_COMPARE_CASES" placeholder:"AREA,..." help:"Areas (chat, stream, tools, ...) or parts of cases' names. Default: all."`
	Timeout time.Duration `env:"THOTH_COMPARE_TIMEOUT" default:"1m" help:"Limit of one request."`
	Out     string        `env:"THOTH_COMPARE_OUT" placeholder:"FILE" help:"Write the report as JSON, too."`
}

func (c *compareCmd) Run(ctx context.Context, s streams) error {
	servers := []compare.Server{{Name: c.Name, URL: c.URL, Model: c.Model, Key: c.Key}}
	if c.URL2 != "" {
		servers = append(servers, compare.Server{Name: c.Name2, URL: c.URL2, Model: c.Model2, Key: c.Key2})
	}
	rep, err := compare.Run(ctx, compare.Options{Servers: servers, Only: c.Cases, Timeout: c.Timeout, Log: s.err})
	if rep == nil {
		return err
	}
	return errors.Join(err, writeReport(rep, s, c.Out))
}
