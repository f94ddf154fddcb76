//go:build e2e

package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What goes wrong with the store of responses is not what the client came for.

// responsesStore is the state of the store, and its reason.
func (s *server) responsesStore(t *testing.T) (state, reason string) {
	t.Helper()
	got := s.do(t, "GET", "/health", nil).JSON(t)["responses_store"].(map[string]any)
	state, _ = got["state"].(string)
	reason, _ = got["reason"].(string)
	return state, reason
}

// storesResponses waits until the store is in a state, and gives the reason.
func (s *server) storesResponses(t *testing.T, want string) (reason string) {
	t.Helper()
	eventually(t, "the store of responses is "+want, func() bool {
		var state string
		state, reason = s.responsesStore(t)
		return state == want
	})
	return reason
}

// responseFiles are the files of a store, with what they hold.
func responseFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	}))
	return files
}

func TestResponsesFault_ABucketThatHangsKeepsNobodyFromServing(t *testing.T) {
	b := newBucket(t)
	b.is(b.hang)
	s := start(t, "THOTH_RESPONSES_STORE="+b.url, "THOTH_RESPONSES_TIMEOUT=1s", "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true")
	eventually(t, "the store is given up for now", func() bool { // at first it is being opened
		state, reason := s.responsesStore(t)
		return state == "failing" && reason == "the store cannot be used: it does not answer in time"
	})
	want := s.respond(t)
	require.False(t, want.Store)
	e := s.do(t, "POST", responsesPath, R(obj{"previous_response_id": want.ID})).Err(t, 503)
	require.Equal(t, "store_unavailable", e["code"])

	b.is(nil)
	s.storesResponses(t, "on")
	kept := s.respond(t)
	require.True(t, kept.Store)
	require.Equal(t, want.Text(), kept.Text())

	b.is(b.hang)
	for range 4 { // it is left alone after three
		lost := s.respond(t)
		require.Equal(t, want.Text(), lost.Text())
		require.False(t, lost.Store)
	}
	require.Contains(t, s.storesResponses(t, "failing"), "it does not answer in time")
	b.is(nil)
	s.storesResponses(t, "on")
	require.Equal(t, kept, s.do(t, "GET", responsesPath+"/"+kept.ID, nil).response(t))
	require.True(t, s.respond(t, obj{"previous_response_id": kept.ID}).Store)
}

func TestResponsesFault_ADamagedResponseIsAnsweredLikeNone(t *testing.T) {
	dir := t.TempDir()
	s := start(t, responsesIn(dir))
	made := s.respond(t)
	for path, content := range responseFiles(t, dir) {
		require.NoError(t, os.WriteFile(path, []byte(content[:len(content)-1]+"!"), 0o600))
	}
	s.do(t, "GET", responsesPath+"/"+made.ID, nil).Err(t, 404)
	require.Empty(t, responseFiles(t, dir))
	e := s.do(t, "POST", responsesPath, R(obj{"previous_response_id": made.ID})).Err(t, 400)
	require.Equal(t, "previous_response_not_found", e["code"])
	require.Contains(t, string(s.do(t, "GET", "/metrics", nil).Body), `thoth_responses_drops_total{reason="checksum"} 1`)
	require.Equal(t, "", s.storesResponses(t, "on"))
}

func TestResponsesFault_SealedFilesSayNothing(t *testing.T) {
	dir := t.TempDir()
	key := func(digit string) string { return "THOTH_RESPONSES_KEY=" + strings.Repeat(digit, 64) }
	s := start(t, responsesIn(dir), key("a"))
	made := s.respond(t, obj{"input": "The secret word is abracadabra."})
	files := responseFiles(t, dir)
	require.Len(t, files, 1)
	for path, content := range files {
		for _, word := range []string{"abracadabra", "test-model", "output_text", made.ID} {
			require.NotContains(t, path+content, word)
		}
	}
	require.Equal(t, 0, s.stop())
	require.NotContains(t, s.log(), strings.Repeat("a", 64))
	start(t, responsesIn(dir), key("b")).do(t, "GET", responsesPath+"/"+made.ID, nil).Err(t, 404)
	require.Equal(t, made, start(t, responsesIn(dir), key("a")).do(t, "GET", responsesPath+"/"+made.ID, nil).response(t))
}
