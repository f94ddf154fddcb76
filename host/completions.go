package host

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"thoth/host/openai"
	"thoth/liquid"
	"thoth/station/wire"
)

// completions is POST /v1/completions: text goes on without a chat template. What
// a client gives as text never becomes a control token; it may give tokens.
func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	s.serve(w, r, openai.WriteError, func(in *intake) (*job, sink, *openai.Error) {
		req, e := openai.DecodeCompletion(in.body, in.limits)
		if e != nil {
			return nil, nil, e
		}
		if e := in.view.mayAsk(req.Model); e != nil {
			return nil, nil, e
		}
		if e := in.view.mayWrite(*req.Model); e != nil {
			return nil, nil, e
		}
		if e := s.mayPin(r.Context(), req.Cache()); e != nil {
			return nil, nil, e
		}
		prompts, e := s.prompts(r.Context(), in.view, req)
		if e != nil {
			return nil, nil, e
		}
		j := s.newCompletion(r.Context(), in, req, prompts)
		head := openai.Head{ID: "cmpl-" + strings.ToLower(rand.Text()), Created: j.rec.arrived.Unix(), Model: in.view.names[0], Fingerprint: in.view.fingerprint}
		told := &echoes{req: req, texts: make([]string, len(prompts)), logprobs: make([]*openai.TextLogprobs, len(prompts)), ends: make([]int, len(prompts))}
		told.begin()
		if req.Echo || req.Cap() == 0 {
			j.before = func(ctx context.Context, p int, send func(event) bool) error {
				return s.read(ctx, in.view, told, p, prompts[p], send)
			}
		}
		if req.Stream {
			return j, newTextStream(w, j, told, head, s.o.WriteTimeout), nil
		}
		return j, newTextAnswer(w, j, told, head, s.o.WriteTimeout), nil
	})
}

// prompts are the request's as the station gets them.
func (s *Server) prompts(ctx context.Context, v *view, req *openai.CompletionRequest) ([]wire.Prompt, *openai.Error) {
	all := make([]wire.Prompt, len(req.Prompt))
	var fill *infill
	if req.Suffix != nil {
		var e *openai.Error
		if fill, e = s.infill(ctx); e != nil {
			return nil, e
		}
	}
	for i, p := range req.Prompt {
		special := v.model.Special
		switch {
		case p.Tokens != nil:
			all[i].Tokens = p.Tokens
		case fill != nil:
			all[i].Segments = fill.around(p.Text, *req.Suffix)
		case p.Text == "" && special.BOS >= 0 && special.BOSText != "":
			all[i].Tokens = []int32{special.BOS} // the beginning of a text
		default:
			all[i].Segments = []wire.Segment{{Text: p.Text}}
		}
	}
	return all, nil
}

// newCompletion makes the job of a completion.
func (s *Server) newCompletion(ctx context.Context, in *intake, req *openai.CompletionRequest, prompts []wire.Prompt) *job {
	best := req.Best()
	j := s.newJob(ctx, in, req.Stream, best*len(prompts))
	j.prompts = len(prompts)
	j.param = func(name string) string {
		if name == "messages" {
			return "prompt"
		}
		return name
	}
	cache := req.Cache()
	for i := range j.calls {
		j.calls[i] = liquid.Request{Generate: req.Generate(prompts[i/best], i%best, in.view.health.ContextLength), Bypass: in.bypass,
			Scope: liquid.Scope(scopeKey(ctx), cache.Salt), Group: cache.Group, TTL: cache.TTL, Pin: cache.Pin, Explicit: cache.Explicit, Drafts: best > req.Choices()}
	}
	if s.o.LogPrompts {
		j.rec.prompt = text(prompts[0].Segments)
	}
	return j
}

// infill is how a model that fills in the middle wants the text around the hole.
type infill struct{ prefix, suffix, middle string }

