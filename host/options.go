package host

import (
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"thoth/host/grammar"
	"thoth/host/openai"
	"thoth/host/stored"
	"thoth/liquid"
	"thoth/station/client"
)

// Options of a Server. Only Station is needed; zero values mean the default.
type Options struct {
	Station *client.Client // the station to serve from

	// ModelName is the served name, which answers carry; empty: made from the
	// model's own. Aliases are further names requests may use.
	ModelName string
	Aliases   []string
	// DefaultMaxTokens caps requests that give no cap; 0: up to the context.
	DefaultMaxTokens int
	Limits           openai.Limits
	Grammars         grammar.Limits // of one schema, expression or grammar
	GrammarCache     int            // bytes of finished grammars that are kept; default 16 MiB, negative for none

	APIKeys     []string  // for inference; empty, and no AdminKeys: no key is asked for
	AdminKeys   []string  // may do all that an API key may, and /liquid
	Keys        []Key     // further keys, with scopes and limits of their own
	KeyLimits   KeyLimits // of each key in APIKeys and AdminKeys
	CORSOrigins []string  // origins of browsers, "*" for all; empty: CORS is off

	MaxInFlight int // answers at once, each choice counts; default 64
	MaxBacklog  int // requests that wait for a place; default 256, negative for none

	BodyLimit     int64         // bytes of a request's body; default 8 MiB
	MaxBodyMemory int64         // bytes of the bodies of all requests without a place, half as many more of answers made without one, and of those that left theirs, and of background requests that wait; default 256 MiB
	HeaderTimeout time.Duration // to send a request's header; default 10 s
	BodyTimeout   time.Duration // to send a request's body; default 30 s
	IdleTimeout   time.Duration // of a connection between requests; default 120 s
	WriteTimeout  time.Duration // one write to a client that does not read; default 30 s

	PingInterval   time.Duration // silence of a stream before a comment is sent; default 10 s
	TokenTimeout   time.Duration // silence of the station between tokens; default 60 s
	PrefillTimeout time.Duration // silence of the station before the first token; default 10 min

	HealthInterval time.Duration // between looks at a healthy station; default 2 s
	HealthTimeout  time.Duration // a station that takes longer to say it is well is not; default 5 s
	StallTimeout   time.Duration // unanswered for so long, its requests are given up; default 20 s

	DrainTimeout time.Duration // for requests in flight at the end; default 5 s

	MaxBackground    int // responses under way in the background, a quarter of them of one key; default 64, negative for none
	BackgroundEvents int // bytes of the events that each streamed one of them keeps; default 1 MiB

	LiquidMemory bool                // the setting; see package liquid
	LiquidWarm   []liquid.WarmPrompt // prompts stored whenever the station comes up
	Responses    stored.Options      // where responses are kept; zero: they are not
	LogPrompts   bool                // log prompts and answers: for debugging only
	Log          zerolog.Logger
	Build        string // shown in /health
}

func (o Options) withDefaults() (Options, error) {
	if o.Station == nil {
		return o, fmt.Errorf("host: no station client given")
	}
	ints := []struct {
		v *int
		d int
	}{{&o.MaxInFlight, 64}, {&o.MaxBacklog, 256}, {&o.MaxBackground, 64}, {&o.BackgroundEvents, 1 << 20}}
	for _, f := range ints {
		if *f.v == 0 {
			*f.v = f.d
		}
	}
	o.MaxBacklog, o.MaxBackground = max(o.MaxBacklog, 0), max(o.MaxBackground, 0)
	if o.GrammarCache == 0 {
		o.GrammarCache = 16 << 20
	}
	if o.BodyLimit == 0 {
		o.BodyLimit = 8 << 20
	}
	if o.MaxBodyMemory == 0 {
		o.MaxBodyMemory = max(256<<20, o.BodyLimit)
	}
	times := []struct {
		name string
		v    *time.Duration
		d    time.Duration
	}{
		{"header timeout", &o.HeaderTimeout, 10 * time.Second},
		{"body timeout", &o.BodyTimeout, 30 * time.Second},
		{"idle timeout", &o.IdleTimeout, 120 * time.Second},
		{"write timeout", &o.WriteTimeout, 30 * time.Second},
		{"ping interval", &o.PingInterval, 10 * time.Second},
		{"token timeout", &o.TokenTimeout, 60 * time.Second},
		{"prefill timeout", &o.PrefillTimeout, 10 * time.Minute},
		{"health interval", &o.HealthInterval, 2 * time.Second},
		{"health timeout", &o.HealthTimeout, 5 * time.Second},
		{"stall timeout", &o.StallTimeout, 20 * time.Second},
		{"drain timeout", &o.DrainTimeout, 5 * time.Second},
	}
	for _, f := range times {
		if *f.v < 0 {
			return o, fmt.Errorf("the %s is %s: it must be above 0", f.name, *f.v)
		}
		if *f.v == 0 {
			*f.v = f.d
		}
	}
	if o.MaxInFlight < 1 || o.BodyLimit < 1 || o.DefaultMaxTokens < 0 || o.BackgroundEvents < 1 {
		return o, fmt.Errorf("in-flight limit, body limit, default max tokens and bytes of background events must not be negative")
	}
	if o.MaxBodyMemory < o.BodyLimit {
		return o, fmt.Errorf("the memory for bodies is %d bytes: it must hold at least one body of the largest size, %d", o.MaxBodyMemory, o.BodyLimit)
	}
	seen := map[string]bool{}
	for _, m := range append([]string{o.ModelName}, o.Aliases...) {
		if strings.TrimSpace(m) != m || (m == "" && len(seen) > 0) || seen[m] {
			return o, fmt.Errorf("served model name %q is empty, padded or given twice", m)
		}
		seen[m] = true
	}
	if _, err := o.allKeys(); err != nil {
		return o, err
	}
	o.Limits = o.Limits.WithDefaults()
	return o, nil
}
