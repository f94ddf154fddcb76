// Command fakechild plays a station or a host that misbehaves on request. It
// is started as either by the tests of the entrypoint; its flags come from the
// command line, and from FAKE_STATION or FAKE_HOST by the name it is run under.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	role       = flag.String("role", "", "station or host")
	listen     = flag.String("listen", "", "listen here instead of where the environment says")
	journal    = flag.String("journal", os.Getenv("FAKE_JOURNAL"), "append events to this file")
	first      = flag.Int("first", 0, "misbehave in the first so many lives only, by the journal; 0: in all")
	version    = flag.Int("wire", 1, "wire version of the handshake")
	announce   = flag.String("announce-role", "", "role in the handshake")
	slow       = flag.Duration("slow", 0, "wait before listening")
	load       = flag.Duration("load", 0, "say loading for so long")
	deaf       = flag.Bool("deaf", false, "hang after SIGTERM too: answer no look at /health; SIGUSR1 makes it hang at once")
	stall      = flag.Bool("stall", false, "never listen, never speak")
	silent     = flag.Bool("silent", false, "listen, but print no handshake")
	legacy     = flag.Bool("legacy", false, "silent, and /health is only {}")
	garbage    = flag.Bool("garbage", false, "lines that are no handshake, before and after it")
	ignoreTerm = flag.Bool("ignore-term", false, "ignore SIGTERM")
	drain      = flag.Duration("drain", 0, "take so long to end on SIGTERM")
	exit       = flag.Int("exit", -1, "end with this code before the handshake")
	die        = flag.Duration("die", 0, "end so long after the handshake")
	dieCode    = flag.Int("die-code", 3, "exit code of -die; negative: that signal, sent to itself")
	say        = flag.String("say", "", "a line for stderr before anything else")
	flood      = flag.Int("flood", 0, "bytes for stderr before anything else")
	backend    = flag.String("backend", os.Getenv("THOTH_BACKEND"), "backend of the handshake")
	noCUDA     = flag.Bool("no-cuda", false, "end with code 72 when told to use CUDA")
	orphan     = flag.Duration("orphan", 0, "leave a grandchild in a session of its own, which lives so long")
	helper     = flag.Bool("helper", false, "keep a child of its own in its group")
	sleeper    = flag.Duration("sleeper", 0, "only sleep (what -orphan and -helper start)")
	keys       = flag.Bool("keys", false, "as a host, ask for an API key")
	env        = flag.String("env", "", "write the environment to this file")
)

var hung atomic.Bool // no look at /health is answered any more

func main() {
	name := filepath.Base(os.Args[0])
	flags := map[string]string{"fat-station": "FAKE_STATION", "openai-server": "FAKE_HOST"}[name]
	args := append(strings.Fields(os.Getenv(flags)), os.Args[1:]...)
	if err := flag.CommandLine.Parse(args); err != nil {
		os.Exit(2)
	}
	if *sleeper > 0 {
		time.Sleep(*sleeper)
		return
	}
	if *role == "" {
		*role = map[string]string{"fat-station": "station", "openai-server": "host"}[name]
	}
	terms := make(chan os.Signal, 8)
	if *ignoreTerm {
		signal.Ignore(syscall.SIGTERM)
	} else {
		signal.Notify(terms, syscall.SIGTERM)
	}
	hang := make(chan os.Signal, 1)
	signal.Notify(hang, syscall.SIGUSR1)
	go func() { <-hang; hung.Store(true) }()
	note("start")
	if *env != "" {
		must(os.WriteFile(*env, []byte(strings.Join(os.Environ(), "\n")), 0o600))
	}
	bad := *first == 0 || lives() <= *first
	if *say != "" {
		fmt.Fprintln(os.Stderr, strings.ReplaceAll(*say, "_", " "))
	}
	writeFlood(*flood)
	if bad && *exit >= 0 {
		os.Exit(*exit)
	}
	if *noCUDA && os.Getenv("THOTH_BACKEND") == "cuda" {
		fmt.Fprintln(os.Stderr, "CUDA driver version is insufficient")
		os.Exit(72)
	}
	if bad && *stall {
		select {}
	}
	grandchildren()
	if !wait(*slow, terms) {
		return
	}
	serve()
	var dying <-chan time.Time
	if bad && *die > 0 {
		dying = time.After(*die)
	}
	select {
	case <-dying:
		if *dieCode < 0 {
			must(syscall.Kill(os.Getpid(), syscall.Signal(-*dieCode)))
			select {}
		}
		os.Exit(*dieCode)
	case <-terms:
		note("term")
		hung.Store(hung.Load() || *deaf)
		time.Sleep(*drain) // the time a real one needs to drain or flush
		note("end")
	}
}

