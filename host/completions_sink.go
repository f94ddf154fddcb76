package host

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"thoth/host/dialect"
	"thoth/host/openai"
	"thoth/station/wire"
)

// textAnswer collects a whole answer of /v1/completions.
type textAnswer struct {
	wholeAnswer
	w       http.ResponseWriter
	j       *job
	told    *echoes
	head    openai.Head
	timeout time.Duration // of the write
	choices []textChoice
}

// textChoice is a choice as it grows.
type textChoice struct {
	text   strings.Builder
	tokens []wire.TokenLogprob
	sum    float64 // of the log-probabilities
	finish string
}

// mean is the mean log-probability of the choice's tokens; an empty one is the
// worst answer.
func (c *textChoice) mean() float64 {
	if len(c.tokens) == 0 {
		return math.Inf(-1)
	}
	return c.sum / float64(len(c.tokens))
}

var _ sink = (*textAnswer)(nil)

func newTextAnswer(w http.ResponseWriter, j *job, told *echoes, head openai.Head, timeout time.Duration) *textAnswer {
	return &textAnswer{w: w, j: j, told: told, head: head, timeout: timeout, choices: make([]textChoice, len(j.calls))}
}

func (a *textAnswer) write(i int, e dialect.Event, lp []wire.TokenLogprob) {
	c := &a.choices[i]
	c.text.WriteString(e.Text)
	c.tokens = append(c.tokens, lp...)
	for _, t := range lp {
		c.sum += float64(t.Logprob)
	}
}

func (a *textAnswer) done(i int, d *wire.Done, _ bool) {
	a.choices[i].finish = openai.FinishReason(d.Reason, false)
}

func (a *textAnswer) end() {
	req := a.told.req
	best, n := req.Best(), req.Choices()
	choices := make([]openai.TextChoice, 0, n*a.j.prompts)
	for p := range a.j.prompts {
		for _, c := range ranked(a.choices[p*best:(p+1)*best], n) {
			out := openai.TextChoice{Index: len(choices), Text: a.told.texts[p] + c.text.String(), FinishReason: &c.finish}
			if req.Logprobs != nil {
				out.Logprobs = openai.NewTextLogprobs()
				out.Logprobs.Append(a.told.logprobs[p])
				out.Logprobs.Add(c.tokens, a.told.ends[p])
			}
			choices = append(choices, out)
		}
	}
	a.j.writeWhole(a.w, openai.NewTextCompletion(a.head, choices, a.j.usage(), a.j.gnosis()), a.timeout)
}

// ranked gives the n likeliest choices of one prompt, the best first; all of them
// as they are where n is their number.
func ranked(choices []textChoice, n int) []*textChoice {
	out := make([]*textChoice, len(choices))
	for i := range choices {
		out[i] = &choices[i]
	}
	if n < len(out) {
		slices.SortStableFunc(out, func(a, b *textChoice) int { return cmp.Compare(b.mean(), a.mean()) })
	}
	return out[:n]
}

func (a *textAnswer) fail(e *openai.Error) { openai.WriteError(a.w, e) }

// textStream writes the event stream of /v1/completions.
//
// Invariants: a choice's pieces together are its whole text, the echo first; each
// choice ends with one event that has a finish_reason; [DONE] follows only a whole
// answer.
type textStream struct {
	openAIEvents
	told   *echoes
	enc    *openai.TextEncoder
	opened []bool // choices whose echo is out
	ends   []int  // of the choices' texts, in characters
}

var _ sink = (*textStream)(nil)

func newTextStream(w http.ResponseWriter, j *job, told *echoes, head openai.Head, timeout time.Duration) *textStream {
	return &textStream{openAIEvents: openAIEvents{newEventWriter(w, j, timeout)}, told: told, enc: openai.NewTextEncoder(head, told.req.IncludeUsage()),
		opened: make([]bool, len(j.calls)), ends: make([]int, len(j.calls))}
}

// open writes the echo.
func (s *textStream) open(i int) {
	if s.opened[i] {
		return
	}
	s.opened[i] = true
	if !s.told.req.Echo {
		return
	}
	p := i / s.told.req.Best()
	s.ends[i] = s.told.ends[p]
	s.buf = s.enc.Choice(s.buf, i, s.told.texts[p], s.told.logprobs[p], "", nil)
}

func (s *textStream) write(i int, e dialect.Event, tokens []wire.TokenLogprob) {
	var lp *openai.TextLogprobs
	if s.told.req.Logprobs != nil && len(tokens) > 0 {
		lp = openai.NewTextLogprobs()
		s.ends[i] = lp.Add(tokens, s.ends[i])
	}
	s.buf = s.enc.Choice(s.buf, i, e.Text, lp, "", nil)
}

func (s *textStream) done(i int, d *wire.Done, _ bool) {
	var g *openai.Gnosis
	if s.j.left == 0 && !s.told.req.IncludeUsage() {
		g = s.j.gnosis()
	}
	s.buf = s.enc.Choice(s.buf, i, "", nil, openai.FinishReason(d.Reason, false), g)
}

func (s *textStream) end() {
	defer s.trail()
	if s.told.req.IncludeUsage() {
		s.buf = s.enc.Usage(s.buf, s.j.usage(), s.j.gnosis())
	}
	s.buf = openai.AppendDone(s.buf)
	s.flush()
}
