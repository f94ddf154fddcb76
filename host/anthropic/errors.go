package anthropic

import (
	"net/http"

	"thoth/host/openai"
)

// StatusOverloaded is what Anthropic answers when it is too busy.
const StatusOverloaded = 529

// Status is the HTTP status of an error in this API.
func Status(e *openai.Error) int {
	if e.Code == openai.CodeOverloaded {
		return StatusOverloaded
	}
	return e.Status()
}

// errorType is the error's type in this API, by status.
func errorType(e *openai.Error) string {
	switch status := Status(e); status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	case StatusOverloaded:
		return "overloaded_error"
	default:
		if status < http.StatusInternalServerError {
			return "invalid_request_error"
		}
		return "api_error"
	}
}

// Envelope is the body of every error, and the data of an error event.
type Envelope struct {
	Type      string      `json:"type"` // error
	Error     ErrorObject `json:"error"`
	RequestID string      `json:"request_id,omitempty"`
}

// ErrorObject says what went wrong.
type ErrorObject struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// NewEnvelope wraps an error.
func NewEnvelope(e *openai.Error, requestID string) Envelope {
	return Envelope{Type: "error", Error: ErrorObject{Type: errorType(e), Message: e.Message}, RequestID: requestID}
}

// WriteError answers with the envelope. Headers must not have been sent.
func WriteError(w http.ResponseWriter, e *openai.Error, requestID string) {
	e.SetHeader(w.Header())
	w.WriteHeader(Status(e))
	_, _ = w.Write(append(openai.Encode(NewEnvelope(e, requestID)), '\n'))
}
