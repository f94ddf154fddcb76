package entrypoint

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"thoth/station/wire"
)

// The roles a handshake may name.
const (
	roleStation = "station"
	roleHost    = "host"
)

// parseHandshake tells whether a line of stdout is a child's announcement. Any
// other line, a JSON log line among them, is not.
func parseHandshake(line []byte) (wire.Handshake, bool) {
	var h wire.Handshake
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &h) != nil {
		return wire.Handshake{}, false
	}
	return h, h.Role != "" && h.Address != ""
}

// checkWire refuses a program that speaks another wire than this one.
func checkWire(path string, version int) error {
	if version == wire.Version {
		return nil
	}
	return fmt.Errorf("%w: %s speaks wire %d, this entrypoint speaks %d: rebuild both from one commit: make build",
		errRefused, filepath.Base(path), version, wire.Version)
}

// checkHandshake refuses a child that cannot be what was started.
func checkHandshake(spec *Spec, h wire.Handshake) error {
	if h.Role != spec.Name {
		return fmt.Errorf("%w: %s announced itself as %q, want %q: is %s set to the right program?",
			errRefused, filepath.Base(spec.Path), h.Role, spec.Name, spec.PathSetting)
	}
	return checkWire(spec.Path, h.Wire)
}
