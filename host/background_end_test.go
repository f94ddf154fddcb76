package host

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/host/responses"
	"thoth/host/stored"
	"thoth/station/wire"
)

// countingStore counts what is put, by the scope's kind.
type countingStore struct {
	responseStore
	mu      sync.Mutex
	records int // responses
	ends    int // of them, in place of what they were before
	fails   int // puts of an end that fail from now on
}

func (c *countingStore) Put(ctx context.Context, r *stored.Record) error {
	c.mu.Lock()
	if strings.Contains(string(r.Response), `"object":"response"`) {
		c.records++
	}
	c.mu.Unlock()
	return c.responseStore.Put(ctx, r)
}

func (c *countingStore) Replace(ctx context.Context, r *stored.Record) error {
	c.mu.Lock()
	c.records++
	c.ends++
	fails := c.fails > 0
	if fails {
		c.fails--
	}
	c.mu.Unlock()
	if fails {
		return errBroken
	}
	return c.responseStore.Replace(ctx, r)
}

// puts are all that were put, and those of them that were ends.
func (c *countingStore) puts() (records, ends int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records, c.ends
}

// counted gives a host a store that counts, and fast retries.
func counted(h *testHost) *countingStore {
	c := &countingStore{responseStore: h.responses}
	h.responses = c
	h.background.retry = time.Millisecond
	return c
}

func TestBackground_ItsInputIsWrittenTwice(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t))
	c := counted(h)
	h.background.beat, h.background.lease = time.Millisecond, time.Minute
	gate := make(chan struct{})
	f.does(gated(gate))
	made := h.ask(`"a"`, `"background":true`).response(t)
	var last lease
	h.eventually(func() bool {
		l, err := h.leaseOf(t.Context(), "", made.ID)
		require.NoError(t, err)
		last = l
		return l.Status == responses.StatusInProgress
	})
	require.False(t, last.over())
	h.eventually(func() bool { // and it is renewed
		l, err := h.leaseOf(t.Context(), "", made.ID)
		require.NoError(t, err)
		return l.Until > last.Until
	})
	records, ends := c.puts()
	require.Equal(t, []int{1, 0}, []int{records, ends})
	close(gate)
	h.awaitResponse(made.ID, "completed")
	h.eventually(func() bool { return h.background.find("", made.ID) == nil })
	records, ends = c.puts()
	require.Equal(t, []int{2, 1}, []int{records, ends})
	for _, scope := range []string{leasesOf(""), fatesOf("")} {
		_, err := h.stored.Get(t.Context(), scope, made.ID)
		require.ErrorIs(t, err, stored.ErrNotFound)
	}
}

func TestBackground_AnEndThatCannotBeStoredAtOnceIsStoredLater(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), func(o *Options) { o.MaxBackground = 1 })
	c := counted(h)
	c.fails = 2
	made := h.ask(`"a"`, `"background":true`).response(t)
	h.awaitResponse(made.ID, "completed")
	require.Equal(t, 200, h.ask(`"b"`, `"previous_response_id":"`+made.ID+`"`).status, "seen when it was stored")
	require.Zero(t, h.lost())

	c.mu.Lock()
	c.fails = 1 << 30
	c.mu.Unlock()
	made = h.ask(`"a"`, `"background":true`, `"stream":true`).response(t)
	got := h.kept(made.ID).response(t)
	require.Equal(t, "Hello there", saying(got), "it is there, whatever the store does")
	require.Equal(t, "completed", h.do("POST", "/v1/responses/"+made.ID+"/cancel", "").response(t).Status)
	r := h.ask(`"b"`, `"previous_response_id":"`+made.ID+`"`)
	require.Equal(t, 503, r.status, "soon: %s", r.body)
	require.Equal(t, 1, h.background.underWay(), "and it is not forgotten")
	require.Equal(t, 429, h.ask(`"b"`, `"background":true`).status)
	c.mu.Lock()
	c.fails = 0
	c.mu.Unlock()
	h.eventually(func() bool { return h.background.underWay() == 0 })
	require.Equal(t, 200, h.ask(`"b"`, `"previous_response_id":"`+made.ID+`"`).status)
	require.Equal(t, "completed", h.kept(made.ID).response(t).Status)

	// Deleted while it waits for the store, it does not come back.
	c.mu.Lock()
	c.fails = 1 << 30
	c.mu.Unlock()
	made = h.ask(`"a"`, `"background":true`, `"stream":true`).response(t)
	require.Equal(t, 200, h.do("DELETE", "/v1/responses/"+made.ID, "").status)
	h.eventually(func() bool { return h.background.underWay() == 0 })
	_, err := h.stored.Get(t.Context(), "", made.ID)
	require.ErrorIs(t, err, stored.ErrNotFound)
}

