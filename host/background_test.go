package host

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/host/openai"
	"thoth/host/responses"
	"thoth/host/stored"
	"thoth/station/wire"
)

// gated answers when gate is closed.
func gated(gate <-chan struct{}) script {
	return func(ctx context.Context, q *wire.GenerateRequest, out *frames) {
		select {
		case <-gate:
			hello(ctx, q, out)
		case <-ctx.Done():
		}
	}
}

// status polls a response until it has the status.
func (h *testHost) awaitResponse(id, status string, header ...string) *responses.Response {
	h.t.Helper()
	var got *responses.Response
	h.eventually(func() bool {
		got = h.kept(id, header...).response(h.t)
		return got.Status == status
	})
	return got
}

func TestBackground_RunsAndIsStored(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), func(o *Options) { o.MaxInFlight = 1 })
	gate := make(chan struct{})
	f.does(gated(gate))
	one := h.ask(`"Say hi"`, `"background":true`).response(t)
	require.Equal(t, "queued", one.Status)
	require.True(t, one.Background)
	require.Empty(t, one.Output)
	require.Nil(t, one.Usage)
	h.awaitResponse(one.ID, "in_progress")
	two := h.ask(`"Say hi"`, `"background":true`).response(t)
	require.Equal(t, "queued", h.kept(two.ID).response(t).Status, "it waits for the one place")
	record, err := h.stored.Get(t.Context(), "", two.ID)
	require.NoError(t, err)
	require.Contains(t, string(record.Response), `"status":"queued"`, "another host can see it")
	require.Contains(t, h.get("/health").body, `"background":2`)
	require.Contains(t, h.get("/stats").body, `"background":2`)
	require.Len(t, h.get("/v1/responses/" + two.ID + "/input_items").json(t)["data"], 1)
	r := h.ask(`"Go on"`, `"previous_response_id":"`+one.ID+`"`)
	require.Equal(t, 400, r.status)
	require.Contains(t, r.body, "in_progress", "it has no end")

	close(gate)
	for _, id := range []string{one.ID, two.ID} {
		done := h.awaitResponse(id, "completed")
		require.Equal(t, "Hello there", saying(done))
		require.Equal(t, 2, done.Usage.OutputTokens)
		require.NotNil(t, done.Gnosis)
	}
	h.eventually(func() bool { return h.background.underWay() == 0 })
	record, err = h.stored.Get(t.Context(), "", one.ID)
	require.NoError(t, err)
	require.Contains(t, string(record.Response), `"status":"completed"`)
	require.Equal(t, 200, h.ask(`"Go on"`, `"previous_response_id":"`+one.ID+`"`).status)
	require.Contains(t, h.logs.String(), `"message":"background response"`)
	require.EqualValues(t, 3, h.get("/stats").json(t)["host"].(map[string]any)["chats"], "a run counts once")
}

func TestBackground_GoesOnWithoutItsClientAndIsReadAgain(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t))
	gate, first := make(chan struct{}), make(chan struct{})
	f.does(func(ctx context.Context, _ *wire.GenerateRequest, out *frames) {
		out.text("one ")
		close(first)
		<-gate
		out.text("two ", "three")
		out.done(wire.ReasonEOG, 3)
	})
	id, next, leave := h.openResponse(`"Count"`, `"background":true`, `"stream":true`)
	require.Equal(t, "response.queued", next().Type)
	<-first
	var last responseEvent
	for last.Delta != "one " {
		last = next()
	}
	leave()

	// From the beginning, while it runs: its end comes in time.
	req, err := http.NewRequest("GET", h.base+"/v1/responses/"+id+"?stream=true", nil)
	require.NoError(t, err)
	again, leaveAgain := h.reading(req, func() {})
	require.Equal(t, "response.created", again().Type)
	close(gate)
	for e := again(); e.Type != "response.completed"; e = again() {
	}
	leaveAgain()

	h.awaitResponse(id, "completed")
	whole := responseEvents(t, h.get("/v1/responses/"+id+"?stream=true").body)
	require.Equal(t, 0, whole[0].Number)
	require.Equal(t, "one two three", deltas(whole))
	rest := responseEvents(t, h.get(fmt.Sprintf("/v1/responses/%s?stream=true&starting_after=%d", id, last.Number)).body)
	require.Equal(t, last.Number+1, rest[0].Number)
	require.Equal(t, "two three", deltas(rest))
	require.Equal(t, whole[len(whole)-1], rest[len(rest)-1])
	end := h.get(fmt.Sprintf("/v1/responses/%s?stream=true&starting_after=%d", id, whole[len(whole)-1].Number))
	require.Equal(t, 200, end.status)
	require.Empty(t, end.body, "nothing is left")
	require.Equal(t, "one two three", saying(h.kept(id).response(t)))
}

