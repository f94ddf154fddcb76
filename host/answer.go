package host

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"thoth/host/openai"
	"thoth/station/wire"
)

// answerSink collects a whole answer.
type answerSink struct {
	w       http.ResponseWriter
	j       *job
	timeout time.Duration // of the write
	choices []openai.Choice
	texts   []strings.Builder
}

var _ sink = (*answerSink)(nil)

func newAnswerSink(w http.ResponseWriter, j *job, timeout time.Duration) *answerSink {
	n := j.req.Choices()
	return &answerSink{w: w, j: j, timeout: timeout, choices: make([]openai.Choice, n), texts: make([]strings.Builder, n)}
}

func (a *answerSink) frame(i int, f *wire.Frame) {
	a.texts[i].WriteString(f.Text)
	if len(f.Logprobs) == 0 {
		return
	}
	lp := openai.Logprobs(f.Logprobs)
	if c := &a.choices[i]; c.Logprobs == nil {
		c.Logprobs = lp
	} else {
		c.Logprobs.Content = append(c.Logprobs.Content, lp.Content...)
	}
}

func (a *answerSink) done(i int, d *wire.Done) {
	c := &a.choices[i]
	c.Index = i
	c.Message = openai.AnswerMessage{Role: string(openai.RoleAssistant), Content: a.texts[i].String()}
	c.FinishReason = openai.FinishReason(d.Reason)
	if a.j.req.Logprobs && c.Logprobs == nil {
		c.Logprobs = openai.Logprobs(nil)
	}
}

func (a *answerSink) end() {
	if len(a.texts) > 0 {
		a.j.rec.answered = a.texts[0].String()
	}
	for name, value := range headersOf(a.j.outcome()) {
		a.w.Header().Set(name, value)
	}
	_ = http.NewResponseController(a.w).SetWriteDeadline(time.Now().Add(a.timeout))
	writeJSON(a.w, http.StatusOK, openai.NewCompletion(a.j.head, a.choices, a.j.usage(), a.j.gnosis()))
}

func (a *answerSink) fail(e *openai.Error) { openai.WriteError(a.w, e) }

// A whole answer sends nothing until its end.
func (a *answerSink) flush()        {}
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
