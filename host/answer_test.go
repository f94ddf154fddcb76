package host

import (
	"encoding/json"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deadlineWriter notes the deadline that each write has.
type deadlineWriter struct {
	*httptest.ResponseRecorder
	set    time.Time // the deadline of the next write, once set
	writes []int
	stale  int // writes under a deadline that an earlier one had
}

func (w *deadlineWriter) SetWriteDeadline(t time.Time) error {
	w.set = t
	return nil
}

func (w *deadlineWriter) Write(b []byte) (int, error) {
	if w.set.IsZero() {
		w.stale++
	}
	w.set = time.Time{}
	w.writes = append(w.writes, len(b))
	return w.ResponseRecorder.Write(b)
}

func TestAnswer_EachPieceOfALargeOneHasItsTime(t *testing.T) {
	w := &deadlineWriter{ResponseRecorder: httptest.NewRecorder()}
	text := strings.Repeat("a", 600<<10)
	writeSlowly(w, text, time.Minute)
	require.Equal(t, []int{256 << 10, 256 << 10, 88<<10 + 3}, w.writes)
	require.Zero(t, w.stale)
	require.True(t, w.Flushed)
	var got string
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.Equal(t, text, got)
	require.Equal(t, strconv.Itoa(w.Body.Len()), w.Header().Get("Content-Length"))
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
}

func TestAnswer_CompletionsAndEmbeddingsTellTheirLength(t *testing.T) {
	h := newHost(t, newFakeStation(t))
	r := h.chat()
	require.Equal(t, 200, r.status)
	require.Equal(t, strconv.Itoa(len(r.body)), r.header.Get("Content-Length"))
	f := newTextStation(t)
	h = startHost(t, f.srv.URL)
	h.await(200)
	r = h.do("POST", "/v1/embeddings", `{"model":"`+model+`","input":["`+strings.Repeat(`a","`, 999)+`a"],"encoding_format":"base64"}`)
	require.Equal(t, 200, r.status)
	require.Equal(t, strconv.Itoa(len(r.body)), r.header.Get("Content-Length"))
}
