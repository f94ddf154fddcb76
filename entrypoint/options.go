package entrypoint

import (
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
)

// Options of a [Supervisor]. Zero values are filled by defaults; what
// contradicts itself is refused by [New].
type Options struct {
	StationBin string // station program; default fat-station beside this program
	HostBin    string // host program; default openai-server beside this program

	// StationURL names a station that runs elsewhere (sidecar): none is started
	// and only the host is watched. "" starts one.
	StationURL string
	// StationListen is where the station is told to listen: 127.0.0.1:PORT, port
	// 0 for any, or unix:///path.sock. Default a socket in a private folder.
	StationListen string
	RuntimeDir    string // parent of that folder; default XDG_RUNTIME_DIR, then the temporary folder

	Backend   string // auto, cuda, cpu; default auto
	PreferCPU bool   // take the CPU whatever is there
	Exact     bool   // the station is asked for results that only the CPU has
	Machine   Machine

	HandshakeTimeout time.Duration // a child must announce itself within it; default 30 s
	LegacyAfter      time.Duration // a silent station is asked over HTTP after it; default 5 s
	RestartFirst     time.Duration // first pause before a restart; default 250 ms
	RestartLongest   time.Duration // longest pause; default 15 s
	StableAfter      time.Duration // the pause halves for each such time a child ran; default 30 s
	StationFrozen    time.Duration // a station that served and answers nothing for so long is killed; default 60 s, negative for never
	MaxFailedStarts  int           // tries in a row that never served before giving up; default 5

	Shutdown     time.Duration // from signal to exit; default 9 s
	HostDrain    time.Duration // the host's share at most; default 5 s
	StationFlush time.Duration // the station's share at least; default 3 s

	Env    []string  // environment given to the children; default the process's own
	Stdout io.Writer // lines for people: where it listens, what to try; default os.Stdout
	Stderr io.Writer // children's stderr; default os.Stderr
	// Console writes children's JSON log lines for people; nil passes them on as they are.
	Console io.Writer
	Log     zerolog.Logger
}

func (o Options) withDefaults() Options {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	// Through links: /usr/bin/entrypoint may point into the built tree.
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	setDefault(&o.StationBin, filepath.Join(filepath.Dir(self), "fat-station"))
	setDefault(&o.HostBin, filepath.Join(filepath.Dir(self), "openai-server"))
	setDefault(&o.Backend, BackendAuto)
	setDefault(&o.HandshakeTimeout, 30*time.Second)
	setDefault(&o.LegacyAfter, 5*time.Second)
	setDefault(&o.RestartFirst, 250*time.Millisecond)
	setDefault(&o.RestartLongest, 15*time.Second)
	setDefault(&o.StableAfter, 30*time.Second)
	setDefault(&o.StationFrozen, 60*time.Second)
	setDefault(&o.MaxFailedStarts, 5)
	setDefault(&o.Shutdown, 9*time.Second)
	setDefault(&o.HostDrain, 5*time.Second)
	setDefault(&o.StationFlush, 3*time.Second)
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	if dir := envValue(o.Env, "THOTH_LIBRARY_DIR"); dir != "" && len(o.Machine.LibraryDirs) == 0 {
		o.Machine.LibraryDirs = []string{dir}
	}
	if len(o.Machine.LibraryDirs) == 0 {
		o.Machine.LibraryDirs = []string{filepath.Join(filepath.Dir(o.StationBin), "..", "lib", "ollama")}
	}
	setDefault(&o.Machine.LDPath, envValue(o.Env, "LD_LIBRARY_PATH"))
	return o
}

func (o *Options) check() error {
	if o.MaxFailedStarts < 1 {
		return settingError("THOTH_MAX_FAILED_STARTS is %d; it must be at least 1", o.MaxFailedStarts)
	}
	if o.HostDrain+o.StationFlush >= o.Shutdown {
		return settingError("THOTH_HOST_DRAIN_SECONDS (%s) and THOTH_STATION_FLUSH_SECONDS (%s) must add up to less than THOTH_SHUTDOWN_SECONDS (%s)",
			o.HostDrain, o.StationFlush, o.Shutdown)
	}
	return nil
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// onCPU names the setting that asks for the CPU, "" for none.
func (o *Options) onCPU() string {
	switch {
	case o.PreferCPU:
		return "THOTH_STATION_PREFER_CPU"
	case o.Exact:
		return "THOTH_EXACT"
	}
	return ""
}
