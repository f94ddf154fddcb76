package host

import (
	"net/http"
	"slices"
	"time"

	"thoth/host/dialect"
	"thoth/host/openai"
)

// streamSink writes an event stream.
//
// Invariants: nothing is sent before the first token or ping; each choice opens
// with one role event and ends with one finish event; after an error event
// nothing follows, and [DONE] follows only a whole answer.
type streamSink struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	j       *job
	enc     *openai.Encoder
	timeout time.Duration // of one write

	buf    []byte            // events not yet written
	opened []bool            // choices whose role event is out
	begun  bool              // the header is out
	told   map[string]string // our headers in it, and those left to the trailers
	err    error             // of a write; the client is gone or does not read
}

var _ sink = (*streamSink)(nil)

func newStreamSink(w http.ResponseWriter, j *job, timeout time.Duration) *streamSink {
	n := j.req.Choices()
	return &streamSink{w: w, rc: http.NewResponseController(w), j: j, timeout: timeout,
		enc: openai.NewEncoder(j.head, j.req.IncludeUsage()), opened: make([]bool, n)}
}

// open writes the choice's first event.
func (s *streamSink) open(i int) {
	if !s.opened[i] {
		s.opened[i] = true
		s.buf = s.enc.Role(s.buf, i)
	}
}

func (s *streamSink) write(i int, e dialect.Event, lp *openai.ChoiceLogprobs) {
	switch e.Kind {
	case dialect.Content:
		s.buf = s.enc.Text(s.buf, i, e.Text, lp)
	case dialect.Reasoning:
		s.buf = s.enc.Reasoning(s.buf, i, e.Text, lp)
	case dialect.Call:
		s.buf = s.enc.Call(s.buf, i, e.Index, e.ID, e.Name, lp)
	case dialect.Arguments:
		s.buf = s.enc.Arguments(s.buf, i, e.Index, e.Text, lp)
	}
}

func (s *streamSink) done(i int, finish string) {
	var g *openai.Gnosis
	if len(s.j.ended) == len(s.opened) && !s.j.req.IncludeUsage() {
		g = s.j.gnosis()
	}
	s.buf = s.enc.Finish(s.buf, i, finish, g)
}

func (s *streamSink) end() {
	defer s.trail()
	if s.j.req.IncludeUsage() {
		s.buf = s.enc.Usage(s.buf, s.j.usage(), s.j.gnosis())
	}
	s.buf = openai.AppendDone(s.buf)
	s.flush()
}

func (s *streamSink) ping() {
	s.buf = openai.AppendPing(s.buf)
	s.flush()
}

func (s *streamSink) fail(e *openai.Error) {
	if !s.begun && len(s.buf) == 0 {
		openai.WriteError(s.w, e)
		return
	}
	s.buf = openai.AppendErrorEvent(s.buf, e)
	s.flush()
	s.trail()
}

func (s *streamSink) flush() bool {
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
func (s *streamSink) trail() { trail(s.w.Header(), s.told, s.j.outcome()) }

func (s *streamSink) broken() error { return s.err }
