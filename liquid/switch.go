package liquid

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"

	"thoth/station/wire"
)

// Reasons why liquid memory is off. They are shown to clients and operators.
const (
	ReasonSetting      = "turned off by THOTH_LIQUID_MEMORY"
	ReasonNoStation    = "no station has answered yet"
	ReasonNoKV         = "the station cannot save KV sessions"
	ReasonNoDecodeNext = "the station has no /decode-next"
	ReasonNoCut        = "the KV of this model cannot be cut"
	ReasonNotBuilt     = "the liquid request path is not in this build: every request takes the native path"
)

// Prober is what the active probe needs of a station's client.
type Prober interface {
	KVSession(ctx context.Context, verb, session string, prefix int) (json.RawMessage, error)
}

// State is one reading of the switch; it is what /health shows.
type State struct {
	LiquidMemory     bool   `json:"liquid_memory"` // effective
	Env              bool   `json:"liquid_memory_env"`
	StationKVSession bool   `json:"station_kv_session"`
	Reason           string `json:"liquid_reason,omitempty"` // why LiquidMemory is false
}

// Unknown is the state before a station has answered.
func Unknown(env bool) State {
	s := State{Env: env, Reason: ReasonNoStation}
	if !env {
		s.Reason = ReasonSetting
	}
	return s
}

// Read makes the state of a station that has loaded its model. A station that
// does not say whether it saves KV sessions is probed; the error is that of an
// unfinished probe, and the caller asks again later.
func Read(ctx context.Context, env bool, p Prober, h *wire.Health, m *wire.Model) (State, error) {
	s := State{Env: env}
	why := h.KVReason
	if h.KVSession != nil {
		s.StationKVSession = *h.KVSession
	} else {
		var err error
		if s.StationKVSession, err = probe(ctx, p); err != nil {
			return Unknown(env), err
		}
	}
	switch {
	case !env:
		s.Reason = ReasonSetting
	case !s.StationKVSession:
		s.Reason = because(ReasonNoKV, why)
	case h.DecodeNext != nil && !*h.DecodeNext:
		s.Reason = ReasonNoDecodeNext
	case !m.KVCut:
		s.Reason = because(ReasonNoCut, m.KVCutReason)
	default:
		s.Reason = ReasonNotBuilt
	}
	return s, nil
}

// probe saves nothing under an id of its own: 404 means that the route does not
// exist, any other answer that it does. The probe's session is deleted again.
func probe(ctx context.Context, p Prober) (bool, error) {
	id := "thoth-probe-" + rand.Text()
	_, err := p.KVSession(ctx, "save", id, 0)
	var we *wire.Error
	if errors.As(err, &we) {
		switch we.Code {
		case wire.CodeNoRoute:
			return false, nil
		case wire.CodeUnavailable, wire.CodeTimeout, wire.CodeCancelled, wire.CodeLoading, wire.CodeDraining:
			return false, err // it did not answer the question
		}
	}
	_, _ = p.KVSession(ctx, "delete", id, 0)
	return true, nil
}

func because(reason, why string) string {
	if why == "" {
		return reason
	}
	return reason + ": " + why
}
