package station_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/kvstore"
	"thoth/station/kvstore/block"
	"thoth/station/stationtest"
	"thoth/station/wire"
)

// text is n tokens, the same ones for the same seed.
func text(n int, seed int32) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = (seed*7919+int32(i)*31)%97 + 33
	}
	return out
}

func (f *fixture) embed(tokens []int32) string {
	f.t.Helper()
	a, err := f.Embed(f.t.Context(), &wire.EmbedRequest{Prompt: wire.Prompt{Tokens: tokens}})
	require.NoError(f.t, err)
	return a.Session
}

func (f *fixture) load(session string, r *wire.KVLoadRequest) *wire.KVLoadResponse {
	f.t.Helper()
	a, err := f.KVLoad(f.t.Context(), session, 0, r)
	require.NoError(f.t, err)
	return a
}

func (f *fixture) forward(session string) *wire.ForwardResponse {
	f.t.Helper()
	a, err := f.Forward(f.t.Context(), &wire.ForwardRequest{Session: session})
	require.NoError(f.t, err)
	return a
}

// save captures a session's tokens and ends it.
func (f *fixture) save(session string, n int) *wire.KVSaveResponse {
	f.t.Helper()
	a, err := f.KVSave(f.t.Context(), session, n, &wire.KVSaveRequest{Release: true})
	require.NoError(f.t, err)
	return a
}

func (f *fixture) greedy(session string, n int) []int32 {
	f.t.Helper()
	zero := float32(0)
	a := collect(f.DecodeNext(f.t.Context(), &wire.DecodeRequest{Session: session, N: n, IgnoreEOG: true, Sampling: &wire.Sampling{Temperature: &zero}, Release: true}))
	require.Nil(f.t, a.err)
	return a.tokens
}

func (f *fixture) fresh(tokens []int32, n int) []int32 {
	f.t.Helper()
	zero := float32(0)
	a := collect(f.Generate(f.t.Context(), &wire.GenerateRequest{Prompt: wire.Prompt{Tokens: tokens}, MaxTokens: n, IgnoreEOG: true, Sampling: wire.Sampling{Temperature: &zero}}))
	require.Nil(f.t, a.err)
	return a.tokens
}

func TestLoad_ManyWithOneNewPrefixCostOnePrefill(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, BatchSize: 64}, station.Options{})
	const clients, shared = 16, 700
	prefix := text(shared, 1)
	prompts, wants, sessions := make([][]int32, clients), make([][]int32, clients), make([]string, clients)
	for i := range clients {
		prompts[i] = append(slices.Clone(prefix), text(10, int32(i+2))...)
		wants[i] = f.fresh(prompts[i], 5)
		sessions[i] = f.embed(prompts[i])
	}
	var all sync.WaitGroup
	evaluated := make([]int, clients)
	for i := range clients {
		all.Go(func() {
			f.load(sessions[i], nil)
			evaluated[i] = f.forward(sessions[i]).Evaluated
		})
	}
	all.Wait()
	for i := range clients {
		require.Equal(t, wants[i], f.greedy(sessions[i], 5))
	}
	sum := 0
	for _, n := range evaluated {
		sum += n
	}
	require.LessOrEqual(t, sum, shared+clients*10, "one evaluated the prefix, all their own ends")
	x, err := f.KVIndex(t.Context())
	require.NoError(t, err)
	require.Positive(t, x.Hot.Hits)
}

func TestLoad_NobodyWaitsForASessionThatDoesNotGoOn(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	tokens := text(300, 1)
	leader, follower := f.embed(tokens), f.embed(tokens)
	f.load(leader, nil) // and never evaluates
	a := f.load(follower, nil)
	require.Zero(t, a.Position)
	require.Equal(t, wire.KVNothing, a.Reason)
	require.Equal(t, 300, f.forward(follower).Evaluated)

	ended := f.embed(append(slices.Clone(tokens), 40, 41))
	_, err := f.KVDelete(t.Context(), leader, &wire.KVDeleteRequest{})
	require.NoError(t, err)
	require.Equal(t, 300, f.load(ended, nil).Position, "the second one's cells are there")
}

