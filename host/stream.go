package host

import (
	"net/http"
	"time"

	"thoth/host/dialect"
	"thoth/host/openai"
	"thoth/station/wire"
)

// streamSink writes the event stream of a chat completion.
//
// Invariants: nothing is sent before the first token or ping; each choice opens
// with one role event and ends with one finish event; after an error event
// nothing follows, and [DONE] follows only a whole answer.
type streamSink struct {
	openAIEvents
	req    *openai.ChatRequest
	enc    *openai.Encoder
	opened []bool // choices whose role event is out
}

var _ sink = (*streamSink)(nil)

func newStreamSink(w http.ResponseWriter, j *job, req *openai.ChatRequest, head openai.Head, timeout time.Duration) *streamSink {
	return &streamSink{openAIEvents: openAIEvents{newEventWriter(w, j, timeout)}, req: req,
		enc: openai.NewEncoder(head, req.IncludeUsage()), opened: make([]bool, req.Choices())}
}

// open writes the choice's first event.
func (s *streamSink) open(i int) {
	if !s.opened[i] {
		s.opened[i] = true
		s.buf = s.enc.Role(s.buf, i)
	}
}

func (s *streamSink) write(i int, e dialect.Event, tokens []wire.TokenLogprob) {
	var lp *openai.ChoiceLogprobs
	if len(tokens) > 0 {
		lp = openai.Logprobs(tokens)
	}
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

func (s *streamSink) done(i int, d *wire.Done, called bool) {
	var g *openai.Gnosis
	if s.j.left == 0 && !s.req.IncludeUsage() {
		g = s.j.gnosis()
	}
	s.buf = s.enc.Finish(s.buf, i, openai.FinishReason(d.Reason, called), g)
}

func (s *streamSink) end() {
	defer s.trail()
	if s.req.IncludeUsage() {
		s.buf = s.enc.Usage(s.buf, s.j.usage(), s.j.gnosis())
	}
	s.buf = openai.AppendDone(s.buf)
	s.flush()
}

// openAIEvents is an event stream in OpenAI's form: its pings, and its error, which
// is an HTTP error while nothing was said.
type openAIEvents struct{ eventWriter }

func (s *openAIEvents) ping() {
	s.buf = openai.AppendPing(s.buf)
	s.flush()
}

func (s *openAIEvents) fail(e *openai.Error) {
	if s.fresh() {
		openai.WriteError(s.w, e)
		return
	}
	s.buf = openai.AppendErrorEvent(s.buf, e)
	s.flush()
	s.trail()
}
