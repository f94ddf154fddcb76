package hostbench

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/host"
	"thoth/host/stored"
	"thoth/internal/gcfloor"
	"thoth/station/client"
)

var profile = flag.String("hostprofile", "", "write a CPU profile of the last host to this file")

// settings are what a host process is started with.
type settings struct {
	Station    string // its address
	Liquid     bool
	Relay      bool   // no host at all: bytes are handed on between client and station
	Store      string // folder for responses; "": they are not kept
	StoreBytes int64  // of all of them, and of one; 0: the defaults
	Profile    string
}

// inHost is set, to the settings as JSON, in the environment of a host process.
const inHost = "HOSTBENCH_HOST"

// key is what the clients send. Its limits are on, and too high to be met.
const key = "sk-hostbench"

var limits = host.KeyLimits{RequestsPerMinute: 1 << 30, TokensPerMinute: 1 << 30, ConcurrentRequests: 1 << 20}

func TestMain(m *testing.M) {
	if s := os.Getenv(inHost); s != "" {
		if err := beHost(s); err != nil {
			fmt.Fprintln(os.Stderr, "host process:", err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	stores.remove()
	os.Exit(code)
}

// usage is what a host process has used so far.
type usage struct {
	Address    string `json:",omitempty"` // in the first line only
	CPU        time.Duration
	HeapBytes  uint64 // in use, and the number of their objects
	Objects    uint64
	AllBytes   uint64 // ever allocated, and the number of their objects
	AllObjects uint64
	Goroutines int
}

func (u *usage) read(collect bool) error {
	if collect {
		// What a finalizer lets go is free after the next collection, and a pool's
		// content after the one behind it.
		for range 3 {
			runtime.GC()
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.HeapBytes, u.Objects, u.AllBytes, u.AllObjects = m.HeapAlloc, m.HeapObjects, m.TotalAlloc, m.Mallocs
	u.Goroutines = runtime.NumGoroutine()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return err
	}
	u.CPU = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	return nil
}

// beHost is the host process: it serves, and tells a usage for each line it reads,
// after a collection where the line is "collect". It ends with its stdin.
func beHost(given string) error {
	var set settings
	if err := json.Unmarshal([]byte(given), &set); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	gcfloor.Hold(host.HeapFloor) // as the program does
	var s server = &relay{station: strings.TrimPrefix(set.Station, "unix://")}
	if !set.Relay {
		if s, err = newHost(set); err != nil {
			return err
		}
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	if set.Profile != "" {
		f, err := os.Create(set.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(usage{Address: "http://" + ln.Addr().String()}); err != nil {
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var u usage
		if err := u.read(in.Text() == "collect"); err != nil {
			return err
		}
		if err := out.Encode(u); err != nil {
			return err
		}
	}
	if err := s.Close(); err != nil {
		return err
	}
	return <-served
}

// server is what serves in a host process.
type server interface {
	Serve(net.Listener) error
	Close() error
}

func newHost(set settings) (server, error) {
	c, err := client.New(set.Station, client.Options{Owner: "hostbench"})
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a line of the log costs its system call
	if err != nil {
		return nil, err
	}
	s, err := host.New(host.Options{Station: c, APIKeys: []string{key}, KeyLimits: limits, LiquidMemory: set.Liquid,
		Log: zerolog.New(log).With().Timestamp().Logger(), Responses: stored.Options{Address: set.Store, BudgetBytes: set.StoreBytes, RecordBytes: set.StoreBytes}})
	if err != nil {
		return nil, err
	}
	s.Start()
	return s, nil
}

// process is a host process as the test sees it.
type process struct {
	t    testing.TB
	base string
	in   *os.File
	out  *json.Decoder
}

func startHost(t testing.TB, set settings) *process {
	t.Helper()
	set.Profile = *profile
	b, err := json.Marshal(set)
	require.NoError(t, err)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), inHost+"="+string(b))
	c.Stderr = os.Stderr
	stdout, err := c.StdoutPipe()
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	c.Stdin = r
	require.NoError(t, c.Start())
	require.NoError(t, r.Close())
	p := &process{t: t, in: w, out: json.NewDecoder(bufio.NewReader(stdout))}
	t.Cleanup(func() {
		_ = w.Close()
		require.NoError(t, c.Wait())
	})
	var first usage
	require.NoError(t, p.out.Decode(&first))
	p.base = first.Address
	return p
}

func (p *process) usage(line string) (u usage) {
	p.t.Helper()
	_, err := fmt.Fprintln(p.in, line)
	require.NoError(p.t, err)
	require.NoError(p.t, p.out.Decode(&u))
	return u
}

// used is the usage so far; settled is that with nothing in the heap but what is
// in use.
func (p *process) used() usage    { return p.usage("usage") }
func (p *process) settled() usage { return p.usage("collect") }

// ready waits until the host serves.
func (p *process) ready() {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		resp, err := http.Get(p.base + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, 20*time.Second, 5*time.Millisecond)
}
