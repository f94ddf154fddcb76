package host

import (
	"context"
	"net/http"
	"time"

	"thoth/host/openai"
	"thoth/host/stored"
	"thoth/liquid"
	"thoth/station/wire"
)

// serverInfo answers /health: what runs here, for people and dashboards. It is
// 200 whenever the host lives; /readyz says whether chats are served.
type serverInfo struct {
	Status string `json:"status"` // ok, loading, failed, unavailable, stalled, unknown, draining, template_broken
	Reason string `json:"reason,omitempty"`
	Build  string `json:"build"`
	Wire   int    `json:"wire"`

	liquid.State
	ResponsesStore stored.State `json:"responses_store"`
	Background     int          `json:"background"` // responses under way there

	Models   []string     `json:"models"`
	Template string       `json:"chat_template,omitempty"` // where it comes from
	Dialect  string       `json:"dialect,omitempty"`       // how the model writes calls and reasoning
	Model    *modelInfo   `json:"model,omitempty"`
	Station  *wire.Health `json:"station,omitempty"` // as last told
	Since    time.Time    `json:"since"`             // of Status

	UptimeSeconds float64 `json:"uptime_seconds"`
	InFlight      int     `json:"in_flight"`
	Waiting       int     `json:"waiting"`
}

type modelInfo struct {
	Name          string `json:"name"`
	File          string `json:"file"`
	Digest        string `json:"digest,omitempty"`
	Architecture  string `json:"architecture"`
	Description   string `json:"description,omitempty"`
	Parameters    uint64 `json:"parameters"`
	SizeBytes     uint64 `json:"size_bytes"`
	ContextTrain  int    `json:"context_train"`
	ContextLength int    `json:"context_length"`
}

func (s *Server) info() serverInfo {
	v := s.station.current()
	inFlight, waiting := s.admission.counts()
	i := serverInfo{Status: string(v.phase), Reason: v.reason, Build: s.o.Build, Wire: wire.Version, State: s.memory.State(), ResponsesStore: s.responses.State(), Background: s.background.underWay(),
		Models: v.names, Station: v.health, Since: v.since, UptimeSeconds: time.Since(s.started).Seconds(), InFlight: inFlight, Waiting: waiting}
	if i.Models == nil {
		i.Models = []string{}
	}
	if m := v.model; m != nil {
		i.Model = &modelInfo{Name: m.Name, File: m.File, Digest: m.Digest, Architecture: m.Architecture, Description: m.Description,
			Parameters: m.Parameters, SizeBytes: m.SizeBytes, ContextTrain: m.ContextTrain, ContextLength: v.health.ContextLength}
	}
	switch {
	case v.template != nil:
		i.Template, i.Dialect = v.template.Origin, v.dialect.Name
	case v.phase == phaseServing:
		i.Status = "template_broken"
	}
	if s.draining.Load() {
		i.Status, i.Reason = "draining", "the server is shutting down"
	}
	return i
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.info())
}

// livez says that the process serves HTTP; restarting it would mend nothing else.
func (s *Server) livez(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz says whether a chat would be taken, from memory. Being busy is not
// being unready: taking the host out of service would lose its queue.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	e := s.station.current().refusal()
	if s.draining.Load() {
		e = errDraining()
	}
	if e != nil {
		fail(w, r, e)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}

// hostStats answers /stats: the host's numbers, and the station's when it gives
// them soon. With keys in use, sums over all of them and the station's numbers are
// null for keys other than admins': watched closely, they tell what the clients of
// other keys do. What is stored, and how often it is used, is for admins alone, as
// in /liquid.
type hostStats struct {
	Host struct {
		UptimeSeconds    float64           `json:"uptime_seconds"`
		InFlight         int               `json:"in_flight"`
		Waiting          int               `json:"waiting"`
		Chats            *uint64           `json:"chats"`
		PromptTokens     *uint64           `json:"prompt_tokens"`
		CompletionTokens *uint64           `json:"completion_tokens"`
		Background       int               `json:"background"` // responses under way there
		Errors           map[string]uint64 `json:"errors"`     // by code
	} `json:"host"`
	Responses    *stored.Holdings `json:"responses"`      // what is stored
	Keys         []keyStats       `json:"keys,omitempty"` // for admins those of all keys, else the caller's own
	Station      *wire.Stats      `json:"station"`
	StationError string           `json:"station_error,omitempty"`
}

const statsTimeout = time.Second

func (s *Server) stats(w http.ResponseWriter, r *http.Request) {
	var out hostStats
	out.Host.UptimeSeconds = time.Since(s.started).Seconds()
	out.Host.InFlight, out.Host.Waiting = s.admission.counts()
	all := s.seesAll(r)
	out.Host.Background = s.background.underWay()
	s.metrics.stats(&out, all)
	out.Keys = s.keys.stats(callerOf(r.Context()), time.Now())
	if all {
		holdings := s.stored.State().Holdings
		out.Responses = &holdings
		s.stationStats(r.Context(), &out)
	}
	writeJSON(w, http.StatusOK, out)
}

// stationStats fills the station's part of /stats.
func (s *Server) stationStats(parent context.Context, out *hostStats) {
	ctx, cancel := context.WithTimeout(parent, statsTimeout)
	defer cancel()
	st, err := s.o.Station.Stats(ctx)
	if err != nil {
		out.StationError = openai.FromWire(err).Message
		return
	}
	if !callerOf(parent).may(ScopeAdmin) {
		st.KV = nil
	}
	out.Station = st
}