func TestBackground_EventsAreHeldWithinTheirBytes(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), func(o *Options) { o.BackgroundEvents = 4096 })
	f.does(writes(strings.Repeat("word ", 200), 5, wire.ReasonEOG))
	made := h.ask(`"Say hi"`, `"background":true`, `"stream":true`)
	require.Equal(t, 200, made.status)
	h.eventually(func() bool { return len(h.held()) == 1 })
	id := h.held()[0]
	log := h.background.find("", id).log
	held := 0
	events, next, over, dropped, _ := log.from(log.held())
	for _, e := range events {
		held += len(e)
	}
	require.LessOrEqual(t, held, 4096)
	require.True(t, over)
	require.False(t, dropped)
	r := h.kept(id + "?stream=true")
	require.Equal(t, 400, r.status)
	require.Equal(t, "stream", *errorParam(t, r), "starting_after was not given")
	require.Contains(t, r.body, fmt.Sprint(log.held()), "it says what is held")
	r = h.kept(id + "?stream=true&starting_after=1")
	require.Equal(t, 400, r.status)
	require.Equal(t, "starting_after", *errorParam(t, r))
	rest := responseEvents(t, h.kept(fmt.Sprintf("%s?stream=true&starting_after=%d", id, log.held())).body)
	require.Equal(t, next-1, rest[len(rest)-1].Number)
	require.Equal(t, strings.Repeat("word ", 200), saying(h.kept(id).response(t)), "the response itself is whole")
}

// held are the runs that have ended and whose events are held, oldest first.
func (h *testHost) held() (ids []string) {
	h.background.mu.Lock()
	defer h.background.mu.Unlock()
	for _, r := range h.background.mu.held {
		ids = append(ids, r.id)
	}
	return ids
}

func TestBackground_WhatHasNoEventsSaysSo(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t))
	plain := h.ask(`"a"`).response(t)
	silent := h.ask(`"a"`, `"background":true`).response(t)
	for id, why := range map[string]string{plain.ID: "not made in the background", silent.ID: "not asked for with stream"} { // while it runs and after
		r := h.kept(id + "?stream=true")
		require.Equal(t, 400, r.status)
		require.Equal(t, "stream", *errorParam(t, r))
		require.Contains(t, r.body, why)
	}
}

func TestBackground_EventsOfThoseThatEndedAreBoundedInBytesAndTime(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t))
	streamed := func() string { return h.ask(`"a"`, `"background":true`, `"stream":true`).response(t).ID }
	one := streamed()
	h.eventually(func() bool { return len(h.held()) == 1 })
	require.Nil(t, h.background.find("", one).current(), "the response itself is in the store alone")
	require.Equal(t, "completed", h.kept(one).response(t).Status)
	h.background.mu.Lock()
	size := h.background.mu.bytes
	h.background.mu.Unlock()
	require.Positive(t, size)
	h.background.heldBytes = size * 5 / 2
	two := streamed()
	h.eventually(func() bool { return slices.Contains(h.held(), two) }) // they are put away in the order of their ends
	three := streamed()
	h.eventually(func() bool { return slices.Equal(h.held(), []string{two, three}) })
	r := h.kept(one + "?stream=true")
	require.Equal(t, 400, r.status)
	require.Contains(t, r.body, "no longer held")
	require.Equal(t, "completed", h.kept(one).response(t).Status)
	require.Equal(t, 200, h.kept(three+"?stream=true").status)

	h.background.heldFor = time.Millisecond
	streamed()
	h.eventually(func() bool {
		return slices.Equal(h.held(), []string{three}) || slices.Equal(h.held(), []string{two, three})
	})
	require.Equal(t, 200, h.do("DELETE", "/v1/responses/"+three, "").status)
	require.NotContains(t, h.held(), three)
	h.ask(`"a"`, `"background":true`)
	h.eventually(func() bool {
		h.background.mu.Lock()
		defer h.background.mu.Unlock()
		return len(h.background.mu.runs) == len(h.background.mu.held)
	})
	h.background.wait()
	require.Empty(t, h.held())
}

