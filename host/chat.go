package host

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/openai"
	"thoth/host/prompt"
	"thoth/station/wire"
)

// Response headers of our own. On the native path all are known before the
// first byte, so none is left for a trailer.
const (
	headerPath        = "X-Thoth-Path"
	headerLiquid      = "X-Thoth-Liquid-Memory"
	headerLiquidSaved = "X-Thoth-Liquid-KV-Saved"

	pathNative     = "native"
	liquidDisabled = "disabled"
)

// chat is POST /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	h := &hold{budget: &s.bodies}
	defer h.release()
	j, e := s.prepare(w, r, h)
	if e != nil {
		fail(w, r, e)
		return
	}
	header := w.Header()
	header.Set(headerPath, pathNative)
	header.Set(headerLiquid, liquidDisabled)
	header.Set(headerLiquidSaved, "false")

	out := s.newSink(w, j)
	// The next request of the connection starts without this one's deadline.
	defer func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) }()
	if e := s.run(r.Context(), j, out); e != nil {
		j.rec.err = e
		out.fail(e)
	}
}

func (s *Server) newSink(w http.ResponseWriter, j *job) sink {
	if j.req.Stream {
		out := newStreamSink(w, j, s.o.WriteTimeout)
		if s.o.LogPrompts {
			out.answered = new(strings.Builder)
		}
		return out
	}
	return newAnswerSink(w, j, s.o.WriteTimeout)
}

// job is a chat request on its way.
type job struct {
	req  *openai.ChatRequest
	rec  *record
	view *view
	body *hold // until it has a place
	head openai.Head

	prompt   []wire.Segment
	promptMS float64
	place    *ticket
	ended    []*wire.Done // of the choices that ended
}

// prepare does all that needs no place: everything wrong with a request is said
// before it waits.
func (s *Server) prepare(w http.ResponseWriter, r *http.Request, h *hold) (*job, *openai.Error) {
	if s.draining.Load() {
		return nil, errDraining()
	}
	body, e := s.readBody(w, r, h)
	if e != nil {
		return nil, e
	}
	v := s.station.current()
	limits := s.o.Limits
	if v.model != nil {
		limits.Vocabulary = v.model.Vocabulary
	}
	req, e := openai.DecodeChat(body, limits)
	if e != nil {
		return nil, e
	}
	if e := v.refusal(); e != nil {
		return nil, e
	}
	if !v.serves(*req.Model) {
		return nil, v.notFound(*req.Model)
	}
	rec := recordOf(r.Context())
	rec.model, rec.stream = v.names[0], req.Stream
	j := &job{req: req, rec: rec, view: v, body: h, head: openai.Head{
		ID: "chatcmpl-" + strings.ToLower(rand.Text()), Created: rec.arrived.Unix(), Model: v.names[0], Fingerprint: v.fingerprint}}
	start := time.Now()
	if j.prompt, e = render(v.template, req); e != nil {
		return nil, e
	}
	j.promptMS = milliseconds(time.Since(start))
	if s.o.LogPrompts {
		rec.prompt = text(j.prompt)
	}
	return j, nil
}

// render makes the prompt of a request and words what went wrong.
func render(t *prompt.Template, req *openai.ChatRequest) ([]wire.Segment, *openai.Error) {
	segments, err := t.Render(conversation(req))
	var refusal *prompt.Refusal
	var variable *prompt.VariableError
	switch {
	case err == nil && len(segments) > 0:
		return segments, nil
	case err == nil:
		return nil, openai.NewError(openai.CodeTemplate, "messages", "these messages make an empty prompt")
	case errors.As(err, &refusal):
		return nil, openai.NewError(openai.CodeTemplate, "messages", "%s", printable(refusal.Error()))
	case errors.As(err, &variable):
		return nil, openai.NewError(openai.CodeInvalidValue, "chat_template_kwargs", "%s", printable(variable.Error()))
	case errors.Is(err, prompt.ErrUnsafe):
		return nil, openai.NewError(openai.CodeTemplate, "messages", "%s", err)
	}
	// A template that renders a plain chat and fails on this one: the request is
	// out of the ordinary. The library's text would show the template's source.
	return nil, openai.NewError(openai.CodeTemplate, "messages", "the model's chat template cannot render these messages")
}