func TestLoad_WhatACancelledPrefillHasFinishedIsUsed(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, BatchSize: 64}, station.Options{})
	tokens := text(400, 1)
	want := f.fresh(tokens, 5)
	leader, follower := f.embed(tokens), f.embed(tokens)
	f.load(leader, &wire.KVLoadRequest{Keep: true})
	pause := f.eng.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := f.Forward(ctx, &wire.ForwardRequest{Session: leader})
		gone <- err
	}()
	<-pause.Entered()
	pause.Step()
	<-pause.Entered()
	pause.Step()
	<-pause.Entered() // two chunks of 64 are there, the third is being evaluated
	waits := make(chan *wire.KVLoadResponse)
	go func() {
		a, err := f.KVLoad(t.Context(), follower, 0, nil)
		require.NoError(t, err)
		waits <- a
	}()
	cancel()
	require.Error(t, <-gone)
	pause.Resume()
	a := <-waits
	require.GreaterOrEqual(t, a.Position, 128, "at least what was there when the caller went")
	require.Equal(t, 400-a.Position, f.forward(follower).Evaluated)
	require.Equal(t, want, f.greedy(follower, 5))
}

func TestSave_RowsOutliveTheirSession(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, Cells: 600, ContextLength: 500, Sequences: 3}, station.Options{})
	for round := range 6 {
		tokens := text(200, int32(round))
		want := f.fresh(tokens, 5)
		s := f.embed(tokens)
		f.load(s, nil)
		f.forward(s)
		a := f.save(s, 200)
		require.True(t, a.Saved, a.Reason)
		require.Equal(t, []int{200, 200}, []int{a.Tokens, a.Written})
		// Others press for the pool at once: the rows must be out before the cells go.
		var others sync.WaitGroup
		for i := range 4 {
			others.Go(func() { f.fresh(text(300, int32(100+i)), 100) })
		}
		others.Wait()
		s = f.embed(tokens)
		require.Equal(t, 199, f.load(s, nil).Position)
		require.Equal(t, want, f.greedy(s, 5))
	}
	eventually(t, "nothing is left to copy", func() bool {
		x, err := f.KVIndex(t.Context())
		return err == nil && x.Warm.Hits > 0 && x.Pending == 0
	})
}

func TestSave_AnExportThatFailsLosesTheBlocksOnly(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	tokens := text(200, 1)
	want := f.fresh(tokens, 5)
	f.eng.FailExport(1, errors.New("device lost"))
	s := f.embed(tokens)
	f.load(s, nil)
	f.forward(s)
	require.True(t, f.save(s, 200).Saved)
	eventually(t, "the copies are given up", func() bool {
		x, err := f.KVIndex(t.Context())
		return err == nil && x.Pending == 0
	})
	s = f.embed(tokens)
	require.Zero(t, f.load(s, nil).Position)
	require.Equal(t, want, f.greedy(s, 5))
}

func TestLoad_AnImportThatFailsIsComputed(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	tokens := text(200, 1)
	want := f.fresh(tokens, 5)
	s := f.embed(tokens)
	f.load(s, nil)
	f.forward(s)
	f.save(s, 200)
	eventually(t, "the rows are in RAM", func() bool {
		x, err := f.KVIndex(t.Context())
		return err == nil && x.Pending == 0 && x.Hot.Blocks == 0
	})
	f.eng.FailImport(1, errors.New("refused"))
	s = f.embed(tokens)
	a := f.load(s, nil)
	require.Zero(t, a.Position)
	require.Equal(t, wire.KVEngine, a.Reason)
	require.Equal(t, 200, f.forward(s).Evaluated)
	require.Equal(t, want, f.greedy(s, 5))
	s = f.embed(tokens)
	require.Equal(t, 199, f.load(s, nil).Position, "the stored blocks are still there")
}

// shelf is a cold tier in memory.
type shelf struct {
	mu     sync.Mutex
	blocks map[block.Name]*block.Block
	hang   chan struct{} // puts wait for it
}

