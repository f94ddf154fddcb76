package liquid

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"thoth/station/client"
	"thoth/station/wire"
)

// Request is one prompt of a chat or completion.
type Request struct {
	// Generate is what the native path sends, and what the liquid calls are made
	// of: both give the same answers. Its Fork is the number of choices, which
	// share one prefill on either path.
	Generate *wire.GenerateRequest

	Scope  string // see [Scope]
	Bypass bool   // the client wants none of it

	Group    string        // a client's label on what is kept
	TTL      time.Duration // keep at least so long, within the station's limits; 0: no promise
	Pin      bool          // keep until deleted, within the station's limits
	Points   []Point       // where a client marked the prompt, at most a few
	Explicit bool          // keep only up to the last point, and nothing without one
	Drafts   bool          // some answers will be thrown away, nobody knows yet which: none is kept

	// StripsReasoning: the template leaves an old answer's reasoning out, so that
	// an answer with reasoning will never be a prefix of the next turn.
	StripsReasoning bool
}

// shortest is the least length of a rendered prompt in bytes that may gain: below
// it the calls cost more than the tokens. It is less than any chat template makes
// of a sentence.
const shortest = 48

// Stream is a request on its way: frames as /generate gives them, whatever path
// they took. One goroutine uses it. It must be closed.
//
// It goes through staged (embed and load, in Open), forwarding, decoding, by calls
// of their own or in one (turn); from each, until the first token, a failure leads
// to native.
type Stream struct {
	m       *Manager
	ctx     context.Context
	q       *Request
	start   time.Time
	outcome *Outcome
	noted   bool // in the ledger

	phase   phase
	frames  *client.Stream
	ahead   *read // by More
	begun   bool  // a token has left, or the end of an answer
	session *session
	keeper  *keeper

	forward  wire.ForwardResponse
	decodeAt time.Time
	answers  []answer // by choice
	left     int      // of them have not ended

	turn   bool // one call for all
	cancel context.CancelFunc
	saved  kept // by it, so far
}

// answer is what is to be known of a choice before it is kept.
type answer struct {
	reasoning bool   // it closed a block of reasoning
	tail      string // of the text so far, for a marker cut in two
}

// read is what was read of the station.
type read struct {
	frame *wire.Frame
	err   error
}

type phase int

const (
	native phase = iota
	forwarding
	decoding
	over
)