func TestBackground_TheirNumberIsBounded(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), func(o *Options) { o.MaxBackground = 2 })
	gate := make(chan struct{})
	f.does(gated(gate))
	var ids []string
	for range 2 {
		ids = append(ids, h.ask(`"a"`, `"background":true`).response(t).ID)
	}
	r := h.ask(`"a"`, `"background":true`)
	require.Equal(t, 429, r.status)
	require.Equal(t, "background_limit_exceeded", r.code(t))
	require.NotEmpty(t, r.header.Get("Retry-After"))
	close(gate)
	for _, id := range ids {
		h.awaitResponse(id, "completed")
	}
	h.eventually(func() bool { return h.background.underWay() == 0 })
	require.Equal(t, 200, h.ask(`"a"`, `"background":true`).status)

	h = newHost(t, f, keeping(t), func(o *Options) { o.MaxBackground = -1 })
	require.Equal(t, 400, h.ask(`"a"`, `"background":true`).status)
	r = newHost(t, f, keeping(t)).ask(`"a"`, `"background":true`, `"store":false`)
	require.Equal(t, 400, r.status)
}

func TestBackground_IsCancelledOnceAndForAll(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), func(o *Options) { o.MaxInFlight = 1 })
	f.does(forever)
	id, next, _ := h.openResponse(`"a"`, `"background":true`, `"stream":true`)
	for next().Delta == "" {
	}
	waiting := h.ask(`"a"`, `"background":true`).response(t)
	cancel := func(id string) *responses.Response {
		r := h.do("POST", "/v1/responses/"+id+"/cancel", "")
		return r.response(t)
	}
	got := cancel(waiting.ID)
	require.Equal(t, "cancelled", got.Status)
	require.Empty(t, got.Output)
	require.Equal(t, 1, f.running(), "the other goes on")
	got = cancel(id)
	require.Equal(t, "cancelled", got.Status)
	require.Nil(t, got.Error)
	require.True(t, strings.HasPrefix(saying(got), "tok "), "what there was by then")
	h.eventually(func() bool { return f.running() == 0 }) // the station works on it no more
	require.Equal(t, got, cancel(id))
	require.Equal(t, got, h.kept(id).response(t))
	var last responseEvent
	for last.Type != "response.failed" {
		last = next()
	}
	require.Equal(t, "cancelled", last.Response.Status, "its reader hears of the end")

	f.does(hello)
	done := h.ask(`"a"`, `"background":true`).response(t)
	h.awaitResponse(done.ID, "completed")
	require.Equal(t, "completed", cancel(done.ID).Status, "it has its end")
	plain := h.ask(`"a"`).response(t)
	r := h.do("POST", "/v1/responses/"+plain.ID+"/cancel", "")
	require.Equal(t, 400, r.status)
	require.Contains(t, r.body, "background")
}

func TestBackground_DeletedWhileItRunsNothingOfItStays(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t))
	f.does(forever)
	made := h.ask(`"a"`, `"background":true`).response(t)
	h.eventually(func() bool { return f.running() == 1 })
	require.Equal(t, 200, h.do("DELETE", "/v1/responses/"+made.ID, "").status)
	require.Zero(t, h.background.underWay())
	h.eventually(func() bool { return f.running() == 0 })
	require.Equal(t, 404, h.kept(made.ID).status)
	_, err := h.stored.Get(t.Context(), "", made.ID)
	require.ErrorIs(t, err, stored.ErrNotFound)

	f.does(hello)
	made = h.ask(`"a"`, `"background":true`, `"stream":true`).response(t)
	require.Equal(t, 200, h.do("DELETE", "/v1/responses/"+made.ID, "").status)
	require.Equal(t, 404, h.kept(made.ID+"?stream=true").status)
}

