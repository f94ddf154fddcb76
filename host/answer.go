package host

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"thoth/host/dialect"
	"thoth/host/openai"
	"thoth/station/wire"
)

// answerSink collects a whole answer.
type answerSink struct {
	wholeAnswer
	w       http.ResponseWriter
	j       *job
	req     *openai.ChatRequest
	head    openai.Head
	timeout time.Duration // of the write
	choices []answerChoice
}

// answerChoice is a choice as it grows.
type answerChoice struct {
	text, reasoning strings.Builder
	calls           []openai.AnswerCall
	arguments       [][]byte // of calls
	logprobs        *openai.ChoiceLogprobs
	finish          string
}

var _ sink = (*answerSink)(nil)

func newAnswerSink(w http.ResponseWriter, j *job, req *openai.ChatRequest, head openai.Head, timeout time.Duration) *answerSink {
	return &answerSink{w: w, j: j, req: req, head: head, timeout: timeout, choices: make([]answerChoice, req.Choices())}
}

func (a *answerSink) write(i int, e dialect.Event, lp []wire.TokenLogprob) {
	c := &a.choices[i]
	switch e.Kind {
	case dialect.Content:
		c.text.WriteString(e.Text)
	case dialect.Reasoning:
		c.reasoning.WriteString(e.Text)
	case dialect.Call:
		c.calls = append(c.calls, openai.NewAnswerCall(e.ID, e.Name))
		c.arguments = append(c.arguments, nil)
	case dialect.Arguments:
		c.arguments[e.Index] = append(c.arguments[e.Index], e.Text...)
	}
	c.add(lp)
}

func (a *answerSink) done(i int, d *wire.Done, called bool) {
	a.choices[i].finish = openai.FinishReason(d.Reason, called)
	if a.req.Logprobs && a.choices[i].logprobs == nil {
		a.choices[i].logprobs = openai.Logprobs(nil)
	}
}

func (c *answerChoice) add(lp []wire.TokenLogprob) {
	switch {
	case len(lp) == 0:
	case c.logprobs == nil:
		c.logprobs = openai.Logprobs(lp)
	default:
		c.logprobs.Content = append(c.logprobs.Content, openai.Logprobs(lp).Content...)
	}
}

// choice is the answer's form of a choice.
func (c *answerChoice) choice(i int) openai.Choice {
	m := openai.AnswerMessage{Role: string(openai.RoleAssistant), ReasoningContent: c.reasoning.String(), ToolCalls: c.calls}
	for i := range m.ToolCalls {
		m.ToolCalls[i].Function.Arguments = string(c.arguments[i])
	}
	if text := c.text.String(); text != "" || len(c.calls) == 0 {
		m.Content = &text
	}
	return openai.Choice{Index: i, Message: m, Logprobs: c.logprobs, FinishReason: c.finish}
}

func (a *answerSink) end() {
	choices := make([]openai.Choice, len(a.choices))
	for i := range a.choices {
		choices[i] = a.choices[i].choice(i)
	}
	a.j.writeWhole(a.w, openai.NewCompletion(a.head, choices, a.j.usage(), a.j.gnosis()), a.timeout)
}

func (a *answerSink) fail(e *openai.Error) { openai.WriteError(a.w, e) }

// wholeAnswer is the part of a sink that a whole answer has no use for: it sends
// nothing until its end.
type wholeAnswer struct{}

func (wholeAnswer) open(int)      {}
func (wholeAnswer) flush() bool   { return false }
func (wholeAnswer) ping()         {}
func (wholeAnswer) broken() error { return nil }

// writeWhole answers a job that went well, within timeout.
func (j *job) writeWhole(w http.ResponseWriter, v any, timeout time.Duration) {
	j.writeEncoded(w, openai.Encode(v), timeout)
}

// writeEncoded is writeWhole of what is JSON.
func (j *job) writeEncoded(w http.ResponseWriter, b []byte, timeout time.Duration) {
	for name, value := range headersOf(j.outcome()) {
		w.Header().Set(name, value)
	}
	writePieces(w, append(b, '\n'), timeout)
}

// A client must take each piece of an answer within the time of one write, and all of it
// within that and a second for each of its leastRate bytes. Where only pieces had their
// time, one that takes each in the last moment would hold a large answer, with the memory
// or the place that it counts, for an hour.
const (
	piece     = 256 << 10
	leastRate = 256 << 10 // 2 Mbit/s: a poor phone has as much
)

// writePieces answers with JSON, each piece of it within timeout: a large answer takes
// a slow client longer than one write may. Its end goes out with the handler's, when the
// place has been left: a client that sees it may ask again, also where its key allows one
// request at a time.
func writePieces(w http.ResponseWriter, b []byte, timeout time.Duration) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	last := time.Now().Add(timeout + time.Duration(len(b))*time.Second/leastRate)
	for part := range slices.Chunk(b, piece) {
		next := time.Now().Add(timeout)
		if next.After(last) {
			next = last
		}
		_ = rc.SetWriteDeadline(next)
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}

// writeJSON answers with one of our own types, which always encode.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(openai.Encode(v), '\n'))
}
