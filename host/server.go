package host

import (
	"context"
	"errors"
	stdlog "log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"thoth/host/grammar"
	"thoth/host/stored"
	"thoth/internal/listen"
	"thoth/internal/rawio"
	"thoth/liquid"
)

// Server is the host. Its life: New, Start, Serve, Drain, Close.
type Server struct {
	o          Options
	keys       keyring
	station    *watcher
	memory     *liquid.Manager
	stored     *stored.Store
	responses  responseStore // stored
	background *background
	bodies     bodyBudget
	answers    bodyBudget // of requests that have no place, or take one for one call
	unread     bodyBudget // answers of the others that have left their places, see run
	texts      *admission // by bytes, of requests that need no place
	deletions  *admission // reads of what is to be deleted
	grammars   *grammar.Cache
	docs       docs
	admission  *admission
	metrics    *metrics
	http       *http.Server
	started    time.Time
	draining   atomic.Bool
	answering  atomic.Int64 // requests that are read, until their clients have their answers

	toldUnforked atomic.Bool // that the station does not fork

	// hardStop ends requests that outlive the drain; its cause is an *openai.Error.
	hardStop context.Context
	stopHard context.CancelCauseFunc

	watching context.CancelFunc
	tasks    sync.WaitGroup
}

// HeapFloor is what a program that serves should hold by package gcfloor. With it a
// small request costs 105 microseconds instead of 165; more changes little.
const HeapFloor = 16 << 20

// New makes a server; nothing runs before Start.
func New(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	keys, err := o.allKeys()
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, keys: newKeyring(keys), started: time.Now()}
	s.station = newWatcher(o)
	if s.memory, err = s.newMemory(); err != nil {
		return nil, err
	}
	s.station.memory = s.memory
	s.bodies.most = o.MaxBodyMemory
	s.answers.most, s.answers.alone = o.MaxBodyMemory/2, true
	s.unread.most, s.unread.alone = o.MaxBodyMemory/2, true
	s.texts = newAdmission(int(largestTexts*o.BodyLimit), o.MaxBacklog)
	s.deletions = newAdmission(deletionReads, 0)
	s.grammars = grammar.NewCache(o.GrammarCache)
	s.admission = newAdmission(o.MaxInFlight, o.MaxBacklog)
	s.metrics = newMetrics(s.admission, func() bool { return s.station.current().ready() && !s.draining.Load() })
	s.metrics.sums.MustRegister(s.memory, s.keys)
	if s.stored, err = stored.Open(context.Background(), o.Responses); err != nil {
		return nil, err
	}
	s.responses, s.background = s.stored, newBackground(o)
	s.metrics.sums.MustRegister(s.stored)
	s.hardStop, s.stopHard = context.WithCancelCause(context.Background())
	s.http = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: o.HeaderTimeout,
		IdleTimeout:       o.IdleTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          stdlog.New(logWriter{o.Log}, "", 0),
	}
	return s, nil
}

// Handler is the whole public surface.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// Start begins to watch the station.
func (s *Server) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.watching = cancel
	s.tasks.Go(func() { s.station.run(ctx) })
}

// Serve answers on ln until Close; it owns ln.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(rawio.Listener(ln)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Drain refuses new chats, waits until the clients of those in flight have their answers,
// at most for the drain timeout and until ctx ends, and then ends the rest with an error. Probes are still answered:
// readiness is false.
func (s *Server) Drain(ctx context.Context) {
	s.draining.Store(true)
	s.http.SetKeepAlivesEnabled(false)
	deadline, cancel := context.WithTimeout(ctx, s.o.DrainTimeout)
	defer cancel()
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for s.busy() {
		select {
		case <-tick.C:
			continue
		case <-deadline.Done():
		}
		break
	}
	s.stopHard(errDraining())
}

// drainPoll is how often a drain looks for its end.
const drainPoll = 10 * time.Millisecond

// closeGrace is for the last events to leave; the requests have ended by then.
const closeGrace = time.Second

// Close stops serving and waits for all that runs.
func (s *Server) Close() error {
	s.draining.Store(true)
	s.stopHard(errDraining())
	err := listen.Close(s.http, closeGrace)
	s.background.wait()
	if s.watching != nil {
		s.watching()
	}
	s.tasks.Wait()
	s.memory.Close()
	s.o.Station.Close()
	return errors.Join(err, s.stored.Close())
}

func (s *Server) busy() bool {
	inFlight, waiting := s.admission.counts()
	return inFlight+waiting+s.background.underWay() > 0 || s.answering.Load() > 0
}

// logWriter takes net/http's own complaints, such as broken TLS handshakes.
type logWriter struct{ log zerolog.Logger }

func (l logWriter) Write(b []byte) (int, error) {
	l.log.Debug().Str("from", "net/http").Msg(string(b))
	return len(b), nil
}
