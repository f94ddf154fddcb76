package host

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/host/openai"
	"thoth/host/responses"
	"thoth/station/wire"
)

func TestEventLog_TheWholeResponseTakesItsRoomOnce(t *testing.T) {
	l := newEventLog(4096)
	state := func(name string, number int, status string) []byte {
		return fmt.Appendf(nil, "event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,\"response\":{\"status\":%q,\"instructions\":%s,\"output\":[\"%d\"],\"tools\":%s}}\n\n",
			name, name, number, status, openai.Encode(strings.Repeat("a \"quoted\" word, ", 5000)), number, openai.Encode([]string{strings.Repeat("tool", 500), "b"}))
	}
	want := [][]byte{state("response.created", 0, "queued"), state("response.queued", 1, "queued"), state("response.in_progress", 2, "in_progress"),
		[]byte("event: d\ndata: {\"type\":\"d\",\"delta\":\",\\\"response\\\":{\"}\n\n"), state("response.completed", 4, "completed"),
		[]byte("event: x\ndata: {\"type\":\"x\",\"response\":{broken\n\n")}
	for _, e := range want {
		l.add(e)
	}
	got, next, _, dropped, _ := l.from(0)
	require.False(t, dropped)
	require.Equal(t, len(want), next)
	for i := range want {
		require.Equal(t, string(want[i]), string(got[i]))
	}
	require.Less(t, l.mu.bytes, 1000, "what they have in common is held once")
	require.Greater(t, l.size(), len(want[0])-500)
	require.Less(t, l.size(), len(want[0])+1000)
}

func TestBackground_LongInstructionsLeaveRoomForItsEvents(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), func(o *Options) { o.BackgroundEvents = 64 << 10 })
	f.does(writes("word ", 5, wire.ReasonEOG))
	long := strings.Repeat("Be brief. ", 60_000)
	made := h.ask(`"Say hi"`, `"background":true`, `"stream":true`, `"instructions":"`+long+`"`)
	all := responseEvents(t, made.body)
	require.Equal(t, "response.created", all[0].Type)
	last := all[len(all)-1]
	require.Equal(t, "response.completed", last.Type)
	for _, e := range all {
		if e.Response != nil {
			require.Equal(t, long, *e.Response.Instructions, e.Type)
		}
	}
	again := h.kept(last.Response.ID + "?stream=true")
	require.Equal(t, made.body, again.body, "to the byte")
	require.Equal(t, responses.StatusCompleted, h.kept(last.Response.ID).response(t).Status)
}

func TestFollow_AReaderThatIsTooSlowIsToldSo(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t))
	l := newEventLog(10)
	l.add([]byte("a\n\nb\n\nc\n\nd\n\n"))
	l.end()
	w := httptest.NewRecorder()
	rec := &record{}
	h.follow(w, httptest.NewRequest("GET", "/", nil).WithContext(context.WithValue(t.Context(), recordKey{}, rec)), l, 0)
	all := responseEvents(t, w.Body.String())
	require.Equal(t, "error", all[0].Type)
	require.Equal(t, "client_too_slow", all[0].Code)
	require.Contains(t, all[0].Message, "from number 0 on")
	require.Equal(t, openai.CodeSlowReader, rec.err.Code, "it is in the log")
}