// serve listens, answers the few routes the entrypoint asks for, and speaks.
func serve() {
	ln, address := bind()
	ready := time.Now().Add(*load)
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if hung.Load() {
			select {}
		}
		switch {
		case *role == "host":
			fmt.Fprint(w, `{"status":"ok","models":["locked"]}`)
		case *legacy:
			fmt.Fprint(w, `{}`)
		case time.Now().Before(ready):
			fmt.Fprint(w, `{"status":"loading","load_progress":0.5,"wire":1}`)
		default:
			fmt.Fprintf(w, `{"status":"ok","wire":%d}`, *version)
		}
	})
	var stationOK atomic.Bool
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if stationOK.Load() || stationHealth() {
			stationOK.Store(true)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		if *keys {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprint(w, `{"data":[{"id":"it's fake"}]}`)
	})
	go func() { must(http.Serve(ln, mux)) }()
	note("listen " + address)
	if *garbage {
		fmt.Println("warming up")
		fmt.Println(`{"level":"info","message":"a log line"}`)
		fmt.Println(`{"wire":`)
		fmt.Println(strings.Repeat("x", 200<<10))
	}
	if *silent || *legacy {
		return
	}
	r := *role
	if *announce != "" {
		r = *announce
	}
	line, err := json.Marshal(map[string]any{"wire": *version, "role": r, "build": "fake", "address": address, "backend": *backend, "pid": os.Getpid()})
	must(err)
	fmt.Println(string(line))
	if *garbage {
		fmt.Println(`{"wire":99,"role":"station","address":"http://192.0.2.1:1"}`)
		fmt.Println("bye")
	}
}

func bind() (net.Listener, string) {
	where := *listen
	if where == "" && *role == "station" {
		where = os.Getenv("THOTH_STATION_LISTEN")
	}
	if where == "" {
		where = "127.0.0.1:" + os.Getenv("PORT")
	}
	if path, ok := strings.CutPrefix(where, "unix://"); ok {
		ln, err := net.Listen("unix", path)
		must(err)
		return ln, "unix://" + path
	}
	ln, err := net.Listen("tcp", where)
	must(err)
	return ln, "http://" + ln.Addr().String()
}

// stationHealth asks the station behind this host, as a real one would.
func stationHealth() bool {
	url := os.Getenv("FAT_STATION_URL")
	c := http.Client{Timeout: time.Second}
	if path, ok := strings.CutPrefix(url, "unix://"); ok {
		c.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}
		url = "http://station"
	}
	resp, err := c.Get(url + "/health")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var h struct{ Status string }
	return json.NewDecoder(resp.Body).Decode(&h) == nil && h.Status != "loading"
}

func grandchildren() {
	start := func(d time.Duration, own bool) {
		c := exec.Command("/proc/self/exe", "-sleeper", d.String())
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: own}
		must(c.Start())
		note("grandchild " + strconv.Itoa(c.Process.Pid))
	}
	if *orphan > 0 {
		// A middleman ends at once, so that the grandchild loses its parent.
		if os.Getenv("FAKE_MIDDLEMAN") != "" {
			start(*orphan, true)
			os.Exit(0)
		}
		c := exec.Command("/proc/self/exe", os.Args[1:]...)
		c.Args[0] = os.Args[0]
		c.Env = append(os.Environ(), "FAKE_MIDDLEMAN=1")
		must(c.Run())
	}
	if *helper {
		start(time.Hour, false)
	}
}

func wait(d time.Duration, terms <-chan os.Signal) bool {
	select {
	case <-time.After(d):
		return true
	case <-terms:
		note("term")
		return false
	}
}

func writeFlood(n int) {
	w := bufio.NewWriter(os.Stderr)
	for i := 0; n > 0; i++ {
		c, _ := fmt.Fprintf(w, "flood line %d %s\n", i, strings.Repeat("z", 80))
		n -= c
	}
	must(w.Flush())
}

// note appends an event to the journal, which every life of both children shares.
func note(event string) {
	if *journal == "" {
		return
	}
	f, err := os.OpenFile(*journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	_, err = fmt.Fprintf(f, "%s %d %s\n", *role, os.Getpid(), event)
	must(err)
	must(f.Close())
}

// lives counts this role's starts, this one included.
func lives() (n int) {
	b, err := os.ReadFile(*journal)
	must(err)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); f[0] == *role && f[2] == "start" {
			n++
		}
	}
	return n
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakechild:", err)
		os.Exit(1)
	}
}
