package host

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"thoth/host/dialect"
	"thoth/host/openai"
)

// answerSink collects a whole answer.
type answerSink struct {
	w       http.ResponseWriter
	j       *job
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

func newAnswerSink(w http.ResponseWriter, j *job, timeout time.Duration) *answerSink {
	return &answerSink{w: w, j: j, timeout: timeout, choices: make([]answerChoice, j.req.Choices())}
}

func (a *answerSink) open(int) {}

func (a *answerSink) write(i int, e dialect.Event, lp *openai.ChoiceLogprobs) {
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
	switch {
	case lp == nil:
	case c.logprobs == nil:
		c.logprobs = lp
	default:
		c.logprobs.Content = append(c.logprobs.Content, lp.Content...)
	}
}

func (a *answerSink) done(i int, finish string) {
	a.choices[i].finish = finish
	if a.j.req.Logprobs && a.choices[i].logprobs == nil {
		a.choices[i].logprobs = openai.Logprobs(nil)
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
	for name, value := range headersOf(a.j.outcome()) {
		a.w.Header().Set(name, value)
	}
	_ = http.NewResponseController(a.w).SetWriteDeadline(time.Now().Add(a.timeout))
	writeJSON(a.w, http.StatusOK, openai.NewCompletion(a.j.head, choices, a.j.usage(), a.j.gnosis()))
}

func (a *answerSink) fail(e *openai.Error) { openai.WriteError(a.w, e) }

// A whole answer sends nothing until its end.
func (a *answerSink) flush() bool   { return false }
func (a *answerSink) ping()         {}
func (a *answerSink) broken() error { return nil }

// writeJSON answers with one of our own types, which always encode.
func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}
