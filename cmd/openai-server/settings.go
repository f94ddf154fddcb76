package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"thoth/host"
	"thoth/host/openai"
	"thoth/internal/build"
	"thoth/liquid"
)

// settings are the flags; each has one environment variable.
type settings struct {
	Listen     string `env:"THOTH_LISTEN" placeholder:"ADDRESS" help:"Where to listen: HOST:PORT or unix:///path.sock. Wins over PORT. Default 127.0.0.1:8080."`
	Port       string `env:"PORT" placeholder:"PORT" help:"Listen on this port of all addresses (0.0.0.0), as platforms ask for; 1 to 65535."`
	StationURL string `env:"FAT_STATION_URL" default:"http://127.0.0.1:8000" placeholder:"URL" help:"The station: http://host:port or unix:///path.sock."`

	ModelName        string   `env:"THOTH_MODEL_NAME" placeholder:"NAME" help:"Served model name. Default: made from the model's own."`
	ModelAliases     []string `env:"THOTH_MODEL_ALIASES" placeholder:"NAME,..." help:"Further names requests may use."`
	DefaultMaxTokens int      `env:"THOTH_DEFAULT_MAX_TOKENS" default:"0" help:"Token cap of requests that give none; 0: up to the context."`

	APIKeys       []string `name:"api-keys" env:"THOTH_API_KEYS" placeholder:"KEY,..." help:"API keys; none, and no admin key: no key is asked for. A process list shows flags: use the variable or the file."`
	APIKeysFile   string   `name:"api-keys-file" env:"THOTH_API_KEYS_FILE" placeholder:"FILE" help:"File with one API key a line; # starts a comment line. Or a JSON array of keys with names, scopes and limits: docs/deploy.md. Adds to the keys above."`
	AdminKeys     []string `name:"admin-keys" env:"THOTH_ADMIN_KEYS" placeholder:"KEY,..." help:"Keys that may also look at and delete what liquid memory stores, and pin; none: nobody may. With one set, every request needs a key."`
	AdminKeysFile string   `name:"admin-keys-file" env:"THOTH_ADMIN_KEYS_FILE" placeholder:"FILE" help:"File with one admin key a line; # starts a comment line. Adds to the admin keys above."`

	KeyRequestsPerMinute  int `env:"THOTH_KEY_REQUESTS_PER_MINUTE" default:"0" help:"Requests to the model that each key may send in a minute; more get 429. 0: no limit. A key of the JSON file may have its own."`
	KeyTokensPerMinute    int `env:"THOTH_KEY_TOKENS_PER_MINUTE" default:"0" help:"Tokens of prompts and answers that each key may use in a minute, counted when a request ends. 0: no limit."`
	KeyConcurrentRequests int `env:"THOTH_KEY_CONCURRENT_REQUESTS" default:"0" help:"Requests to the model that each key may have in flight or waiting. 0: no limit."`

	CORSOrigins []string `name:"cors-origins" env:"THOTH_CORS_ORIGINS" placeholder:"ORIGIN,..." help:"Origins whose pages may call, * for all. Default: none."`

	MaxInFlight   int   `env:"THOTH_MAX_IN_FLIGHT" default:"64" help:"Answers at once; each choice of a request counts."`
	MaxBacklog    int   `env:"THOTH_MAX_BACKLOG" default:"256" help:"Requests that wait for a place; more get 429. 0: none wait."`
	MaxChoices    int   `env:"THOTH_MAX_CHOICES" default:"16" help:"Largest n of a request."`
	MaxAnswers    int   `env:"THOTH_MAX_ANSWERS" default:"64" help:"Most answers of a completion: prompts times best_of."`
	MaxMessages   int   `env:"THOTH_MAX_MESSAGES" default:"4096" help:"Most messages of a request."`
	MaxParts      int   `env:"THOTH_MAX_PARTS" default:"16384" help:"Most content parts, content blocks and tool calls of all messages of a request together."`
	MaxStops      int   `env:"THOTH_MAX_STOPS" default:"16" help:"Most stop strings of a request; 16 at most."`
	MaxStopBytes  int   `env:"THOTH_MAX_STOP_BYTES" default:"1024" help:"Longest stop string in bytes."`
	MaxTools      int   `env:"THOTH_MAX_TOOLS" default:"128" help:"Most tools of a request."`
	MaxLogitBias  int   `env:"THOTH_MAX_LOGIT_BIAS" default:"1024" help:"Most entries of logit_bias."`
	MaxJSONDepth  int   `name:"max-json-depth" env:"THOTH_MAX_JSON_DEPTH" default:"128" help:"Deepest nesting of arrays and objects in a request body; 8 at least."`
	MaxBodyBytes  int64 `env:"THOTH_MAX_BODY_BYTES" default:"8388608" help:"Largest request body."`
	MaxBodyMemory int64 `env:"THOTH_MAX_BODY_MEMORY" default:"268435456" help:"Bytes of the bodies of all requests that have no place yet; more get 429. At least one largest body. Answers about text, embeddings and ranks may take half as much until they are read, and so may those of the model; one that finds no room keeps its place. What waits in the background may hold half as much beside it."`

	HeaderTimeout  time.Duration `env:"THOTH_HEADER_TIMEOUT" default:"10s" help:"A request's header must arrive within this time."`
	BodyTimeout    time.Duration `env:"THOTH_BODY_TIMEOUT" default:"30s" help:"A request's body must arrive within this time."`
	IdleTimeout    time.Duration `env:"THOTH_IDLE_TIMEOUT" default:"120s" help:"Connections without a request are closed after it."`
	WriteTimeout   time.Duration `env:"THOTH_WRITE_TIMEOUT" default:"30s" help:"A client that does not read for so long is dropped."`
	PingInterval   time.Duration `env:"THOTH_PING_INTERVAL" default:"10s" help:"A stream silent for so long gets a comment line."`
	TokenTimeout   time.Duration `env:"THOTH_TOKEN_TIMEOUT" default:"60s" help:"A station silent for so long between tokens fails the request."`
	PrefillTimeout time.Duration `env:"THOTH_PREFILL_TIMEOUT" default:"10m" help:"The same before the first token; its progress counts as a sign of life."`
	HealthInterval time.Duration `env:"THOTH_HEALTH_INTERVAL" default:"2s" help:"Time between looks at a healthy station."`
	HealthTimeout  time.Duration `env:"THOTH_HEALTH_TIMEOUT" default:"5s" help:"A station that takes longer to answer a look is not ready."`
	StallTimeout   time.Duration `env:"THOTH_STALL_TIMEOUT" default:"20s" help:"A station that answers no look for so long fails its requests."`
	DrainSeconds   float64       `env:"THOTH_HOST_DRAIN_SECONDS" default:"5" help:"On SIGTERM, how long requests may go on."`

	MaxBackground        int `env:"THOTH_MAX_BACKGROUND" default:"64" help:"Responses under way in the background, a quarter of them of one key; more get 429. They have at most half of the places. 0: none are made there."`
	BackgroundEventBytes int `env:"THOTH_BACKGROUND_EVENT_BYTES" default:"1048576" help:"Bytes of its events that each streamed response in the background keeps in memory, for clients that come back."`

	LiquidMemory bool   `env:"THOTH_LIQUID_MEMORY" default:"true" negatable:"" help:"Reuse the KV of prompt prefixes seen before, where the station can; off: every request is computed in full. /health says whether it is on, or why not."`
	LiquidWarm   string `env:"THOTH_LIQUID_WARM" placeholder:"FILE" help:"JSON file of prompts that are stored whenever the station comes up, before anybody asks: [{\"name\", \"messages\", \"pin\", \"ttl\", \"key_sha256\"}]."`

	Responses responsesFlags `embed:""`

	LogLevel   string `env:"THOTH_LOG_LEVEL" default:"info" enum:"trace,debug,info,warn,error" help:"Least level that is logged (${enum}); debug shows probes too."`
	LogFormat  string `env:"THOTH_LOG_FORMAT" default:"auto" enum:"auto,json,console" help:"Log format (${enum}); auto is console on a terminal, else JSON."`
	LogPrompts bool   `env:"THOTH_LOG_PROMPTS" help:"Log prompts and answers. They are people's words: for debugging only."`

	Version bool `help:"Print version and wire version, and end."`
}

