package host

import (
	"net/http"
	"time"

	"thoth/host/dialect"
	"thoth/host/openai"
	"thoth/host/responses"
	"thoth/station/wire"
)

// responseAnswer collects a whole response.
//
// Invariant, for the stream too: keep is called once with the response as it ended,
// before its client hears of the end: what is stored can be asked for at once. An
// error in place of a response is not kept, unless the response is one of the
// background: nobody knows its id. keep gives the response's JSON, where it has it, for
// the client: a large one takes a while to encode.
type responseAnswer struct {
	wholeAnswer
	w       http.ResponseWriter
	j       *job
	draft   *responses.Draft
	timeout time.Duration // of the write
	keep    func(*responses.Response) []byte
	cut     bool // by the limit of its tokens
}

var _ sink = (*responseAnswer)(nil)

func newResponseAnswer(w http.ResponseWriter, j *job, r *responses.Response, timeout time.Duration, keep func(*responses.Response) []byte) *responseAnswer {
	return &responseAnswer{w: w, j: j, draft: responses.NewDraft(r), timeout: timeout, keep: keep}
}

func (a *responseAnswer) write(_ int, e dialect.Event, lp []wire.TokenLogprob) {
	switch e.Kind {
	case dialect.Content:
		a.draft.Text(e.Text, logprobs(lp))
	case dialect.Reasoning:
		a.draft.Reasoning(e.Text)
	case dialect.Call:
		a.draft.Call(e.ID, e.Name)
	case dialect.Arguments:
		a.draft.Arguments(e.Text)
	}
}

// logprobs are those of a message's text; what else a response holds has none.
func logprobs(lp []wire.TokenLogprob) []openai.TokenLogprob {
	if len(lp) == 0 {
		return nil
	}
	return openai.Logprobs(lp).Content
}

func (a *responseAnswer) done(_ int, d *wire.Done, _ bool) { a.cut = d.Reason == wire.ReasonLength }

func (a *responseAnswer) end() {
	a.draft.End(a.cut, responses.NewUsage(a.j.usage()), a.j.gnosis(), time.Now())
	if b := a.keep(a.draft.Response); b != nil {
		a.j.writeEncoded(a.w, b, a.timeout)
		return
	}
	a.j.writeWhole(a.w, a.draft.Response, a.timeout)
}

func (a *responseAnswer) fail(e *openai.Error) {
	if a.draft.Response.Background {
		failResponse(a.draft, e)
		a.keep(a.draft.Response)
		return
	}
	openai.WriteError(a.w, e)
}

// failResponse ends a response by an error. One whose client goes away is not wanted
// any more: that is how this API cancels it.
func failResponse(d *responses.Draft, e *openai.Error) {
	if e.Code == openai.CodeCancelled {
		d.Cancel()
		return
	}
	d.Fail(e)
}

// responseStream writes the event stream of a response.
//
// Invariants: response.created comes first, comments apart, and nothing before the
// first token, so that errors until then are HTTP errors; one of the background, which
// has its answer already, begins at once. After the event of its end, or of an error,
// nothing follows.
type responseStream struct {
	openAIEvents
	events  *responses.Events
	keep    func(*responses.Response) []byte
	created bool // response.created is out
	opened  bool // response.in_progress is
	cut     bool // by the limit of its tokens
}

var _ sink = (*responseStream)(nil)

func newResponseStream(w http.ResponseWriter, j *job, r *responses.Response, timeout time.Duration, keep func(*responses.Response) []byte) *responseStream {
	s := &responseStream{openAIEvents: openAIEvents{newEventWriter(w, j, timeout)}, events: responses.NewEvents(r), keep: keep}
	if r.Background {
		s.created = true
		s.buf = s.events.Created(s.buf)
		s.buf = s.events.Queued(s.buf)
		s.flush()
	}
	return s
}

func (s *responseStream) open(int) {
	if s.opened {
		return
	}
	if !s.created {
		s.created = true
		s.buf = s.events.Created(s.buf)
	}
	s.opened = true
	s.buf = s.events.InProgress(s.buf)
}

func (s *responseStream) write(_ int, e dialect.Event, lp []wire.TokenLogprob) {
	switch e.Kind {
	case dialect.Content:
		s.buf = s.events.Text(s.buf, e.Text, logprobs(lp))
	case dialect.Reasoning:
		s.buf = s.events.Reasoning(s.buf, e.Text)
	case dialect.Call:
		s.buf = s.events.Call(s.buf, e.ID, e.Name)
	case dialect.Arguments:
		s.buf = s.events.Arguments(s.buf, e.Text)
	}
}

func (s *responseStream) done(_ int, d *wire.Done, _ bool) { s.cut = d.Reason == wire.ReasonLength }

func (s *responseStream) end() {
	s.buf = s.events.End(s.buf, s.cut, responses.NewUsage(s.j.usage()), s.j.gnosis(), time.Now())
	s.flush() // to keep it may take a while
	s.over()
}

// over keeps the response and tells its client of the end.
func (s *responseStream) over() {
	encoded := s.keep(s.events.Response)
	s.buf = s.events.Over(s.buf, encoded)
	s.flush()
	s.trail()
}

func (s *responseStream) fail(e *openai.Error) {
	switch {
	case s.created:
		failResponse(s.events.Draft, e)
		s.over()
	case s.fresh():
		openai.WriteError(s.w, e)
	default: // comments alone are out
		s.buf = responses.AppendError(s.buf, e, 0)
		s.flush()
		s.trail()
	}
}
