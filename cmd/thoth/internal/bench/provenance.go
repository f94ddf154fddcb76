package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Provenance says what was measured, where and when: figures without it cannot
// be compared.
type Provenance struct {
	Date        time.Time        `json:"date"`
	Seconds     float64          `json:"seconds"`
	Go          string           `json:"go"`
	OS          string           `json:"os"`
	CPU         string           `json:"cpu"`
	CPUs        int              `json:"cpus"`
	MemoryBytes int64            `json:"memory_bytes"`
	BusyBefore  float64          `json:"busy_before"` // share of all CPUs in use before the run
	StolenShare float64          `json:"stolen"`      // share of CPU time the hypervisor took during the run
	BenchCPU    float64          `json:"bench_cpu"`   // share of one CPU that this program used
	Warnings    []string         `json:"warnings,omitempty"`
	Servers     []ServerIdentity `json:"servers"`
	EngineCmd   string           `json:"engine_cmd,omitempty"`
	Files       []FileIdentity   `json:"files,omitempty"` // programs and weights of servers that the run started
	Store       string           `json:"store,omitempty"` // kind of file system below the cold tiers
}

// ServerIdentity is what a server says of itself.
type ServerIdentity struct {
	Name   string          `json:"name,omitempty"` // of a server that the run started
	URL    string          `json:"url"`
	Model  string          `json:"model"`
	Server string          `json:"server,omitempty"` // header
	Facts  []string        `json:"facts,omitempty"`  // name=value, picked from /health and the model's entry
	Health json.RawMessage `json:"health,omitempty"`
}

// provenance tells of the machine since before.
func provenance(began time.Time, before machine, idle float64) Provenance {
	after := readMachine()
	wall := time.Since(began)
	p := Provenance{
		Date: began.UTC(), Seconds: round(wall.Seconds()), Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: cpuModel(), CPUs: runtime.NumCPU(), MemoryBytes: totalMemory(),
		BusyBefore: round(idle),
		BenchCPU:   round((after.self - before.self).Seconds() / wall.Seconds()),
	}
	if all := after.total - before.total; all > 0 {
		p.StolenShare = round((after.steal - before.steal) / all)
	}
	if p.BusyBefore > 0.1 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("something else used %.0f %% of the machine before the run", 100*p.BusyBefore))
	}
	if p.StolenShare > 0.02 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the hypervisor took %.0f %% of the CPU time", 100*p.StolenShare))
	}
	return p
}

// factNames are the leaves of a server's self-description that the table shows.
var factNames = map[string]bool{
	"build": true, "engine_abi": true, "digest": true, "model_digest": true, "device": true, "selected": true,
	"backend": true, "threads": true, "kv_type_k": true, "context_length": true, "n_ctx": true, "build_info": true,
	"liquid_memory": true, "libraries": true, "version": true,
}

func (s *server) identity(ctx context.Context) ServerIdentity {
	id := ServerIdentity{URL: s.URL, Model: s.Model}
	var health, props any
	header, err := s.getJSON(ctx, "/health", &health)
	if err == nil {
		id.Health, _ = json.Marshal(health)
		id.Facts = facts("", health)
	}
	if header != nil {
		id.Server = header.Get("Server")
	}
	// llama-server tells its build here; others answer 404.
	if _, err := s.getJSON(ctx, "/props", &props); err == nil {
		id.Facts = append(id.Facts, facts("", props)...)
	}
	return id
}

// facts walks a document and gives "path=value" of the known leaves, in order.
func facts(path string, v any) []string {
	m, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	var out []string
	for k, v := range m {
		name := strings.TrimPrefix(path+"."+k, ".")
		if _, deeper := v.(map[string]any); deeper {
			out = append(out, facts(name, v)...)
			continue
		}
		if text := fmt.Sprint(v); factNames[k] && text != "" && v != nil && len(text) < 200 {
			out = append(out, name+"="+text)
		}
	}
	sort.Strings(out)
	return out
}

// machine is a reading of counters.
type machine struct {
	total, idle, steal float64 // of all CPUs, in ticks
	self               time.Duration
}

func readMachine() machine {
	var m machine
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		m.self = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return m
	}
	line, _, _ := strings.Cut(string(b), "\n")
	for i, f := range strings.Fields(line) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || i > 8 { // guest time is part of user time
			continue
		}
		m.total += v
		switch i {
		case 4, 5: // idle, iowait
			m.idle += v
		case 8:
			m.steal += v
		}
	}
	return m
}

// idleCheck watches the machine for a while and gives the share that was busy.
func idleCheck(ctx context.Context, watch time.Duration) float64 {
	a := readMachine()
	select {
	case <-time.After(watch):
	case <-ctx.Done():
	}
	b := readMachine()
	if b.total <= a.total {
		return 0
	}
	return 1 - (b.idle-a.idle)/(b.total-a.total)
}

func cpuModel() string { return procField("/proc/cpuinfo", "model name") }

func totalMemory() int64 {
	kb, _ := strconv.ParseInt(strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	return kb << 10
}

func procField(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if k, v, ok := strings.Cut(sc.Text(), ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
