package host

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"thoth/host/openai"
)

// limitBody gives every request's body its time, also where no handler reads
// it: the server itself reads a rest before it answers.
func (s *Server) limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.o.BodyTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// readBody reads a request's body under the limits of size and time, before
// anything is parsed and before a place is taken.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *openai.Error) {
	if e := checkMediaType(r.Header); e != nil {
		return nil, e
	}
	if r.ContentLength > s.o.BodyLimit {
		w.Header().Set("Connection", "close") // or the server would read on to keep it
		return nil, s.tooLarge()
	}
	rd := http.MaxBytesReader(w, r.Body, s.o.BodyLimit)
	var body []byte
	var err error
	if r.ContentLength > 0 {
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(rd, body)
	} else {
		body, err = io.ReadAll(rd)
	}
	if err == nil {
		// From now on the connection is read to notice a client that goes away,
		// however long the answer takes.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return body, nil
	}
	w.Header().Set("Connection", "close")
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, s.tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, openai.NewError(openai.CodeRequestTimeout, "", "the body did not arrive within %s", s.o.BodyTimeout)
	}
	return nil, openai.NewError(openai.CodeInvalidJSON, "", "the body is incomplete")
}

func (s *Server) tooLarge() *openai.Error {
	return openai.NewError(openai.CodeTooLarge, "", "the body is larger than %d bytes", s.o.BodyLimit)
}

// checkMediaType is lenient: a missing type and curl's form type pass, since
// the body says what it is. Only what would be misread is refused.
func checkMediaType(h http.Header) *openai.Error {
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return openai.NewError(openai.CodeMediaType, "", "Content-Encoding %s is not supported: send plain JSON", printable(enc))
	}
	given := h.Get("Content-Type")
	if given == "" {
		return nil
	}
	kind, params, err := mime.ParseMediaType(given)
	if err != nil {
		return openai.NewError(openai.CodeMediaType, "", "the Content-Type cannot be read: send application/json")
	}
	if strings.HasPrefix(kind, "multipart/") {
		return openai.NewError(openai.CodeMediaType, "", "Content-Type %s is not supported: send application/json", printable(kind))
	}
	switch charset := strings.ToLower(params["charset"]); charset {
	case "", "utf-8", "utf8", "us-ascii":
		return nil
	default:
		return openai.NewError(openai.CodeMediaType, "", "Content-Type has charset %s: JSON is UTF-8", printable(charset))
	}
}

// printable shortens a client's text for a message.
func printable(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if r := []rune(s); len(r) > 100 {
		return string(r[:100]) + "…"
	}
	return s
}
