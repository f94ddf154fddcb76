package station_test

import (
	"net"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/engine"
	"thoth/station/kvstore"
	"thoth/station/stationtest"
)

// The pool of a conformance run: large enough to be quiet, and so small that
// sequences are moved to RAM and cells compacted all the time.
var conformancePools = map[string]stationtest.Options{
	"large pool": {EOGEvery: -1},
	"small pool": {EOGEvery: -1, Cells: 700, ContextLength: 600, Sequences: 6, BatchSize: 48},
	"no BOS":     {EOGEvery: -1, NoBOS: true, BatchSize: 1, ContextLength: 512},
}

func TestStation_ConformsToTheWire(t *testing.T) {
	for name, o := range conformancePools {
		t.Run(name, func(t *testing.T) {
			stationtest.Conformance(t, serveFake(t, stationtest.NewEngine(o), false), stationtest.ConformanceOptions{})
		})
	}
	t.Run("encoder", func(t *testing.T) {
		stationtest.EncoderConformance(t, serveFake(t, stationtest.NewEngine(stationtest.Options{Encoder: true, ContextLength: 100}), false), stationtest.ConformanceOptions{})
	})
	t.Run("encoder that reranks", func(t *testing.T) {
		stationtest.EncoderConformance(t, serveFake(t, stationtest.NewEngine(stationtest.Options{Encoder: true, Reranker: true, ContextLength: 100}), false), stationtest.ConformanceOptions{})
	})
	t.Run("decoder that reranks", func(t *testing.T) {
		stationtest.Conformance(t, serveFake(t, stationtest.NewEngine(stationtest.Options{Reranker: true, EOGEvery: -1}), false), stationtest.ConformanceOptions{StopStride: 5})
	})
	t.Run("unix socket", func(t *testing.T) {
		stationtest.Conformance(t, serveFake(t, stationtest.NewEngine(stationtest.Options{EOGEvery: -1}), true), stationtest.ConformanceOptions{StopStride: 5})
	})
}

// serveFake runs a station over the fake engine and gives its address. When the
// test ends it stops the station and checks what the engine saw.
func serveFake(t *testing.T, e *stationtest.Engine, socket bool) string {
	t.Helper()
	st := station.New(station.Options{Build: "test", KV: kvstore.Options{WarmBytes: testWarmBytes}, Logger: zerolog.New(zerolog.NewTestWriter(t))})
	loaded := make(chan struct{})
	st.Start(e.Load, func(engine.Info) { close(loaded) })
	<-loaded

	s := httptest.NewUnstartedServer(st.Handler())
	if socket {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s.sock"))
		require.NoError(t, err)
		require.NoError(t, s.Listener.Close())
		s.Listener = l
	}
	s.Start()
	t.Cleanup(func() {
		s.Close()
		st.Close()
		e.Check(t)
		require.True(t, e.Closed())
	})
	if socket {
		return "unix://" + s.Listener.Addr().String()
	}
	return s.URL
}
