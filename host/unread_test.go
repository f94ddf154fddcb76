package host

import (
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

func TestRun_AnswersThatAreNotReadLeaveTheirPlacesWhileThereIsRoom(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.MaxInFlight, o.BodyLimit, o.MaxBodyMemory = 1, 1<<20, 120<<20 })
	f.does(saysMuch(16 << 20))
	first, _ := h.silent()
	h.left(f)
	require.Greater(t, h.unread.held(), int64(40<<20), "it counts while its client does not read")

	_, second := h.silent()
	resp, err := http.ReadResponse(second, nil) // it is whole
	require.NoError(t, err)
	f.does(hello)
	var third reply
	var asking sync.WaitGroup
	asking.Go(func() { third = h.chat() })
	h.eventually(func() bool {
		inFlight, waiting := h.admission.counts()
		return inFlight == 1 && waiting == 1
	})
	require.NoError(t, first.Close())
	h.eventually(func() bool { return h.unread.held() == 0 })
	require.Len(t, f.got(), 2, "the second has its place until it is read")
	all, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Greater(t, len(all), 15<<20, "no answer is lost for want of room")
	asking.Wait()
	require.Equal(t, 200, third.status)
	require.Len(t, f.got(), 3)
	h.eventually(func() bool { return h.unread.held() == 0 })
}

func TestRun_AnAnswerLargerThanAllRoomLeavesItsPlaceWhereItIsAlone(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.MaxInFlight, o.BodyLimit, o.MaxBodyMemory = 1, 1<<20, 60<<20 })
	f.does(saysMuch(16 << 20))
	conn, _ := h.silent()
	h.left(f)
	require.Greater(t, h.unread.held(), h.unread.most)
	f.does(hello)
	require.Equal(t, 200, h.chat().status, "the only place is free")
	require.NoError(t, conn.Close())
	h.eventually(func() bool { return h.unread.held() == 0 })
}

func TestAnswerBytes_CountsLogprobs(t *testing.T) {
	lp := []wire.TokenLogprob{{Top: make([]wire.TokenLogprob, 20)}}
	require.EqualValues(t, 4, answerBytes(&wire.Frame{Text: "word"}))
	require.EqualValues(t, 4+21*logprobBytes, answerBytes(&wire.Frame{Text: "word", Logprobs: lp}))
}
