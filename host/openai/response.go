package openai

import (
	"strings"

	"thoth/station/wire"
)

// Values of the object fields.
const (
	objectCompletion = "chat.completion"
	objectChunk      = "chat.completion.chunk"
)

// Head is what every answer and every chunk of a request has in common.
type Head struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint"`
	ServiceTier string `json:"service_tier,omitempty"` // where the request named one
}

// Completion is a whole answer.
type Completion struct {
	Head
	Choices []Choice `json:"choices"`
	Usage   Usage    `json:"usage"`
	Gnosis  *Gnosis  `json:"_gnosis,omitempty"`
}

// NewCompletion makes an answer with its object name set.
func NewCompletion(h Head, choices []Choice, u Usage, g *Gnosis) *Completion {
	h.Object = objectCompletion
	return &Completion{Head: h, Choices: choices, Usage: u, Gnosis: g}
}

// Choice is one of an answer's choices.
type Choice struct {
	Index        int             `json:"index"`
	Message      AnswerMessage   `json:"message"`
	Logprobs     *ChoiceLogprobs `json:"logprobs"`
	FinishReason string          `json:"finish_reason"`
}

// AnswerMessage is the assistant's message. Content is null only beside calls.
type AnswerMessage struct {
	Role             string       `json:"role"`
	Content          *string      `json:"content"`
	Refusal          *string      `json:"refusal"`
	ReasoningContent string       `json:"reasoning_content,omitempty"`
	ToolCalls        []AnswerCall `json:"tool_calls,omitempty"`
}

// AnswerCall is a call the model made. In a stream's chunk it has an Index and
// only what is new.
type AnswerCall struct {
	Index    *int           `json:"index,omitempty"`
	ID       string         `json:"id,omitempty"`
	Type     string         `json:"type,omitempty"`
	Function AnswerFunction `json:"function"`
}

// AnswerFunction names the function; Arguments is the text of a JSON object.
type AnswerFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// NewAnswerCall opens a call.
func NewAnswerCall(id, name string) AnswerCall {
	return AnswerCall{ID: id, Type: typeFunction, Function: AnswerFunction{Name: name}}
}

const typeFunction = "function"

// Usage counts tokens; prompt tokens count once, whatever n is.
type Usage struct {
	PromptTokens      int                `json:"prompt_tokens"`
	CompletionTokens  int                `json:"completion_tokens"`
	TotalTokens       int                `json:"total_tokens"`
	PromptDetails     PromptDetails      `json:"prompt_tokens_details"`
	CompletionDetails *CompletionDetails `json:"completion_tokens_details,omitempty"` // of models that reason
}

// CompletionDetails tells how many of the completion's tokens were reasoning.
type CompletionDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"`
}

// PromptDetails tells how much of the prompt was reused, and how much of the
// conversation was newly stored.
type PromptDetails struct {
	CachedTokens     int `json:"cached_tokens"`
	CacheWriteTokens int `json:"cache_write_tokens"`
}

// Add counts one choice that ended.
func (u *Usage) Add(d *wire.Done) {
	u.PromptTokens = d.PromptTokens
	u.CompletionTokens += d.CompletionTokens
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
}

// ChoiceLogprobs is the logprobs object of a choice or chunk.
type ChoiceLogprobs struct {
	Content []TokenLogprob `json:"content"`
	Refusal *struct{}      `json:"refusal"` // always null
}

// TokenLogprob is one token of the answer with its alternatives.
type TokenLogprob struct {
	alternative
	Top []alternative `json:"top_logprobs"`
}

// alternative is a token, its log-probability and its bytes: a token need not
// be whole UTF-8, so Token may hold U+FFFD where Bytes has the truth.
type alternative struct {
	Token   string  `json:"token"`
	Logprob float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// lowestLogprob stands for minus infinity, which JSON cannot hold; OpenAI's value.
const lowestLogprob = -9999

func newAlternative(t wire.TokenLogprob) alternative {
	b := make([]int, len(t.Bytes))
	for i, c := range t.Bytes {
		b[i] = int(c)
	}
	return alternative{Token: strings.ToValidUTF8(string(t.Bytes), "\ufffd"), Logprob: max(t.Logprob, lowestLogprob), Bytes: b}
}

// ModelList answers GET /v1/models.
type ModelList struct {
	Object string  `json:"object"`
	Data   []Model `json:"data"`
}

// Model is one served name.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// Gnosis tells what happened: which path served the request, what liquid memory
// did, and where the time went. It is the _gnosis object of an answer.
type Gnosis struct {
	LiquidMemory       string   `json:"liquid_memory"` // hit, miss, capture_failed, disabled or bypass
	LiquidKVSaved      bool     `json:"liquid_kv_saved"`
	LiquidMissReason   *string  `json:"liquid_miss_reason"`
	LiquidPrefixTokens int      `json:"liquid_prefix_tokens"`
	LiquidTokensByTier ByTier   `json:"liquid_tokens_by_tier"`
	LiquidSavedTokens  int      `json:"liquid_saved_tokens"`
	LiquidDurable      bool     `json:"liquid_durable"`
	Path               string   `json:"path"` // liquid or native
	Timings            Timings  `json:"timings"`
	Station            *Station `json:"station,omitempty"`
	RequestID          string   `json:"request_id"`
}

// ByTier splits restored tokens by where they came from.
type ByTier struct {
	Hot  int `json:"hot"`
	Warm int `json:"warm"`
	Cold int `json:"cold"`
}

// Timings in milliseconds. TTFTMS runs from the request's arrival at the host to
// the first token; the slowest choice counts for the others.
type Timings struct {
	QueueMS         float64 `json:"queue_ms"`  // host backlog and station queue
	PromptMS        float64 `json:"prompt_ms"` // template and tokens
	LoadMS          float64 `json:"load_ms"`   // KV restored
	PrefillMS       float64 `json:"prefill_ms"`
	EngineMS        float64 `json:"engine_ms"` // of ttft_ms, spent inside the engine
	TTFTMS          float64 `json:"ttft_ms"`
	DecodeMS        float64 `json:"decode_ms"`
	TokensPerSecond float64 `json:"tokens_per_second"`
}

// Station names what computed the answer.
type Station struct {
	Build   string `json:"build"`
	Backend string `json:"backend"`
}
