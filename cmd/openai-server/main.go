// Command openai-server is the host: the OpenAI-compatible HTTP server in front
// of a station.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"thoth/host"
	"thoth/internal/build"
	"thoth/internal/env"
	"thoth/internal/gcfloor"
	"thoth/internal/listen"
	"thoth/station/client"
	"thoth/station/wire"
)

// exitSetting is sysexits' EX_CONFIG: a parent need not try again. What kong
// refuses ends with kong's own 80.
const exitSetting = 78

// settingError is a setting that no restart mends.
type settingError struct{ error }

func (e settingError) Unwrap() error { return e.error }

func main() {
	os.Exit(run())
}

func run() int {
	var set settings
	env.Parse(&set, kong.Name("openai-server"), kong.UsageOnError(),
		kong.Description("Serves the OpenAI chat API from a station. Every setting is a flag and an environment variable. SIGTERM and SIGINT drain, a second one ends at once, SIGHUP is ignored."))
	if set.Version {
		fmt.Printf("openai-server %s, wire %d\n", build.Version(), wire.Version)
		return 0
	}
	// A reader of our output that goes away must not end serving.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	gcfloor.Hold(host.HeapFloor)
	limitMemory(set.logger(), memlimit.FromCgroup, set.MaxBodyMemory)

	p, err := newProgram(&set)
	if err == nil {
		err = p.Run(signals)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "openai-server:", err)
		if errors.As(err, new(settingError)) {
			return exitSetting
		}
		return 1
	}
	return 0
}

// program is the host's real wiring, for main and for tests.
type program struct {
	log    zerolog.Logger
	server *host.Server
	ln     net.Listener
	stdout *os.File
}

// newProgram makes the server and listens, so that a bad setting or a taken
// port is said before anything runs.
func newProgram(set *settings) (*program, error) {
	p := &program{log: set.logger(), stdout: os.Stdout}
	network, address, err := set.listen()
	if err != nil {
		return nil, settingError{err}
	}
	options, err := set.options(p.log)
	if err != nil {
		return nil, settingError{err}
	}
	if p.server, err = host.New(options); err != nil {
		return nil, settingError{err}
	}
	if network == "unix" {
		if err = listen.ClearSocket(address); err != nil {
			return nil, fmt.Errorf("cannot listen: %w", err)
		}
	}
	if p.ln, err = net.Listen(network, address); err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return p, nil
}

// Address is where the program listens: http://host:port or unix:///path.
func (p *program) Address() string {
	a := p.ln.Addr()
	if a.Network() == "unix" {
		return "unix://" + a.String()
	}
	return "http://" + a.String()
}

// Run serves until a signal: the first drains, a second ends at once.
func (p *program) Run(signals <-chan os.Signal) error {
	p.server.Start()
	served := make(chan error, 1)
	go func() { served <- p.server.Serve(p.ln) }()
	p.announce()

	select {
	case err := <-served:
		p.Close()
		return err
	case sig := <-signals:
		p.log.Info().Stringer("signal", sig).Msg("draining")
	}
	ctx, hurry := context.WithCancel(context.Background())
	defer hurry()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		p.server.Drain(ctx)
	}()
	select {
	case <-drained:
	case sig := <-signals:
		p.log.Warn().Stringer("signal", sig).Msg("ending at once")
		hurry()
		<-drained
	}
	p.Close()
	p.log.Info().Msg("stopped")
	return <-served
}

// Close ends serving and waits for what runs. Its errors say what they are of: the
// listener, or the store of responses.
func (p *program) Close() {
	if err := p.server.Close(); err != nil {
		p.log.Warn().Err(err).Msg("the server did not close cleanly")
	}
}

// announce prints the handshake the parent waits for.
func (p *program) announce() {
	h := wire.Handshake{Wire: wire.Version, Role: "host", Build: build.Version(), Address: p.Address(), PID: os.Getpid()}
	b, err := json.Marshal(h)
	if err == nil {
		_, err = fmt.Fprintf(p.stdout, "%s\n", b)
	}
	if err != nil {
		p.log.Warn().Err(err).Msg("nobody reads the handshake")
	}
	p.log.Info().Str("address", p.Address()).Str("build", build.Version()).Msg("listening")
}

// logger writes to stderr: stdout belongs to the handshake.
func (s *settings) logger() zerolog.Logger {
	level, err := zerolog.ParseLevel(s.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel
	}
	console := s.LogFormat == "console" || s.LogFormat == "auto" && isatty.IsTerminal(os.Stderr.Fd())
	var log zerolog.Logger
	if console {
		log = zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "15:04:05"})
	} else {
		log = zerolog.New(os.Stderr)
	}
	return log.Level(level).With().Timestamp().Str("part", "host").Logger()
}

// newClient speaks to the station as this process.
func newClient(address string) (*client.Client, error) {
	return client.New(address, client.Options{Owner: fmt.Sprintf("host-%d", os.Getpid())})
}
