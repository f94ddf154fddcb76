package liquid

import (
	"context"
	"time"

	"thoth/station/client"
	"thoth/station/wire"
)

// session is a prompt at the station: staged, or that of a turn, which has no id and
// no tokens of it here.
type session struct {
	id      string
	scope   string
	tokens  []int32
	length  int // of the prompt in tokens
	load    wire.KVLoadResponse
	loaded  bool // the load was answered
	embedMS float64
}

// failure is a liquid call that did not go well, as a request sees it.
type failure struct {
	reason Reason
	err    error
}

func (f *failure) Error() string { return f.reason.Sentence() + ": " + f.err.Error() }

// stage embeds a prompt and restores the longest stored prefix of it, as load
// says. A failed load leaves a session to compute in, where the station still has
// it. On failure no session is left.
func (m *Manager) stage(ctx context.Context, prompt wire.Prompt, load wire.KVLoadRequest) (*session, *failure) {
	start := time.Now()
	e, err := m.o.Station.Embed(ctx, &wire.EmbedRequest{Prompt: prompt})
	if err != nil {
		return nil, m.failed(wire.RouteEmbed, ReasonEmbed, err)
	}
	s := &session{id: e.Session, scope: load.Scope, tokens: e.Tokens, length: len(e.Tokens), embedMS: float64(time.Since(start).Microseconds()) / 1000}
	bounded, cancel := context.WithTimeout(ctx, m.loadTime())
	defer cancel()
	l, err := m.o.Station.KVLoad(bounded, s.id, 0, &load)
	switch codeOf(err) {
	case "":
		s.load, s.loaded = *l, true
		if !s.plausible() {
			m.spawn(func() { m.end(ctx, s.id) })
			return nil, m.contradicted(ctx, s)
		}
	case wire.CodeNoRoute, wire.CodeGone, wire.CodeUnavailable, wire.CodeTimeout, wire.CodeCancelled, wire.CodeBusy, wire.CodeDraining:
		m.spawn(func() { m.end(ctx, s.id) })
		return nil, m.failed(routeLoad, ReasonLoad, err)
	default: // the load is undone; the session is as it was staged
		s.load.DiffersAt = -1
		m.o.Log.Warn().Err(err).Str("id", client.RequestID(ctx)).Msg("a load failed; the prompt is computed")
	}
	return s, nil
}

// plausible tells whether what was restored can be of the prompt.
func (s *session) plausible() bool {
	l, t := &s.load, s.load.Tiers
	return l.Position >= 0 && l.Position < s.length && t.Hot+t.Warm+t.Cold == l.Position
}

// contradicted is the failure of what is not plausible.
func (m *Manager) contradicted(ctx context.Context, s *session) *failure {
	m.tell.mismatch()
	m.o.Log.Error().Int("position", s.load.Position).Int("tokens", s.length).Str("id", client.RequestID(ctx)).Msg("a load restored what was not asked for")
	return &failure{ReasonPosition, errPosition}
}

// loadTime is how long a load may take: after LoadWait the station has a part of that
// more for its answer, and then it hangs.
func (m *Manager) loadTime() time.Duration { return m.o.LoadWait + m.o.LoadWait/loadSlack }

const loadSlack = 20

// failed makes a failure of a route's error, and turns the switch off for a
// route that is not there.
func (m *Manager) failed(route string, reason Reason, err error) *failure {
	switch codeOf(err) {
	case wire.CodeNoRoute:
		m.off(route)
		reason = ReasonRoute
	case wire.CodeGone:
		reason = ReasonLost
	}
	return &failure{reason, err}
}

// start is where an evaluation began, seen from what the load said.
type start int

const (
	asLoaded  start = iota
	afresh          // at 0: the station had to drop what it restored, and computed all
	elsewhere       // the KV is not that of the prompt: nothing may be sampled from it
)

// began compares where the evaluation began with what the load said; an
// evaluation that left a part of the prompt out is as wrong as one that began
// elsewhere.
func (s *session) began(f *wire.ForwardResponse) start {
	switch {
	case f == nil || f.Position != s.length || f.Remaining != 0:
		return elsewhere
	case f.Evaluated == f.Position-s.load.Position:
		return asLoaded
	case f.Evaluated == f.Position:
		return afresh
	}
	return elsewhere
}

// errPosition is the error of a session whose station contradicts itself.
var errPosition = &wire.Error{Code: wire.CodeInternal, Message: "the station restored another length than it said"}
