package openai

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"thoth/station/wire"
)

// Code is the closed vocabulary of the public API's errors.
type Code string

// The codes, grouped by who has to act.
const (
	CodeInvalidJSON    Code = "invalid_json"          // the body is not JSON, or not UTF-8
	CodeInvalidType    Code = "invalid_type"          // a field has the wrong JSON type
	CodeInvalidValue   Code = "invalid_value"         // a field is out of range or inconsistent
	CodeMissing        Code = "missing_required"      // a required field is absent
	CodeUnsupported    Code = "unsupported_parameter" // a known field this build refuses
	CodeTemplate       Code = "template_refused"      // the model's chat template refuses these messages
	CodeContextLength  Code = "context_length_exceeded"
	CodeModelNotFound  Code = "model_not_found"
	CodeInvalidKey     Code = "invalid_api_key"
	CodePermission     Code = "insufficient_permissions" // the key is valid, and of another kind
	CodeNotFound       Code = "not_found"
	CodePrevious       Code = "previous_response_not_found"
	CodeMethod         Code = "method_not_allowed"
	CodeTooLarge       Code = "request_too_large"
	CodeMediaType      Code = "unsupported_media_type"
	CodeRequestTimeout Code = "request_timeout"     // the client was too slow in sending
	CodeSlowReader     Code = "client_too_slow"     // and in reading: what it has not read is no longer held
	CodeOverloaded     Code = "overloaded"          // in flight and backlog are full
	CodeRateLimit      Code = "rate_limit_exceeded" // a limit of the key
	CodeBackground     Code = "background_limit_exceeded"
	CodeLoading        Code = "model_loading"
	CodeUnavailable    Code = "station_unavailable"
	CodeDraining       Code = "draining"
	CodeStore          Code = "store_unavailable" // the store of responses cannot be read or written
	CodeTimeout        Code = "station_timeout"   // the station stopped making progress
	CodeEngine         Code = "engine_failed"
	CodeBadTemplate    Code = "chat_template_broken" // the model cannot chat: its template does not work
	CodeCancelled      Code = "client_closed_request"
	CodeInternal       Code = "internal_error"
)

// The error types OpenAI's clients know.
const (
	typeInvalid   = "invalid_request_error"
	typeRateLimit = "rate_limit_error"
	typeServer    = "server_error"
)

// table is the only place that knows a code's status and type.
var table = map[Code]struct {
	status int
	kind   string
}{
	CodeInvalidJSON:    {http.StatusBadRequest, typeInvalid},
	CodeInvalidType:    {http.StatusBadRequest, typeInvalid},
	CodeInvalidValue:   {http.StatusBadRequest, typeInvalid},
	CodeMissing:        {http.StatusBadRequest, typeInvalid},
	CodeUnsupported:    {http.StatusBadRequest, typeInvalid},
	CodeTemplate:       {http.StatusBadRequest, typeInvalid},
	CodeContextLength:  {http.StatusBadRequest, typeInvalid},
	CodeModelNotFound:  {http.StatusNotFound, typeInvalid},
	CodeInvalidKey:     {http.StatusUnauthorized, typeInvalid},
	CodePermission:     {http.StatusForbidden, typeInvalid},
	CodeNotFound:       {http.StatusNotFound, typeInvalid},
	CodePrevious:       {http.StatusBadRequest, typeInvalid},
	CodeMethod:         {http.StatusMethodNotAllowed, typeInvalid},
	CodeTooLarge:       {http.StatusRequestEntityTooLarge, typeInvalid},
	CodeMediaType:      {http.StatusUnsupportedMediaType, typeInvalid},
	CodeRequestTimeout: {http.StatusRequestTimeout, typeInvalid},
	CodeSlowReader:     {http.StatusRequestTimeout, typeInvalid},
	CodeOverloaded:     {http.StatusTooManyRequests, typeRateLimit},
	CodeRateLimit:      {http.StatusTooManyRequests, typeRateLimit},
	CodeBackground:     {http.StatusTooManyRequests, typeRateLimit},
	CodeLoading:        {http.StatusServiceUnavailable, typeServer},
	CodeUnavailable:    {http.StatusServiceUnavailable, typeServer},
	CodeDraining:       {http.StatusServiceUnavailable, typeServer},
	CodeStore:          {http.StatusServiceUnavailable, typeServer},
	CodeTimeout:        {http.StatusGatewayTimeout, typeServer},
	CodeEngine:         {http.StatusInternalServerError, typeServer},
	CodeBadTemplate:    {http.StatusServiceUnavailable, typeServer},
	CodeCancelled:      {499, typeInvalid}, // nobody reads it but the log
	CodeInternal:       {http.StatusInternalServerError, typeServer},
}

