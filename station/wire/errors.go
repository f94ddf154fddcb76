package wire

import "net/http"

// Code is the closed vocabulary of the station's errors.
type Code string

const (
	CodeInvalid       Code = "invalid_request"         // malformed or out of range; Param names the field
	CodeUnsupported   Code = "unsupported"             // the field is known but not built here; Param names it
	CodeContextLength Code = "context_length_exceeded" // prompt (plus max_tokens) does not fit context_length
	CodeNoRoute       Code = "no_route"                // 404: the route does not exist
	CodeMethod        Code = "method_not_allowed"      // 405
	CodeGone          Code = "session_gone"            // 410: unknown or expired session or key
	CodeBusy          Code = "session_busy"            // 409: another call is using the session
	CodeTooLarge      Code = "body_too_large"          // 413
	CodeOverloaded    Code = "overloaded"              // 429: queue or session cap reached
	CodeLoading       Code = "loading"                 // 503: model still loading
	CodeDraining      Code = "draining"                // 503: shutting down
	CodeUnavailable   Code = "unavailable"             // 503: station cannot be reached (made by the client)
	CodeEngine        Code = "engine_failed"           // 500: a decode failed; the station goes on
	CodeTimeout       Code = "timeout"                 // 504: deadline passed
	CodeCancelled     Code = "cancelled"               // 499: the caller went away
	CodeInternal      Code = "internal"                // 500: a fault of ours
)

// statusClientClosed is nginx's "client closed request"; nobody reads it, logs do.
const statusClientClosed = 499

// Error is the error object of the wire, as body of an HTTP error and inside an
// error frame. It implements error.
type Error struct {
	Code      Code   `json:"code"`
	Message   string `json:"message"`
	Param     string `json:"param,omitempty"` // field path, e.g. "sampling.top_p"
	Retryable bool   `json:"retryable"`

	// Taken is the client's word: the station had the request, and may have worked on it
	// when this came. Without it the request did nothing, and was no cause of the error.
	Taken bool `json:"-"`
}

func (e *Error) Error() string { return e.Message }

// Status gives the HTTP status of the code; the only such table.
func (e *Error) Status() int {
	switch e.Code {
	case CodeInvalid, CodeUnsupported, CodeContextLength:
		return http.StatusBadRequest
	case CodeNoRoute:
		return http.StatusNotFound
	case CodeMethod:
		return http.StatusMethodNotAllowed
	case CodeGone:
		return http.StatusGone
	case CodeBusy:
		return http.StatusConflict
	case CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case CodeOverloaded:
		return http.StatusTooManyRequests
	case CodeLoading, CodeDraining, CodeUnavailable:
		return http.StatusServiceUnavailable
	case CodeTimeout:
		return http.StatusGatewayTimeout
	case CodeCancelled:
		return statusClientClosed
	default:
		return http.StatusInternalServerError
	}
}

// ErrorBody is the body of every HTTP error of the station.
type ErrorBody struct {
	Error *Error `json:"error"`
}
