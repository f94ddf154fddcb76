package host

import (
	"context"
	"errors"
	"net/http"
	"time"

	"thoth/host/openai"
	"thoth/station/wire"
)

// Requests about texts, whose answer comes whole from one call of the station. One
// takes one place however many texts it has: the station reads them in turns with
// those of others.

// answerOnce reads a request and writes what make answers to it.
func (s *Server) answerOnce(w http.ResponseWriter, r *http.Request, make func(context.Context, *intake) (any, *openai.Error)) {
	h, out := &hold{budget: &s.bodies}, &hold{budget: &s.answers}
	defer h.release()
	defer out.release()
	in, e := s.receive(w, r, h)
	s.answering.Add(1)
	defer s.answering.Add(-1)
	var answer any
	var b []byte
	if e == nil {
		answer, e = make(r.Context(), in)
	}
	if e == nil {
		b, e = s.encoded(answer, out)
	}
	if e != nil {
		fail(w, r, e)
		return
	}
	s.sendRaw(w, b)
}

// inTurn calls the station for a request that is read and valid, once it has a
// place, and for as long as its client, the station and the server last. It is one
// call whose answer comes at its end: PrefillTimeout bounds it.
func (s *Server) inTurn(parent context.Context, in *intake, call func(context.Context) *openai.Error) *openai.Error {
	rec := recordOf(parent)
	rec.model = in.view.names[0]
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	defer context.AfterFunc(s.hardStop, func() { cancel(context.Cause(s.hardStop)) })()
	defer s.station.bind(cancel)()

	place := s.admission.enter(1)
	if place == nil {
		return s.lineFull()
	}
	defer place.leave()
	select {
	case <-place.ready:
	case <-ctx.Done():
		return causeOf(ctx)
	}
	in.hold.release()
	rec.queue = time.Since(rec.arrived)
	silence := time.AfterFunc(s.o.PrefillTimeout, func() {
		s.station.suspect()
		cancel(openai.NewError(openai.CodeTimeout, "", "the station sent nothing for %s", s.o.PrefillTimeout).Retry(5 * time.Second))
	})
	defer silence.Stop()
	return call(ctx)
}

// callError words the station's error. What is wrong with the request has the name
// that named gives it, "" for what it has already.
func (s *Server) callError(ctx context.Context, err error, named func(*wire.Error, *openai.Error) string) *openai.Error {
	if ctx.Err() != nil {
		return causeOf(ctx)
	}
	e := openai.FromWire(err)
	if e.Code == openai.CodeUnavailable {
		s.station.suspect()
	}
	var we *wire.Error
	if e.Status() == http.StatusBadRequest && errors.As(err, &we) {
		if name := named(we, e); name != "" {
			e.Param = &name
		}
	}
	return e
}
