package host

import (
	"net/http"
	"slices"
	"time"
)

// eventWriter sends what a sink appends to buf as text/event-stream. Its header
// goes out with the first bytes, so that an error before them is an HTTP error.
type eventWriter struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	j       *job
	timeout time.Duration // of one write

	buf   []byte            // events not yet written
	begun bool              // the header is out
	told  map[string]string // our headers in it, and those left to the trailers
	err   error             // of a write; the client is gone or does not read
}

func newEventWriter(w http.ResponseWriter, j *job, timeout time.Duration) eventWriter {
	return eventWriter{w: w, rc: http.NewResponseController(w), j: j, timeout: timeout}
}

// fresh tells that nothing was said yet.
func (s *eventWriter) fresh() bool { return !s.begun && len(s.buf) == 0 }

// flush sends buf; it tells whether there was anything to send.
func (s *eventWriter) flush() bool {
	if len(s.buf) == 0 || s.err != nil {
		return false
	}
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // nginx would gather the tokens
		s.told = announce(h, s.j.outcome(), !slices.Contains(s.j.outcomes, nil))
		s.w.WriteHeader(http.StatusOK)
	}
	// A client that stops reading must not hold a place for ever.
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.timeout))
	if _, s.err = s.w.Write(s.buf); s.err == nil {
		s.err = s.rc.Flush()
	}
	s.buf = s.buf[:0]
	return true
}

// trail leaves as trailers what the header could not tell.
func (s *eventWriter) trail() { trail(s.w.Header(), s.told, s.j.outcome()) }

func (s *eventWriter) broken() error { return s.err }
