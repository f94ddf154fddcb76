//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// healsWithin is how soon liquid memory is on again once a station serves it.
const healsWithin = 5 * time.Second

// memory is what /health says of liquid memory.
func (s *server) memory(t *testing.T) (on, station bool, reason string) {
	t.Helper()
	h := s.do(t, http.MethodGet, "/health", nil).JSON(t)
	reason, _ = h["liquid_reason"].(string)
	return h["liquid_memory"].(bool), h["station_kv_session"].(bool), reason
}

// isOff wants liquid memory to be off, and requests to be served all the same.
func (s *server) isOff(t *testing.T, q obj, reason string) (a said) {
	t.Helper()
	on, station, why := s.memory(t)
	require.False(t, on)
	require.False(t, station)
	require.Contains(t, why, reason)
	for range 2 {
		a = s.say(t, q).told(t)
		require.Equal(t, "disabled", a.Gnosis.Memory)
		require.Equal(t, "native", a.Gnosis.Path)
		require.Equal(t, "liquid memory is off", a.why())
		require.False(t, a.Gnosis.Saved)
		require.Zero(t, a.Cached)
	}
	return a
}

// turnsOn wants liquid memory to be on soon, and to remember q.
func (s *server) turnsOn(t *testing.T, q obj) (a said) {
	t.Helper()
	require.Eventually(t, func() bool { on, station, _ := s.memory(t); return on && station }, healsWithin, 20*time.Millisecond)
	first := s.say(t, q).told(t)
	require.Equal(t, "liquid", first.Gnosis.Path)
	require.True(t, first.Gnosis.Saved)
	return s.restored(t, first, q).told(t)
}

// A station that cannot save is served natively; when one that can takes its
// place, the host that has run all the while remembers.
func TestFaultStale_ACapableStationTakesItsPlace(t *testing.T) {
	q := obj{"messages": []obj{system(words(900, 40)), user("Go.")}, "max_tokens": 8}
	for name, stale := range map[string]func(t *testing.T, address string) (stop func()){
		"of one from before": oldStation,
		"of one without the routes": func(t *testing.T, address string) func() {
			return stationAt(t, address, "THOTH_STATION_NO_KV_SESSION=1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			address := "127.0.0.1:" + freePort(t)
			stop := stale(t, address)
			s := hostBefore(t, "http://"+address, "THOTH_MODEL_NAME=test-model")
			s.serves(t)
			before := s.isOff(t, q, "the station cannot save KV sessions")
			if before.Text != "I am old." {
				require.NoError(t, shared.fresh(t, q).same(before))
			}
			stop()
			eventually(t, "the host to notice", func() bool { return s.probe(t.Context(), "/readyz") == 503 })
			stationAt(t, address)
			after := s.turnsOn(t, q)
			require.NoError(t, shared.fresh(t, q).same(after))
			select {
			case <-s.exit:
				require.Fail(t, "the host ended")
			default:
			}
		})
	}
}

// The same below the entrypoint, which restarts the station by itself.
func TestFaultStale_TheNextStartIsCapable(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "station")
	body := fmt.Sprintf("#!/bin/sh\nif mkdir '%s/once' 2>/dev/null; then export THOTH_STATION_NO_KV_SESSION=1; fi\nexec '%s' \"$@\"\n", dir, binary(stationProgram))
	require.NoError(t, os.WriteFile(script, []byte(body), 0o755))
	s := start(t, "THOTH_STATION_BIN="+script)
	q := obj{"messages": []obj{system(words(901, 40)), user("Go.")}, "max_tokens": 8}
	before := s.isOff(t, q, "the station cannot save KV sessions")
	host := s.child(hostProgram)
	s.signalChild(t, stationProgram, syscall.SIGKILL)
	s.comesBack(t)
	require.NoError(t, before.same(s.turnsOn(t, q)))
	require.Equal(t, host, s.child(hostProgram), "the host stays")
	require.Equal(t, 0, s.stop())
}

// A station that promises in /health what it answers 404 to is not believed
// again before the route is there.
func TestFaultStale_A404InServiceTurnsItOffAtOnce(t *testing.T) {
	s, m := between(t)
	question := func(i uint64) obj {
		return obj{"messages": []obj{system(words(910+i, 40)), user("Go.")}, "max_tokens": 8, "stream": i%2 == 0}
	}
	for i, path := range []string{saveRoute, loadRoute, wire.RouteEmbed, wire.RouteForward, wire.RouteDecodeNext} {
		t.Run(path, func(t *testing.T) {
			q := question(uint64(i))
			want := shared.fresh(t, q)
			forms := map[string]http.HandlerFunc{"in our words": notFound}
			if path == saveRoute {
				forms["in a mux's"] = http.NotFound
			}
			for name, missing := range forms {
				m.spoil(path, missing)
				a := s.say(t, q).told(t)
				require.NoError(t, want.same(a), "this request is answered, %s", name)
				require.False(t, a.Gnosis.Saved)
				if path == saveRoute {
					require.Equal(t, "capture_failed", a.Gnosis.Memory)
					require.Equal(t, "station kv session save failed", a.why())
				} else {
					require.Equal(t, "disabled", a.Gnosis.Memory)
					require.Equal(t, "native", a.Gnosis.Path)
					require.Equal(t, "station lacks a liquid route", a.why())
				}
				on, station, reason := s.memory(t)
				require.False(t, on, "at once, for all requests")
				require.Equal(t, !strings.HasPrefix(path, wire.RouteKVSession), station)
				require.Contains(t, reason, path)

				// It says true in /health at every look.
				looks, asked := m.count(wire.RouteHealth), m.count(wire.RouteGenerate)
				eventually(t, "some looks", func() bool { return m.count(wire.RouteHealth) >= looks+2 })
				a = s.say(t, q).told(t)
				require.NoError(t, want.same(a))
				require.Equal(t, "disabled", a.Gnosis.Memory)
				require.Equal(t, asked+1, m.count(wire.RouteGenerate))

				m.spoil(path, nil)
				require.NoError(t, want.same(s.turnsOn(t, q)))
			}
		})
	}
}

