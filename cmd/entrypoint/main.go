// Command entrypoint starts the station and the host, keeps them alive, and
// stops them in order. See package thoth/entrypoint.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"thoth/entrypoint"
	"thoth/internal/build"
	"thoth/internal/env"
	"thoth/station/client"
	"thoth/station/wire"
)

// maxSeconds is a day: more is a slip of the keyboard.
const maxSeconds = 86400

// settings are the flags; each has one environment variable. Everything else
// in the environment goes to the station and the host as it is.
type settings struct {
	StationBin      string `env:"THOTH_STATION_BIN" placeholder:"PATH" help:"Station program. Default: fat-station beside this program."`
	HostBin         string `env:"THOTH_HOST_BIN" placeholder:"PATH" help:"Host program. Default: openai-server beside this program."`
	StationURL      string `env:"FAT_STATION_URL" placeholder:"URL" help:"Use the station at this address (http://host:port or unix:///path.sock) and start none: sidecar mode."`
	StationExternal bool   `env:"THOTH_STATION_EXTERNAL" help:"Start no station even without an address: the host uses http://127.0.0.1:8000."`
	StationListen   string `env:"THOTH_STATION_LISTEN" placeholder:"ADDRESS" help:"Where the station listens: 127.0.0.1:PORT (0 for any port) or unix:///path.sock. Default: a socket in a private folder."`
	RuntimeDir      string `env:"THOTH_RUNTIME_DIR" placeholder:"DIR" help:"Where that private folder is made. Default: XDG_RUNTIME_DIR, then the temporary folder."`

	Backend   string `env:"THOTH_BACKEND" default:"auto" enum:"auto,cpu,cuda" help:"What the station computes on: auto tries CUDA and falls back to the CPU, cuda fails without it."`
	PreferCPU bool   `name:"station-prefer-cpu" env:"THOTH_STATION_PREFER_CPU" help:"Take the CPU whatever is there."`
	Exact     bool   `env:"THOTH_EXACT" help:"The station's setting, which only the CPU can have: auto then takes the CPU."`

	HandshakeSeconds float64 `env:"THOTH_HANDSHAKE_SECONDS" default:"30" help:"A child must announce itself within this time of its start. Loading the model comes after it."`
	LegacySeconds    float64 `env:"THOTH_LEGACY_SECONDS" default:"5" help:"A station silent for so long is asked for /health, in case it is older than the handshake."`
	StableSeconds    float64 `env:"THOTH_STABLE_SECONDS" default:"30" help:"The pause before a restart halves for each such time a child ran."`
	MaxFailedStarts  int     `env:"THOTH_MAX_FAILED_STARTS" default:"5" help:"Starts in a row without ever serving before giving up."`

	StationFrozenSeconds float64 `env:"THOTH_STATION_FROZEN_SECONDS" default:"60" help:"A station that has served and then answers no look at its /health for so long is killed and restarted; 0: never."`

	ShutdownSeconds     float64 `env:"THOTH_SHUTDOWN_SECONDS" default:"9" help:"From the first signal to the exit; below what the platform grants."`
	HostDrainSeconds    float64 `env:"THOTH_HOST_DRAIN_SECONDS" default:"5" help:"The host's share of it at most, to finish requests."`
	StationFlushSeconds float64 `env:"THOTH_STATION_FLUSH_SECONDS" default:"3" help:"The station's share of it at least, to write down what it keeps."`

	LogLevel  string `env:"THOTH_LOG_LEVEL" default:"info" enum:"trace,debug,info,warn,error" help:"Least level that is logged (${enum})."`
	LogFormat string `env:"THOTH_LOG_FORMAT" default:"auto" enum:"auto,json,console" help:"Log format (${enum}); auto is console on a terminal, else JSON."`

	Version bool `help:"Print version and wire version, and end."`
}

