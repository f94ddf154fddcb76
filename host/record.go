package host

import (
	"context"
	"crypto/rand"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/rs/zerolog"

	"thoth/host/openai"
	"thoth/liquid"
	"thoth/station/client"
	"thoth/station/wire"
)

// record is what the log line and the metrics of a request are made of. The
// handler's goroutine alone writes it, and while its choices are read, their [feed].
type record struct {
	id      string
	key     string // the name of the caller's key; "" without keys
	arrived time.Time
	err     *openai.Error

	// A background response came of it, and leaves the key's limits in its place.
	detached bool

	// Of a chat.
	model    string
	stream   bool
	queue    time.Duration
	ttft     time.Duration
	usage    openai.Usage
	spent    openai.Usage    // so far, whether it comes to an end or not
	outcome  *liquid.Outcome // nil until a choice has ended
	prompt   string          // only when prompts are logged
	answered string
}

type recordKey struct{}

// recordOf is the request's record; [Server.observe] put it there.
func recordOf(ctx context.Context) *record {
	return ctx.Value(recordKey{}).(*record)
}

// clientID is what a client's own request id may look like: it goes into logs
// and headers as it is.
var clientID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// observe gives a request its id and record, turns a panic into a 500, and
// writes the log line and the metrics at the end.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &record{arrived: time.Now(), id: r.Header.Get(wire.HeaderRequestID)}
		if !clientID.MatchString(rec.id) {
			rec.id = "req-" + strings.ToLower(rand.Text())
		}
		w.Header().Set(wire.HeaderRequestID, rec.id)
		if ofMessages(r) {
			w.Header().Set(headerAnthropicID, rec.id)
		}
		ctx := context.WithValue(r.Context(), recordKey{}, rec)
		ctx = client.WithRequestID(ctx, rec.id)
		sw := &statusWriter{ResponseWriter: w}
		r = r.WithContext(ctx)
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				s.o.Log.Error().Str("id", rec.id).Interface("panic", p).Bytes("stack", debug.Stack()).Msg("handler panicked")
				rec.err = openai.NewError(openai.CodeInternal, "", "internal error; the log of request %s tells more", rec.id)
				if sw.status != 0 {
					s.finish(r, rec, sw)
					panic(http.ErrAbortHandler) // the answer is cut: say so by the connection
				}
				writeError(sw, r, rec.err)
			}
			s.finish(r, rec, sw)
		}()
		next.ServeHTTP(sw, r)
	})
}

// finish writes the log line and counts.
func (s *Server) finish(r *http.Request, rec *record, sw *statusWriter) {
	total := time.Since(rec.arrived)
	route := "unknown" // a client's path would be a label without bound
	if p := chi.RouteContext(r.Context()).RoutePattern(); p != "" {
		route = p
	}
	s.metrics.request(route, r.Method, sw.status, total, rec)
	e := s.o.Log.Info()
	switch {
	case openRoutes[route]:
		e = s.o.Log.Debug() // probes would drown the rest; what they see is logged when it changes
	case sw.status >= 500 || (rec.err != nil && rec.err.Status() >= 500):
		e = s.o.Log.Warn()
	}
	e = e.Str("id", rec.id).Str("method", r.Method).Str("route", route).Int("status", sw.status).Dur("total_ms", total)
	s.tell(e, rec, "request")
}

// tell ends a log line with what its record has.
func (s *Server) tell(e *zerolog.Event, rec *record, message string) {
	if rec.key != "" {
		e = e.Str("key", rec.key)
	}
	if rec.model != "" {
		o := rec.outcome
		if o == nil {
			o = &liquid.Outcome{Path: liquid.Native}
		}
		e = e.Str("model", rec.model).Str("path", string(o.Path)).Str("liquid", string(o.Memory)).Str("liquid_reason", o.MissReason()).
			Int("prefix_tokens", o.PrefixTokens).Bool("stream", rec.stream).
			Int("prompt_tokens", rec.usage.PromptTokens).Int("completion_tokens", rec.usage.CompletionTokens).
			Dur("queue_ms", rec.queue).Dur("ttft_ms", rec.ttft)
	}
	if rec.err != nil {
		e = e.Str("code", string(rec.err.Code)).Str("error", rec.err.Message)
	}
	if s.o.LogPrompts && rec.prompt != "" {
		e = e.Str("prompt", rec.prompt).Str("answer", rec.answered)
	}
	e.Msg(message)
}

// statusWriter remembers the status. Unwrap lets http.ResponseController reach
// Flush and the deadlines, without which a stream arrives all at its end.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) WriteHeader(code int) {
	if w.status == 0 {
		w.status = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// fail answers with an error and records it.
func fail(w http.ResponseWriter, r *http.Request, e *openai.Error) {
	recordOf(r.Context()).err = e
	writeError(w, r, e)
}
