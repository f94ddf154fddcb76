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
	s.answer(w, r, func(ctx context.Context, in *intake) (any, *openai.Error) {
		req, e := openai.DecodeTokenize(in.body, in.limits)
		if e == nil {
			e = in.view.mayAsk(req.Model)
		}
		if e != nil {
			return nil, e
		}
		q := req.Wire()
		got, err := s.o.Station.Tokenize(ctx, q)
		if err != nil {
			return nil, s.textError(ctx, err, req.Param)
		}
		return openai.NewTokenList(got, q.Pieces), nil
	})
}

// detokenize is POST /detokenize.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, func(ctx context.Context, in *intake) (any, *openai.Error) {
		req, e := openai.DecodeDetokenize(in.body, in.limits)
		if e == nil {
			e = in.view.mayAsk(req.Model)
		}
		if e != nil {
			return nil, e
		}
		got, err := s.o.Station.Detokenize(ctx, req.Wire())
		if err != nil {
			return nil, s.textError(ctx, err, "tokens")
		}
		return openai.Detokenized{Content: got.Text}, nil
	})
}

// applyTemplate is POST /apply-template: the text that a chat with this body
// would send, and nothing else of it.
func (s *Server) applyTemplate(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, func(ctx context.Context, in *intake) (any, *openai.Error) {
		model := "-"
		if len(in.view.names) > 0 {
			model = in.view.names[0]
		}
		req, e := openai.DecodeTemplate(in.body, in.limits, model)
		if e == nil {
			e = s.admits(ctx, in.view, *req.Model, req.Cache())
		}
		if e != nil {
			return nil, e
		}
		c, e := in.view.conversation(req)
		if e != nil {
			return nil, e
		}
		prompt, _, e := render(in.view.template, c, false)
		if e != nil {
			return nil, e
		}
		return openai.AppliedTemplate{Prompt: text(prompt)}, nil
	})
}

// Requests that need no place take turns by the bytes of their bodies: so many of the
// largest are worked on at once, or hundreds of small ones, which never wait behind the
// model's answers. What one makes in memory is many times its body, here and at the
// station.
const (
	largestTexts = 4
	leastText    = 64 << 10 // what a small one counts
)

// answer is a request that needs no place: reply makes its answer at once. Its body
// counts until then, and its answer from then on, apart from each other: clients that
// read slowly would take the room of all that others send.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, reply func(context.Context, *intake) (any, *openai.Error)) {
	h, out := &hold{budget: &s.bodies}, &hold{budget: &s.answers}
	defer h.release()
	defer out.release()
	in, e := s.receive(w, r, h)
	s.answering.Add(1)
	defer s.answering.Add(-1)
	var b []byte
	if e == nil {
		b, e = s.atOnce(r.Context(), in, out, reply)
	}
	h.release()
	if e != nil {
		fail(w, r, e)
		return
	}
	s.sendRaw(w, b)
}

// atOnce makes the answer when it is its turn.
func (s *Server) atOnce(ctx context.Context, in *intake, out *hold, reply func(context.Context, *intake) (any, *openai.Error)) ([]byte, *openai.Error) {
	turn := s.texts.enter(max(len(in.body), leastText))
	if turn == nil {
		return nil, s.lineFull()
	}
	defer turn.leave()
	select {
	case <-turn.ready:
	case <-ctx.Done():
		return nil, causeOf(ctx)
	case <-s.hardStop.Done():
		return nil, causeOf(s.hardStop)
	}
	v, e := s.replied(ctx, in, reply)
	if e != nil {
		return nil, e
	}
	return s.encoded(v, out)
}

// smallAnswer is one that always has room, and counts nothing: a connection takes as much
// before its client reads any, and a few that read no large ones must not keep everybody
// from counting tokens.
const smallAnswer = 64 << 10

// encoded is an answer as it is sent, held by out until it is. One that is larger than
// all the room there is has it alone.
func (s *Server) encoded(v any, out *hold) ([]byte, *openai.Error) {
	b := openai.Encode(v)
	if len(b) > smallAnswer && !out.take(int64(len(b))) {
		return nil, s.answersFull()
	}
	return b, nil
}

// roomFor refuses what will have an answer of about n bytes before the station works on
// it, where there is no room for that. It takes none: most are read at once.
func (s *Server) roomFor(n int64) *openai.Error {
	if n > smallAnswer && !s.answers.has(n) {
		return s.answersFull()
	}
	return nil
}

func (s *Server) answersFull() *openai.Error {
	return openai.NewError(openai.CodeOverloaded, "", "the server is busy: answers that other clients have not read yet fill their memory of %d bytes", s.answers.most).Retry(s.retryAfter())
}

// lineFull is the answer where no more may wait.
func (s *Server) lineFull() *openai.Error {
	return openai.NewError(openai.CodeOverloaded, "", "the server is busy: %d requests are waiting already", s.o.MaxBacklog).Retry(s.retryAfter())
}

// replied ends the call of the station with its reply: no station is to be
// suspected because a client reads slowly.
func (s *Server) replied(parent context.Context, in *intake, reply func(context.Context, *intake) (any, *openai.Error)) (any, *openai.Error) {
	ctx, done := s.stationCall(parent)
	defer done()
	return reply(ctx, in)
}

// sendRaw writes an answer, for as long as a client may take to read it. Its end, which
// the handler's sends, is under the deadline of its last piece.
func (s *Server) sendRaw(w http.ResponseWriter, b []byte) {
	s.answering.Add(1)
	defer s.answering.Add(-1)
	writePieces(w, b, s.o.WriteTimeout)
	_, _ = w.Write([]byte{'\n'}) // b may be another's, and is large
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
