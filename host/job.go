package host

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"thoth/host/openai"
	"thoth/host/prompt"
	"thoth/liquid"
	"thoth/station/wire"
)

// intake is a request as it arrived: what every endpoint that answers with text of
// the model starts from.
type intake struct {
	body   []byte
	limits openai.Limits // for the body, the model's vocabulary among them
	view   *view
	bypass bool  // of liquid memory
	hold   *hold // of the body
}

// task is a chat in the names of no API: what an endpoint makes of its request.
type task struct {
	stream       bool
	conversation prompt.Conversation
	prefill      string // text the answers go on from, as if the model had written it
	cache        openai.CacheControl

	// What the answers must be.
	tools    []openai.Tool
	choice   openai.ToolChoice
	parallel bool // more than one call in an answer
	format   openai.Format

	// How they are made. generate makes the station's request of choice i;
	// contextLength and defaultCap bound its tokens, 0 means unknown and none.
	choices  int
	generate func(prompt []wire.Segment, i, contextLength, defaultCap int) *wire.GenerateRequest

	// param is the endpoint's name for a parameter of the chat completions API, for
	// errors; nil where they are the same.
	param func(string) string
}

// job is a request on its way.
type job struct {
	rec  *record
	view *view
	body *hold // until it has a place

	// prompts is the number of prompts, each with as many choices, one prompt's after
	// the other's. before goes ahead of a prompt's choices, nil for nothing; it also
	// ends those that have nothing to generate.
	prompts int
	before  func(ctx context.Context, prompt int, send func(event) bool) error

	calls    []liquid.Request // by choice; those of one prompt differ in nothing but the seed, which counts up
	promptMS float64
	shape    shape
	param    func(string) string // see task

	place    *ticket
	counted  bool              // it was let in elsewhere, and finds no line full
	placed   func()            // called when it has its place; nil for nobody
	parted   func()            // called when it has left it; nil for nobody
	taken    bool              // the station may have had it: it was called, and did not refuse
	outcomes []*liquid.Outcome // by choice, the same one where a call answers several; nil while nothing is known
	choices  []choice
	ended    []*wire.Done // by choice; nil until it has ended
	left     int          // choices that have not ended
	said     int64        // about the bytes of their answers
	charged  []charged    // by prompt
}

// charged is what a prompt costs its key were the request broken off now.
type charged struct {
	tokens int
	length int  // of the prompt, as far as the station has told; 0: it has not
	begun  bool // an answer to it
}

// bytesPerToken is for prompts whose length in tokens is not told in time: about
// that of English text, so that a guess is rather too low for others.
const bytesPerToken = 4

// guessed is how many tokens a text may have.
func guessed(text string) int { return (len(text) + bytesPerToken - 1) / bytesPerToken }

// serve runs the job that prepare makes of a request: all that needs no place is
// done there, so that everything wrong with a request is said before it waits.
// write answers with an error of before.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, write func(http.ResponseWriter, *openai.Error),
	prepare func(*intake) (*job, sink, *openai.Error)) {
	h := &hold{budget: &s.bodies}
	defer h.release()
	in, e := s.receive(w, r, h)
	s.answering.Add(1) // not before: who sends slowly keeps no server from its end
	defer s.answering.Add(-1)
	var j *job
	var out sink
	if e == nil {
		j, out, e = prepare(in)
	}
	if e != nil {
		recordOf(r.Context()).err = e
		write(w, e)
		return
	}
	if j == nil {
		return // it is answered in another way
	}
	// The next request of the connection starts without this one's deadline.
	defer func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) }()
	if e := s.run(r.Context(), j, out); e != nil {
		j.rec.err = e
		out.fail(e)
	}
}

// receive reads a request.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, h *hold) (*intake, *openai.Error) {
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
	in := &intake{body: body, limits: s.o.Limits, view: s.station.current(), bypass: bypass, hold: h}
	if in.view.model != nil {
		in.limits.Vocabulary = in.view.model.Vocabulary
	}
	return in, nil
}

// admits tells whether a chat with this model can be served now, and whether its
// key may keep what it asks to be kept.
func (s *Server) admits(ctx context.Context, v *view, model string, cache openai.CacheControl) *openai.Error {
	if e := v.refusal(); e != nil {
		return e
	}
	if !v.serves(model) {
		return v.notFound(model)
	}
	if e := v.mayWrite(model); e != nil {
		return e
	}
	return s.mayPin(ctx, cache)
}

// newChat makes the job of a chat whose preparation began at start.
func (s *Server) newChat(ctx context.Context, in *intake, start time.Time, t *task) (*job, *openai.Error) {
	j := s.newJob(ctx, in, t.stream, t.choices)
	j.param = t.param
	segments, points, e := render(in.view.template, t.conversation, s.memory.On())
	if e != nil {
		return nil, j.named(e)
	}
	if j.shape, e = s.shape(t, in.view.dialect, segments); e != nil {
		return nil, j.named(e)
	}
	if e := in.view.mayContinue(t.prefill, segments); e != nil {
		return nil, e
	}
	segments = withPrefill(segments, t.prefill)
	j.promptMS = milliseconds(time.Since(start))
	memory := liquid.Request{Bypass: in.bypass, Scope: liquid.Scope(scopeKey(ctx), t.cache.Salt), Group: t.cache.Group, TTL: t.cache.TTL,
		Pin: t.cache.Pin, Points: points, Explicit: t.cache.Explicit, StripsReasoning: in.view.stripsReasoning}
	for i := range j.calls {
		j.calls[i] = memory
		j.calls[i].Generate = t.generate(segments, i, in.view.health.ContextLength, s.o.DefaultMaxTokens)
		j.shape.apply(j.calls[i].Generate)
	}
	if s.o.LogPrompts {
		j.rec.prompt = text(segments)
	}
	return j, nil
}