// infills are those of the families. What a model has is found by its vocabulary.
var infills = []infill{
	{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},    // Qwen, CodeGemma
	{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},          // StarCoder, Granite
	{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},          // DeepSeek
	{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"}, // GLM
}

// infill asks the station which markers are tokens of the model.
func (s *Server) infill(ctx context.Context) (*infill, *openai.Error) {
	ctx, done := s.stationCall(ctx)
	defer done()
	for _, f := range infills {
		q := &wire.TokenizeRequest{Prompt: wire.Prompt{AddBOS: new(bool)}}
		for _, marker := range []string{f.prefix, f.suffix, f.middle} {
			q.Prompt.Segments = append(q.Prompt.Segments, wire.Segment{Text: marker, Special: true})
		}
		got, err := s.o.Station.Tokenize(ctx, q)
		if err != nil {
			return nil, s.textError(ctx, err, "suffix")
		}
		if len(got.Tokens) == len(q.Prompt.Segments) {
			return &f, nil
		}
	}
	return nil, openai.NewError(openai.CodeUnsupported, "suffix", "suffix is not supported by this model: it has no tokens to fill in the middle")
}

// around is the prompt for what stands between prefix and suffix.
func (f *infill) around(prefix, suffix string) []wire.Segment {
	return []wire.Segment{{Text: f.prefix, Special: true}, {Text: prefix}, {Text: f.suffix, Special: true}, {Text: suffix}, {Text: f.middle, Special: true}}
}

// read is what goes ahead of a prompt's answers: its text where the client gave
// tokens and wants to see it, its log-probabilities, and the ends of the answers
// where none is asked for.
func (s *Server) read(ctx context.Context, v *view, told *echoes, p int, prompt wire.Prompt, send func(event) bool) error {
	req, tokens := told.req, 0
	switch {
	case req.Echo && req.Logprobs != nil:
		scored, err := s.score(ctx, prompt, int(*req.Logprobs), send)
		if err != nil {
			return err
		}
		tokens = len(scored)
		if special := v.model.Special; req.Prompt[p].Tokens == nil && len(scored) > 0 && (special.AddBOS || prompt.Tokens != nil) && scored[0].ID == special.BOS {
			scored = scored[1:] // the client did not write it
		}
		whole := tokens == len(scored)
		if !send(event{do: func() { told.scored(p, scored, whole) }}) {
			return nil
		}
	case req.Echo && req.Prompt[p].Tokens != nil:
		got, err := s.o.Station.Detokenize(ctx, &wire.DetokenizeRequest{Tokens: prompt.Tokens, Special: true})
		if err != nil {
			return err
		}
		if !send(event{do: func() { told.texts[p] = got.Text }}) {
			return nil
		}
		tokens = len(prompt.Tokens)
	case req.Cap() == 0:
		got, err := s.o.Station.Tokenize(ctx, &wire.TokenizeRequest{Prompt: prompt})
		if err != nil {
			return err
		}
		tokens = len(got.Tokens)
	}
	if req.Cap() > 0 {
		return nil
	}
	for i := range req.Best() {
		end := &wire.Frame{Type: wire.FrameDone, Done: &wire.Done{Reason: wire.ReasonLength, PromptTokens: tokens}}
		if !send(event{choice: i, frame: end, outcome: &liquid.Outcome{Memory: liquid.Bypass, Path: liquid.Native, Reason: liquid.ReasonBypass, DiffersAt: -1}}) {
			return nil
		}
	}
	return nil
}

// scoreChunk is the number of tokens scored by one call. What it tells of them is a
// single frame, whose length the client bounds.
const scoreChunk = 4096

// score evaluates a prompt and gives the log-probability of each of its tokens.
func (s *Server) score(ctx context.Context, prompt wire.Prompt, top int, send func(event) bool) ([]wire.TokenLogprob, error) {
	staged, err := s.o.Station.Embed(ctx, &wire.EmbedRequest{Prompt: prompt})
	if err != nil {
		return nil, err
	}
	defer s.forget(ctx, staged.Session)
	all := make([]wire.TokenLogprob, 0, staged.Staged)
	for left := staged.Staged; left > 0; left -= scoreChunk {
		scored, err := s.scoreNext(ctx, &wire.ForwardRequest{Session: staged.Session, Count: min(left, scoreChunk), Logprobs: true, TopLogprobs: top}, send)
		if err != nil {
			return nil, err
		}
		all = append(all, scored...)
	}
	return all, nil
}

func (s *Server) scoreNext(ctx context.Context, q *wire.ForwardRequest, send func(event) bool) ([]wire.TokenLogprob, error) {
	frames, err := s.o.Station.ForwardStream(ctx, q)
	if err != nil {
		return nil, err
	}
	defer frames.Close()
	for {
		f, err := frames.Next()
		switch {
		case err != nil:
			return nil, err
		case f.Type == wire.FrameProgress:
			if !send(event{frame: f}) {
				return nil, ctx.Err()
			}
		case f.Forward != nil:
			return f.Forward.Logprobs, nil
		}
	}
}

// forget ends a session at the station, also when the client has gone: else it is
// kept until it expires. A call broken off may still be using it for a moment.
func (s *Server) forget(ctx context.Context, session string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	pause := 25 * time.Millisecond
	for {
		_, err := s.o.Station.KVDelete(ctx, session, &wire.KVDeleteRequest{})
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != wire.CodeBusy {
			return
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
			return
		}
	}
}

// echoes are what the answers to a request begin with: nothing, or their prompt.
// The sink's goroutine alone uses them.
type echoes struct {
	req      *openai.CompletionRequest
	texts    []string               // by prompt
	logprobs []*openai.TextLogprobs // by prompt; nil unless asked for
	ends     []int                  // of the texts, in characters
}

// begin fills in what is known before the station is asked.
func (e *echoes) begin() {
	for p := range e.texts {
		if e.req.Echo {
			e.texts[p] = e.req.Prompt[p].Text
		}
		if e.req.Logprobs != nil {
			e.logprobs[p] = openai.NewTextLogprobs()
		}
	}
}

// scored takes the tokens of prompt p; whole tells that the first has none before
// it.
func (e *echoes) scored(p int, tokens []wire.TokenLogprob, whole bool) {
	e.ends[p] = e.logprobs[p].Add(tokens, 0)
	if whole {
		e.logprobs[p].First()
	}
	if e.req.Prompt[p].Tokens != nil {
		var b []byte
		for _, t := range tokens {
			b = append(b, t.Bytes...)
		}
		e.texts[p] = strings.ToValidUTF8(string(b), "\ufffd")
	}
}
