package host

import (
	"context"
	"net/http"
	"time"

	"thoth/host/openai"
)

// What a client may ask about text without an answer of the model: its tokens,
// the text of tokens, and the prompt a chat would make.

// tokenize is POST /tokenize.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	h := &hold{budget: &s.bodies}
	defer h.release() // the body counts until the station has read it
	body, v, limits, e := s.readText(w, r, h)
	if e != nil {
		fail(w, r, e)
		return
	}
	req, e := openai.DecodeTokenize(body, limits)
	if e == nil {
		e = v.mayAsk(req.Model)
	}
	if e != nil {
		fail(w, r, e)
		return
	}
	ctx, done := s.stationCall(r.Context())
	defer done()
	q := req.Wire()
	got, err := s.o.Station.Tokenize(ctx, q)
	if err != nil {
		fail(w, r, s.textError(ctx, err, req.Param))
		return
	}
	writeJSON(w, http.StatusOK, openai.NewTokenList(got, q.Pieces))
}

// detokenize is POST /detokenize.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	h := &hold{budget: &s.bodies}
	defer h.release()
	body, v, limits, e := s.readText(w, r, h)
	if e != nil {
		fail(w, r, e)
		return
	}
	req, e := openai.DecodeDetokenize(body, limits)
	if e == nil {
		e = v.mayAsk(req.Model)
	}
	if e != nil {
		fail(w, r, e)
		return
	}
	ctx, done := s.stationCall(r.Context())
	defer done()
	got, err := s.o.Station.Detokenize(ctx, req.Wire())
	if err != nil {
		fail(w, r, s.textError(ctx, err, "tokens"))
		return
	}
	writeJSON(w, http.StatusOK, openai.Detokenized{Content: got.Text})
}

// applyTemplate is POST /apply-template: the text that a chat with this body
// would send, and nothing else of it.
func (s *Server) applyTemplate(w http.ResponseWriter, r *http.Request) {
	h := &hold{budget: &s.bodies}
	defer h.release()
	body, v, limits, e := s.readText(w, r, h)
	if e != nil {
		fail(w, r, e)
		return
	}
	model := "-"
	if len(v.names) > 0 {
		model = v.names[0]
	}
	req, e := openai.DecodeTemplate(body, limits, model)
	if e == nil {
		e = v.refusal()
	}
	if e == nil {
		e = v.mayAsk(req.Model)
	}
	if e != nil {
		fail(w, r, e)
		return
	}
	c, e := v.conversation(req)
	if e != nil {
		fail(w, r, e)
		return
	}
	prompt, _, e := render(v.template, c, false)
	if e != nil {
		fail(w, r, e)
		return
	}
	writeJSON(w, http.StatusOK, openai.AppliedTemplate{Prompt: text(prompt)})
}

// readText is the start of a request about text: its body, what is known of the
// station, and the limits for the body.
func (s *Server) readText(w http.ResponseWriter, r *http.Request, h *hold) ([]byte, *view, openai.Limits, *openai.Error) {
	if s.draining.Load() {
		return nil, nil, openai.Limits{}, errDraining()
	}
	body, e := s.readBody(w, r, h)
	if e != nil {
		return nil, nil, openai.Limits{}, e
	}
	v := s.station.current()
	limits := s.o.Limits
	if v.model != nil {
		limits.Vocabulary = v.model.Vocabulary
	}
	return body, v, limits, nil
}

// mayAsk is the answer to a request that needs a model, and no template; nil
// where the station serves the model asked for, or none was.
func (v *view) mayAsk(model *string) *openai.Error {
	switch {
	case v.phase != phaseServing:
		return v.refusal()
	case model != nil && !v.serves(*model):
		return v.notFound(*model)
	}
	return nil
}

// stationCall bounds a call of the station that answers at once: by time, and by
// the ends of the server and of the station.
func (s *Server) stationCall(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	timer := time.AfterFunc(s.o.TokenTimeout, func() {
		s.station.suspect()
		cancel(openai.NewError(openai.CodeTimeout, "", "the station sent nothing for %s", s.o.TokenTimeout).Retry(5 * time.Second))
	})
	unbindStop := context.AfterFunc(s.hardStop, func() { cancel(context.Cause(s.hardStop)) })
	unbindStation := s.station.bind(cancel)
	return ctx, func() {
		timer.Stop()
		unbindStop()
		unbindStation()
		cancel(nil)
	}
}

// textError words the error of such a call; param is what the station names
// otherwise.
func (s *Server) textError(ctx context.Context, err error, param string) *openai.Error {
	if ctx.Err() != nil {
		return causeOf(ctx)
	}
	e := openai.FromWire(err)
	if e.Code == openai.CodeUnavailable {
		s.station.suspect()
	}
	if e.Status() == http.StatusBadRequest {
		e.Param = &param
	}
	return e
}