// Open begins a request. Its error is one the native path would give.
func (m *Manager) Open(ctx context.Context, q *Request) (*Stream, error) {
	s := &Stream{m: m, ctx: ctx, q: q, start: time.Now(), left: q.Generate.Answers()}
	s.answers = make([]answer, s.left)
	if err := s.open(); err != nil {
		s.noted = true // what is served counts
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Stream) open() error {
	m, q := s.m, s.q
	switch {
	case !m.gate.on():
		return s.goNative(Disabled, ReasonOff)
	case q.Bypass:
		return s.goNative(Bypass, ReasonBypass)
	case promptBytes(&q.Generate.Prompt) < shortest:
		return s.goNative(Bypass, ReasonShort)
	case s.turns():
		return s.openTurn()
	}
	session, f := m.stage(s.ctx, q.Generate.Prompt, m.loading(q))
	if f != nil {
		return s.fallBack(f)
	}
	s.session, s.outcome, s.phase = session, m.restored(session), forwarding
	var err error
	if s.frames, err = m.o.Station.ForwardStream(s.ctx, &wire.ForwardRequest{Session: session.id}); err != nil {
		return s.fallBack(s.lost(err))
	}
	return nil
}

// loading is how a request's load is asked for. It waits while another session
// computes its prefix, as long as that one goes on: whoever went ahead would compute
// the same, beside it and beside all who wait. After LoadWait the station answers
// with what is there.
func (m *Manager) loading(q *Request) wire.KVLoadRequest {
	return wire.KVLoadRequest{Scope: q.Scope, Group: q.Group, Keep: !q.Explicit, WaitMS: new(max(1, m.o.LoadWait.Milliseconds()))}
}

// restored is the outcome as the load leaves it.
func (m *Manager) restored(s *session) *Outcome {
	o := &Outcome{Memory: Miss, Path: Liquid, Reason: reasonOf(s.load.Reason), PrefixTokens: s.load.Position, Tiers: s.load.Tiers,
		DiffersAt: s.load.DiffersAt, LoadMS: s.load.WaitMS + s.load.LoadMS,
		asked: s.length, token: s.load.PromptToken, stored: s.load.StoredToken}
	switch {
	case !s.loaded:
		o.Reason = ReasonLoad
	case isHit(s.load.Position, s.length, int(m.head.Load())):
		o.Memory = Hit
	case o.Reason == "":
		o.Reason = Reason(wire.KVNothing) // a miss has a reason
	}
	return o
}

// Outcome is what is known by now: complete once the last done frame is out. It is
// replaced, never changed. Choices of one prompt have one outcome.
func (s *Stream) Outcome() *Outcome { return s.outcome }

// Next returns the next frame, io.EOF after the last done frame, or *wire.Error.
func (s *Stream) Next() (*wire.Frame, error) {
	for {
		f, err := s.read()
		switch {
		case s.phase == native || s.phase == over || err == io.EOF:
			return f, err
		case err != nil && (s.begun || s.ctx.Err() != nil):
			return nil, err // too late for another path
		case s.turn && plain(err):
			return nil, err
		case err != nil:
			err = s.fallBack(s.lost(err))
		case f.Type == wire.FrameProgress:
			return f, nil
		case s.phase == forwarding:
			err = s.evaluated(f)
		case f.Type == wire.FrameDone:
			s.begun = true
			return s.finish(f), nil
		default:
			s.begun = true
			s.watch(f)
			return f, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// More tells that the next frame is here already, and that Next will not wait: for
// the last done frame it may, until the saves are known.
func (s *Stream) More() bool {
	switch {
	case s.phase == native || s.phase == over:
		return s.ahead != nil || s.frames.More()
	case s.ahead == nil && (s.phase == forwarding || !s.frames.More()):
		return false
	case s.ahead == nil:
		f, err := s.frames.Next()
		s.ahead = &read{f, err}
	}
	a := s.ahead
	return a.err == nil && (s.turn || !(a.frame.Type == wire.FrameDone && s.left == 1))
}

// read gives the station's next frame.
func (s *Stream) read() (*wire.Frame, error) {
	if a := s.ahead; a != nil {
		s.ahead = nil
		return a.frame, a.err
	}
	return s.frames.Next()
}

// evaluated goes from the end of the prefill to the decode.
func (s *Stream) evaluated(f *wire.Frame) error {
	switch s.session.began(f.Forward) {
	case afresh:
		s.outcome = s.outcome.dropped()
	case elsewhere:
		s.m.tell.mismatch()
		s.m.o.Log.Error().Int("load", s.session.load.Position).Interface("forward", f.Forward).Str("id", client.RequestID(s.ctx)).
			Msg("the evaluation did not start where the load ended; the prompt is computed anew")
		return s.fallBack(&failure{ReasonPosition, errPosition})
	}
	s.phase = decoding
	if s.turn {
		return nil
	}
	s.forward, s.decodeAt = *f.Forward, time.Now()
	_ = s.frames.Close()
	g := s.q.Generate
	var err error
	s.frames, err = s.m.o.Station.DecodeNext(s.ctx, &wire.DecodeRequest{Session: s.session.id, Sampling: &g.Sampling, N: g.MaxTokens, Stop: g.Stop, IgnoreEOG: g.IgnoreEOG,
		ControlText: g.ControlText, LeaveLast: true, Later: g.Later})
	if err != nil {
		return s.fallBack(s.lost(err))
	}
	// The first token is drawn; what follows runs beside the rest.
	s.keeper = s.m.keep(s.ctx, s.q, s.session)
	return nil
}

// lost words a failure of the phase's call.
func (s *Stream) lost(err error) *failure {
	switch {
	case s.turn && s.phase == forwarding:
		return &failure{ReasonForward, err}
	case s.turn:
		return &failure{ReasonDecode, err}
	case s.phase == forwarding:
		return s.m.failed(wire.RouteForward, ReasonForward, err)
	}
	return s.m.failed(wire.RouteDecodeNext, ReasonDecode, err)
}

// fallBack goes on with the native path. The session is given up beside it.
func (s *Stream) fallBack(f *failure) error {
	if s.ctx.Err() != nil {
		return f.err
	}
	s.m.o.Log.Warn().Err(f.err).Str("reason", f.reason.Sentence()).Str("id", client.RequestID(s.ctx)).Msg("liquid memory failed a request; it takes the native path")
	s.drop()
	memory := Miss
	if f.reason == ReasonRoute {
		memory = Disabled
	}
	err := s.goNative(memory, f.reason)
	var first, last *wire.Error
	if errors.As(f.err, &first) && errors.As(err, &last) {
		last.Taken = last.Taken || first.Taken // it is refused because of what it did to the station before, perhaps
	}
	return err
}

func (s *Stream) goNative(memory Memory, reason Reason) (err error) {
	s.phase = native
	s.outcome = &Outcome{Memory: memory, Path: Native, Reason: reason, DiffersAt: -1}
	s.frames, err = s.m.o.Station.Generate(s.ctx, s.q.Generate)
	return err
}

// finish completes a done frame and, with the last, the outcome.
func (s *Stream) finish(f *wire.Frame) *wire.Frame {
	switch {
	case s.turn:
		s.told(f)
	case f.Done != nil:
		s.account(f.Done)
	}
	if s.keeper != nil {
		s.keeper.ended <- s.ending(f)
	}
	if s.left--; s.left > 0 {
		return f
	}
	s.phase = over
	o := *s.outcome
	k := unsaved
	switch {
	case s.turn && s.saved.asked:
		k = s.saved
	case s.keeper != nil:
		k = s.keeper.saves(s.ctx, s.m.o.SaveWait)
	}
	o.KVSaved = k.asked && !k.failed
	o.Written, o.SavedTokens, o.Durable = k.prompt, k.all, o.KVSaved && k.durable
	if k.failed {
		o.Memory, o.Reason = CaptureFailed, ReasonSave
	}
	s.outcome = &o
	return f
}

// ending tells what of a choice's session the next turn can begin with.
func (s *Stream) ending(f *wire.Frame) ending {
	e := ending{session: s.session.id}
	d := f.Done
	if f.Choice > 0 {
		e.session = "" // unless the station has made one
		if d != nil {
			e.session = d.Session
		}
	}
	switch {
	case d == nil || s.answers[f.Choice].reasoning:
	case d.Position > 0:
		e.tokens = d.Position
	default:
		e.tokens = d.PromptTokens + d.CompletionTokens
	}
	return e
}

// account makes the timings those of one call, as /generate tells them.
func (s *Stream) account(d *wire.Done) {
	t := &d.Timings
	t.QueueMS += s.session.load.QueueMS + s.forward.QueueMS
	t.TokenizeMS += s.session.embedMS
	t.PrefillMS += s.forward.PrefillMS
	t.EngineMS += s.forward.EngineMS
	t.TTFTMS += float64(s.decodeAt.Sub(s.start).Microseconds()) / 1000
}

// reasoningEnd closes a block of reasoning in an answer's text.
const reasoningEnd = "</think>"

// watch looks for reasoning in the answer, over the frames' edges; of a turn the
// station does.
func (s *Stream) watch(f *wire.Frame) {
	a := &s.answers[f.Choice]
	if s.turn || !s.q.StripsReasoning || a.reasoning {
		return
	}
	seen := a.tail + f.Text
	a.reasoning = strings.Contains(seen, reasoningEnd)
	a.tail = seen[max(0, len(seen)-len(reasoningEnd)+1):]
}

// drop gives up the session: its keeper deletes it, or a task does.
func (s *Stream) drop() {
	if s.frames != nil {
		_ = s.frames.Close()
		s.frames = nil
	}
	switch {
	case s.keeper != nil:
		s.keeper.cut()
		s.keeper = nil
	case s.session != nil && !s.turn:
		ctx, m, id := s.ctx, s.m, s.session.id
		m.spawn(func() { m.end(ctx, id) })
	}
	s.session, s.turn = nil, false
}

// Ended tells that Close will not wait for the end of the station's stream.
func (s *Stream) Ended() bool { return s.frames == nil || s.frames.Ended() }

// Close ends the request; before its last done frame, it cancels it at the
// station.
func (s *Stream) Close() error {
	if s.cancel != nil {
		defer s.cancel()
	}
	if s.outcome != nil && !s.noted {
		s.noted = true
		s.m.record(s.ctx, s.outcome, len(s.answers))
		s.m.tell.wrote(s.saved.all)
	}
	if s.phase == over {
		return s.frames.Close()
	}
	s.drop()
	return nil
}

// promptBytes is the length of a prompt; tokens count as the text they mostly are.
func promptBytes(p *wire.Prompt) int {
	const tokenBytes = 4
	n := tokenBytes * len(p.Tokens)
	for _, s := range p.Segments {
		n += len(s.Text)
	}
	return n
}
