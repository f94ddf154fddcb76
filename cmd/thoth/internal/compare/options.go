package compare

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Server is one to ask.
type Server struct {
	Name  string // in the report; default: the address
	URL   string // with or without a trailing /v1
	Model string // default: the first one the server lists
	Key   string // bearer token, "" for none
}

// Options of a run.
type Options struct {
	Servers []Server      // one or two; the first is the one under test
	Only    []string      // areas, or parts of names of cases; default: all
	Timeout time.Duration // of one request; default 1 min
	Log     io.Writer     // progress; default: discarded

	cases []Case // to ask, all of them; others in tests
}

const defaultTimeout = time.Minute

func (o *Options) fill() error {
	if n := len(o.Servers); n < 1 || n > 2 {
		return fmt.Errorf("%d servers to ask; want one or two", n)
	}
	for i := range o.Servers {
		s := &o.Servers[i]
		u, err := url.Parse(s.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("server address %q: want http://host:port or https://host", s.URL)
		}
		s.URL = strings.TrimSuffix(strings.TrimRight(s.URL, "/"), "/v1")
		if s.Name == "" {
			s.Name = u.Host
		}
	}
	if len(o.Servers) == 2 && o.Servers[0].Name == o.Servers[1].Name {
		return fmt.Errorf("both servers have the name %q", o.Servers[0].Name)
	}
	switch {
	case o.Timeout < 0:
		return fmt.Errorf("timeout %s: want a positive one", o.Timeout)
	case o.Timeout == 0:
		o.Timeout = defaultTimeout
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.cases == nil {
		o.cases = Cases()
	}
	for _, only := range o.Only {
		if !slices.ContainsFunc(o.cases, func(c Case) bool { return c.matches(only) }) {
			return fmt.Errorf("no case is of the area, or has in its name, %q", only)
		}
	}
	return nil
}

// chosen are the cases of the options.
func (o *Options) chosen() []Case {
	if len(o.Only) == 0 {
		return o.cases
	}
	return slices.DeleteFunc(slices.Clone(o.cases), func(c Case) bool {
		return !slices.ContainsFunc(o.Only, c.matches)
	})
}

func (c Case) matches(only string) bool { return c.Area == only || strings.Contains(c.Name, only) }
