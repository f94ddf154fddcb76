package wire

// Version is the wire version this code speaks. A parent refuses a child whose
// handshake names another one.
const Version = 1

// The station's routes.
const (
	RouteHealth     = "/health"
	RouteModel      = "/model"
	RouteTokenize   = "/tokenize"
	RouteDetokenize = "/detokenize"
	RouteGenerate   = "/generate"
	RouteEmbed      = "/embed"
	RouteRerank     = "/rerank"
	RouteForward    = "/forward"
	RouteDecodeNext = "/decode-next"
	RouteKVSession  = "/kv-session" // and the verbs below it
	RouteStats      = "/stats"
	RouteMetrics    = "/metrics"
)

// The verbs of /kv-session, each POST /kv-session/VERB.
const (
	VerbLoad   = "load"
	VerbSave   = "save"
	VerbDelete = "delete"
	VerbLookup = "lookup"
	VerbFlush  = "flush"
)

// Headers of the wire. The session headers are the original contract of
// /kv-session.
const (
	HeaderRequestID    = "X-Request-Id"
	HeaderOwner        = "X-Thoth-Owner" // who owns a session; set by the host per process
	HeaderSessionID    = "X-Session-Id"
	HeaderPrefixLength = "X-Prefix-Length"
)

// ContentTypeStream is the media type of a stream of frames.
const ContentTypeStream = "application/x-ndjson"

// Handshake is the one JSON line a child prints on stdout once it listens.
type Handshake struct {
	Wire      int    `json:"wire"`
	Role      string `json:"role"` // "station" or "host"
	Build     string `json:"build"`
	EngineABI string `json:"engine_abi,omitempty"` // station only
	Address   string `json:"address"`              // http://127.0.0.1:8000 or unix:///path.sock
	Backend   string `json:"backend,omitempty"`    // station only: "cuda" or "cpu"
	PID       int    `json:"pid,omitempty"`
}