func TestBackground_WhatIsTooLargeToBeStoredSaysSo(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, func(o *Options) { o.Responses = stored.Options{Address: t.TempDir(), RecordBytes: 8 << 10} })
	long := `"` + strings.Repeat("word ", 2000) + `"`
	for _, field := range []string{`"background":true`, `"store":true`} {
		r := h.ask(long, field)
		require.Equal(t, 413, r.status, r.body)
		require.Equal(t, "request_too_large", r.code(t))
		require.Equal(t, "input", *errorParam(t, r))
		require.Contains(t, r.body, "at most 8192 bytes")
		require.Empty(t, r.header.Get("Retry-After"), "it will never fit")
	}
	require.Zero(t, h.background.underWay())
	require.Empty(t, f.got(), "it was known before the work")
	made := h.ask(long).response(t)
	require.Equal(t, "Hello there", saying(made))
	require.False(t, made.Store)
	require.EqualValues(t, 1, h.lostBy("too_large"))

	f.does(writes(strings.Repeat("word ", 2000), 5, wire.ReasonEOG))
	for _, stream := range []string{`"stream":false`, `"stream":true`} {
		id := h.ask(`"a"`, `"background":true`, stream).response(t).ID
		got := h.awaitResponse(id, "failed")
		require.Contains(t, got.Error.Message, "too long to be stored")
		require.Empty(t, got.Output)
		h.eventually(func() bool { return h.background.underWay() == 0 })
		record, err := h.stored.Get(t.Context(), "", id)
		require.NoError(t, err)
		require.Contains(t, string(record.Response), "too long to be stored")
	}
	require.EqualValues(t, 3, h.lostBy("too_large"))
}

// Whoever sees the end goes on at once, by a key that may ask once at a time.
func TestBackground_WhoSeesItsEndMayGoOn(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), limited, func(o *Options) {
		o.MaxBackground = 1
		o.Keys[0].Limits.RequestsPerMinute = 0
	})
	auth := []string{"Authorization", "Bearer k-small"}
	previous := ""
	for range 10 {
		fields := []string{`"background":true`}
		if previous != "" {
			fields = append(fields, `"previous_response_id":"`+previous+`"`)
		}
		previous = h.askAs("k-small", `"a"`, fields...).response(t).ID
		h.awaitResponse(previous, "completed", auth...)
	}
}

func TestBackground_WaitsForItsTurnAndLeavesPlacesToOthers(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), func(o *Options) { o.MaxInFlight, o.MaxBacklog = 2, 1 })
	gate := make(chan struct{})
	f.does(gated(gate))
	var ids []string
	for range 5 { // more than the line is long
		ids = append(ids, h.ask(`"a"`, `"background":true`).response(t).ID)
	}
	h.eventually(func() bool { return f.running() == 1 })
	f.does(hello)
	require.Equal(t, 200, h.ask(`"b"`, `"store":false`).status, "half of the places are not theirs")
	inFlight, waiting := h.admission.counts()
	require.LessOrEqual(t, inFlight+waiting, 2)
	close(gate)
	for _, id := range ids {
		h.awaitResponse(id, "completed")
	}
}