const defaultListen = "127.0.0.1:8080"

// The station takes no more stop strings, and a plain chat with tools is nested
// as deep as this.
const (
	maxStops     = 16
	minJSONDepth = 8
)

// listen is the network and address to listen on.
func (s *settings) listen() (network, address string, err error) {
	if s.Listen != "" {
		if path, ok := strings.CutPrefix(s.Listen, "unix://"); ok {
			if !strings.HasPrefix(path, "/") {
				return "", "", fmt.Errorf("THOTH_LISTEN is %q: a socket is written unix:///absolute/path.sock", s.Listen)
			}
			return "unix", path, nil
		}
		if _, port, err := net.SplitHostPort(s.Listen); err != nil || !validPort(port, 0) {
			return "", "", fmt.Errorf("THOTH_LISTEN is %q: it must be HOST:PORT with a port from 0 to 65535, or unix:///path.sock", s.Listen)
		}
		return "tcp", s.Listen, nil
	}
	if s.Port == "" {
		return "tcp", defaultListen, nil
	}
	if !validPort(s.Port, 1) {
		return "", "", fmt.Errorf("PORT is %q: it must be a number from 1 to 65535 (for any free port: THOTH_LISTEN=127.0.0.1:0)", s.Port)
	}
	return "tcp", net.JoinHostPort("0.0.0.0", s.Port), nil
}

