package liquid

import (
	"context"
	"errors"
	"strings"
	"time"

	"thoth/station/client"
	"thoth/station/wire"
)

// A turn is a request in one call of the station, which restores, evaluates, decodes
// and saves by itself (see [wire.KVTurn]).

// turns tells whether a request can be a turn. One with breakpoints is made of its
// single calls: they are placed in the prompt's tokens, which have to be asked for.
func (s *Stream) turns() bool {
	return s.m.gate.turns() && !s.q.Explicit && len(s.q.Points) == 0
}

// openTurn begins a turn, and reads what was restored.
func (s *Stream) openTurn() error {
	m, q := s.m, s.q
	s.turn = true
	g := *q.Generate
	g.KV = &wire.KVTurn{KVLoadRequest: m.loading(q), TTLSeconds: int64(q.TTL.Seconds()), Pin: q.Pin, Answers: !q.Drafts}
	if q.StripsReasoning {
		g.KV.Unless = reasoningEnd
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.cancel = cancel
	late := time.AfterFunc(m.loadTime(), cancel)
	var f *wire.Frame
	var err error
	if s.frames, err = m.o.Station.Generate(ctx, &g); err == nil {
		f, err = s.frames.Next()
	}
	switch inTime := late.Stop(); {
	case s.ctx.Err() != nil && err != nil:
		return err
	case !inTime: // the call was cancelled, if only in the moment in which its answer came
		return s.fallBack(&failure{ReasonLoad, errLate})
	case plain(err):
		return err
	case err != nil:
		return s.fallBack(&failure{ReasonLoad, err})
	case f.Type != wire.FrameRestored || f.Restored == nil:
		return s.ignored(f)
	}
	r := f.Restored
	s.session = &session{scope: q.Scope, length: r.PromptTokens, load: r.KVLoadResponse, loaded: true}
	if !s.session.plausible() {
		return s.fallBack(m.contradicted(s.ctx, s.session))
	}
	s.outcome, s.phase = m.restored(s.session), forwarding
	return nil
}

// errLate is the error of a station that does not restore in time.
var errLate = &wire.Error{Code: wire.CodeTimeout, Message: "the station restored for longer than it may", Taken: true}

// plain tells whether an error is one that the native path would meet, too: it is
// the request's, or the station takes nobody's.
func plain(err error) bool {
	var e *wire.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case wire.CodeContextLength, wire.CodeTooLarge, wire.CodeOverloaded, wire.CodeLoading, wire.CodeDraining, wire.CodeNoRoute:
		return true
	case wire.CodeInvalid, wire.CodeUnsupported:
		return e.Param != "kv" && !strings.HasPrefix(e.Param, "kv.")
	}
	return false
}

// ignored goes on with a station that does not know of turns, although one that has
// been here did: its answer is that of the native path, and comes already.
func (s *Stream) ignored(f *wire.Frame) error {
	s.m.gate.noTurns()
	s.m.o.Log.Warn().Str("id", client.RequestID(s.ctx)).Msg("the station computed a prompt without liquid memory; it is looked at again")
	s.m.o.Suspect()
	s.phase, s.ahead = native, &read{frame: f}
	s.outcome = &Outcome{Memory: Miss, Path: Native, Reason: ReasonRoute, DiffersAt: -1}
	return nil
}

// told adds to what was kept what the end of a choice says of it.
func (s *Stream) told(f *wire.Frame) {
	k, d := &s.saved, f.Done
	if d == nil {
		return
	}
	note := func(a *wire.KVSaveResponse, what string) bool {
		k.durable = a.Durable && (k.durable || !k.asked)
		k.asked = true
		if !a.Saved {
			k.failed = true
			s.m.o.Log.Warn().Str("id", client.RequestID(s.ctx)).Str("reason", a.Reason).Msg("the station did not save " + what)
		}
		return a.Saved
	}
	if a := d.KVPrompt; a != nil && note(a, "a prompt") {
		k.prompt = a.Written
		k.all += a.Written
	}
	if a := d.KVAnswer; a != nil && note(a, "an answer") {
		// The answer's first block holds the prompt's last tokens again.
		k.all += max(0, min(a.Written, a.Tokens-s.session.length))
	}
}
