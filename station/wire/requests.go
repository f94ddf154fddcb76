package wire

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
)

// Segment is a piece of prompt text. Only a segment marked Special may turn
// into control tokens, so a user's text never does.
type Segment struct {
	Text    string `json:"text"`
	Special bool   `json:"special,omitempty"`
}

// Prompt is given in exactly one of three forms. Text is one plain segment.
type Prompt struct {
	Text     string    `json:"text,omitempty"`
	Segments []Segment `json:"segments,omitempty"`
	Tokens   []int32   `json:"tokens,omitempty"`

	// AddBOS puts the model's begin-of-sequence token first, where the model
	// asks for one and the prompt does not start with it already. Default true
	// for text and segments; token prompts are taken as they are.
	AddBOS *bool `json:"add_bos,omitempty"`
}

// Sampling says how the next token is chosen. The zero value of a pointer means
// the default named beside it.
type Sampling struct {
	Temperature      *float32          `json:"temperature,omitempty"`       // [0, 2], default 1; 0 is greedy: exact argmax
	TopK             *int              `json:"top_k,omitempty"`             // 0 and up, 0 is off, default 0
	TopP             *float32          `json:"top_p,omitempty"`             // (0, 1], default 1 is off; 0 is taken as greedy
	MinP             *float32          `json:"min_p,omitempty"`             // [0, 1], default 0 is off
	TypicalP         *float32          `json:"typical_p,omitempty"`         // (0, 1], default 1 is off
	RepeatPenalty    *float32          `json:"repeat_penalty,omitempty"`    // (0, 2], default 1 is off; prompt and answer
	RepeatLastN      *int              `json:"repeat_last_n,omitempty"`     // [0, context_length], default 64
	FrequencyPenalty *float32          `json:"frequency_penalty,omitempty"` // [-2, 2], default 0; answer only
	PresencePenalty  *float32          `json:"presence_penalty,omitempty"`  // [-2, 2], default 0; answer only
	LogitBias        map[int32]float32 `json:"logit_bias,omitempty"`        // token id -> [-100, 100]
	Seed             *uint64           `json:"seed,omitempty"`              // absent: random; the done frame tells which
	Grammar          string            `json:"grammar,omitempty"`           // GBNF, start symbol root

	Logprobs    bool `json:"logprobs,omitempty"`     // give each token's log-probability
	TopLogprobs int  `json:"top_logprobs,omitempty"` // [0, 20] alternatives per token
}

// Later holds fields that not every route has, nor every station builds. Each
// answers "unsupported" by name where it is not.
type Later struct {
	// Fork, of GenerateRequest and DecodeRequest, is a number of answers that share
	// one prefill, from 1 to Health.Fork. Answer i is what a call of its own would
	// give with a seed greater by i, or with a seed of its own where none is given.
	// Its frames have Frame.Choice i; each answer has a done frame, and the stream
	// ends after the last of them, or with one error frame for all.
	Fork *int `json:"fork,omitempty"`

	// ForkWidth is how many of them go on at once after their first token; another
	// follows when one has ended. 0: all.
	ForkWidth int `json:"fork_width,omitempty"`

	Priority   *int      `json:"priority,omitempty"`    // lower runs first
	DeadlineMS *int64    `json:"deadline_ms,omitempty"` // give up after so many milliseconds
	Prediction string    `json:"prediction,omitempty"`  // expected answer text, for speculation
	Adapters   []Adapter `json:"adapters,omitempty"`    // LoRA set and scales; groups batches
}

// Answers is the number of answers asked for.
func (l *Later) Answers() int {
	if l.Fork == nil {
		return 1
	}
	return *l.Fork
}

// Adapter is one LoRA adapter of a set.
type Adapter struct {
	Digest string  `json:"digest"`
	Scale  float32 `json:"scale"`
}

// GenerateRequest is the native fast path: prefill and decode in one call.
type GenerateRequest struct {
	Prompt    Prompt   `json:"prompt"`
	Sampling  Sampling `json:"sampling"`
	Stop      []string `json:"stop,omitempty"`       // at most 16, none empty; the earliest match ends the answer
	MaxTokens int      `json:"max_tokens,omitempty"` // 0: up to context_length
	IgnoreEOG bool     `json:"ignore_eog,omitempty"` // go on past end-of-generation tokens (benchmarks)
	Progress  bool     `json:"progress,omitempty"`   // progress frames during prefill

	// ControlText writes control tokens as text, those that end the generation
	// excepted: some model families open a tool call or a channel with one.
	ControlText bool `json:"control_text,omitempty"`

	// KV restores what is stored of the prompt, and saves; see KVTurn.
	KV *KVTurn `json:"kv,omitempty"`
	Later
}

// EmbedRequest stages tokens in a session, a new one when Session is unknown
// and empty. With Input or InputTokens, and nothing else, it asks for the vectors
// of texts instead; a VectorsResponse answers.
type EmbedRequest struct {
	Session string   `json:"session,omitempty"` // "" makes a new one; the answer names it
	Prompt  Prompt   `json:"prompt"`
	Append  bool     `json:"append,omitempty"` // append to an existing session's tokens (no BOS is added then)
	Input   []string `json:"input,omitempty"`

	// InputTokens are texts as tokens. What the model wants around a text is put
	// there where it is missing.
	InputTokens [][]int32 `json:"input_tokens,omitempty"`
	Later
}

