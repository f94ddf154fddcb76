package host

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/openai"
	"thoth/host/prompt"
	"thoth/liquid"
	"thoth/station/wire"
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
		return newStreamSink(w, j, s.o.WriteTimeout)
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
	shape    shape
	memory   liquid.Request // of every choice, what it generates apart
	place    *ticket
	outcomes []*liquid.Outcome // by choice; nil while nothing is known
	choices  []choice
	ended    []*wire.Done // of the choices that ended
}

// prepare does all that needs no place: everything wrong with a request is said
// before it waits.
func (s *Server) prepare(w http.ResponseWriter, r *http.Request, h *hold) (*job, *openai.Error) {
	if s.draining.Load() {
		return nil, errDraining()
	}
	bypass, e := bypasses(r)
	if e != nil {
		return nil, e
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
	cache := req.Cache()
	if e := s.mayPin(r.Context(), cache); e != nil {
		return nil, e
	}
	rec := recordOf(r.Context())
	rec.model, rec.stream = v.names[0], req.Stream
	j := &job{req: req, rec: rec, view: v, body: h, outcomes: make([]*liquid.Outcome, req.Choices()), head: openai.Head{
		ID: "chatcmpl-" + strings.ToLower(rand.Text()), Created: rec.arrived.Unix(), Model: v.names[0], Fingerprint: v.fingerprint}}
	start := time.Now()
	var points []liquid.Point
	c, e := v.conversation(req)
	if e != nil {
		return nil, e
	}
	if j.prompt, points, e = render(v.template, c, s.memory.On()); e != nil {
		return nil, e
	}
	if j.shape, e = s.shape(req, v.dialect, j.prompt); e != nil {
		return nil, e
	}
	j.promptMS = milliseconds(time.Since(start))
	j.memory = liquid.Request{Bypass: bypass, Scope: liquid.Scope(scopeKey(r.Context()), cache.Salt), Group: cache.Group, TTL: cache.TTL,
		Pin: cache.Pin, Points: points, Explicit: cache.Explicit, StripsReasoning: v.stripsReasoning}
	if s.o.LogPrompts {
		rec.prompt = text(j.prompt)
	}
	return j, nil
}

// render makes the prompt of a request and words what went wrong. Where its
// breakpoints lie costs renderings more, so that is asked for only when they
// are of use.
func render(t *prompt.Template, c prompt.Conversation, breakpoints bool) ([]wire.Segment, []liquid.Point, *openai.Error) {
	var segments []wire.Segment
	var found []prompt.Point
	var err error
	if breakpoints && slices.ContainsFunc(c.Messages, func(m prompt.Message) bool { return len(m.Breakpoints) > 0 }) {
		segments, found, err = t.RenderPoints(c)
	} else {
		segments, err = t.Render(c)
	}
	var refusal *prompt.Refusal
	var variable *prompt.VariableError
	switch {
	case err == nil && len(segments) > 0:
		points := make([]liquid.Point, len(found))
		for i, p := range found {
			points[i] = liquid.Point(p)
		}
		return segments, points, nil
	case err == nil:
		return nil, nil, openai.NewError(openai.CodeTemplate, "messages", "these messages make an empty prompt")
	case errors.As(err, &refusal):
		return nil, nil, openai.NewError(openai.CodeTemplate, "messages", "%s", printable(refusal.Error()))
	case errors.As(err, &variable):
		return nil, nil, openai.NewError(openai.CodeInvalidValue, "chat_template_kwargs", "%s", printable(variable.Error()))
	case errors.Is(err, prompt.ErrUnsafe):
		return nil, nil, openai.NewError(openai.CodeTemplate, "messages", "%s", err)
	}
	// A template that renders a plain chat and fails on this one: the request is
	// out of the ordinary. The library's text would show the template's source.
	return nil, nil, openai.NewError(openai.CodeTemplate, "messages", "the model's chat template cannot render these messages")
}

// conversation is the request as the template's package wants it, its variables
// apart. developer is OpenAI's newer word for system, and templates know the older
// one. The tools are shown whatever tool_choice is: the prefix stays the same.
func conversation(req *openai.ChatRequest) prompt.Conversation {
	c := prompt.Conversation{Messages: make([]prompt.Message, len(req.Messages))}
	for _, t := range req.Tools {
		c.Tools = append(c.Tools, prompt.Tool{Name: t.Name, Definition: t.Definition})
	}
	for i, m := range req.Messages {
		p := prompt.Message{Role: *m.Role, Content: m.Content.Text, Name: m.Name, ToolCallID: m.ToolCallID, Breakpoints: m.Content.Breakpoints}
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

// conversation is the request as the model's template is to render it.
func (v *view) conversation(req *openai.ChatRequest) (c prompt.Conversation, e *openai.Error) {
	c = conversation(req)
	c.Generic = v.dialect.Generic()
	c.Variables, e = v.variables(req)
	return c, e
}

// variables are the template variables of a request. What is set in
// chat_template_kwargs wins over reasoning_effort.
func (v *view) variables(req *openai.ChatRequest) ([]byte, *openai.Error) {
	given := []byte(req.ChatTemplateKwargs)
	if string(given) == "null" {
		given = nil
	}
	if req.ReasoningEffort == nil {
		return given, nil
	}
	all := map[string]jsontext.Value{}
	if len(given) > 0 {
		if err := json.Unmarshal(given, &all); err != nil {
			return given, nil // the renderer refuses it by name
		}
	}
	effort := *req.ReasoningEffort
	name, value, ok := v.template.Abilities.Effort(effort)
	switch {
	case ok:
	case effort == effortNone && !v.dialect.Thinks:
		return given, nil // it asks for what the model does anyway
	default:
		return nil, openai.NewError(openai.CodeUnsupported, "reasoning_effort", "reasoning_effort is %q, which this model does not know: %s", effort, v.efforts())
	}
	if _, set := all[name]; !set {
		all[name] = jsontext.Value(value)
	}
	b, _ := json.Marshal(all, json.Deterministic(true))
	return b, nil
}

const effortNone = "none"

// efforts says which values of reasoning_effort the model takes.
func (v *view) efforts() string {
	known := slices.Clone(v.template.Abilities.Efforts)
	if _, _, ok := v.template.Abilities.Effort(effortNone); !slices.Contains(known, effortNone) && (ok || !v.dialect.Thinks) {
		known = append(known, effortNone)
	}
	if len(known) == 0 {
		return "its reasoning cannot be set"
	}
	return "allowed are " + strings.Join(known, ", ")
}

// usage counts what has ended so far.
func (j *job) usage() openai.Usage {
	var u openai.Usage
	for _, d := range j.ended {
		u.Add(d)
	}
	if o := j.outcome(); o != nil {
		u.PromptDetails = openai.PromptDetails{CachedTokens: o.PrefixTokens, CacheWriteTokens: o.Written}
	}
	if j.view.dialect.Thinks {
		u.CompletionDetails = new(openai.CompletionDetails)
		for i := range j.choices {
			u.CompletionDetails.ReasoningTokens += j.choices[i].reasoning
		}
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
	t.PrefillMS, t.EngineMS = round(t.PrefillMS), round(t.EngineMS)
	t.QueueMS = round(milliseconds(j.rec.queue) + queue)
	t.PromptMS = round(t.PromptMS + tokenize)
	g := gnosisOf(j.outcome())
	t.LoadMS = g.Timings.LoadMS
	g.Timings, g.RequestID = t, j.rec.id
	g.Station = &openai.Station{Build: j.view.health.Build, Backend: j.view.health.Backend.Selected}
	return g
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
