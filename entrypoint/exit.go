package entrypoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"thoth/station/engine"
)

// Exit codes of the entrypoint besides the station's own 64 to 72
// ([engine.LoadErrorKind]), which it passes on.
const (
	ExitFailed  = 1  // a child would not come up, or the entrypoint itself failed
	ExitSetting = 78 // a setting, a missing program, another wire version
	exitUsage   = 80 // kong: unknown flag or bad value, in any of the programs
	exitSignal  = 128
)

// Faults the Child itself finds.
var (
	errRefused   = errors.New("refused")                  // its handshake: no restart mends it
	errNoProgram = errors.New("program cannot start")     // missing or not executable
	errHandshake = errors.New("no handshake")             // it did not announce itself in time
	errStart     = errors.New("process cannot be forked") // the machine's fault, may pass
)

// Exit is how a Child ended.
type Exit struct {
	Code   int            // when it exited by itself
	Signal syscall.Signal // when a signal ended it
	Fault  error          // what the Child found wrong, before it killed it
	Asked  bool           // Stop or Kill was called
	Forced bool           // it had to be killed
	Tail   []string       // last lines of its stderr
	Prog   string         // the program's name, as its last words begin
	Ran    time.Duration
}

// Clean tells whether it did as it was told.
func (e *Exit) Clean() bool { return e.Asked && !e.Forced && e.Fault == nil }

// Sentence says what happened to the child called name, in words for the log.
func (e *Exit) Sentence(name string) string {
	switch {
	case e.Fault != nil:
		return fmt.Sprintf("%s: %s", name, strings.TrimPrefix(e.Fault.Error(), errRefused.Error()+": "))
	case e.Forced:
		return name + " did not stop in time and was killed"
	case e.Signal == syscall.SIGKILL && !e.Asked:
		return name + " was killed (signal 9), probably out of memory"
	case e.Signal != 0:
		return fmt.Sprintf("%s was ended by signal %d (%s)", name, int(e.Signal), e.Signal)
	case e.Code == 0 && !e.Asked:
		return name + " ended by itself (exit code 0)"
	default:
		return fmt.Sprintf("%s ended with exit code %d", name, e.Code)
	}
}

// permanent tells whether a restart would only meet the same fault again, and
// the exit code to end with.
func (e *Exit) permanent() (code int, ok bool) {
	switch {
	case errors.Is(e.Fault, errRefused), errors.Is(e.Fault, errNoProgram):
		return ExitSetting, true
	case e.Fault != nil || e.Signal != 0:
		return 0, false
	case e.loadError(), e.Code == ExitSetting, e.Code == exitUsage:
		return e.Code, true
	}
	return 0, false
}

// loadError tells whether the station ended over its model or settings.
func (e *Exit) loadError() bool {
	k := engine.LoadErrorKind(e.Code)
	return e.Fault == nil && e.Signal == 0 && k >= engine.LoadNotFound && k <= engine.LoadBadSetting
}

// blamesModel tells whether the fault is the model file's or the build's, and
// so the same on every backend. A bad setting is not among them: CUDA without
// a usable GPU is one.
func (e *Exit) blamesModel() bool {
	switch engine.LoadErrorKind(e.Code) {
	case engine.LoadNotFound, engine.LoadNotGGUF, engine.LoadTruncated, engine.LoadUnknownArch,
		engine.LoadNoEngine:
		return e.loadError()
	}
	return e.Code == exitUsage && e.Fault == nil && e.Signal == 0
}

// lastWords is the last line of stderr as a sentence, without the program's
// name before it: a log line of JSON gives its message and error.
func (e *Exit) lastWords() string {
	for i := len(e.Tail) - 1; i >= 0; i-- {
		line := strings.TrimSpace(e.Tail[i])
		if line == "" {
			continue
		}
		var log struct{ Message, Error string }
		if line[0] != '{' || json.Unmarshal([]byte(line), &log) != nil {
			return strings.TrimPrefix(strings.TrimPrefix(line, e.Prog+": "), "error: ")
		}
		switch {
		case log.Message == "":
			return log.Error
		case log.Error == "" || strings.Contains(log.Message, log.Error):
			return log.Message
		}
		return log.Message + ": " + log.Error
	}
	return ""
}

// ExitError ends the entrypoint: one sentence, the code to exit with, and the
// end of the child's stderr where a child is to blame.
type ExitError struct {
	Code int
	Msg  string
	Tail []string
}

func (e *ExitError) Error() string { return e.Msg }

func settingError(format string, args ...any) *ExitError {
	return &ExitError{Code: ExitSetting, Msg: fmt.Sprintf(format, args...)}
}

// fatal is the error that ends the entrypoint after a child's fault that no
// restart mends.
func fatal(name string, code int, e *Exit) *ExitError {
	msg := e.Sentence(name)
	if words := e.lastWords(); words != "" && e.Fault == nil && e.Signal == 0 {
		msg = fmt.Sprintf("%s: %s (exit code %d)", name, words, e.Code)
	}
	return &ExitError{Code: code, Msg: msg}
}
