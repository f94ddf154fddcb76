package host

import (
	"net/http"
	"time"

	"thoth/host/openai"
	"thoth/host/responses"
)

// follow sends the events of a background run from number next on, and those to come,
// until its end. The client may go and come back: the run goes on.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, log *eventLog, next int) {
	if !log.enter() {
		fail(w, r, openai.NewError(openai.CodeBackground, "stream", "stream: at most %d clients may read the events of a response at once, and so many do", mostReaders).Retry(5*time.Second))
		return
	}
	defer log.leave()
	s.answering.Add(1) // the run may be over before its last events are read
	defer s.answering.Add(-1)
	h := w.Header()
	h.Set("Content-Type", eventStreamType+"; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	rc := http.NewResponseController(w)
	defer func() { _ = rc.SetWriteDeadline(time.Time{}) }()
	send := func(b []byte) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(s.o.WriteTimeout))
		if _, err := w.Write(b); err != nil {
			return false
		}
		return rc.Flush() == nil
	}
	ping := newPulse(s.o.PingInterval)
	defer ping.stop()
	w.WriteHeader(http.StatusOK)
	for buf := []byte(nil); ; buf = buf[:0] {
		events, known, over, dropped, more := log.from(next)
		if dropped {
			e := openai.NewError(openai.CodeSlowReader, "", "the events from number %d on are no longer held: the client was too slow to read them", next)
			recordOf(r.Context()).err = e
			send(responses.AppendError(buf, e, next))
			return
		}
		for _, e := range events {
			buf = append(buf, e...)
		}
		if next = max(next, known); len(buf) > 0 {
			if !send(buf) {
				return
			}
			ping.beat()
			continue
		}
		if over {
			return
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		case <-ping.C():
			if !send(openai.AppendPing(nil)) {
				return
			}
			ping.beat()
		}
	}
}
