package bench

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Target is one server to measure.
type Target struct {
	URL   string // with or without a trailing /v1
	Key   string // bearer token, "" for none
	Model string // default: the first one the server lists
}

// Options of a run.
type Options struct {
	Targets   []Target // one or two; the first is the one under test
	EngineCmd string   // shell command that prints the bare engine's figures as JSON; "" for none

	Rounds       int           // measured rounds; default 3
	Warmup       int           // unmeasured requests per target; default 1
	Tokens       int           // answer length in the clients' cohorts; default 64
	StreamTokens int           // answer length of the one-stream cohort; default 128
	ColdTokens   int           // prompt length of the cold cohort, in tokens; default 718
	Clients      []int         // default 1, 4, 16
	Cohorts      []string      // which of "stream", "cold", "clients"; default all
	Timeout      time.Duration // of one request; default 10 min

	Log io.Writer // progress; default: discarded

	idleWatch time.Duration // how long the machine is watched before the run, 1 s; shorter in tests
}

// The groups of cohorts that Options.Cohorts chooses from.
const (
	groupStream  = "stream"
	groupCold    = "cold"
	groupClients = "clients"
)

func (o *Options) fill() error {
	if n := len(o.Targets); n < 1 || n > 2 {
		return fmt.Errorf("%d servers to measure; want one or two", n)
	}
	for i, t := range o.Targets {
		u, err := url.Parse(t.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("server address %q: want http://host:port or https://host", t.URL)
		}
		o.Targets[i].URL = strings.TrimSuffix(strings.TrimRight(t.URL, "/"), "/v1")
	}
	for _, v := range []struct {
		name    string
		p       *int
		def, at int
	}{
		{"rounds", &o.Rounds, 3, 1000}, {"tokens", &o.Tokens, 64, 100_000}, {"stream tokens", &o.StreamTokens, 128, 100_000},
		{"cold tokens", &o.ColdTokens, 718, 1_000_000},
	} {
		if *v.p == 0 {
			*v.p = v.def
		}
		if *v.p < 1 || *v.p > v.at {
			return fmt.Errorf("%s %d: want 1 to %d", v.name, *v.p, v.at)
		}
	}
	if o.StreamTokens < 2 {
		return fmt.Errorf("stream tokens %d: want at least 2, since the first one is not decode", o.StreamTokens)
	}
	if o.Warmup < 0 || o.Warmup > 1000 {
		return fmt.Errorf("warmup %d: want 0 to 1000", o.Warmup)
	}
	if len(o.Clients) == 0 {
		o.Clients = []int{1, 4, 16}
	}
	for _, n := range o.Clients {
		if n < 1 || n > 4096 {
			return fmt.Errorf("clients %d: want 1 to 4096", n)
		}
	}
	all := []string{groupStream, groupCold, groupClients}
	if len(o.Cohorts) == 0 {
		o.Cohorts = all
	}
	for _, c := range o.Cohorts {
		if !slices.Contains(all, c) {
			return fmt.Errorf("cohort %q: want one of %s", c, strings.Join(all, ", "))
		}
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Minute
	}
	if o.Timeout < 0 {
		return fmt.Errorf("timeout %s: want a positive time", o.Timeout)
	}
	if o.idleWatch == 0 {
		o.idleWatch = time.Second
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	return nil
}