// mayContinue is the answer to a request that begins the model's answer where this
// model cannot go on, nil for another.
func (v *view) mayContinue(prefill string, prompt []wire.Segment) *openai.Error {
	if prefill == "" || !v.dialect.Opens(tail(prompt)) {
		return nil
	}
	return openai.NewError(openai.CodeUnsupported, "messages", "messages end with an assistant message, and this model reasons before it answers: it cannot go on from there")
}

// withPrefill is a prompt with the beginning of its answer.
func withPrefill(segments []wire.Segment, text string) []wire.Segment {
	if text == "" {
		return segments
	}
	return append(segments, wire.Segment{Text: text})
}

// newJob makes a job of n choices, whose calls are still to be filled in.
func (s *Server) newJob(ctx context.Context, in *intake, stream bool, n int) *job {
	rec := recordOf(ctx)
	rec.model, rec.stream = in.view.names[0], stream
	return &job{rec: rec, view: in.view, body: in.hold, prompts: 1, calls: make([]liquid.Request, n), outcomes: make([]*liquid.Outcome, n),
		ended: make([]*wire.Done, n), left: n}
}

// charge sets what the prompt of a choice costs. A prompt counts once, and every
// one counts.
func (j *job) charge(choice, tokens int) {
	c := j.chargeOf(choice)
	j.rec.spent.PromptTokens += tokens - c.tokens
	c.tokens = tokens
}

func (j *job) chargeOf(choice int) *charged {
	if j.charged == nil {
		j.charged = make([]charged, j.prompts)
	}
	return &j.charged[choice*j.prompts/len(j.calls)]
}

// progress charges what the station has evaluated of a choice's prompt.
func (j *job) progress(choice int, p *wire.Progress) {
	c := j.chargeOf(choice)
	c.length = max(c.length, p.Total)
	j.charge(choice, max(c.tokens, p.Position))
}

// begun charges the whole prompt of a choice whose first token is there, as far as
// its length is known.
func (j *job) begun(choice int) {
	c := j.chargeOf(choice)
	c.begun = true
	j.charge(choice, max(c.tokens, c.length))
}

// brokenOff charges a guess for prompts that were answered and of which the station
// has told nothing: it tells of what it evaluates, and all of these was restored.
func (j *job) brokenOff() {
	for i := range j.calls {
		if c, q := j.chargeOf(i), j.calls[i].Generate; c.begun && c.tokens == 0 && q != nil {
			j.charge(i, len(q.Prompt.Tokens)+guessed(text(q.Prompt.Segments)))
		}
	}
}

// named gives an error the name that the job's endpoint has for its parameter.
func (j *job) named(e *openai.Error) *openai.Error {
	return renamed(j.shape.named(e), j.param)
}

// renamed gives an error the name that param has for its parameter; nil changes none.
func renamed(e *openai.Error, param func(string) string) *openai.Error {
	if param != nil && e.Param != nil {
		was := *e.Param
		name := param(was)
		e.Param = &name
		if rest, ok := strings.CutPrefix(e.Message, was+" "); ok {
			e.Message = name + " " + rest
		}
	}
	return e
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
	var size *prompt.SizeError
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
	case errors.As(err, &size):
		return nil, nil, openai.NewError(openai.CodeInvalidValue, size.Param, "%s", size)
	case errors.Is(err, prompt.ErrUnsafe):
		return nil, nil, openai.NewError(openai.CodeTemplate, "messages", "%s", err)
	}
	// A template that renders a plain chat and fails on this one: the request is
	// out of the ordinary. The library's text would show the template's source.
	return nil, nil, openai.NewError(openai.CodeTemplate, "messages", "the model's chat template cannot render these messages")
}

// usage counts what has ended so far. A prompt counts once, whatever the number of
// its choices.
func (j *job) usage() openai.Usage {
	var u openai.Usage
	each := len(j.calls) / j.prompts
	for p := range j.prompts {
		var one openai.Usage
		for _, d := range j.ended[p*each : (p+1)*each] {
			if d != nil {
				one.Add(d)
			}
		}
		u.PromptTokens += one.PromptTokens
		u.CompletionTokens += one.CompletionTokens
		if o := together(j.outcomes[p*each : (p+1)*each]); o != nil {
			u.PromptDetails.CachedTokens += o.PrefixTokens
			u.PromptDetails.CacheWriteTokens += o.Written
		}
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	if j.view.dialect != nil && j.view.dialect.Thinks {
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
		if d == nil {
			continue
		}
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