func TestBackground_OneKeyLeavesRunsToOthers(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), func(o *Options) {
		o.MaxBackground = 8
		o.APIKeys = []string{"k-one", "k-two"}
	})
	f.does(forever)
	for range 2 {
		h.askAs("k-one", `"a"`, `"background":true`).response(t)
	}
	r := h.askAs("k-one", `"a"`, `"background":true`)
	require.Equal(t, 429, r.status)
	require.Equal(t, "background_limit_exceeded", r.code(t))
	require.Contains(t, r.body, "at most 2 responses of one key")
	require.Equal(t, 200, h.askAs("k-two", `"a"`, `"background":true`).status)
}

// A process that sleeps over the end of its lease, and in the middle of its run, is taken for dead.
func TestBackground_DeletedWhileItsProcessSleepsItDoesNotComeBack(t *testing.T) {
	f, dir := newFakeStation(t), t.TempDir()
	h, elsewhere := newHost(t, f, storingIn(dir)), newHost(t, f, storingIn(dir))
	h.background.beat, h.background.lease = time.Hour, -time.Second
	gate := make(chan struct{})
	f.does(gated(gate))
	id := h.ask(`"a"`, `"background":true`).response(t).ID
	h.eventually(func() bool { return f.running() == 1 })
	require.Equal(t, "failed", elsewhere.kept(id).response(t).Status)
	require.Equal(t, 200, elsewhere.do("DELETE", "/v1/responses/"+id, "").status)
	require.Equal(t, 404, elsewhere.kept(id).status)
	close(gate) // it wakes
	h.eventually(func() bool { return h.background.find("", id) == nil })
	require.Equal(t, 404, elsewhere.kept(id).status)
	require.Zero(t, h.leftBeside(id))
}

// leftBeside is how much is told of a run in the store.
func (h *testHost) leftBeside(id string) (n int) {
	h.t.Helper()
	for _, scope := range []string{leasesOf(""), fatesOf("")} {
		if _, err := h.stored.Get(h.t.Context(), scope, id); err == nil {
			n++
		}
	}
	return n
}

func TestBackground_WhatIsToldOfItEndsByItself(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t))
	ends := func(s *Server) time.Duration { return time.Until(s.beside("", "a", "b").Created.Add(s.stored.TTL())) }
	require.InDelta(t, linger, ends(h.Server), float64(time.Minute))
	h = newHost(t, newFakeStation(t), func(o *Options) { o.Responses = stored.Options{Address: t.TempDir(), TTL: time.Minute} })
	require.InDelta(t, time.Minute, ends(h.Server), float64(time.Second), "and not at once")
}

// hangingStore fails puts, once it is told to.
type hangingStore struct {
	responseStore
	fail chan struct{}
}

func (s *hangingStore) Put(context.Context, *stored.Record) error {
	<-s.fail
	return errBroken
}

func TestBackground_ThatCouldNotBeginKeepsNobodyWaiting(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t))
	s := &hangingStore{h.responses, make(chan struct{})}
	h.responses = s
	var asking sync.WaitGroup
	asking.Go(func() {
		if r := h.ask(`"a"`, `"background":true`); r.status != 503 {
			t.Errorf("status %d", r.status)
		}
	})
	var run *backgroundRun
	h.eventually(func() bool {
		h.background.mu.Lock()
		defer h.background.mu.Unlock()
		for _, run = range h.background.mu.runs {
		}
		return run != nil
	})
	asking.Go(func() {
		if r := h.do("DELETE", "/v1/responses/"+run.id, ""); r.status != 200 {
			t.Errorf("delete: status %d", r.status)
		}
	})
	asking.Go(func() {
		if r := h.do("POST", "/v1/responses/"+run.id+"/cancel", ""); r.status != 404 {
			t.Errorf("cancel: status %d", r.status)
		}
	})
	h.eventually(func() bool { return run.doomed() == deleted })
	close(s.fail)
	asking.Wait()
	require.Zero(t, h.background.underWay())
}

