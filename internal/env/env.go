// Package env reads a program's settings: flags, each with an environment
// variable. One set of variables feeds all programs, so each must read it the
// same way, and end the same way when it cannot.
package env

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
)

// ExitUsage is the exit code after an unknown flag or a bad value. It is kong's
// own for flags; for a variable's value kong would end with 1, which a parent
// takes for a crash and tries again.
const ExitUsage = 80

type usageError struct{ error }

func (usageError) ExitCode() int   { return ExitUsage }
func (e usageError) Unwrap() error { return e.error }

// Parse fills target from the process's flags and variables, or ends the
// process with a sentence.
func Parse(target any, options ...kong.Option) {
	UnsetEmpty()
	k := kong.Must(target, options...)
	if _, err := k.Parse(os.Args[1:]); err != nil {
		k.FatalIfErrorf(usageError{err})
	}
}

// UnsetEmpty unsets the project's variables that are empty, in this process:
// deployment files write "not set" so, where a parser would see a bad number.
// Only a store that is set and empty says something: that there is none.
func UnsetEmpty() {
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if value == "" && (name == "THOTH_KV_STORE" || name == "THOTH_RESPONSES_STORE") {
			os.Setenv(name, "none")
			continue
		}
		if value == "" && (strings.HasPrefix(name, "THOTH_") || name == "PORT" || name == "FAT_STATION_URL") {
			os.Unsetenv(name)
		}
	}
}

// CacheDir is the folder of what may be kept between runs: THOTH_CACHE, or thoth in
// the user's cache folder; "" where there is none.
func CacheDir() string {
	if dir := os.Getenv("THOTH_CACHE"); dir != "" {
		return dir
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(base, "thoth")
}
