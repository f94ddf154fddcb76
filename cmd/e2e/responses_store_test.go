//go:build e2e

package e2e

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is stored of responses outlives the processes, and other hosts find it.

func responsesIn(dir string) string { return "THOTH_RESPONSES_STORE=file://" + dir }

func TestResponsesStore_AConversationGoesOnAfterARestartAndOnAnotherHost(t *testing.T) {
	kept, kv := t.TempDir(), t.TempDir()
	s := start(t, responsesIn(kept), storeIn(kv))
	first := s.respond(t, obj{"input": words(91, 300) + " Name three rivers.", "max_output_tokens": 24})
	next := obj{"input": "Which is the longest?", "previous_response_id": first.ID, "max_output_tokens": 24}
	s.written(t)
	require.Equal(t, 0, s.stop())

	s, other := start(t, responsesIn(kept), storeIn(kv)), start(t, responsesIn(kept), storeIn(kv))
	want := s.respond(t, next)
	require.Greater(t, want.Usage.Details.Cached*10, first.Usage.Input*8, "the prompt of the first turn is restored, too: %+v", want.Usage)
	got := other.respond(t, next)
	require.Equal(t, want.Text(), got.Text())
	require.Equal(t, want.Usage.Input, got.Usage.Input)
	for _, r := range []response{first, want, got} {
		for _, s := range []*server{s, other} {
			require.Equal(t, r, s.do(t, "GET", responsesPath+"/"+r.ID, nil).response(t))
		}
	}
	require.Equal(t, 200, other.do(t, "DELETE", responsesPath+"/"+first.ID, nil).Status)
	require.Equal(t, 404, s.do(t, "GET", responsesPath+"/"+first.ID, nil).Status)
	e := s.do(t, "POST", responsesPath, R(next)).Err(t, 400)
	require.Equal(t, "previous_response_not_found", e["code"])
}

func TestResponsesStore_OneInTheBackgroundFailsWithItsHost(t *testing.T) {
	s := start(t, responsesIn(t.TempDir()), "THOTH_LISTEN=127.0.0.1:"+freePort(t)) // the new host has the same address
	made := s.respond(t, obj{"background": true, "max_output_tokens": 3500, "ignore_eos": true, "input": "Write without ever stopping: a a a a"})
	s.awaitResponse(t, made.ID, "in_progress")
	s.signalChild(t, "openai-server", syscall.SIGKILL)
	eventually(t, "a new host serves", func() bool {
		r, err := s.try(t.Context(), "GET", "/readyz", nil)
		return err == nil && r.Status == 200
	})
	got := s.awaitResponse(t, made.ID, "failed")
	require.Contains(t, got.Error.Message, "ended before it was done")
	s.answersAgain(t)
}

func TestResponsesStore_AStopEndsWhatRunsInTheBackground(t *testing.T) {
	kept := t.TempDir()
	s := start(t, responsesIn(kept), "THOTH_HOST_DRAIN_SECONDS=1")
	long := s.respond(t, obj{"background": true, "max_output_tokens": 3500, "ignore_eos": true, "input": "Write without ever stopping: a a a a"})
	s.awaitResponse(t, long.ID, "in_progress")
	require.Equal(t, 0, s.stop())
	got := start(t, responsesIn(kept)).do(t, "GET", responsesPath+"/"+long.ID, nil).response(t)
	require.Equal(t, "failed", got.Status)
	require.Contains(t, got.Error.Message, "shutting down")
}

func TestResponsesStore_OffSaysSo(t *testing.T) {
	s := start(t, "THOTH_RESPONSES_STORE=none")
	made := s.respond(t)
	require.False(t, made.Store)
	require.Equal(t, 404, s.do(t, "GET", responsesPath+"/"+made.ID, nil).Status)
	require.Equal(t, "store", s.do(t, "POST", responsesPath, R(obj{"store": true})).Err(t, 400)["param"])
	require.Equal(t, "off", s.do(t, "GET", "/health", nil).JSON(t)["responses_store"].(map[string]any)["state"])
}
