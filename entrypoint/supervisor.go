package entrypoint

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"thoth/internal/listen"
	"thoth/station/client"
	"thoth/station/wire"
)

// Supervisor runs one station and one host. Its own goroutine is the caller of
// [Supervisor.Run].
type Supervisor struct {
	o      Options
	plan   *backendPlan
	output *Output

	listen  string // what the station is told
	socket  string // the socket's path, "" for TCP
	tempDir string // ours to remove

	station *keeper // nil when it runs elsewhere
	host    *keeper

	greeted bool // the ready line was printed; watchHost's

	known      chan struct{} // closed once stationURL is
	mu         sync.Mutex
	stationURL string // what the host is told
}

// New checks options and makes what the children need; it starts nothing.
func New(o Options) (*Supervisor, error) {
	external := o.StationURL != ""
	if external && (o.StationBin != "" || o.StationListen != "") {
		return nil, settingError("FAT_STATION_URL names a station elsewhere, so THOTH_STATION_BIN and THOTH_STATION_LISTEN have no use: unset either")
	}
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Supervisor{o: o, known: make(chan struct{}), output: &Output{Stderr: o.Stderr, Console: o.Console, Log: o.Log}}
	s.host = s.newKeeper(roleHost)
	s.host.spec, s.host.watch = s.hostSpec, s.watchHost
	s.host.replan = func(*Exit) bool { return false }
	if external {
		c, err := client.New(o.StationURL, client.Options{})
		if err != nil {
			return nil, settingError("FAT_STATION_URL: %s", err)
		}
		c.Close()
		s.learn(o.StationURL)
		return s, nil
	}
	var err error
	if s.plan, err = planBackend(o.Backend, o.onCPU(), o.Machine); err != nil {
		return nil, err
	}
	if s.listen = o.StationListen; s.listen == "" {
		s.tempDir, err = s.makeRuntimeDir()
		if err != nil {
			return nil, err
		}
		s.listen = "unix://" + filepath.Join(s.tempDir, socketName)
	}
	address, err := stationURL(s.listen)
	if err != nil {
		return nil, err
	}
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		s.socket = path
	}
	if address != "" {
		s.learn(address)
	}
	s.station = s.newKeeper(roleStation)
	s.station.spec, s.station.watch, s.station.replan = s.stationSpec, s.watchStation, s.replanStation
	return s, nil
}

func (s *Supervisor) makeRuntimeDir() (string, error) {
	if s.o.RuntimeDir != "" {
		return makeRuntimeDir(s.o.RuntimeDir)
	}
	return makeRuntimeDir(envValue(s.o.Env, "XDG_RUNTIME_DIR"), os.TempDir())
}

func (s *Supervisor) newKeeper(name string) *keeper {
	k := &keeper{name: name, log: s.o.Log, maxFails: s.o.MaxFailedStarts, bounceGrace: s.o.HostDrain,
		backoff: backoff{first: s.o.RestartFirst, longest: s.o.RestartLongest, stable: s.o.StableAfter}}
	k.init()
	return k
}

// Run starts everything and returns when all of it has ended: nil after a
// clean stop, else an [*ExitError]. Each signal received means stop; the second
// means at once. It is called once.
func (s *Supervisor) Run(signals <-chan os.Signal) error {
	if s.tempDir != "" {
		defer os.RemoveAll(s.tempDir)
	}
	reaping, stopReaping := context.WithCancel(context.Background())
	var own sync.WaitGroup
	own.Go(func() { reap(reaping, s.o.Log) })
	defer own.Wait()
	defer stopReaping()

	s.logStart()
	var stationEnded <-chan struct{}
	if s.station != nil {
		stationEnded = s.station.ended
		go s.station.run()
	}
	// With a fixed address the host need not wait: the public port opens at
	// once, and start-up probes see a server that is not ready yet.
	known, hostStarted := s.known, false
	for {
		select {
		case <-known:
			known, hostStarted = nil, true
			go s.host.run()
		case sig := <-signals:
			s.o.Log.Info().Str("signal", sig.String()).Dur("within_ms", s.o.Shutdown).Msg("stopping")
			return s.stopAll(signals, hostStarted)
		case <-stationEnded:
			s.o.Log.Error().Err(s.station.err).Msg("the station is lost, stopping")
			_ = s.stopAll(signals, hostStarted)
			return s.station.err
		case <-s.host.ended:
			s.o.Log.Error().Err(s.host.err).Msg("the host is lost, stopping")
			_ = s.stopAll(signals, hostStarted)
			return s.host.err
		}
	}
}

func (s *Supervisor) logStart() {
	if s.plan == nil {
		s.o.Log.Info().Str("station", s.o.StationURL).Msg("using a station that runs elsewhere; starting only the host")
		return
	}
	e := s.o.Log.Info()
	if s.plan.reason != "" && s.o.Backend == BackendAuto && s.plan.cuda.Device != "" {
		e = s.o.Log.Warn() // a GPU is here and will not be used
	}
	e = e.Str("backend", s.plan.backend).Str("requested", s.o.Backend)
	for _, f := range []struct{ name, value string }{
		{"reason", s.plan.reason}, {"driver", s.plan.cuda.Driver}, {"runtime", s.plan.cuda.Runtime},
	} {
		if f.value != "" {
			e = e.Str(f.name, f.value)
		}
	}
	e.Str("station", s.listen).Msg("starting")
}

