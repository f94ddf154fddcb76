package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"thoth/cmd/thoth/internal/pull"
)

// Level grades a finding.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is one line of the result.
type Finding struct {
	Level  Level  `json:"level"`
	What   string `json:"what"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// Options say what to look at; the zero value looks beside this program.
type Options struct {
	BinDir     string // binaries; default: this program's folder
	LibraryDir string // kernel libraries; default: ../lib/ollama beside BinDir
	Model      string // path or spec; default: the default model
	CacheDir   string // as for pull
	Port       int    // of the host; default 8080
	URL        string // running host; default http://127.0.0.1:Port
	StationURL string // running station, "" for none

	procDir   string // /proc; another in tests
	cgroupDir string // /sys/fs/cgroup; another in tests
}

func (o *Options) fill() error {
	if o.BinDir == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("where this program lies is unknown (%w); name the folder with --bin-dir", err)
		}
		if self, err = filepath.EvalSymlinks(self); err != nil {
			return err
		}
		o.BinDir = filepath.Dir(self)
	}
	if o.LibraryDir == "" {
		o.LibraryDir = filepath.Join(o.BinDir, "..", "lib", "ollama")
	}
	if o.Port == 0 {
		o.Port = 8080
	}
	if o.Port < 1 || o.Port > 65535 {
		return fmt.Errorf("port %d: want 1 to 65535", o.Port)
	}
	if o.URL == "" {
		o.URL = fmt.Sprintf("http://127.0.0.1:%d", o.Port)
	}
	if o.procDir == "" {
		o.procDir = "/proc"
	}
	if o.cgroupDir == "" {
		o.cgroupDir = "/sys/fs/cgroup"
	}
	var err error
	o.CacheDir, err = pull.CacheDir(o.CacheDir)
	return err
}

// Run makes all checks, in the order in which a fault explains later ones.
func Run(ctx context.Context, o Options) ([]Finding, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	var all []Finding
	for _, check := range []func(context.Context, *Options) []Finding{
		binaries, libraries, limits, model, cache, servers,
	} {
		all = append(all, check(ctx, &o)...)
		if ctx.Err() != nil {
			return all, context.Cause(ctx)
		}
	}
	return all, nil
}

// Failed tells whether anything is broken.
func Failed(all []Finding) bool {
	for _, f := range all {
		if f.Level == Fail {
			return true
		}
	}
	return false
}

// Write prints findings, one a line, each fix below its finding.
func Write(w io.Writer, all []Finding) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range all {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", f.Level, f.What, f.Detail)
		if f.Fix != "" {
			fmt.Fprintf(tw, "\t\t%s\n", "-> "+f.Fix)
		}
	}
	return tw.Flush()
}

func ok(what, format string, args ...any) Finding {
	return Finding{Level: OK, What: what, Detail: fmt.Sprintf(format, args...)}
}

func warn(what, fix, format string, args ...any) Finding {
	return Finding{Warn, what, fmt.Sprintf(format, args...), fix}
}

func fail(what, fix, format string, args ...any) Finding {
	return Finding{Fail, what, fmt.Sprintf(format, args...), fix}
}

func gib(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// firstLine keeps a message to one line of the result.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
