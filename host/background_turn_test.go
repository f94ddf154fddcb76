package host

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// queued gives a host runs of which the first is being made until gate is closed.
func (h *testHost) queued(f *fakeStation, gate chan struct{}, ids int) (of []string) {
	h.t.Helper()
	f.does(gated(gate))
	for i := range ids {
		of = append(of, h.ask(`"a"`, `"background":true`).response(h.t).ID)
		if i == 0 { // who comes behind it may overtake it on the way to the line
			h.eventually(func() bool { return f.running() == 1 })
		}
	}
	return of
}

func TestBackground_QueuedRunsOutliveARestartOfTheStation(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), func(o *Options) { o.MaxInFlight = 2 })
	gate := make(chan struct{})
	ids := h.queued(f, gate, 4)
	f.set(func(f *fakeStation) { f.health.Status = wire.StatusLoading })
	refused := make(chan struct{}, len(ids))
	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		refused <- struct{}{}
		out.refuse(&wire.Error{Code: wire.CodeLoading, Message: "loading"})
	})
	h.await(http.StatusServiceUnavailable)
	close(gate)
	h.awaitResponse(ids[0], "completed")
	h.eventually(func() bool { running, _ := h.background.line.counts(); return running == 1 })
	require.Equal(t, 200, h.do("POST", "/v1/responses/"+ids[1]+"/cancel", "").status)
	require.Equal(t, "cancelled", h.kept(ids[1]).response(t).Status, "one that waits for the station can be cancelled")
	for _, id := range ids[2:] {
		require.Equal(t, "queued", h.kept(id).response(t).Status)
	}
	f.does(hello)
	f.set(func(f *fakeStation) { f.health.Status = wire.StatusOK })
	for _, id := range ids[2:] {
		h.awaitResponse(id, "completed")
	}
	require.Empty(t, refused)
}

// The station goes between two looks: who met that it is gone is the last one.
func TestWatcher_ASuspectedStationIsNotReadyUntilItWasLookedAt(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.HealthInterval = time.Hour })
	ready := func() bool { ok, _ := h.station.ready(); return ok }
	require.True(t, ready())
	thaw := make(chan struct{})
	f.set(func(f *fakeStation) { f.frozen = thaw })
	h.station.suspect()
	require.False(t, ready())
	require.True(t, h.station.current().ready())
	f.set(func(f *fakeStation) { f.frozen = nil })
	close(thaw)
	h.eventually(ready)

	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.refuse(&wire.Error{Code: wire.CodeLoading, Message: "loading"})
	})
	before := h.station.suspicions()
	require.Equal(t, 503, h.chat().status)
	require.Equal(t, before+1, h.station.suspicions(), "one that is loading has restarted")
}

// The station goes between two looks: it refuses a run before the host knows.
func TestBackground_ARunThatIsRefusedBeforeItBeganIsTriedAgain(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), func(o *Options) { o.HealthInterval = time.Hour })
	refuses := func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.refuse(&wire.Error{Code: wire.CodeDraining, Message: "going"})
	}
	for _, stream := range []string{`"stream":false`, `"stream":true`} {
		f.does(refuses)
		f.set(func(f *fakeStation) { f.health.Status = wire.StatusDraining })
		var id string
		var next func() responseEvent
		if stream == `"stream":true` {
			id, next, _ = h.openResponse(`"a"`, `"background":true`, stream)
		} else {
			id = h.ask(`"a"`, `"background":true`, stream).response(t).ID
		}
		h.await(http.StatusServiceUnavailable)
		f.does(hello)
		f.set(func(f *fakeStation) { f.health.Status = wire.StatusOK })
		got := h.awaitResponse(id, "completed")
		require.Equal(t, "Hello there", saying(got))
		require.Equal(t, 9, got.Usage.InputTokens)
		if next != nil {
			for e := next(); e.Type != "response.completed"; e = next() {
			}
		}
		h.await(200)
	}

	// One that answers so and says that it serves is broken, and one that has begun is not asked twice.
	before := len(f.got())
	f.does(refuses)
	h.awaitResponse(h.ask(`"a"`, `"background":true`).response(t).ID, "failed")
	require.Len(t, f.got(), before+mostTries)
	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.text("Hi")
		out.send(wire.Frame{Type: wire.FrameError, Error: &wire.Error{Code: wire.CodeUnavailable, Message: "gone"}})
	})
	h.awaitResponse(h.ask(`"a"`, `"background":true`).response(t).ID, "failed")
	require.Len(t, f.got(), before+mostTries+1)
}

