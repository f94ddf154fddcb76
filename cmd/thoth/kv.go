package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"thoth/cmd/thoth/internal/kv"
)

// kvCmd looks after cold stores of liquid memory.
type kvCmd struct {
	Ls     kvLsCmd     `cmd:"" help:"List what a cold store holds, by root (a model with its settings, and a scope)."`
	Verify kvVerifyCmd `cmd:"" help:"Decode every block, and name the damaged ones: place, reason, detail. Exit status 1 if there are any."`
	Rm     kvRmCmd     `cmd:"" help:"Remove blocks."`
	Export kvExportCmd `cmd:"" help:"Write blocks into a tar archive."`
	Import kvImportCmd `cmd:"" help:"Put the blocks of an archive into a store, each verified before."`
}

// kvStore is what all of them take.
type kvStore struct {
	URL string `arg:"" name:"url" help:"The store, as THOTH_KV_STORE has it: a folder, file:///dir, s3://bucket/prefix, gs://bucket/prefix. Stations may be using it."`
	Key string `name:"key" env:"THOTH_KV_KEY" help:"Key of sealed blocks: 32 bytes, as 64 hex digits or in base64."`
}

func (k kvStore) with(ctx context.Context, create bool, f func(*kv.Store) error) error {
	s, err := kv.Open(ctx, k.URL, k.Key, create)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

type kvLsCmd struct {
	kvStore `embed:""`
	Root    string `placeholder:"HEX" help:"List the blocks of this root."`
	JSON    bool   `name:"json" help:"Print JSON."`
}

func (c *kvLsCmd) Run(ctx context.Context, out streams) error {
	return c.with(ctx, false, func(s *kv.Store) error {
		if c.Root != "" {
			list, err := s.Blocks(ctx, c.Root)
			switch {
			case err != nil:
				return err
			case c.JSON:
				return kv.WriteJSON(out.out, list)
			}
			return kv.WriteBlocks(out.out, list, time.Now())
		}
		list, err := s.List(ctx)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return kv.WriteJSON(out.out, list)
		}
		return kv.WriteRoots(out.out, list, time.Now())
	})
}

type kvVerifyCmd struct {
	kvStore `embed:""`
	Root    string `placeholder:"HEX" help:"Only blocks of this root."`
	Fix     bool   `help:"Drop the damaged ones. Blocks that only do not open with the key are never dropped: it may be the wrong key."`
}

func (c *kvVerifyCmd) Run(ctx context.Context, out streams) error {
	return c.with(ctx, false, func(s *kv.Store) error {
		v, err := s.Verify(ctx, c.Root, c.Fix, out.out)
		if err != nil {
			return err
		}
		fmt.Fprintf(out.err, "%d blocks of %s are whole; %d damaged, %d of them dropped; %d without a parent; %d strays\n",
			v.Blocks, kv.Bytes(v.Bytes), v.Damaged, v.Dropped, v.Alone, v.Strays)
		switch {
		case v.Sealed > 0 && c.Key == "":
			return fmt.Errorf("%d blocks are sealed: set THOTH_KV_KEY to verify them", v.Sealed)
		case v.Damaged > 0:
			return fmt.Errorf("damaged blocks: %d", v.Damaged)
		}
		return nil
	})
}

type kvRmCmd struct {
	kvStore `embed:""`
	Keys    []string `arg:"" optional:"" name:"key" help:"Keys in hex, or places as ls --root and verify print them."`
	Root    string   `placeholder:"HEX" help:"All blocks of this root."`
	All     bool     `help:"All blocks."`
}

func (c *kvRmCmd) Run(ctx context.Context, out streams) error {
	return c.with(ctx, false, func(s *kv.Store) error {
		n, size, err := s.Remove(ctx, kv.What{All: c.All, Root: c.Root, Keys: c.Keys})
		if n > 0 || err == nil {
			fmt.Fprintf(out.err, "removed %d blocks of %s\n", n, kv.Bytes(size))
		}
		return err
	})
}

type kvExportCmd struct {
	kvStore `embed:""`
	File    string `arg:"" help:"The archive, or - for stdout."`
	Root    string `placeholder:"HEX" help:"Only blocks of this root."`
}

func (c *kvExportCmd) Run(ctx context.Context, out streams) error {
	return c.with(ctx, false, func(s *kv.Store) error {
		var (
			n    int
			size int64
		)
		err := writeFile(c.File, out.out, func(w io.Writer) (err error) {
			n, size, err = s.Export(ctx, c.Root, w)
			return err
		})
		if err == nil {
			fmt.Fprintf(out.err, "exported %d blocks of %s\n", n, kv.Bytes(size))
		}
		return err
	})
}

// writeFile writes a file whole or not at all, for its reader would take half an archive
// for one; - is stdout. It holds what clients wrote, so nobody else may read it.
func writeFile(name string, stdout io.Writer, fill func(io.Writer) error) error {
	if name == "-" {
		return fill(stdout)
	}
	partial := name + ".partial"
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = errors.Join(fill(f), f.Close()); err == nil {
		err = os.Rename(partial, name)
	}
	if err != nil {
		_ = os.Remove(partial)
	}
	return err
}

type kvImportCmd struct {
	kvStore `embed:""`
	File    string `arg:"" help:"The archive, or - for stdin."`
}

func (c *kvImportCmd) Run(ctx context.Context, out streams) error {
	return c.with(ctx, true, func(s *kv.Store) error {
		in := os.Stdin
		if c.File != "-" {
			f, err := os.Open(c.File)
			if err != nil {
				return err
			}
			defer f.Close()
			in = f
		}
		done, err := s.Import(ctx, in, out.out)
		fmt.Fprintf(out.err, "put %d blocks of %s; %d were there; %d refused\n", done.Blocks, kv.Bytes(done.Bytes), done.There, done.Refused)
		if err == nil && done.Refused > 0 {
			err = fmt.Errorf("%d objects of the archive are no usable blocks", done.Refused)
		}
		return err
	})
}