// Validate refuses times that would mean "at once", or "never" where that is no
// choice.
func (s *settings) Validate() error {
	for _, t := range []struct {
		name  string
		value float64
	}{
		{"THOTH_HANDSHAKE_SECONDS", s.HandshakeSeconds},
		{"THOTH_LEGACY_SECONDS", s.LegacySeconds},
		{"THOTH_STABLE_SECONDS", s.StableSeconds},
		{"THOTH_SHUTDOWN_SECONDS", s.ShutdownSeconds},
		{"THOTH_HOST_DRAIN_SECONDS", s.HostDrainSeconds},
		{"THOTH_STATION_FLUSH_SECONDS", s.StationFlushSeconds},
	} {
		if !(t.value > 0 && t.value <= maxSeconds) {
			return fmt.Errorf("%s is %v; allowed are numbers above 0, up to %d", t.name, t.value, maxSeconds)
		}
	}
	if !(s.StationFrozenSeconds >= 0 && s.StationFrozenSeconds <= maxSeconds) {
		return fmt.Errorf("THOTH_STATION_FROZEN_SECONDS is %v; allowed are numbers up to %d, 0 for never", s.StationFrozenSeconds, maxSeconds)
	}
	return nil
}

func main() {
	os.Exit(run())
}

func run() int {
	var set settings
	env.Parse(&set, kong.Name("entrypoint"),
		kong.Description("Starts thoth's station and host, keeps them alive, and stops them in order. Settings of the two are given in the environment."))
	if set.Version {
		fmt.Printf("entrypoint %s, wire %d\n", build.Version(), wire.Version)
		return 0
	}

	// A reader of our output that goes away must not end serving: notified, a
	// SIGPIPE is an error of the write; ignored, the children would inherit it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)

	options := set.options(os.Environ())
	terminal := isatty.IsTerminal(os.Stdin.Fd()) && isatty.IsTerminal(os.Stderr.Fd())
	hangups := make(chan os.Signal, 1)
	if terminal {
		signal.Notify(signals, syscall.SIGHUP) // the window was closed
	} else {
		signal.Notify(hangups, syscall.SIGHUP)
	}
	go func() {
		for range hangups {
			options.Log.Info().Msg("SIGHUP ignored: settings are read at start only")
		}
	}()

	s, err := entrypoint.New(options)
	if err == nil {
		err = s.Run(signals)
	}
	if err == nil {
		return 0
	}
	code := entrypoint.ExitFailed
	if e := (*entrypoint.ExitError)(nil); errors.As(err, &e) {
		code = e.Code
		for _, line := range e.Tail {
			fmt.Fprintln(os.Stderr, "  "+line)
		}
	}
	fmt.Fprintln(os.Stderr, "entrypoint: "+err.Error())
	return code
}

func (s *settings) options(environ []string) entrypoint.Options {
	o := entrypoint.Options{
		StationBin: s.StationBin, HostBin: s.HostBin,
		StationURL: s.StationURL, StationListen: s.StationListen, RuntimeDir: s.RuntimeDir,
		Backend: s.Backend, PreferCPU: s.PreferCPU, Exact: s.Exact,
		HandshakeTimeout: seconds(s.HandshakeSeconds), LegacyAfter: seconds(s.LegacySeconds),
		StableAfter: seconds(s.StableSeconds), MaxFailedStarts: s.MaxFailedStarts,
		Shutdown: seconds(s.ShutdownSeconds), HostDrain: seconds(s.HostDrainSeconds), StationFlush: seconds(s.StationFlushSeconds),
		Env: environ, Stdout: os.Stdout, Stderr: os.Stderr,
	}
	if o.StationFrozen = seconds(s.StationFrozenSeconds); o.StationFrozen == 0 {
		o.StationFrozen = -1 // never; the option's own zero means its default
	}
	if s.StationExternal && o.StationURL == "" {
		o.StationURL = client.DefaultURL
	}
	level, err := zerolog.ParseLevel(s.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel
	}
	log := zerolog.New(os.Stderr)
	if s.LogFormat == "console" || s.LogFormat == "auto" && isatty.IsTerminal(os.Stderr.Fd()) {
		console := zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != ""}
		o.Console, log = console, zerolog.New(console)
	}
	o.Log = log.Level(level).With().Timestamp().Str("part", "entrypoint").Logger()
	return o
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
