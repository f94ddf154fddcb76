package liquid

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"thoth/station/client"
	"thoth/station/wire"
)

// Sentences why liquid memory is off, for operators.
const (
	OffSetting      = "turned off by THOTH_LIQUID_MEMORY"
	OffNoStation    = "no station has answered yet"
	OffNoKV         = "the station cannot save KV sessions"
	OffNoDecodeNext = "the station has no /decode-next"
	OffNoCut        = "the KV of this model cannot be cut"
	OffRoute        = "the station answered 404 in service to "
)

// State is one reading of the switch; it is what /health shows.
type State struct {
	LiquidMemory     bool   `json:"liquid_memory"` // effective
	Env              bool   `json:"liquid_memory_env"`
	StationKVSession bool   `json:"station_kv_session"`
	StationKVTurn    bool   `json:"station_kv_turn"`         // a request is one call of the station, and not five or six
	Reason           string `json:"liquid_reason,omitempty"` // why LiquidMemory is false
}

// Look is what a host's look at a serving station gave.
type Look struct {
	Health *wire.Health
	Model  *wire.Model
	// Fresh: the station restarted, or came back, since the last look.
	Fresh bool
	// Render makes a prompt of OpenAI messages; nil when the model cannot chat.
	Render Render
}

// gate is the switch. Requests read its state without a lock; looks and 404s in
// service write it. A 404 leaves a trip, which only a probe of the same route
// clears: a station that promises in /health what it does not serve stays off.
type gate struct {
	env   bool
	c     *client.Client
	state atomic.Pointer[State]

	mu struct {
		sync.Mutex
		trip string // the route that answered 404 in service
		told bool   // a station has answered what decides
	}
}

func newGate(env bool, c *client.Client) *gate {
	g := &gate{env: env, c: c}
	s := State{Env: env, Reason: OffNoStation}
	if !env {
		s.Reason = OffSetting
	}
	g.state.Store(&s)
	return g
}

func (g *gate) on() bool { return g.state.Load().LiquidMemory }

// turns tells whether the station does a request in one call.
func (g *gate) turns() bool { return g.state.Load().StationKVTurn }

// noTurns takes that back until the next look.
func (g *gate) noTurns() {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := *g.state.Load()
	s.StationKVTurn = false
	g.state.Store(&s)
}

// off turns the switch off because a route answered 404.
func (g *gate) off(route string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.trip = route
	s := *g.state.Load()
	s.LiquidMemory, s.Reason = false, OffRoute+route
	if strings.HasPrefix(route, wire.RouteKVSession) {
		s.StationKVSession, s.StationKVTurn = false, false
	}
	g.state.Store(&s)
}

// look reads the switch anew. An error is that of a probe the station did not
// answer: the switch stays as it is, and the caller looks again soon.
func (g *gate) look(ctx context.Context, l Look) error {
	g.mu.Lock()
	trip, told := g.mu.trip, g.mu.told
	g.mu.Unlock()
	next, healed, err := g.read(ctx, l, trip, told)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err != nil:
		g.mu.told = g.mu.told && !l.Fresh // the answer is still owed
		return err
	case g.mu.trip != trip:
		return nil // a 404 came meanwhile and knows better
	case trip != "" && !healed:
		return nil
	}
	g.mu.trip, g.mu.told = "", true
	g.state.Store(&next)
	return nil
}

// read asks what is not said in /health: a station older than the field is
// probed when it is fresh, and as long as it could not do it; a route that was
// missing is probed until it is there.
func (g *gate) read(ctx context.Context, l Look, trip string, told bool) (s State, healed bool, err error) {
	s = State{Env: g.env, StationKVSession: g.state.Load().StationKVSession}
	if says := l.Health.KVSession; says != nil {
		s.StationKVSession = *says
	} else if l.Fresh || !told || !s.StationKVSession {
		if s.StationKVSession, err = g.exists(ctx, routeSave); err != nil {
			return s, false, err
		}
	}
	if healed = trip == "" || !s.StationKVSession; !healed {
		if healed, err = g.exists(ctx, trip); err != nil {
			return s, false, err
		}
	}
	s.StationKVTurn = s.StationKVSession && l.Health.KVTurn
	switch {
	case !g.env:
		s.Reason = OffSetting
	case !s.StationKVSession:
		s.Reason = because(OffNoKV, l.Health.KVReason)
	case l.Health.DecodeNext != nil && !*l.Health.DecodeNext:
		s.Reason = OffNoDecodeNext
	case !l.Model.KVCut:
		s.Reason = because(OffNoCut, l.Model.KVCutReason)
	default:
		s.LiquidMemory = true
	}
	return s, healed, nil
}

// Routes of /kv-session a request uses.
const (
	routeLoad = wire.RouteKVSession + "/" + wire.VerbLoad
	routeSave = wire.RouteKVSession + "/" + wire.VerbSave
)

// exists is the active probe: a call under a session of its own making that
// nobody has. 404 means that the route does not exist, any other answer that it
// does. What a save of nothing may have left is deleted.
func (g *gate) exists(ctx context.Context, route string) (bool, error) {
	id := "thoth-probe-" + strings.ToLower(rand.Text())
	var err error
	switch route {
	case wire.RouteEmbed:
		_, err = g.c.Embed(ctx, &wire.EmbedRequest{Session: id, Append: true, Prompt: wire.Prompt{Text: "."}})
	case wire.RouteForward:
		_, err = g.c.Forward(ctx, &wire.ForwardRequest{Session: id})
	case wire.RouteDecodeNext:
		var s *client.Stream
		if s, err = g.c.DecodeNext(ctx, &wire.DecodeRequest{Session: id, N: 1, Release: true}); err == nil {
			_ = s.Close()
		}
	default:
		_, err = g.c.KVSession(ctx, strings.TrimPrefix(route, wire.RouteKVSession+"/"), id, 0)
	}
	switch codeOf(err) {
	case wire.CodeNoRoute:
		return false, nil
	case wire.CodeUnavailable, wire.CodeTimeout, wire.CodeCancelled, wire.CodeLoading, wire.CodeDraining:
		return false, err // it did not answer the question
	}
	if route == routeSave {
		_, _ = g.c.KVSession(ctx, wire.VerbDelete, id, 0)
	}
	return true, nil
}

// codeOf is the wire's code of a station call's error, "" for none.
func codeOf(err error) wire.Code {
	var we *wire.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &we):
		return we.Code
	}
	return wire.CodeInternal
}

func because(reason, why string) string {
	if why == "" {
		return reason
	}
	return reason + ": " + why
}
