package host

import (
	"net/http"
	"strings"
	"time"

	"thoth/host/anthropic"
	"thoth/host/dialect"
	"thoth/host/openai"
	"thoth/station/wire"
)

// messageAnswer collects a whole answer of /v1/messages.
type messageAnswer struct {
	wholeAnswer
	w       http.ResponseWriter
	j       *job
	req     *anthropic.Request
	message *anthropic.Message
	timeout time.Duration // of the write
	blocks  []*messageBlock
}

// messageBlock is a block as it grows: text of its kind, or a call's arguments.
type messageBlock struct {
	kind     dialect.Kind
	id, name string
	text     strings.Builder
}

var _ sink = (*messageAnswer)(nil)

func newMessageAnswer(w http.ResponseWriter, j *job, req *anthropic.Request, m *anthropic.Message, timeout time.Duration) *messageAnswer {
	return &messageAnswer{w: w, j: j, req: req, message: m, timeout: timeout}
}

func (a *messageAnswer) write(_ int, e dialect.Event, _ []wire.TokenLogprob) {
	last := len(a.blocks) - 1
	if e.Kind == dialect.Call || e.Kind != dialect.Arguments && e.Text != "" && (last < 0 || a.blocks[last].kind != e.Kind) {
		a.blocks = append(a.blocks, &messageBlock{kind: e.Kind, id: e.ID, name: e.Name})
		last++
	}
	if last < 0 || e.Kind == dialect.Reasoning && a.req.OmitsThinking() {
		return
	}
	a.blocks[last].text.WriteString(e.Text)
}

func (a *messageAnswer) done(_ int, d *wire.Done, called bool) {
	reason, sequence := anthropic.Stop(d, called)
	a.message.StopReason, a.message.StopSequence = &reason, sequence
}

func (a *messageAnswer) end() {
	m := a.message
	for i := range a.blocks {
		switch b := a.blocks[i]; b.kind {
		case dialect.Content:
			m.Content = append(m.Content, anthropic.NewText(b.text.String()))
		case dialect.Reasoning:
			m.Content = append(m.Content, anthropic.NewThinking(b.text.String()))
		default:
			m.Content = append(m.Content, anthropic.NewToolUse(anthropic.ToolUseID(b.id), b.name, b.text.String()))
		}
	}
	m.Usage, m.Gnosis = anthropic.NewUsage(a.j.usage()), a.j.gnosis()
	a.j.writeWhole(a.w, m, a.timeout)
}

func (a *messageAnswer) fail(e *openai.Error) { anthropic.WriteError(a.w, e, a.j.rec.id) }

// messageStream writes the event stream of /v1/messages.
//
// Invariants: message_start comes first, pings apart; at most one block is open, and
// none at the end; after an error event nothing follows.
type messageStream struct {
	eventWriter
	req     *anthropic.Request
	message *anthropic.Message
	opened  bool         // message_start is out
	kind    dialect.Kind // of the block that is open
	index   int          // its number; of the next one while none is open
	inside  bool         // one is open
	ended   *wire.Done
	called  bool
}

var _ sink = (*messageStream)(nil)

func newMessageStream(w http.ResponseWriter, j *job, req *anthropic.Request, m *anthropic.Message, timeout time.Duration) *messageStream {
	return &messageStream{eventWriter: newEventWriter(w, j, timeout), req: req, message: m}
}

// open begins the message. What the prompt has cost is known roughly: the last event
// tells it to the token.
func (s *messageStream) open(int) {
	if s.opened {
		return
	}
	s.opened = true
	u := openai.Usage{PromptTokens: s.j.rec.spent.PromptTokens}
	if o := s.j.outcome(); o != nil {
		u.PromptDetails.CachedTokens = o.PrefixTokens
	}
	s.message.Usage = anthropic.NewUsage(u)
	s.buf = anthropic.AppendStart(s.buf, s.message)
}

func (s *messageStream) write(_ int, e dialect.Event, _ []wire.TokenLogprob) {
	switch e.Kind {
	case dialect.Call:
		s.begin(e.Kind, anthropic.NewToolUse(anthropic.ToolUseID(e.ID), e.Name, ""))
	case dialect.Arguments:
		s.buf = anthropic.AppendInput(s.buf, s.index, e.Text)
	default:
		s.text(e)
	}
}

// text adds to the open block, or to a new one where that is of another kind.
func (s *messageStream) text(e dialect.Event) {
	if e.Text == "" {
		return
	}
	thought := e.Kind == dialect.Reasoning
	if !s.inside || s.kind != e.Kind {
		b := anthropic.NewText("")
		if thought {
			b = anthropic.NewThinking("")
		}
		s.begin(e.Kind, b)
	}
	switch {
	case !thought:
		s.buf = anthropic.AppendText(s.buf, s.index, e.Text)
	case !s.req.OmitsThinking():
		s.buf = anthropic.AppendThinking(s.buf, s.index, e.Text)
	}
}

func (s *messageStream) begin(kind dialect.Kind, b anthropic.Block) {
	s.close()
	s.buf = anthropic.AppendBlockStart(s.buf, s.index, b)
	if s.index == 0 {
		s.buf = anthropic.AppendPing(s.buf) // as Anthropic does
	}
	s.kind, s.inside = kind, true
}

func (s *messageStream) close() {
	if s.inside {
		s.buf = anthropic.AppendBlockStop(s.buf, s.index)
		s.inside = false
		s.index++
	}
}

func (s *messageStream) done(_ int, d *wire.Done, called bool) {
	s.close()
	s.ended, s.called = d, called
}

func (s *messageStream) end() {
	defer s.trail()
	reason, sequence := anthropic.Stop(s.ended, s.called)
	s.buf = anthropic.AppendEnd(s.buf, reason, sequence, anthropic.NewUsage(s.j.usage()), s.j.gnosis())
	s.flush()
}

func (s *messageStream) ping() {
	s.buf = anthropic.AppendPing(s.buf)
	s.flush()
}

func (s *messageStream) fail(e *openai.Error) {
	if s.fresh() {
		anthropic.WriteError(s.w, e, s.j.rec.id)
		return
	}
	s.buf = anthropic.AppendError(s.buf, e, s.j.rec.id)
	s.flush()
	s.trail()
}
