package bench

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"thoth/station/client"
)

// peerName is the peer's in the report; other instances are named by their part.
const peerName = "peer"

// notInherited are settings of the caller's environment that would change what
// is measured. All others (threads, batch, KV type) reach the servers.
var notInherited = []string{
	"FAT_STATION_URL", "THOTH_STATION_EXTERNAL", "PORT", "THOTH_API_KEYS", "THOTH_API_KEYS_FILE", "THOTH_ADMIN_KEYS", "THOTH_ADMIN_KEYS_FILE",
	"THOTH_LIQUID_MEMORY", "THOTH_LIQUID_WARM", "THOTH_KV_STORE", "THOTH_MODEL_NAME",
}

// launcher starts servers and owns them until close.
type launcher struct {
	entrypoint, model string
	peerCommand       string // "" without a peer
	peerPort          int
	limit             time.Duration // of a request
	startLimit        time.Duration // until ready
	switchLimit       time.Duration // from there until liquid memory is in its state
	dir               string        // of sockets and stores; removed by close

	started []*instance
	sockets int
	seen    []ServerIdentity // of each name the first
}

// instance is one life of a server.
type instance struct {
	*server
	name    string
	process *process
	station *client.Client // beside the host; nil for the peer
	readyIn time.Duration  // from the start of the process
}

func newLauncher(o *LiquidOptions) (*launcher, error) {
	dir, err := os.MkdirTemp(o.Dir, "thoth-bench-")
	if err != nil {
		return nil, err
	}
	return &launcher{entrypoint: o.Entrypoint, model: o.Model, peerCommand: o.PeerCommand, peerPort: o.PeerPort,
		limit: o.Timeout, startLimit: o.StartTimeout, switchLimit: o.switchWait, dir: dir}, nil
}

// close stops what still runs and removes the folder.
func (l *launcher) close() error {
	var errs []error
	for len(l.started) > 0 {
		errs = append(errs, l.stop(l.started[len(l.started)-1]))
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}

// storeURL names a cold tier of this run.
func (l *launcher) storeURL(name string) string { return "file://" + filepath.Join(l.dir, name) }

// thoth starts an entrypoint with its two children, and waits until it is ready
// and liquid memory is in the wanted state.
func (l *launcher) thoth(ctx context.Context, name string, liquid bool, settings ...string) (*instance, error) {
	l.sockets++
	socket := filepath.Join(l.dir, strconv.Itoa(l.sockets)+".sock") // short: paths of sockets are bounded
	cmd := exec.Command(l.entrypoint)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		n, _, _ := strings.Cut(kv, "=")
		return slices.Contains(notInherited, n)
	})
	cmd.Env = append(cmd.Env, "THOTH_MODEL="+l.model, "THOTH_LISTEN=127.0.0.1:0", "THOTH_STATION_LISTEN=unix://"+socket,
		"THOTH_LIQUID_MEMORY="+strconv.FormatBool(liquid))
	cmd.Env = append(cmd.Env, settings...)

	var url atomic.Pointer[string]
	var ready atomic.Bool
	in, err := l.start(ctx, name, cmd, func(line string) {
		if rest, ok := strings.CutPrefix(line, "listening on "); ok {
			u, _, _ := strings.Cut(rest, ",")
			url.Store(&u)
		}
		if strings.HasPrefix(line, "ready:") {
			ready.Store(true)
		}
	}, func(context.Context) string {
		if u := url.Load(); u != nil && ready.Load() {
			return *u
		}
		return ""
	})
	if err != nil {
		return nil, err
	}
	if in.station, err = client.New("unix://"+socket, client.Options{}); err == nil {
		err = in.liquidIs(ctx, l.switchLimit, liquid)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, errors.Join(err, l.stop(in)))
	}
	return in, nil
}

// peer starts the other server by its command.
func (l *launcher) peer(ctx context.Context) (*instance, error) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(l.peerPort))
	// Or the figures would be those of somebody else's server.
	if c, err := net.DialTimeout("tcp", address, time.Second); err == nil {
		c.Close()
		return nil, fmt.Errorf("%s: something listens on %s already; choose another port", peerName, address)
	}
	cmd := exec.Command("sh", "-c", strings.ReplaceAll(l.peerCommand, "{port}", strconv.Itoa(l.peerPort)))
	probe := newServer(Target{URL: "http://" + address}, l.limit)
	defer probe.http.CloseIdleConnections()
	return l.start(ctx, peerName, cmd, func(string) {}, func(ctx context.Context) string {
		if _, err := probe.getJSON(ctx, "/health", new(any)); err != nil {
			return ""
		}
		return probe.URL
	})
}

