package host

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/host/stored"
)

// brokenStore is a store whose bucket fails when it is told to.
type brokenStore struct {
	responseStore
	mu     sync.Mutex
	broken bool
	open   bool          // it says that it fails
	ends   chan struct{} // when set, what has an end is stored after it closes
}

func (b *brokenStore) State() stored.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open {
		return stored.State{State: "failing", Reason: "writing: no space left"}
	}
	return b.responseStore.State()
}

var errBroken = errors.New("the disk is on fire")

func (b *brokenStore) breaks(broken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = broken
}

func (b *brokenStore) failing() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return errBroken
	}
	return nil
}

func (b *brokenStore) Put(ctx context.Context, r *stored.Record) error {
	return b.put(ctx, r, b.responseStore.Put)
}

func (b *brokenStore) Replace(ctx context.Context, r *stored.Record) error {
	return b.put(ctx, r, b.responseStore.Replace)
}

func (b *brokenStore) put(ctx context.Context, r *stored.Record, put func(context.Context, *stored.Record) error) error {
	if err := b.failing(); err != nil {
		return err
	}
	if b.ends != nil && strings.Contains(string(r.Response), `"object":"response"`) && !strings.Contains(string(r.Response), `"status":"queued"`) {
		<-b.ends
	}
	return put(ctx, r)
}

func (b *brokenStore) Get(ctx context.Context, scope, id string) (*stored.Record, error) {
	if err := b.failing(); err != nil {
		return nil, err
	}
	return b.responseStore.Get(ctx, scope, id)
}

func (b *brokenStore) Delete(ctx context.Context, scope, id string) error {
	if err := b.failing(); err != nil {
		return err
	}
	return b.responseStore.Delete(ctx, scope, id)
}

func (b *brokenStore) GetCharged(ctx context.Context, scope, id string, charge stored.Charge) (*stored.Record, error) {
	if err := b.failing(); err != nil {
		return nil, err
	}
	return b.responseStore.GetCharged(ctx, scope, id, charge)
}

func (b *brokenStore) ChainCharged(ctx context.Context, scope, id string, most int, charge stored.Charge) ([]*stored.Record, error) {
	if err := b.failing(); err != nil {
		return nil, err
	}
	return b.responseStore.ChainCharged(ctx, scope, id, most, charge)
}

func TestResponse_WithoutAStoreSaysSo(t *testing.T) {
	for name, change := range map[string]func(*Options){"none": func(*Options) {}, "off": storingIn(stored.None)} {
		h := newHost(t, newFakeStation(t), change)
		made := h.ask(`"Say hi"`).response(t)
		require.False(t, made.Store, name)
		require.Equal(t, 404, h.kept(made.ID).status)
		require.Equal(t, 404, h.do("DELETE", "/v1/responses/"+made.ID, "").status)
		require.Equal(t, 200, h.ask(`"Say hi"`, `"store":false`).status)
		for param, field := range map[string]string{"store": `"store":true`, "background": `"background":true`, "previous_response_id": `"previous_response_id":"resp_a"`} {
			r := h.ask(`"Say hi"`, field)
			require.Equal(t, 400, r.status, r.body)
			require.Equal(t, "unsupported_parameter", r.code(t))
			require.Equal(t, param, *errorParam(t, r))
			require.Contains(t, r.body, h.responses.State().Reason)
		}
	}
}

// lost is how many responses could not be stored.
func (h *testHost) lost() float64 {
	return h.lostBy("failed")
}

func (h *testHost) lostBy(reason string) float64 {
	_, rest, ok := strings.Cut(h.get("/metrics").body, "\nthoth_responses_lost_total{reason=\""+reason+"\"} ")
	require.True(h.t, ok)
	n, _, _ := strings.Cut(rest, "\n")
	v, err := strconv.ParseFloat(n, 64)
	require.NoError(h.t, err)
	return v
}