// wireCodes maps the station's vocabulary into ours. CodeNoRoute and the
// session codes are faults between host and station, not the client's.
var wireCodes = map[wire.Code]Code{
	wire.CodeInvalid:       CodeInvalidValue,
	wire.CodeUnsupported:   CodeUnsupported,
	wire.CodeContextLength: CodeContextLength,
	wire.CodeTooLarge:      CodeTooLarge,
	wire.CodeOverloaded:    CodeOverloaded,
	wire.CodeLoading:       CodeLoading,
	wire.CodeDraining:      CodeUnavailable,
	wire.CodeUnavailable:   CodeUnavailable,
	wire.CodeEngine:        CodeEngine,
	wire.CodeTimeout:       CodeTimeout,
	wire.CodeCancelled:     CodeCancelled,
}

// wireParams names a field of the wire as the public API calls it.
var wireParams = map[string]string{
	"prompt":                     "messages",
	"max_tokens":                 "max_tokens",
	"stop":                       "stop",
	"sampling.temperature":       "temperature",
	"sampling.top_k":             "top_k",
	"sampling.top_p":             "top_p",
	"sampling.min_p":             "min_p",
	"sampling.repeat_penalty":    "repeat_penalty",
	"sampling.frequency_penalty": "frequency_penalty",
	"sampling.presence_penalty":  "presence_penalty",
	"sampling.logit_bias":        "logit_bias",
	"sampling.seed":              "seed",
	"sampling.logprobs":          "logprobs",
	"sampling.top_logprobs":      "top_logprobs",
	"sampling.grammar":           ParamGrammar,
}

// ParamGrammar is the parameter that takes a grammar as it is. The station's
// errors about grammars name it, also where another parameter was made into one.
const ParamGrammar = "grammar"

// Error is the error of the public API; it implements error and encodes as the
// object inside the envelope.
type Error struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"` // field path, e.g. messages[0].role
	Code    Code    `json:"code"`

	// RetryAfter goes out as Retry-After, in whole seconds; 0 for none.
	RetryAfter time.Duration `json:"-"`
	// Allow lists the methods of a 405.
	Allow string `json:"-"`
}

func (e *Error) Error() string { return e.Message }

// Codes lists the codes of a status, or all of them for 0. What is not sent to
// anybody is left out.
func Codes(status int) []Code {
	var list []Code
	for c, is := range table {
		if is.status == status || status == 0 && c != CodeCancelled {
			list = append(list, c)
		}
	}
	slices.Sort(list)
	return list
}

// Status is the HTTP status of the error's code.
func (e *Error) Status() int { return table[e.Code].status }

// Retry returns e with a Retry-After.
func (e *Error) Retry(d time.Duration) *Error {
	e.RetryAfter = d
	return e
}

// NewError makes an error; param is a field path or "".
func NewError(code Code, param, format string, args ...any) *Error {
	e := &Error{Code: code, Type: table[code].kind, Message: fmt.Sprintf(format, args...)}
	if param != "" {
		e.Param = &param
	}
	return e
}

// FromWire turns any error of a station call into one of ours.
func FromWire(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	var we *wire.Error
	if !errors.As(err, &we) {
		return NewError(CodeInternal, "", "internal error")
	}
	code, ok := wireCodes[we.Code]
	if !ok {
		// The station's own words about routes and sessions would only puzzle a client.
		return NewError(CodeInternal, "", "the station refused a call of the host (%s)", we.Code)
	}
	e := NewError(code, wireParams[we.Param], "%s", we.Message)
	switch code {
	case CodeContextLength:
		e = NewError(code, "messages", "%s", we.Message)
	case CodeOverloaded, CodeLoading, CodeUnavailable, CodeTimeout:
		e.RetryAfter = time.Second
	}
	return e
}

// Envelope is the body of every error.
type Envelope struct {
	Error *Error `json:"error"`
}

// AppendEnvelope appends the JSON envelope of e.
func AppendEnvelope(dst []byte, e *Error) []byte {
	return append(dst, Encode(Envelope{e})...)
}

// SetHeader sets what the answer of an error has in its header, in whichever
// envelope it goes out.
func (e *Error) SetHeader(h http.Header) {
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Del("Content-Length")
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	if e.Allow != "" {
		h.Set("Allow", e.Allow)
	}
}

// WriteError answers with the envelope. Headers must not have been sent.
func WriteError(w http.ResponseWriter, e *Error) {
	h := w.Header()
	e.SetHeader(h)
	if e.Code == CodeInvalidKey {
		h.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(e.Status())
	_, _ = w.Write(append(AppendEnvelope(nil, e), '\n'))
}
