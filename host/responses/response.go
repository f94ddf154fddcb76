package responses

import (
	"cmp"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/openai"
)

// States of a response and, the middle three, of an item.
const (
	StatusQueued     = "queued"
	StatusInProgress = "in_progress"
	StatusCompleted  = "completed"
	StatusIncomplete = "incomplete"
	StatusFailed     = "failed"
	StatusCancelled  = "cancelled"
)

// Response is the response object. Null is what was not asked for, or is not known
// yet.
type Response struct {
	ID                   string            `json:"id"`
	Object               string            `json:"object"`
	CreatedAt            int64             `json:"created_at"`
	Status               string            `json:"status"`
	Background           bool              `json:"background"`
	CompletedAt          *int64            `json:"completed_at"`
	Error                *Failure          `json:"error"`
	IncompleteDetails    *Incomplete       `json:"incomplete_details"`
	Instructions         *string           `json:"instructions"`
	MaxOutputTokens      *int64            `json:"max_output_tokens"`
	MaxToolCalls         *int64            `json:"max_tool_calls"`
	Model                string            `json:"model"`
	Output               []Item            `json:"output"`
	ParallelToolCalls    bool              `json:"parallel_tool_calls"`
	PreviousResponseID   *string           `json:"previous_response_id"`
	PromptCacheKey       *string           `json:"prompt_cache_key"`
	PromptCacheOptions   *CacheOptionsUsed `json:"prompt_cache_options"`
	PromptCacheRetention *string           `json:"prompt_cache_retention"`
	Reasoning            ReasoningUsed     `json:"reasoning"`
	SafetyIdentifier     *string           `json:"safety_identifier"`
	ServiceTier          string            `json:"service_tier"`
	Store                bool              `json:"store"`
	Temperature          float64           `json:"temperature"`
	Text                 TextUsed          `json:"text"`
	ToolChoice           jsontext.Value    `json:"tool_choice"`
	Tools                []ToolUsed        `json:"tools"`
	TopLogprobs          int               `json:"top_logprobs"`
	TopP                 float64           `json:"top_p"`
	Truncation           string            `json:"truncation"`
	Usage                *Usage            `json:"usage"`
	User                 *string           `json:"user"`
	Metadata             map[string]string `json:"metadata"`
	Gnosis               *openai.Gnosis    `json:"_gnosis,omitempty"`

	seals bool // reasoning also goes out as a token
}

// Failure says why a response failed.
type Failure struct {
	Code    string `json:"code"` // server_error, rate_limit_exceeded or invalid_prompt
	Message string `json:"message"`
}

// Incomplete says why a response is not whole.
type Incomplete struct {
	Reason string `json:"reason"` // max_output_tokens
}

// ReasoningUsed is how the model reasoned. Nothing is summarized here, so summary is
// null.
type ReasoningUsed struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// CacheOptionsUsed is prompt_cache_options.
type CacheOptionsUsed struct {
	Mode string  `json:"mode"`
	TTL  *string `json:"ttl"`
	Pin  bool    `json:"pin,omitempty"`
}

// TextUsed is what the text of the response had to be.
type TextUsed struct {
	Format    FormatUsed `json:"format"`
	Verbosity string     `json:"verbosity"`
}

// FormatUsed is text.format; what follows the type is a json_schema's.
type FormatUsed struct {
	Type        string         `json:"type"`
	Name        string         `json:"name,omitempty"`
	Description *string        `json:"description,omitempty"`
	Schema      jsontext.Value `json:"schema,omitempty"`
	Strict      *bool          `json:"strict,omitempty"`
}

// ToolUsed is a tool in the flat form of this API.
type ToolUsed struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description *string        `json:"description"`
	Parameters  jsontext.Value `json:"parameters"`
	Strict      bool           `json:"strict"`
}

// Usage counts tokens.
type Usage struct {
	InputTokens   int           `json:"input_tokens"`
	InputDetails  InputDetails  `json:"input_tokens_details"`
	OutputTokens  int           `json:"output_tokens"`
	OutputDetails OutputDetails `json:"output_tokens_details"`
	TotalTokens   int           `json:"total_tokens"`
}