func TestResponse_AStoreThatFailsTakesNoAnswerAway(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t))
	broken := &brokenStore{responseStore: h.responses}
	h.responses = broken
	kept := h.ask(`"Say hi"`).response(t)
	broken.breaks(true)
	for _, stream := range []string{`"stream":false`, `"stream":true`} {
		made := h.ask(`"Say hi"`, stream).response(t)
		require.Equal(t, "Hello there", saying(made))
		require.False(t, made.Store, "it says that it is not stored")
	}
	require.EqualValues(t, 2, h.lost())
	for _, r := range []reply{h.kept(kept.ID), h.do("DELETE", "/v1/responses/"+kept.ID, ""), h.ask(`"a"`, `"background":true`), h.ask(`"a"`, `"previous_response_id":"`+kept.ID+`"`)} {
		require.Equal(t, 503, r.status, r.body)
		require.Equal(t, "store_unavailable", r.code(t))
		require.NotEmpty(t, r.header.Get("Retry-After"))
		require.NotContains(t, r.body, "fire", "the reason is the operator's")
	}
	require.Zero(t, h.background.underWay())
	broken.breaks(false)
	require.Equal(t, kept, h.kept(kept.ID).response(t))
}

func TestResponse_AStoreThatSaysItFailsIsNotAskedToStore(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t))
	kept := h.ask(`"Say hi"`).response(t)
	h.responses = &brokenStore{responseStore: h.responses, open: true}
	require.False(t, h.ask(`"Say hi"`).response(t).Store)
	require.Zero(t, h.lost())
	require.Equal(t, 200, h.ask(`"Go on"`, `"previous_response_id":"`+kept.ID+`"`).status, "it may still be read")
	for param, field := range map[string]string{"store": `"store":true`, "background": `"background":true`} {
		r := h.ask(`"Say hi"`, field)
		require.Equal(t, 503, r.status)
		require.Equal(t, "store_unavailable", r.code(t))
		require.Equal(t, param, *errorParam(t, r))
		require.Contains(t, r.body, "no space left")
	}
	require.Contains(t, h.get("/health").body, `"responses_store":{"state":"failing"`)
}

func TestResponse_ARecordThatCannotBeReadIsAnError(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t))
	require.NoError(t, h.stored.Put(t.Context(), &stored.Record{ID: "resp_bad", Created: time.Now(), Input: []byte("[]"), Response: []byte(`{"status":5}`)}))
	require.Equal(t, 503, h.kept("resp_bad").status)
	require.Equal(t, 503, h.ask(`"a"`, `"previous_response_id":"resp_bad"`).status)
	require.Equal(t, 200, h.do("DELETE", "/v1/responses/resp_bad", "").status)
}

func TestResponse_ToStoreItHoldsNoPlace(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t), func(o *Options) { o.MaxInFlight = 1 })
	slow := &brokenStore{responseStore: h.responses, ends: make(chan struct{})}
	h.responses = slow
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer close(slow.ends)
	waiting.Go(func() { h.ask(`"a"`) })
	h.eventually(func() bool { return len(f.got()) == 1 })
	require.Equal(t, 200, h.ask(`"b"`, `"store":false`).status, "the engine does not wait for the store")
}

func TestBackground_ItsEndIsSeenWhenItIsStored(t *testing.T) {
	f := newFakeStation(t)
	h := newHost(t, f, keeping(t))
	slow := &brokenStore{responseStore: h.responses, ends: make(chan struct{})}
	h.responses = slow
	id, next, _ := h.openResponse(`"a"`, `"background":true`, `"stream":true`)
	for next().Type != "response.output_item.done" {
	}
	require.Equal(t, "in_progress", h.kept(id).response(t).Status)
	close(slow.ends)
	require.Equal(t, "response.completed", next().Type)
	require.Equal(t, "completed", h.kept(id).response(t).Status)
	require.Equal(t, 200, h.ask(`"b"`, `"previous_response_id":"`+id+`"`).status, "who has seen its end may go on from it")
}

// What a stream tells at its end is what anybody who asks later is told.
func TestResponses_AStreamEndsWithWhatIsStored(t *testing.T) {
	h := newHost(t, newFakeStation(t), keeping(t))
	for _, background := range []string{"false", "true"} {
		r := h.ask(`"a"`, `"stream":true`, `"background":`+background)
		name, last := r.last(t)
		require.Equal(t, "response.completed", name)
		kept, err := h.stored.Get(t.Context(), "", last.ID)
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(r.body, `,"response":`+string(kept.Response)+"}\n\n"), "%s\n%s", r.body, kept.Response)
	}

	h = newHost(t, newFakeStation(t), keeping(t)) // without a run that still tidies up
	h.responses = &brokenStore{responseStore: h.responses, broken: true}
	name, last := h.ask(`"a"`, `"stream":true`).last(t)
	require.Equal(t, "response.completed", name)
	require.False(t, last.Store, "and where nothing could be stored, it says so")
}