// A prompt that ends each station it meets is not given to a third one.
func TestBackground_ARunThatTheStationTookBeforeItWentIsTriedOnceMore(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t))
	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(out.w).Flush()
		panic(http.ErrAbortHandler)
	})
	h.awaitResponse(h.ask(`"a"`, `"background":true`).response(t).ID, "failed")
	require.Len(t, f.got(), 2)

	// One that was refused in between has not lost another.
	var asked atomic.Int32
	f.does(func(ctx context.Context, q *wire.GenerateRequest, out *frames) {
		switch asked.Add(1) {
		case 1:
			out.send(wire.Frame{Type: wire.FrameError, Error: &wire.Error{Code: wire.CodeUnavailable, Message: "gone"}})
		case 2:
			out.refuse(&wire.Error{Code: wire.CodeLoading, Message: "loading"})
		default:
			hello(ctx, q, out)
		}
	})
	h.awaitResponse(h.ask(`"a"`, `"background":true`).response(t).ID, "completed")
	require.Equal(t, int32(3), asked.Load())
}

func TestBackground_AtTheEndOfTheServerNoneWaitsForTheStation(t *testing.T) {
	f, dir := newFakeStation(t), t.TempDir()
	h := newHost(t, f, storingIn(dir), func(o *Options) { o.MaxInFlight = 2 })
	gate := make(chan struct{})
	ids := h.queued(f, gate, 2)
	f.set(func(f *fakeStation) { f.health.Status = wire.StatusLoading })
	h.await(http.StatusServiceUnavailable)
	close(gate)
	h.awaitResponse(ids[0], "completed")
	h.stopHard(errDraining())
	h.background.wait()
	require.Contains(t, h.kept(ids[1]).response(t).Error.Message, "shutting down")
}

func TestBackground_AnotherModelGetsAPromptOfItsOwn(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), func(o *Options) { o.MaxInFlight, o.ModelName, o.Aliases = 2, "", []string{"m"} })
	gate := make(chan struct{})
	f.does(gated(gate))
	post := func(model string) string {
		return h.do("POST", "/v1/responses", `{"model":"`+model+`","input":"a","background":true}`).response(t).ID
	}
	own := h.station.current().names[0]
	ids := []string{post("m")}
	h.eventually(func() bool { return f.running() == 1 })
	ids = append(ids, post("m"), post(own))
	f.set(func(f *fakeStation) {
		f.health.Build = "b2"
		f.model.Digest, f.model.File, f.model.Name = "other", "other.gguf", "other"
		f.model.ChatTemplate = strings.ReplaceAll(chatml, "<|im_start|>", "[[")
	})
	h.eventually(func() bool { return h.station.current().model.Digest == "other" })
	close(gate)
	h.awaitResponse(ids[1], "completed")
	require.Equal(t, "[[user\na<|im_end|>\n[[assistant\n", text(f.last().Prompt.Segments))
	failed := h.awaitResponse(ids[2], "failed")
	require.Contains(t, failed.Error.Message, `the model "`+own+`" does not exist here`)
	require.Len(t, f.got(), 2, "the station was not asked for it")
}

func TestBackground_ALongLineKeepsNobodyElseOut(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), func(o *Options) { o.MaxInFlight, o.BodyLimit, o.MaxBodyMemory = 2, 100<<10, 300<<10 })
	gate := make(chan struct{})
	long := `"` + strings.Repeat("x", 70<<10) + `"`
	ids := append(h.queued(f, gate, 1), h.ask(long, `"background":true`).response(t).ID, h.ask(long, `"background":true`).response(t).ID)
	r := h.ask(long, `"background":true`)
	require.Equal(t, 429, r.status)
	require.Equal(t, "background_limit_exceeded", r.code(t))
	require.NotEmpty(t, r.header.Get("Retry-After"))
	require.Zero(t, h.bodies.held())
	f.does(hello)
	require.Equal(t, 200, h.ask(long).status)
	close(gate)
	for _, id := range ids {
		h.awaitResponse(id, "completed")
	}
	h.eventually(func() bool { return h.background.underWay() == 0 })
	require.Zero(t, h.background.bodies.held())
}