// start runs cmd, waits until ready gives its address, and warms it: what only a
// first request pays for is not what is measured.
func (l *launcher) start(ctx context.Context, name string, cmd *exec.Cmd, line func(string), ready func(context.Context) string) (*instance, error) {
	began := time.Now()
	p, err := startProcess(cmd, line)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	in := &instance{name: name, process: p}
	l.started = append(l.started, in)
	var url string
	err = p.waitFor(ctx, l.startLimit, "ready", func(ctx context.Context) bool {
		url = ready(ctx)
		return url != ""
	})
	if err == nil {
		in.readyIn = time.Since(began)
		in.server = newServer(Target{URL: url}, l.limit)
		if err = in.chooseModel(ctx); err == nil {
			_, err = in.ask(ctx, question{prompt: warmupPrompt, maxTokens: 16})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, errors.Join(err, l.stop(in)))
	}
	if !slices.ContainsFunc(l.seen, func(s ServerIdentity) bool { return s.Name == name }) {
		id := in.identity(ctx)
		id.Name = name
		l.seen = append(l.seen, id)
	}
	return in, nil
}

// stop ends an instance and waits for it, so that what it writes down is written.
func (l *launcher) stop(in *instance) error {
	l.started = slices.DeleteFunc(l.started, func(x *instance) bool { return x == in })
	if in.server != nil {
		in.http.CloseIdleConnections()
	}
	if in.station != nil {
		in.station.Close()
	}
	died := in.process.alive()
	if err := errors.Join(died, in.process.stop()); err != nil {
		return fmt.Errorf("%s: %w", in.name, err)
	}
	// The supervisor ends with 0 when it could stop everything in time.
	if code := in.process.cmd.ProcessState.ExitCode(); in.name != peerName && code != 0 {
		return fmt.Errorf("%s: it ended with status %d after SIGTERM; %s", in.name, code, in.process.tail)
	}
	return nil
}

// liquidIs waits until the server says so: its probe may end after it is ready.
func (in *instance) liquidIs(ctx context.Context, limit time.Duration, want bool) error {
	var health struct {
		LiquidMemory bool   `json:"liquid_memory"`
		Reason       string `json:"liquid_reason"`
	}
	err := in.process.waitFor(ctx, limit, fmt.Sprintf("with liquid memory %v", want), func(ctx context.Context) bool {
		_, err := in.getJSON(ctx, "/health", &health)
		return err == nil && health.LiquidMemory == want
	})
	if err != nil && health.Reason != "" {
		return fmt.Errorf("liquid memory is off: %s", health.Reason)
	}
	return err
}

// FileIdentity tells which file it was.
type FileIdentity struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// files identifies the programs that were started, and the weights.
func (l *launcher) files() []FileIdentity {
	bin := filepath.Dir(l.entrypoint)
	paths := []string{l.entrypoint, filepath.Join(bin, "openai-server"), filepath.Join(bin, "fat-station"), l.model}
	for _, word := range strings.Fields(l.peerCommand) { // the program is the first word that is one
		if p, err := exec.LookPath(strings.Trim(word, `'"`)); err == nil {
			paths = append(paths, p)
			break
		}
	}
	var out []FileIdentity
	for _, p := range paths {
		if id, err := identify(p); err == nil {
			out = append(out, id)
		}
	}
	return out
}

func identify(path string) (FileIdentity, error) {
	f, err := os.Open(path)
	if err != nil {
		return FileIdentity{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return FileIdentity{path, hex.EncodeToString(h.Sum(nil)), n}, err
}

// fileSystem is the kind of the one that holds dir; "" where that is not known.
func fileSystem(dir string) string {
	f, err := os.Open("/proc/mounts")
	if err != nil {
		return ""
	}
	defer f.Close()
	kind, longest := "", 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		mount := strings.Fields(sc.Text())
		if len(mount) < 3 {
			continue
		}
		at := strings.TrimSuffix(mount[1], "/")
		if (dir == at || strings.HasPrefix(dir, at+"/")) && len(at) >= longest {
			kind, longest = mount[2], len(at)
		}
	}
	return kind
}