func validPort(s string, least int) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= least && n <= 65535
}

// options makes the host's options; errors name the variable.
func (s *settings) options(log zerolog.Logger) (host.Options, error) {
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"THOTH_MAX_IN_FLIGHT", float64(s.MaxInFlight)}, {"THOTH_BACKGROUND_EVENT_BYTES", float64(s.BackgroundEventBytes)}, {"THOTH_MAX_CHOICES", float64(s.MaxChoices)}, {"THOTH_MAX_ANSWERS", float64(s.MaxAnswers)},
		{"THOTH_MAX_MESSAGES", float64(s.MaxMessages)}, {"THOTH_MAX_PARTS", float64(s.MaxParts)}, {"THOTH_MAX_BODY_BYTES", float64(s.MaxBodyBytes)},
		{"THOTH_MAX_BODY_MEMORY", float64(s.MaxBodyMemory)}, {"THOTH_MAX_STOPS", float64(s.MaxStops)},
		{"THOTH_MAX_STOP_BYTES", float64(s.MaxStopBytes)}, {"THOTH_MAX_TOOLS", float64(s.MaxTools)},
		{"THOTH_MAX_LOGIT_BIAS", float64(s.MaxLogitBias)}, {"THOTH_MAX_JSON_DEPTH", float64(s.MaxJSONDepth)},
		{"THOTH_HEADER_TIMEOUT", s.HeaderTimeout.Seconds()}, {"THOTH_BODY_TIMEOUT", s.BodyTimeout.Seconds()},
		{"THOTH_IDLE_TIMEOUT", s.IdleTimeout.Seconds()}, {"THOTH_WRITE_TIMEOUT", s.WriteTimeout.Seconds()},
		{"THOTH_PING_INTERVAL", s.PingInterval.Seconds()}, {"THOTH_TOKEN_TIMEOUT", s.TokenTimeout.Seconds()},
		{"THOTH_PREFILL_TIMEOUT", s.PrefillTimeout.Seconds()}, {"THOTH_HEALTH_INTERVAL", s.HealthInterval.Seconds()},
		{"THOTH_HEALTH_TIMEOUT", s.HealthTimeout.Seconds()}, {"THOTH_STALL_TIMEOUT", s.StallTimeout.Seconds()},
		{"THOTH_HOST_DRAIN_SECONDS", s.DrainSeconds},
	} {
		if !(f.value > 0) {
			return host.Options{}, fmt.Errorf("%s is %v: it must be above 0", f.name, f.value)
		}
	}
	if s.MaxBodyMemory < s.MaxBodyBytes {
		return host.Options{}, fmt.Errorf("THOTH_MAX_BODY_MEMORY is %d: it must be at least THOTH_MAX_BODY_BYTES (%d)", s.MaxBodyMemory, s.MaxBodyBytes)
	}
	if s.MaxBacklog < 0 || s.DefaultMaxTokens < 0 || s.MaxBackground < 0 {
		return host.Options{}, fmt.Errorf("THOTH_MAX_BACKLOG, THOTH_DEFAULT_MAX_TOKENS and THOTH_MAX_BACKGROUND must not be negative")
	}
	// None; an option's own zero means its default.
	backlog, background := s.MaxBacklog, s.MaxBackground
	if backlog == 0 {
		backlog = -1
	}
	if background == 0 {
		background = -1
	}
	if s.MaxStops > maxStops || s.MaxJSONDepth < minJSONDepth {
		return host.Options{}, fmt.Errorf("THOTH_MAX_STOPS is %d and THOTH_MAX_JSON_DEPTH is %d: allowed are 1 to %d, and %d and up", s.MaxStops, s.MaxJSONDepth, maxStops, minJSONDepth)
	}
	keys, err := s.keys()
	if err != nil {
		return host.Options{}, err
	}
	var warm []liquid.WarmPrompt
	if s.LiquidWarm != "" {
		if warm, err = liquid.ReadWarm(s.LiquidWarm); err != nil {
			return host.Options{}, fmt.Errorf("THOTH_LIQUID_WARM: %w", err)
		}
	}
	responses, err := s.Responses.options(log)
	if err != nil {
		return host.Options{}, err
	}
	station, err := newClient(s.StationURL)
	if err != nil {
		return host.Options{}, fmt.Errorf("FAT_STATION_URL: %w", err)
	}
	return host.Options{
		Station:          station,
		ModelName:        s.ModelName,
		Aliases:          s.ModelAliases,
		DefaultMaxTokens: s.DefaultMaxTokens,
		Limits:           openai.Limits{Depth: s.MaxJSONDepth, Choices: s.MaxChoices, Answers: s.MaxAnswers, Messages: s.MaxMessages, Parts: s.MaxParts, Stops: s.MaxStops, StopBytes: s.MaxStopBytes, LogitBias: s.MaxLogitBias, Tools: s.MaxTools},
		APIKeys:          keys.inference,
		AdminKeys:        keys.admin,
		Keys:             keys.named,
		KeyLimits:        keys.limits,
		CORSOrigins:      s.CORSOrigins,
		MaxInFlight:      s.MaxInFlight,
		MaxBacklog:       backlog,
		BodyLimit:        s.MaxBodyBytes,
		MaxBodyMemory:    s.MaxBodyMemory,
		HeaderTimeout:    s.HeaderTimeout,
		BodyTimeout:      s.BodyTimeout,
		IdleTimeout:      s.IdleTimeout,
		WriteTimeout:     s.WriteTimeout,
		PingInterval:     s.PingInterval,
		TokenTimeout:     s.TokenTimeout,
		PrefillTimeout:   s.PrefillTimeout,
		HealthInterval:   s.HealthInterval,
		HealthTimeout:    s.HealthTimeout,
		StallTimeout:     s.StallTimeout,
		DrainTimeout:     time.Duration(s.DrainSeconds * float64(time.Second)),
		MaxBackground:    background,
		BackgroundEvents: s.BackgroundEventBytes,
		LiquidMemory:     s.LiquidMemory,
		LiquidWarm:       warm,
		Responses:        responses,
		LogPrompts:       s.LogPrompts,
		Log:              log,
		Build:            build.Version(),
	}, nil
}