// stationSpec is the station's next life.
func (s *Supervisor) stationSpec() (Spec, error) {
	if s.socket != "" {
		// One in use may be a station's that is about to end: this one will say
		// so, and be tried again.
		if err := listen.ClearSocket(s.socket); err != nil && !errors.Is(err, listen.ErrInUse) {
			return Spec{}, settingError("THOTH_STATION_LISTEN: %s", err)
		}
	}
	// Not the station's business: PORT is the public port, which an older
	// station would take for itself, and keys are the host's secrets.
	env := withoutEnv(s.o.Env, "PORT", "THOTH_API_KEYS", "THOTH_API_KEYS_FILE", "THOTH_ADMIN_KEYS", "THOTH_ADMIN_KEYS_FILE", "THOTH_RESPONSES_KEY", "FAT_STATION_URL")
	env = append(env, "THOTH_STATION_LISTEN="+s.listen, "THOTH_STATION_FLUSH_SECONDS="+seconds(s.o.StationFlush))
	env = append(env, s.plan.env(s.o.Machine.LDPath)...)
	probe, _ := stationURL(s.listen)
	return Spec{Name: roleStation, Path: s.o.StationBin, PathSetting: "THOTH_STATION_BIN", Env: env,
		HandshakeTimeout: s.o.HandshakeTimeout, LegacyAfter: s.o.LegacyAfter, LegacyURL: probe,
		Output: s.output, Log: s.o.Log}, nil
}

// hostSpec is the host's next life.
func (s *Supervisor) hostSpec() (Spec, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The key of stored KV is the station's secret.
	env := append(withoutEnv(s.o.Env, "THOTH_KV_KEY"), "FAT_STATION_URL="+s.stationURL, "THOTH_HOST_DRAIN_SECONDS="+seconds(s.o.HostDrain))
	return Spec{Name: roleHost, Path: s.o.HostBin, PathSetting: "THOTH_HOST_BIN", Env: env,
		HandshakeTimeout: s.o.HandshakeTimeout, Output: s.output, Log: s.o.Log}, nil
}

// replanStation turns to the CPU when a station on CUDA ended before it served,
// unless the model file is to blame.
func (s *Supervisor) replanStation(e *Exit) bool {
	if e.blamesModel() {
		return false
	}
	why := e.Sentence(roleStation)
	if words := e.lastWords(); words != "" && e.Fault == nil {
		why += ": " + words
	}
	return s.fallBack(why)
}

func (s *Supervisor) fallBack(why string) bool {
	if !s.plan.fall(why) {
		return false
	}
	s.o.Log.Warn().Str("reason", s.plan.reason).Msg("CUDA DOES NOT WORK HERE: the station is started on the CPU")
	return true
}

// watchStation follows a running station until it serves, and then sees that it
// goes on answering.
func (s *Supervisor) watchStation(ctx context.Context, c *Child, served func()) {
	status := c.Status()
	h := status.Handshake
	if h.Backend == BackendCPU && s.plan.backend == BackendCUDA && s.fallBack("the station announced the CPU backend") {
		c.Stop(s.o.StationFlush) // an end that was asked for is followed by the new plan
		return
	}
	s.o.Log.Info().Str("address", h.Address).Str("backend", h.Backend).Str("build", h.Build).
		Int("pid", status.PID).Msg("station listens, loading model")
	s.learn(h.Address)

	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var failed bool
	began, told := time.Now(), time.Now()
	for {
		if health := askHealth(ctx, h.Address, time.Second); health != nil {
			switch health.Status {
			case wire.StatusOK, "": // a legacy station has no status
				s.o.Log.Info().Dur("load_ms", time.Since(began)).Str("backend", health.Backend.Selected).
					Str("device", health.Backend.Device).Str("reason", health.Backend.Reason).Msg("station is ready")
				served()
				if !status.Legacy { // nothing is known of when one of those answers
					s.watchFrozen(ctx, c, h.Address)
				}
				return
			case wire.StatusFailed:
				if !failed {
					failed = true
					s.o.Log.Error().Str("error", health.Error).Msg("the station could not load its model")
					tick.Reset(time.Second)
				}
			case wire.StatusLoading:
				if time.Since(told) > 5*time.Second {
					told = time.Now()
					s.o.Log.Info().Int("percent", int(health.LoadProgress*100)).Msg("loading model")
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// learn takes the station's address: the first starts the host, another one
// (TCP port 0, or a station that ignores the setting) restarts it.
func (s *Supervisor) learn(address string) {
	if u, err := stationURL(strings.TrimPrefix(address, "http://")); err == nil && u != "" {
		address = u // one spelling, or a socket's would look like another address
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if address == s.stationURL {
		return
	}
	first := s.stationURL == ""
	s.stationURL = address
	if first {
		close(s.known)
		return
	}
	s.o.Log.Warn().Str("address", address).Msg("the station has another address now; the host is restarted")
	s.host.Bounce()
}

// envValue is the value of name, the last one given.
func envValue(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

func withoutEnv(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(names, name)
	})
}

func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}

// shownURL is an address as a person would type it.
func shownURL(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "unix" {
		return address
	}
	switch u.Hostname() {
	case "0.0.0.0", "::", "":
		u.Host = "127.0.0.1:" + u.Port()
	}
	return strings.TrimRight(u.String(), "/")
}