// lateStore does something while an end is being stored: once, before it is.
type lateStore struct {
	responseStore
	late func()
}

func (s *lateStore) Replace(ctx context.Context, r *stored.Record) error {
	if strings.Contains(string(r.Response), `"status":"completed"`) && s.late != nil {
		late := s.late
		s.late = nil
		late()
	}
	return s.responseStore.Replace(ctx, r)
}

// What one host answers of an end, all others do from then on.
func TestBackground_WhatAnotherHostWantsInTheLastMomentFindsTheEnd(t *testing.T) {
	for _, method := range []string{"POST", "DELETE"} {
		f, dir := newFakeStation(t), t.TempDir()
		h, elsewhere := newHost(t, f, storingIn(dir)), newHost(t, f, storingIn(dir))
		begun, asked := make(chan string, 1), make(chan reply, 1)
		h.responses = &lateStore{h.responses, func() {
			id := <-begun
			path := "/v1/responses/" + id
			if method == "POST" {
				path += "/cancel"
			}
			go func() { asked <- elsewhere.do(method, path, "") }()
			for {
				if _, err := h.stored.Get(context.Background(), fatesOf(""), id); err == nil {
					return
				}
			}
		}}
		id := h.ask(`"a"`, `"background":true`).response(t).ID
		begun <- id
		r := <-asked
		require.Equal(t, 200, r.status, r.body)
		if method == "POST" {
			require.Equal(t, "completed", r.response(t).Status)
			require.Equal(t, r.body, elsewhere.kept(id).body)
			require.Equal(t, "completed", h.kept(id).response(t).Status)
		} else {
			require.Equal(t, 404, elsewhere.kept(id).status)
		}
		h.eventually(func() bool { return h.background.find("", id) == nil })
		if method == "DELETE" {
			require.Equal(t, 404, elsewhere.kept(id).status)
		}
		require.Zero(t, h.leftBeside(id))
	}
}

func TestBackground_CancelledElsewhereBeforeItsEndItIsCancelled(t *testing.T) {
	f, dir := newFakeStation(t), t.TempDir()
	h, elsewhere := newHost(t, f, storingIn(dir)), newHost(t, f, storingIn(dir))
	h.background.beat = time.Hour // it looks only when it ends
	gate, asked := make(chan struct{}), make(chan reply, 1)
	f.does(gated(gate))
	id := h.ask(`"a"`, `"background":true`).response(t).ID
	h.eventually(func() bool { return elsewhere.kept(id).response(t).Status == "in_progress" }) // it has looked at its begin, too
	go func() { asked <- elsewhere.do("POST", "/v1/responses/"+id+"/cancel", "") }()
	h.eventually(func() bool { _, err := h.stored.Get(t.Context(), fatesOf(""), id); return err == nil })
	close(gate)
	got := (<-asked).response(t)
	require.Equal(t, "cancelled", got.Status)
	require.Equal(t, got, h.kept(id).response(t))
}

func TestBackground_DeletedWhileItsEndIsBeingStoredItDoesNotComeBack(t *testing.T) {
	f, dir := newFakeStation(t), t.TempDir()
	h, elsewhere := newHost(t, f, storingIn(dir)), newHost(t, f, storingIn(dir))
	h.background.beat, h.background.lease = time.Hour, -time.Second // nobody believes that it lives
	begun, status := make(chan string, 1), 0
	h.responses = &lateStore{h.responses, func() { status = elsewhere.do("DELETE", "/v1/responses/"+<-begun, "").status }}
	id := h.ask(`"a"`, `"background":true`).response(t).ID
	begun <- id
	h.eventually(func() bool { return h.background.find("", id) == nil })
	require.Equal(t, 200, status)
	require.Equal(t, 404, elsewhere.kept(id).status)
}

