// Package env reads the environment as deployment files write it. One set of
// variables feeds all programs, so each must read it the same way: an empty
// variable is an unset one, where a flag parser would see a bad number.
package env

import (
	"os"
	"strings"
)

// UnsetEmpty unsets the project's variables that are empty, in this process. It
// is called before flags are parsed.
func UnsetEmpty() {
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if value == "" && (strings.HasPrefix(name, "THOTH_") || name == "PORT" || name == "FAT_STATION_URL") {
			os.Unsetenv(name)
		}
	}
}