func TestBackground_AFailureIsItsEnd(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t))
	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.refuse(&wire.Error{Code: wire.CodeEngine, Message: "broke"})
	})
	for _, stream := range []string{`"stream":false`, `"stream":true`} {
		r := h.ask(`"a"`, `"background":true`, stream).response(t)
		got := h.awaitResponse(r.ID, "failed")
		require.Equal(t, "server_error", got.Error.Code)
		require.Equal(t, "broke", got.Error.Message)
	}
	h.eventually(func() bool { return h.background.underWay() == 0 })
	require.EqualValues(t, 2, h.get("/stats").json(t)["host"].(map[string]any)["errors"].(map[string]any)["engine_failed"])
}

func TestBackground_DrainLetsItEndAndEndsTheRest(t *testing.T) {
	f, dir := newFakeStation(t), t.TempDir()
	h := newHost(t, f, storingIn(dir), func(o *Options) { o.DrainTimeout = 10 * time.Second })
	gate := make(chan struct{})
	f.does(gated(gate))
	made := h.ask(`"a"`, `"background":true`).response(t)
	h.awaitResponse(made.ID, "in_progress")
	var drained sync.WaitGroup
	drained.Go(func() { h.Drain(context.Background()) })
	h.await(http.StatusServiceUnavailable)
	require.Equal(t, 503, h.ask(`"a"`, `"background":true`).status, "no new ones")
	require.Equal(t, "in_progress", h.kept(made.ID).response(t).Status)
	close(gate)
	drained.Wait()
	require.Equal(t, "completed", h.kept(made.ID).response(t).Status)

	h = newHost(t, f, storingIn(dir), func(o *Options) { o.DrainTimeout = 50 * time.Millisecond })
	f.does(forever)
	id, next, _ := h.openResponse(`"a"`, `"background":true`, `"stream":true`)
	for next().Delta == "" {
	}
	h.Drain(context.Background())
	var last responseEvent
	for last.Type != "response.failed" {
		last = next()
	}
	require.Contains(t, last.Response.Error.Message, "shutting down")
	h.background.wait()
	resp := newHost(t, f, storingIn(dir)).kept(id).response(t)
	require.Equal(t, "failed", resp.Status)
	require.True(t, strings.HasPrefix(saying(resp), "tok "))
}

func TestBackground_OfADeadProcessHasFailed(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t))
	made := h.ask(`"a"`).response(t)
	for status, lease := range map[string]time.Duration{"failed": -time.Second, "in_progress": time.Minute} {
		made.Status, made.Background = "in_progress", true
		record := &stored.Record{ID: "resp_" + status, Created: time.Now(), Input: []byte("[]"), Response: openai.Encode(made)}
		require.NoError(t, h.stored.Put(t.Context(), record))
		require.NoError(t, h.stored.Put(t.Context(), h.newLease("", record.ID, "in_progress", lease)))
		got := h.kept(record.ID).response(t)
		require.Equal(t, status, got.Status)
		r := h.ask(`"b"`, `"previous_response_id":"`+record.ID+`"`)
		require.Equal(t, 400, r.status)
		require.Contains(t, r.body, status)
		if status == "failed" {
			require.Contains(t, got.Error.Message, "ended before it was done")
			require.Equal(t, "failed", h.do("POST", "/v1/responses/"+record.ID+"/cancel", "").response(t).Status)
			continue
		}
		r = h.kept(record.ID + "?stream=true")
		require.Equal(t, 400, r.status)
		require.Contains(t, r.body, "not held here")
	}
}

func TestBackground_AnotherHostSeesCancelsAndDeletesIt(t *testing.T) {
	dir := t.TempDir()
	f := newFakeStation(t)
	h := newHost(t, f, storingIn(dir))
	h.background.beat, h.background.lease = 10*time.Millisecond, time.Minute
	elsewhere := newHost(t, f, storingIn(dir))
	f.does(forever)
	for _, end := range []string{"cancel", "delete"} {
		made := h.ask(`"a"`, `"background":true`).response(t)
		elsewhere.awaitResponse(made.ID, "in_progress")
		if end == "cancel" {
			require.Equal(t, "cancelled", elsewhere.do("POST", "/v1/responses/"+made.ID+"/cancel", "").response(t).Status)
			require.Equal(t, "cancelled", elsewhere.kept(made.ID).response(t).Status, "at once")
			require.Equal(t, "cancelled", h.awaitResponse(made.ID, "cancelled").Status)
		} else {
			require.Equal(t, 200, elsewhere.do("DELETE", "/v1/responses/"+made.ID, "").status)
			require.Equal(t, 404, elsewhere.kept(made.ID).status, "at once")
			require.Equal(t, 404, elsewhere.do("DELETE", "/v1/responses/"+made.ID, "").status)
			h.eventually(func() bool { return h.kept(made.ID).status == 404 })
		}
		h.eventually(func() bool { return f.running() == 0 && h.background.find("", made.ID) == nil })
		_, err := h.stored.Get(t.Context(), fatesOf(""), made.ID)
		require.ErrorIs(t, err, stored.ErrNotFound, "what was asked is done")
		if end == "cancel" {
			require.True(t, strings.HasPrefix(saying(elsewhere.kept(made.ID).response(t)), "tok "), "what there was by then is stored")
		} else {
			require.Equal(t, 404, elsewhere.kept(made.ID).status)
		}
	}
}