// conversation is the request as the template's package wants it. developer is
// OpenAI's newer word for system, and templates know the older one.
func conversation(req *openai.ChatRequest) prompt.Conversation {
	c := prompt.Conversation{Messages: make([]prompt.Message, len(req.Messages)), Variables: variables(req)}
	for i, m := range req.Messages {
		p := prompt.Message{Role: *m.Role, Content: m.Content.Text, Name: m.Name, ToolCallID: m.ToolCallID}
		if p.Role == string(openai.RoleDeveloper) {
			p.Role = prompt.System
		}
		if m.ReasoningContent != nil {
			p.Reasoning = *m.ReasoningContent
		}
		for _, t := range m.ToolCalls {
			p.ToolCalls = append(p.ToolCalls, prompt.ToolCall{ID: t.ID, Name: t.Function.Name, Arguments: string(t.Function.Arguments)})
		}
		c.Messages[i] = p
	}
	return c
}

// variables are the template variables of a request; an explicit
// reasoning_effort in chat_template_kwargs wins over the parameter.
func variables(req *openai.ChatRequest) []byte {
	given := []byte(req.ChatTemplateKwargs)
	if string(given) == "null" {
		given = nil
	}
	if req.ReasoningEffort == nil {
		return given
	}
	all := map[string]jsontext.Value{}
	if len(given) > 0 {
		if err := json.Unmarshal(given, &all); err != nil {
			return given // the renderer refuses it by name
		}
	}
	if _, ok := all["reasoning_effort"]; !ok {
		all["reasoning_effort"] = jsontext.Value(`"` + *req.ReasoningEffort + `"`) // one of a few words
	}
	b, _ := json.Marshal(all, json.Deterministic(true))
	return b
}

// usage counts what has ended so far.
func (j *job) usage() openai.Usage {
	var u openai.Usage
	for _, d := range j.ended {
		u.Add(d)
	}
	return u
}

// gnosis tells how the request went. The slowest choice gives the times.
func (j *job) gnosis() *openai.Gnosis {
	t := openai.Timings{PromptMS: j.promptMS, TTFTMS: milliseconds(j.rec.ttft)}
	var queue, tokenize float64
	for _, d := range j.ended {
		queue = max(queue, d.Timings.QueueMS)
		tokenize = max(tokenize, d.Timings.TokenizeMS)
		t.PrefillMS = max(t.PrefillMS, d.Timings.PrefillMS)
		t.EngineMS = max(t.EngineMS, d.Timings.EngineMS)
		t.DecodeMS = max(t.DecodeMS, d.Timings.DecodeMS)
		t.TokensPerSecond += d.Timings.TokensPerSecond
	}
	t.QueueMS = round(milliseconds(j.rec.queue) + queue)
	t.PromptMS = round(t.PromptMS + tokenize)
	return &openai.Gnosis{LiquidMemory: liquidDisabled, Path: pathNative, Timings: t, RequestID: j.rec.id,
		Station: &openai.Station{Build: j.view.health.Build, Backend: j.view.health.Backend.Selected}}
}

func text(segments []wire.Segment) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteString(s.Text)
	}
	return b.String()
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// round leaves out what a float's decimal form adds to a sum of microseconds.
func round(ms float64) float64 { return math.Round(ms*1000) / 1000 }

func errDraining() *openai.Error {
	return openai.NewError(openai.CodeDraining, "", "the server is shutting down").Retry(2 * time.Second)
}

// causeOf is why a context ended, as one of our errors.
func causeOf(ctx context.Context) *openai.Error {
	var own *openai.Error
	if errors.As(context.Cause(ctx), &own) {
		return own
	}
	return openai.NewError(openai.CodeCancelled, "", "the client went away")
}