// RerankRequest asks how relevant each document is to the query.
type RerankRequest struct {
	Query     string   `json:"query"`
	Documents []string `json:"documents"`
	Later
}

// RerankResponse gives a score for each document, in order: the model's logit, any
// number, the higher the more relevant. Its logistic function is a probability.
type RerankResponse struct {
	Scores   []float64 `json:"scores"`
	Tokens   []int     `json:"tokens"`    // of each pair, what the model wants around it included
	QueueMS  float64   `json:"queue_ms"`  // to the first batch that had a pair of these
	EngineMS float64   `json:"engine_ms"` // of the batches that had one
}

// VectorsResponse gives a text's vector each, in order.
type VectorsResponse struct {
	Vectors    []Vector `json:"vectors"`
	Tokens     []int    `json:"tokens"` // of each text, what the model wants around it included
	Dimensions int      `json:"dimensions"`
	Pooling    string   `json:"pooling"`
	QueueMS    float64  `json:"queue_ms"`  // to the first batch that had a text of these
	EngineMS   float64  `json:"engine_ms"` // of the batches that had one
}

// Vector is a pooled vector, not normalised. In JSON it is the base64 of its
// numbers as float32, little-endian: exact, and a third of their decimal form.
type Vector []float32

// MarshalJSON implements json.Marshaler.
func (v Vector) MarshalJSON() ([]byte, error) {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	out := make([]byte, 0, 2+base64.StdEncoding.EncodedLen(len(raw)))
	out = append(out, '"')
	out = base64.StdEncoding.AppendEncode(out, raw)
	return append(out, '"'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *Vector) UnmarshalJSON(b []byte) error {
	var raw []byte
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	if len(raw)%4 != 0 {
		return fmt.Errorf("a vector of %d bytes is none of float32 numbers", len(raw))
	}
	*v = make(Vector, len(raw)/4)
	for i := range *v {
		(*v)[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return nil
}

// EmbedResponse names the session and the ids of the tokens just staged.
type EmbedResponse struct {
	Session  string  `json:"session"`
	Tokens   []int32 `json:"tokens"`   // those just staged
	Position int     `json:"position"` // tokens evaluated so far
	Staged   int     `json:"staged"`   // tokens staged and not yet evaluated
}

// ForwardRequest evaluates staged tokens of a session.
type ForwardRequest struct {
	Session     string `json:"session"`
	Count       int    `json:"count,omitempty"`        // 0: all that are staged
	Logprobs    bool   `json:"logprobs,omitempty"`     // log-probability of each evaluated token given those before it
	TopLogprobs int    `json:"top_logprobs,omitempty"` // [0, 20]
	Stream      bool   `json:"stream,omitempty"`       // answer as a stream with progress frames
	Later
}

// ForwardResponse tells where the session stands. Logprobs has one entry per
// evaluated token; the first token of a sequence has no distribution before
// it, so its entry has Logprob 0 and no Top.
type ForwardResponse struct {
	Session   string         `json:"session"`
	Position  int            `json:"position"`
	Remaining int            `json:"remaining"`
	Evaluated int            `json:"evaluated"`
	QueueMS   float64        `json:"queue_ms"`
	PrefillMS float64        `json:"prefill_ms"`
	EngineMS  float64        `json:"engine_ms"` // of PrefillMS, what the engine's decode calls took
	Logprobs  []TokenLogprob `json:"logprobs,omitempty"`
}

// DecodeRequest samples up to N tokens from a session. The first call of a
// session's turn brings Sampling; later calls without it go on with the same
// sampler state. The last sampled token of a call is evaluated too, unless the
// call releases the session or leaves that token staged.
//
// With Fork the session goes on with answer 0. Each other answer gets a session
// of its own, named in its done frame and the caller's from then on, unless the
// call releases or there are too many sessions; a caller who goes away before the
// last frame loses them. A fork needs Sampling.
type DecodeRequest struct {
	Session   string    `json:"session"`
	Sampling  *Sampling `json:"sampling,omitempty"`
	N         int       `json:"n,omitempty"` // tokens; 0: up to context_length
	Stop      []string  `json:"stop,omitempty"`
	IgnoreEOG bool      `json:"ignore_eog,omitempty"`
	LeaveLast bool      `json:"leave_last,omitempty"` // the last sampled token stays staged: the call ends a batch earlier
	Release   bool      `json:"release,omitempty"`    // end the session with this call

	ControlText bool `json:"control_text,omitempty"` // as in GenerateRequest
	Later
}

// TokenizeRequest asks for the tokens of a prompt.
type TokenizeRequest struct {
	Prompt Prompt `json:"prompt"`
	Pieces bool   `json:"pieces,omitempty"` // also each token's bytes
}

// TokenizeResponse gives ids and, if asked, each token's bytes (base64 in JSON:
// a token need not be valid UTF-8).
type TokenizeResponse struct {
	Tokens []int32  `json:"tokens"`
	Pieces [][]byte `json:"pieces,omitempty"`
}

// DetokenizeRequest asks for the text of tokens.
type DetokenizeRequest struct {
	Tokens  []int32 `json:"tokens"`
	Special bool    `json:"special,omitempty"` // write control tokens as text instead of leaving them out
}

// DetokenizeResponse is the text; bytes that are not UTF-8 become U+FFFD.
type DetokenizeResponse struct {
	Text string `json:"text"`
}