func TestBackground_CountsAgainstItsKeyToItsEnd(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), limited)
	auth := []string{"Authorization", "Bearer k-small"}
	f.does(forever)
	const stream = `"background":true,"stream":true`
	req, err := http.NewRequest("POST", h.base+"/v1/responses", strings.NewReader(responseBody(`"a"`, stream)))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer k-small")
	next, leave := h.reading(req, func() {})
	made := next().Response
	for next().Delta == "" { // it has used something
	}
	leave()
	r := h.askAs("k-small", `"a"`)
	require.Equal(t, 429, r.status)
	require.Contains(t, r.body, "concurrent requests")
	require.Equal(t, 200, h.kept(made.ID, auth...).status, "looking at it asks the model for nothing")
	require.Equal(t, 200, h.do("POST", "/v1/responses/"+made.ID+"/cancel", "", auth...).status)
	h.eventually(func() bool {
		for _, k := range h.get("/stats", auth...).json(t)["keys"].([]any) {
			k := k.(map[string]any)
			if k["name"] == "small" {
				return k["in_flight"] == 0. && k["completion_tokens"].(float64) > 0
			}
		}
		return false
	})
	f.does(hello)
	require.Equal(t, 200, h.askAs("k-small", `"a"`).status)
	h.awaitResponse(made.ID, "cancelled", auth...)
}

func TestBackground_ItsReadersAreBounded(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t))
	f.does(forever)
	id, _, leave := h.openResponse(`"a"`, `"background":true`, `"stream":true`)
	req, err := http.NewRequest("GET", h.base+"/v1/responses/"+id+"?stream=true", nil)
	require.NoError(t, err)
	for range mostReaders - 1 {
		h.reading(req, func() {})
	}
	r := h.kept(id + "?stream=true")
	require.Equal(t, 429, r.status)
	require.Equal(t, "background_limit_exceeded", r.code(t))
	leave()
	h.eventually(func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		resp, err := h.http.Do(req.WithContext(ctx))
		require.NoError(t, err)
		resp.Body.Close()
		return resp.StatusCode == 200
	})
	require.Equal(t, 200, h.do("HEAD", "/v1/responses/"+id+"?stream=true", "").status, "it has no body to wait for")
	require.Equal(t, 200, h.do("DELETE", "/v1/responses/"+id, "").status)
}

func TestEventLog_KeepsTheLastEventsAndNoComments(t *testing.T) {
	l := newEventLog(10)
	_, _, _, _, more := l.from(0)
	l.add([]byte("a\n\n: ping\n\nb\n\n"))
	<-more
	events, next, over, dropped, _ := l.from(0)
	require.Equal(t, [][]byte{[]byte("a\n\n"), []byte("b\n\n")}, events)
	require.Equal(t, 2, next)
	require.False(t, over || dropped)
	l.add([]byte("c\n\nd\n\n"))
	require.Equal(t, 1, l.held())
	_, _, _, dropped, _ = l.from(0)
	require.True(t, dropped)
	require.Equal(t, "b\n\n", string(events[1]), "what was given stays")
	l.add([]byte("a long one\n\n"))
	require.Equal(t, 4, l.held(), "the last one stays, whatever its size")
	l.end()
	l.add([]byte("e\n\n"))
	events, next, over, _, _ = l.from(4)
	require.Len(t, events, 1)
	require.Equal(t, 5, next)
	require.True(t, over)
	events, next, _, dropped, _ = l.from(9)
	require.Empty(t, events)
	require.Equal(t, 5, next)
	require.False(t, dropped)
}
