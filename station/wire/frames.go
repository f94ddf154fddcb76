package wire

// FrameType tells the frames of a stream apart.
type FrameType string

const (
	FrameText      FrameType = "text"
	FrameProgress  FrameType = "progress"
	FrameRestored  FrameType = "restored"  // of a KVTurn: before anything of the prompt is evaluated
	FrameEvaluated FrameType = "evaluated" // of a KVTurn: before the first token
	FrameDone      FrameType = "done"
	FrameError     FrameType = "error"
)

// Frame is one line of a stream.
type Frame struct {
	Type   FrameType `json:"type"`
	Choice int       `json:"choice,omitempty"` // which answer of a fork it belongs to

	// Text is whole UTF-8 characters. It may lag behind Tokens: text that could
	// become a stop string is held back. Tokens are the ids sampled since the
	// last frame; a frame may carry tokens and no text.
	Text     string         `json:"text,omitempty"`
	Tokens   []int32        `json:"tokens,omitempty"`
	Logprobs []TokenLogprob `json:"logprobs,omitempty"` // of tokens whose text has left

	Progress *Progress        `json:"progress,omitempty"`
	Restored *KVRestored      `json:"restored,omitempty"`
	Done     *Done            `json:"done,omitempty"`
	Forward  *ForwardResponse `json:"forward,omitempty"` // of an evaluated frame, and of the done frame of a streamed /forward
	Error    *Error           `json:"error,omitempty"`
}

// TokenLogprob is a token, its bytes and its natural log-probability under the
// model's own distribution (before temperature, penalties and bias).
type TokenLogprob struct {
	ID      int32          `json:"id"`
	Bytes   []byte         `json:"bytes"` // base64 in JSON
	Logprob float32        `json:"logprob"`
	Top     []TokenLogprob `json:"top,omitempty"` // most likely first
}

// Progress tells how far a waiting request is. Queue is the number of requests
// ahead of it, 0 once it runs.
type Progress struct {
	Queue    int `json:"queue"`
	Position int `json:"position"`
	Total    int `json:"total"`
}

// Reason says why an answer ended.
type Reason string

const (
	ReasonStop   Reason = "stop"   // a stop string, named in Done.StopString
	ReasonEOG    Reason = "eog"    // the model ended its turn
	ReasonLength Reason = "length" // max_tokens or context_length
)

// Done ends an answer that went well, and with it the stream, where it is the
// only one or the last of a fork.
type Done struct {
	Reason           Reason  `json:"reason"`
	StopString       string  `json:"stop_string,omitempty"`
	PromptTokens     int     `json:"prompt_tokens"`     // position before the first sampled token
	CompletionTokens int     `json:"completion_tokens"` // sampled, the end-of-generation token not counted
	Seed             uint64  `json:"seed"`              // the seed used
	Session          string  `json:"session,omitempty"`
	Position         int     `json:"position,omitempty"` // tokens of KV the session now has, the end-of-generation token included; 0 when it was released
	Timings          Timings `json:"timings"`

	// Of a KVTurn: what was saved. The prompt's save is in the done frame of answer 0;
	// the answer's is absent where nothing of it was to be kept.
	KVPrompt *KVSaveResponse `json:"kv_prompt,omitempty"`
	KVAnswer *KVSaveResponse `json:"kv_answer,omitempty"`
}

// Timings in milliseconds. TTFTMS runs from the request's arrival at the
// station to its first sampled token.
type Timings struct {
	QueueMS         float64 `json:"queue_ms"`
	TokenizeMS      float64 `json:"tokenize_ms"`
	PrefillMS       float64 `json:"prefill_ms"`
	TTFTMS          float64 `json:"ttft_ms"`
	EngineMS        float64 `json:"engine_ms"` // of TTFTMS, what the engine itself took: decode and sample calls
	DecodeMS        float64 `json:"decode_ms"`
	TokensPerSecond float64 `json:"tokens_per_second"` // of decode, first token excluded; 0 below two tokens
}