// A save that fails or hangs costs the answer nothing, and the switch stays on.
func TestFaultStale_ASaveThatFailsIsToldAndHoldsNothingUp(t *testing.T) {
	s, m := between(t)
	for i, c := range []struct {
		name string
		do   http.HandlerFunc
	}{
		{"answered 500", broken},
		{"answered with nonsense", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `<html>`) }},
		{"a full store", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"saved":false,"reason":"full"}`) }},
		{"cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"hanging", m.hang},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := obj{"messages": []obj{system(words(uint64(920+i), 40)), user("Go.")}, "max_tokens": 8, "stream": i%2 == 0}
			want := shared.fresh(t, q)
			m.spoil(saveRoute, c.do)
			a := s.say(t, q).told(t)
			if c.name == "hanging" {
				require.Positive(t, m.hangs(), "the answer did not wait for it")
			}
			m.spoil(saveRoute, nil)
			require.NoError(t, want.same(a))
			require.Equal(t, "capture_failed", a.Gnosis.Memory)
			require.Equal(t, "station kv session save failed", a.why())
			require.False(t, a.Gnosis.Saved)
			require.Zero(t, a.Gnosis.Stored)
			require.Equal(t, "liquid", a.Gnosis.Path)
			on, _, reason := s.memory(t)
			require.True(t, on, reason)
			require.NoError(t, want.same(s.turnsOn(t, q)))
		})
	}
	eventually(t, "what hung to be given up", func() bool { return m.hangs() == 0 })
}

// Any other call of a request that fails leads to the native path, in the same request.
func TestFaultStale_ACallThatFailsIsComputedNatively(t *testing.T) {
	s, m := between(t)
	q := obj{"messages": []obj{system(words(940, 40)), user("Go.")}, "max_tokens": 8}
	want := shared.fresh(t, q)
	for path, reason := range map[string]string{
		wire.RouteEmbed: "station refused the session", wire.RouteForward: "station could not evaluate the session",
		wire.RouteDecodeNext: "station could not decode the session",
	} {
		m.spoil(path, broken)
		a := s.say(t, q).told(t)
		m.spoil(path, nil)
		require.NoError(t, want.same(a))
		require.Equal(t, "miss", a.Gnosis.Memory)
		require.Equal(t, reason, a.why())
		require.Equal(t, "native", a.Gnosis.Path)
	}
	// Without a load it evaluates all of the prompt, and still saves it.
	m.spoil(loadRoute, broken)
	a := s.say(t, q).told(t)
	m.spoil(loadRoute, nil)
	require.NoError(t, want.same(a))
	require.Equal(t, "station kv session load failed", a.why())
	require.NoError(t, want.same(s.turnsOn(t, q)))

	// What a client is told when nothing is left to fall back on.
	m.spoil(wire.RouteEmbed, broken)
	m.spoil(wire.RouteGenerate, broken)
	s.chat(t, q).Err(t, http.StatusInternalServerError)
	m.spoil(wire.RouteEmbed, nil)
	m.spoil(wire.RouteGenerate, nil)
	s.restored(t, want, q)
}

// A request in one call: what fails before its first token is computed natively, and
// a station that does not know of it, put in the place of one that did, is noticed.
func TestFaultStale_ATurnThatFailsIsComputedNatively(t *testing.T) {
	s, m := betweenWith(t, func(*wire.Health) {})
	require.Equal(t, true, s.do(t, http.MethodGet, "/health", nil).JSON(t)["station_kv_turn"])
	q := obj{"messages": []obj{system(words(950, 40)), user("Go.")}, "max_tokens": 8}
	want := shared.fresh(t, q)
	for name, f := range map[string]http.HandlerFunc{
		"broken": broken,
		"cut":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		m.spoil(wire.RouteGenerate, m.ofTurns(f))
		a := s.say(t, q).told(t)
		require.NoError(t, want.same(a), name)
		require.Equal(t, []any{"miss", "native", "station kv session load failed"}, []any{a.Gnosis.Memory, a.Gnosis.Path, a.why()})
	}

	m.spoil(wire.RouteGenerate, m.ofTurns(func(w http.ResponseWriter, r *http.Request) {
		var q wire.GenerateRequest
		_ = json.NewDecoder(r.Body).Decode(&q)
		q.KV = nil
		b, _ := json.Marshal(q)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
		m.station.ServeHTTP(w, r)
	}))
	a := s.say(t, q).told(t)
	require.NoError(t, want.same(a))
	require.Equal(t, []any{"miss", "native", "station lacks a liquid route"}, []any{a.Gnosis.Memory, a.Gnosis.Path, a.why()})

	m.spoil(wire.RouteGenerate, nil)
	require.NoError(t, want.same(s.turnsOn(t, q)))
	eventually(t, "requests in one call", func() bool {
		return s.do(t, http.MethodGet, "/health", nil).JSON(t)["station_kv_turn"] == true
	})
	asked := m.count(wire.RouteGenerate)
	s.restored(t, want, q)
	require.Equal(t, asked+1, m.count(wire.RouteGenerate))
}
