package main

import (
	"context"
	"encoding/json"
	"errors"

	"thoth/cmd/thoth/internal/doctor"
)

type doctorCmd struct {
	Model      string `env:"THOTH_MODEL" help:"Model to look at: a path or a spec, as for pull. Default: the default model."`
	BinDir     string `env:"THOTH_BIN_DIR" placeholder:"DIR" help:"Folder of the binaries. Default: this program's."`
	LibraryDir string `env:"THOTH_LIBRARY_DIR" placeholder:"DIR" help:"Folder of the kernel libraries. Default: ../lib/ollama beside the binaries."`
	Dir        string `env:"THOTH_CACHE" placeholder:"DIR" help:"Cache folder, as for pull."`
	Port       int    `env:"PORT" default:"8080" help:"Port the server is to have."`
	URL        string `name:"url" env:"THOTH_DOCTOR_URL" help:"Running server to ask. Default: this machine's, at that port."`
	StationURL string `env:"FAT_STATION_URL" help:"Running station to ask: http://host:port or unix:///path.sock."`
	JSON       bool   `name:"json" env:"THOTH_DOCTOR_JSON" help:"Print the findings as JSON."`
}

func (c *doctorCmd) Run(ctx context.Context, s streams) error {
	all, err := doctor.Run(ctx, doctor.Options{
		BinDir: c.BinDir, LibraryDir: c.LibraryDir, Model: c.Model, CacheDir: c.Dir,
		Port: c.Port, URL: c.URL, StationURL: c.StationURL,
	})
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		err = e.Encode(all)
	} else {
		err = doctor.Write(s.out, all)
	}
	if err == nil && doctor.Failed(all) {
		err = errors.New("something is broken; see the lines that begin with fail")
	}
	return err
}
