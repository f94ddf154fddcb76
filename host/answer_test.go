package host

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/host/openai"
	"thoth/station/wire"
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
	writePieces(w, append(openai.Encode(text), '\n'), time.Minute)
	require.Equal(t, []int{256 << 10, 256 << 10, 88<<10 + 3}, w.writes)
	require.Zero(t, w.stale)
	require.False(t, w.Flushed)
	var got string
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.Equal(t, text, got)
	require.Empty(t, w.Header().Get("Content-Length"), "it would tell the end too early")
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
}

// slowReader takes each write after a while, and the rest is lost at the deadline.
type slowReader struct {
	deadlineWriter
	takes time.Duration
}

func (w *slowReader) Write(b []byte) (int, error) {
	left := time.Until(w.set)
	if left < w.takes {
		time.Sleep(left)
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(w.takes)
	return w.deadlineWriter.Write(b)
}

func TestAnswer_AClientMayNotBeSlowWithEveryPiece(t *testing.T) {
	for _, c := range []struct {
		takes, lasts time.Duration
		whole        bool
	}{
		{0, 0, true},
		{time.Second, 40 * time.Second, true}, // the least rate
		{1500 * time.Millisecond, time.Minute, true},
		{2 * time.Second, 70 * time.Second, false},
		{29 * time.Second, 70 * time.Second, false},
		{31 * time.Second, 30 * time.Second, false}, // one piece
	} {
		t.Run(c.takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &slowReader{deadlineWriter{ResponseRecorder: httptest.NewRecorder()}, c.takes}
				began := time.Now()
				writePieces(w, make([]byte, 10<<20), 30*time.Second)
				require.Equal(t, c.lasts, time.Since(began))
				require.Equal(t, c.whole, w.Body.Len() == 10<<20)
			})
		})
	}
}

func TestAnswer_ItsEndIsSeenWhenThePlaceHasBeenLeft(t *testing.T) {
	f := newFakeStation(t)
	long := strings.Repeat("a", 64<<10)
	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.text(long)
		out.done(wire.ReasonEOG, 1)
	})
	h := newHost(t, f, func(o *Options) {
		limited(o)
		o.Keys[0].Limits = KeyLimits{ConcurrentRequests: 1}
	})
	for range 50 {
		r := h.do("POST", "/v1/chat/completions", body(), "Authorization", "Bearer k-small")
		require.Equal(t, 200, r.status, r.body)
	}
}
