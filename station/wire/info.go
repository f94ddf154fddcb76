package wire

// Status is the station's state.
type Status string

const (
	StatusLoading  Status = "loading"
	StatusOK       Status = "ok"
	StatusDraining Status = "draining"
	StatusFailed   Status = "failed"
)

// Health answers GET /health. KVSession and DecodeNext are pointers because an
// older station leaves them out, and absent is not the same as false: absent
// calls for the active probe.
type Health struct {
	Status     Status `json:"status"`
	Error      string `json:"error,omitempty"` // when failed: one sentence
	Wire       int    `json:"wire"`
	KVSession  *bool  `json:"kv_session,omitempty"`
	DecodeNext *bool  `json:"decode_next,omitempty"`
	KVReason   string `json:"kv_reason,omitempty"` // why KVSession is false

	// KVTurn: GenerateRequest.KV is built, and KVSession is true.
	KVTurn bool `json:"kv_turn,omitempty"`

	Fork int `json:"fork,omitempty"` // most answers that share one prefill, see Later; 0: forks are not built

	Embeddings *Embeddings `json:"embeddings,omitempty"` // absent while loading, and of an engine that gives none
	Rerank     *Rerank     `json:"rerank,omitempty"`     // likewise

	Build     string  `json:"build"`
	EngineABI string  `json:"engine_abi"`
	Backend   Backend `json:"backend"`

	Cells          int     `json:"cells"`          // KV pool of all sequences
	ContextLength  int     `json:"context_length"` // tokens per sequence
	Sequences      int     `json:"sequences"`      // that may run at once
	KVTypeK        string  `json:"kv_type_k,omitempty"`
	KVTypeV        string  `json:"kv_type_v,omitempty"`
	FlashAttention bool    `json:"flash_attention"`
	LoadProgress   float32 `json:"load_progress"` // [0, 1]
	UptimeSeconds  float64 `json:"uptime_seconds"`
}

// Embeddings says what vectors of texts the station gives by POST /embed.
type Embeddings struct {
	Pooling    string `json:"pooling"`          // how token vectors become one: mean, cls or last; "" when there are none
	Reason     string `json:"reason,omitempty"` // why there are none
	Dimensions int    `json:"dimensions"`
	MaxTokens  int    `json:"max_tokens"`     // of one text
	MaxInputs  int    `json:"max_inputs"`     // texts of one request
	Only       bool   `json:"only,omitempty"` // the model is an encoder: nothing else is offered
}

// Rerank says whether the station scores documents by POST /rerank.
type Rerank struct {
	Scores       bool   `json:"scores"`
	Reason       string `json:"reason,omitempty"`        // why it does not
	MaxTokens    int    `json:"max_tokens,omitempty"`    // of a query and a document, with what stands around both
	MaxDocuments int    `json:"max_documents,omitempty"` // of one request
}

// Backend says what computes, what was asked for, and why they differ.
type Backend struct {
	Requested string   `json:"requested"` // "auto", "cuda", "cpu"
	Selected  string   `json:"selected"`  // "cuda", "cpu"
	Device    string   `json:"device"`
	Libraries []string `json:"libraries,omitempty"` // file names of the backend libraries in use
	Driver    string   `json:"driver,omitempty"`
	Runtime   string   `json:"runtime,omitempty"`
	Features  []string `json:"features,omitempty"` // instruction sets in use
	Threads   int      `json:"threads"`
	Slow      bool     `json:"slow,omitempty"` // the baseline kernels, by THOTH_ALLOW_SLOW_CPU
	Reason    string   `json:"reason,omitempty"`
	Errors    []string `json:"errors,omitempty"` // libraries that failed to load, and why
}

// Model answers GET /model.
type Model struct {
	Name         string        `json:"name"`             // general.name of the GGUF, or the file's base name
	File         string        `json:"file"`             // base name only: no path leaves the station
	Digest       string        `json:"digest,omitempty"` // sha256 of the file, hex; of a split model, that of its files' digests; empty while it is computed
	Architecture string        `json:"architecture"`
	Description  string        `json:"description"`
	Parameters   uint64        `json:"parameters"`
	SizeBytes    uint64        `json:"size_bytes"`
	Vocabulary   int           `json:"vocabulary"`
	Embedding    int           `json:"embedding"`
	Layers       int           `json:"layers"`
	ContextTrain int           `json:"context_train"`
	KVBytesToken int           `json:"kv_bytes_per_token"`
	KVCut        bool          `json:"kv_cut"` // whether a sequence's KV can be cut at any position
	KVCutReason  string        `json:"kv_cut_reason,omitempty"`
	ChatTemplate string        `json:"chat_template,omitempty"`
	Special      SpecialTokens `json:"special"`
}

// SpecialTokens are ids of the vocabulary, -1 where the model has none, and
// the texts a chat template may ask for.
type SpecialTokens struct {
	BOS     int32   `json:"bos"`
	EOS     int32   `json:"eos"`
	EOT     int32   `json:"eot"`
	PAD     int32   `json:"pad"`
	EOG     []int32 `json:"eog"` // all tokens that end an answer
	BOSText string  `json:"bos_text,omitempty"`
	EOSText string  `json:"eos_text,omitempty"`
	AddBOS  bool    `json:"add_bos"`
}

// Stats answers GET /stats: the same numbers as /metrics, for people.
type Stats struct {
	Status         Status  `json:"status"`
	UptimeSeconds  float64 `json:"uptime_seconds"`
	Steps          uint64  `json:"steps"`
	PromptTokens   uint64  `json:"prompt_tokens"`
	DecodedTokens  uint64  `json:"decoded_tokens"`
	Requests       uint64  `json:"requests"`
	Cancelled      uint64  `json:"cancelled"`
	Failed         uint64  `json:"failed"`
	DecodeFailures uint64  `json:"decode_failures"`
	Compactions    uint64  `json:"compactions"`
	CompactionMS   float64 `json:"compaction_ms"`
	Swaps          uint64  `json:"swaps"`          // sequences moved to RAM because the pool was full
	DroppedTokens  uint64  `json:"dropped_tokens"` // whose KV found no room there and is evaluated again
	Aborts         uint64  `json:"aborts"`
	EmbedTexts     uint64  `json:"embed_texts"`  // whose vectors were made
	EmbedTokens    uint64  `json:"embed_tokens"` // evaluated for them
	EmbedFailures  uint64  `json:"embed_failures"`

	Running      int   `json:"running"`       // sequences in the batch
	Waiting      int   `json:"waiting"`       // requests not yet started
	EmbedWaiting int   `json:"embed_waiting"` // requests for vectors that have not all of theirs
	Swapped      int   `json:"swapped"`       // sequences parked in RAM until there is room
	SwappedBytes int64 `json:"swapped_bytes"` // of their KV
	Sessions     int   `json:"sessions"`      // staged sessions alive
	Cells        int   `json:"cells"`
	CellsUsed    int   `json:"cells_used"` // live
	CellsDead    int   `json:"cells_dead"` // ballast, until the next compaction
	Threads      int   `json:"threads"`
	RSSBytes     int64 `json:"rss_bytes"`
	Goroutines   int   `json:"goroutines"`

	KV *KVIndex `json:"kv,omitempty"` // absent when the station saves no KV sessions
}