// An end that was seen is the one that is stored, whatever the store says later.
func TestBackground_AnEndThatWasSeenStays(t *testing.T) {
	f, dir := newFakeStation(t), t.TempDir()
	h, elsewhere := newHost(t, f, storingIn(dir)), newHost(t, f, storingIn(dir))
	c := counted(h)
	c.fails = 1 << 30
	id := h.ask(`"a"`, `"background":true`).response(t).ID
	h.awaitResponse(id, "completed")
	asked := make(chan reply, 1)
	go func() { asked <- elsewhere.do("POST", "/v1/responses/"+id+"/cancel", "") }()
	h.eventually(func() bool { _, err := h.stored.Get(t.Context(), fatesOf(""), id); return err == nil })
	c.mu.Lock()
	c.fails = 0
	c.mu.Unlock()
	require.Equal(t, "completed", (<-asked).response(t).Status)
	require.Equal(t, "completed", elsewhere.kept(id).response(t).Status)

	// An answer that is too long is known before anybody sees it, also where the store fails.
	h = newHost(t, f, func(o *Options) { o.Responses = stored.Options{Address: t.TempDir(), RecordBytes: 8 << 10} })
	c = counted(h)
	c.fails = 6
	f.does(writes(strings.Repeat("word ", 2000), 5, wire.ReasonEOG))
	id = h.ask(`"a"`, `"background":true`).response(t).ID
	h.eventually(func() bool {
		r := h.kept(id).response(t)
		require.NotEqual(t, "completed", r.Status)
		return r.Status == "failed"
	})
	h.eventually(func() bool { return h.background.underWay() == 0 })
	require.Contains(t, h.kept(id).response(t).Error.Message, "too long to be stored")
}

// endingStore stores an end, and deletes its lease, between two looks of another host.
type endingStore struct {
	responseStore
	between func()
}

func (s *endingStore) Get(ctx context.Context, scope, id string) (*stored.Record, error) {
	if scope == leasesOf("") {
		s.between()
	}
	return s.responseStore.Get(ctx, scope, id)
}

func TestBackground_AnEndBetweenTwoLooksIsFound(t *testing.T) {
	f, dir := newFakeStation(t), t.TempDir()
	h, elsewhere := newHost(t, f, storingIn(dir)), newHost(t, f, storingIn(dir))
	for _, look := range []func(id string) int{
		func(id string) int { return elsewhere.ask(`"b"`, `"previous_response_id":"`+id+`"`).status },
		func(id string) int { elsewhere.kept(id).response(t); return elsewhere.kept(id).status },
	} {
		gate := make(chan struct{})
		f.does(gated(gate))
		id := h.ask(`"a"`, `"background":true`).response(t).ID
		elsewhere.responses = &endingStore{elsewhere.stored, sync.OnceFunc(func() {
			close(gate)
			for h.background.find("", id) != nil {
				time.Sleep(time.Millisecond)
			}
		})}
		require.Equal(t, 200, look(id))
	}
}

func TestBackground_ItIsCancelledAndDeletedWithoutMemory(t *testing.T) {
	f, dir := newFakeStation(t), t.TempDir()
	small := func(o *Options) { o.BodyLimit, o.MaxBodyMemory = 50<<10, 50<<10 }
	h, elsewhere := newHost(t, f, storingIn(dir), small), newHost(t, f, storingIn(dir), small)
	h.background.beat = time.Millisecond
	f.does(forever)
	long := `"` + strings.Repeat("x", 30<<10) + `"`
	id := h.ask(long, `"background":true`).response(t).ID
	require.Equal(t, "cancelled", elsewhere.do("POST", "/v1/responses/"+id+"/cancel", "").response(t).Status, "what it reads twice counts once")
	require.Zero(t, elsewhere.bodies.held())
	all := &hold{budget: &elsewhere.bodies}
	require.True(t, all.take(50<<10))
	require.Equal(t, 429, elsewhere.kept(id).status)
	require.Equal(t, 200, elsewhere.do("DELETE", "/v1/responses/"+id, "").status)
	all.release()
	require.Equal(t, 404, elsewhere.kept(id).status)
}
