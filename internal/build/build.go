// Package build knows which build this is.
package build

import "runtime/debug"

// ID may be set by the linker (-X thoth/internal/build.ID=...). Normally it is
// not: Go records the revision itself, and a changed flag would relink.
var ID = ""

// Version is ID, or the revision the binary was built from with "+dirty" when
// the tree had changes, or "dev".
func Version() string {
	if ID != "" {
		return ID
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	var revision, dirty string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+dirty"
			}
		}
	}
	if revision == "" {
		return "dev"
	}
	return revision + dirty
}