func (s *shelf) Put(ctx context.Context, b *block.Block) error {
	select {
	case <-s.hang:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := *b
	c.Data = slices.Clone(b.Data)
	s.blocks[b.Name] = &c
	return nil
}

func (s *shelf) Get(_ context.Context, n block.Name, into func(int) ([]byte, error)) (*block.Block, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.blocks[n]
	if b == nil {
		return nil, kvstore.ErrNotFound
	}
	data, err := into(len(b.Tokens))
	if err != nil {
		return nil, err
	}
	copy(data, b.Data)
	c := *b
	c.Data = data
	return &c, nil
}

func (s *shelf) GetTail(ctx context.Context, n block.Name, _ int, into func(int) ([]byte, error)) (*block.Block, error) {
	return s.Get(ctx, n, into)
}

func (s *shelf) Tails(_ context.Context, root, parent block.Key) ([]kvstore.Tail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []kvstore.Tail
	for n, b := range s.blocks {
		if n.Root == root && n.Parent == parent && len(b.Tokens) < block.Tokens {
			out = append(out, kvstore.Tail{Name: n, Tokens: len(b.Tokens)})
		}
	}
	return out, nil
}

func (s *shelf) Predict(int, int64) (time.Duration, bool) { return time.Microsecond, true }
func (s *shelf) Missed(time.Duration)                     {}
func (s *shelf) Has(block.Name) bool                      { return false }
func (s *shelf) Touch(block.Name)                         {}
func (s *shelf) Delete(context.Context, kvstore.Which) (int, int64, error) {
	return 0, 0, nil
}
func (s *shelf) Stats(func(block.Key) bool) wire.KVTier { return wire.KVTier{State: "on"} }
func (s *shelf) Close() error                           { return nil }

func TestDrain_WritesDownWhatOnlyRAMHas(t *testing.T) {
	cold := &shelf{blocks: map[block.Name]*block.Block{}, hang: make(chan struct{})}
	options := func() station.Options {
		return station.Options{OpenCold: func(int) (kvstore.Cold, string) { return cold, "" }}
	}
	tokens := text(200, 1)
	f := start(t, stationtest.Options{EOGEvery: -1}, options())
	f.st.SetDigest("aa")
	want := f.fresh(tokens, 5)
	s := f.embed(tokens)
	f.load(s, nil)
	f.forward(s)
	a := f.save(s, 200)
	require.True(t, a.Saved)
	require.False(t, a.Durable)
	s = f.embed(text(150, 9))
	f.load(s, &wire.KVLoadRequest{Keep: true})
	f.forward(s) // and is never saved: its full blocks are kept

	close(cold.hang)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	kept := f.st.Drain(ctx)
	require.Zero(t, kept.Lost)
	require.Len(t, cold.blocks, 4+2)

	g := start(t, stationtest.Options{EOGEvery: -1, Cells: 1000, ContextLength: 900}, options())
	g.st.SetDigest("aa")
	s = g.embed(tokens)
	l := g.load(s, nil)
	require.Equal(t, wire.KVTiers{Cold: 199}, l.Tiers)
	require.Equal(t, want, g.greedy(s, 5))

	other := start(t, stationtest.Options{EOGEvery: -1}, options())
	other.st.SetDigest("bb")
	require.Zero(t, other.load(other.embed(tokens), nil).Position, "other weights")
}

func TestStation_WithoutTheRoutesLooksLikeAnOldOne(t *testing.T) {
	f := start(t, stationtest.Options{}, station.Options{NoKVSession: true})
	h, err := f.Health(t.Context())
	require.NoError(t, err)
	require.Nil(t, h.KVSession)
	_, err = f.KVSession(t.Context(), "save", "probe", 0)
	require.Equal(t, wire.CodeNoRoute, err.(*wire.Error).Code)
	resp, err := http.Post(f.url+"/kv-session/save", "application/json", nil)
	require.NoError(t, err)
	_ = resp.Body.Close()
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
}

func TestStation_SaysWhyKVSessionsAreOff(t *testing.T) {
	off := station.Options{KV: kvstore.Options{WarmBytes: -1}}
	f := start(t, stationtest.Options{}, off)
	h, err := f.Health(t.Context())
	require.NoError(t, err)
	require.False(t, *h.KVSession)
	require.Contains(t, h.KVReason, "THOTH_KV_WARM_BYTES")
	_, err = f.KVSession(t.Context(), "load", "s", 0)
	require.Equal(t, wire.CodeUnsupported, err.(*wire.Error).Code, "the route is there")
}

func TestMetrics_TellOfEveryTier(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	tokens := text(200, 1)
	s := f.embed(tokens)
	f.load(s, nil)
	f.forward(s)
	f.save(s, 200)
	s = f.embed(tokens)
	f.load(s, nil)
	resp, err := http.Get(f.url + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	for _, line := range []string{"thoth_station_kv_loads_total 2", "thoth_station_kv_tokens_written_total 200",
		`thoth_station_kv_short_total{reason="nothing_stored"} 1`, `thoth_station_kv_on{tier="warm"} 1`, `thoth_station_kv_on{tier="cold"} 0`} {
		require.Contains(t, string(b), line+"\n")
	}
}