// InputDetails tells how much of the prompt was reused, and how much newly stored.
type InputDetails struct {
	CachedTokens     int `json:"cached_tokens"`
	CacheWriteTokens int `json:"cache_write_tokens"`
}

// OutputDetails tells how much of the answer was reasoning.
type OutputDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"`
}

// NewUsage is the usage of a chat as this API has it.
func NewUsage(u openai.Usage) *Usage {
	out := &Usage{InputTokens: u.PromptTokens, InputDetails: InputDetails(u.PromptDetails), OutputTokens: u.CompletionTokens, TotalTokens: u.TotalTokens}
	if d := u.CompletionDetails; d != nil {
		out.OutputDetails.ReasoningTokens = d.ReasoningTokens
	}
	return out
}

// New begins the response to a request, and gives the items of its input their ids.
func New(req *Request, id, model string, created time.Time) *Response {
	r := &Response{
		ID: id, Object: "response", CreatedAt: created.Unix(), Status: StatusInProgress, Background: req.Background, Model: model, Output: []Item{},
		ParallelToolCalls: req.Parallel(), PromptCacheKey: req.PromptCacheKey, SafetyIdentifier: req.SafetyIdentifier, ServiceTier: "default",
		Store: req.Store == nil || *req.Store, Temperature: 1, TopP: 1, Text: TextUsed{Format: req.format, Verbosity: cmp.Or(req.Verbosity(), "medium")},
		ToolChoice: jsontext.Value(`"auto"`), Tools: list(req.tools), Truncation: "disabled", User: req.User, Metadata: req.Metadata,
		MaxOutputTokens: (*int64)(req.MaxOutputTokens), MaxToolCalls: (*int64)(req.MaxToolCalls), Instructions: some(req.Instructions), PreviousResponseID: some(req.PreviousID),
		Reasoning: ReasoningUsed{Effort: some(req.Effort())}, seals: req.Wants(IncludeEncrypted),
	}
	identify(req.Input, id)
	if openai.Present(req.RawToolChoice) {
		r.ToolChoice = req.RawToolChoice
	}
	if o := req.PromptCacheOptions; o != nil {
		r.PromptCacheOptions = &CacheOptionsUsed{Mode: "implicit", TTL: o.TTL, Pin: o.Pin}
		if o.Mode != nil {
			r.PromptCacheOptions.Mode = *o.Mode
		}
	}
	if p := req.PromptCacheRetention; p != nil {
		name := strings.ReplaceAll(*p, "-", "_") // it has had two
		r.PromptCacheRetention = &name
	}
	if req.Temperature != nil {
		r.Temperature = *req.Temperature
	}
	if req.TopP != nil {
		r.TopP = *req.TopP
	}
	if req.TopLogprobs != nil {
		r.TopLogprobs = int(*req.TopLogprobs)
	}
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	return r
}

// some is null for "".
func some(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Fail ends a response that could not be finished.
func (r *Response) Fail(e *openai.Error) {
	r.Status, r.Error = StatusFailed, &Failure{Code: failure(e), Message: e.Message}
}

// failure is the reference's word for an error of a response.
func failure(e *openai.Error) string {
	switch status := e.Status(); {
	case status == 429:
		return "rate_limit_exceeded"
	case status < 500:
		return "invalid_prompt"
	}
	return "server_error"
}

// Count answers POST /v1/responses/input_tokens.
type Count struct {
	Object      string `json:"object"`
	InputTokens int    `json:"input_tokens"`
}

// NewCount makes an answer with its object name set.
func NewCount(tokens int) Count { return Count{Object: "response.input_tokens", InputTokens: tokens} }

// Deleted answers DELETE /v1/responses/{id}.
type Deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// NewDeleted makes an answer for the response that was deleted.
func NewDeleted(id string) Deleted { return Deleted{ID: id, Object: "response", Deleted: true} }
