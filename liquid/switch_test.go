package liquid

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/client"
	"thoth/station/wire"
)

// kvStation answers /kv-session with one status and remembers the calls.
func kvStation(t *testing.T, status int) (*client.Client, *[]string) {
	var calls []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls = append(calls, r.URL.Path+" "+r.Header.Get(wire.HeaderSessionID)+" "+r.Header.Get(wire.HeaderPrefixLength))
		w.WriteHeader(status)
	}))
	t.Cleanup(srv.Close)
	c, err := client.New(srv.URL, client.Options{})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, &calls
}

func TestRead_StaleStationWithoutTheRouteIsUnsupported(t *testing.T) {
	c, calls := kvStation(t, http.StatusNotFound)
	s, err := Read(t.Context(), true, c, &wire.Health{}, &wire.Model{KVCut: true})
	require.NoError(t, err)
	require.Equal(t, State{Env: true, Reason: ReasonNoKV}, s)
	require.Len(t, *calls, 1, "nothing to delete")
	require.Contains(t, (*calls)[0], "/kv-session/save thoth-probe-")
	require.Contains(t, (*calls)[0], " 0")
}

func TestRead_AnyOtherAnswerToTheProbeIsSupportAndTheProbeIsDeleted(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusGone, http.StatusBadRequest, http.StatusInternalServerError} {
		c, calls := kvStation(t, status)
		s, err := Read(t.Context(), true, c, &wire.Health{}, &wire.Model{KVCut: true})
		require.NoError(t, err)
		require.True(t, s.StationKVSession)
		require.False(t, s.LiquidMemory)
		require.Equal(t, ReasonNotBuilt, s.Reason)
		require.Len(t, *calls, 2)
		require.Contains(t, (*calls)[1], "/kv-session/delete thoth-probe-")
	}
}

func TestRead_AStationThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	c, _ := kvStation(t, http.StatusServiceUnavailable)
	s, err := Read(t.Context(), true, c, &wire.Health{}, &wire.Model{})
	require.Error(t, err)
	require.Equal(t, Unknown(true), s)
}

func TestRead_TrustsHealthAndNamesTheReason(t *testing.T) {
	yes, no := true, false
	cut := &wire.Model{KVCut: true}
	for _, c := range []struct {
		env    bool
		health wire.Health
		model  *wire.Model
		want   State
	}{
		{false, wire.Health{KVSession: &yes}, cut, State{StationKVSession: true, Reason: ReasonSetting}},
		{true, wire.Health{KVSession: &no, KVReason: "self-test failed"}, cut, State{Env: true, Reason: ReasonNoKV + ": self-test failed"}},
		{true, wire.Health{KVSession: &yes, DecodeNext: &no}, cut, State{Env: true, StationKVSession: true, Reason: ReasonNoDecodeNext}},
		{true, wire.Health{KVSession: &yes, DecodeNext: &yes}, &wire.Model{KVCutReason: "recurrent"}, State{Env: true, StationKVSession: true, Reason: ReasonNoCut + ": recurrent"}},
		{true, wire.Health{KVSession: &yes, DecodeNext: &yes}, cut, State{Env: true, StationKVSession: true, Reason: ReasonNotBuilt}},
	} {
		s, err := Read(t.Context(), c.env, nil, &c.health, c.model)
		require.NoError(t, err)
		require.Equal(t, c.want, s)
	}
	require.Equal(t, ReasonSetting, Unknown(false).Reason)
	require.Equal(t, ReasonNoStation, Unknown(true).Reason)
}
