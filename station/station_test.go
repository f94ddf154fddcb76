package station_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/client"
	"thoth/station/engine"
	"thoth/station/stationtest"
	"thoth/station/wire"
)

// testWarmBytes is room for some hundred blocks of the fake engine.
const testWarmBytes = 32 << 20

type fixture struct {
	t   *testing.T
	eng *stationtest.Engine
	st  *station.Station
	url string
	*client.Client
}

// start runs a station on the fake engine; at the end of the test everything is
// closed and the engine's books are checked.
func start(t *testing.T, eo stationtest.Options, so station.Options) *fixture {
	t.Helper()
	eng := stationtest.NewEngine(eo)
	if so.KV.WarmBytes == 0 {
		so.KV.WarmBytes = testWarmBytes
	}
	st := station.New(so)
	loaded := make(chan struct{})
	st.Start(eng.Load, func(engine.Info) { close(loaded) })
	srv := httptest.NewServer(st.Handler())
	c, err := client.New(srv.URL, client.Options{Owner: "test"})
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		srv.Close()
		st.Close()
		eng.Check(t)
	})
	select {
	case <-loaded:
	case <-st.Done():
		t.Fatal(st.Err())
	}
	return &fixture{t: t, eng: eng, st: st, url: srv.URL, Client: c}
}

type answer struct {
	text   string
	tokens []int32
	done   *wire.Done
	err    *wire.Error
}

func collect(s *client.Stream, err error) answer {
	var a answer
	for err == nil {
		var f *wire.Frame
		if f, err = s.Next(); err == nil {
			a.text += f.Text
			a.tokens = append(a.tokens, f.Tokens...)
			a.done = f.Done
		}
	}
	if s != nil {
		_ = s.Close()
	}
	if err != io.EOF {
		a.err, _ = err.(*wire.Error)
	}
	return a
}

func (f *fixture) generate(ctx context.Context, prompt string, n int) answer {
	zero := float32(0)
	return collect(f.Generate(ctx, &wire.GenerateRequest{Prompt: wire.Prompt{Text: prompt},
		Sampling: wire.Sampling{Temperature: &zero}, MaxTokens: n, IgnoreEOG: true}))
}

// eventually polls what another process or goroutine does, with a deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 10*time.Second, time.Millisecond, what)
}

func words(rng *rand.Rand, n int) string {
	var sb strings.Builder
	for range n {
		fmt.Fprintf(&sb, "w%d ", rng.IntN(1000))
	}
	return sb.String()
}

// The station's first promise: an answer does not depend on what else is
// served, on compaction or on being moved to RAM and back.
func TestStation_AnswersDoNotDependOnTraffic(t *testing.T) {
	f := start(t, stationtest.Options{Cells: 1100, Sequences: 12, ContextLength: 1024, BatchSize: 64, EOGEvery: -1}, station.Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	prompts := make([]string, 12)
	alone := make([]answer, len(prompts))
	for i := range prompts {
		prompts[i] = words(rng, 40+rng.IntN(60))
		alone[i] = f.generate(t.Context(), prompts[i], 150)
		require.Nil(t, alone[i].err)
		require.Len(t, alone[i].tokens, 150)
	}

	ctx, stop := context.WithCancel(t.Context())
	var traffic, asked sync.WaitGroup
	for w := range 6 {
		traffic.Go(func() {
			rng := rand.New(rand.NewPCG(9, uint64(w)))
			for ctx.Err() == nil {
				cut, cancel := context.WithCancel(ctx)
				s, err := f.Generate(cut, &wire.GenerateRequest{Prompt: wire.Prompt{Text: words(rng, 1+rng.IntN(100))}, MaxTokens: 1 + rng.IntN(80)})
				if err == nil {
					for frames := rng.IntN(20); frames > 0; frames-- {
						if _, err := s.Next(); err != nil {
							break
						}
					}
					_ = s.Close()
				}
				cancel()
			}
		})
	}
	for range 3 {
		for i := range prompts {
			asked.Go(func() {
				a := f.generate(t.Context(), prompts[i], 150)
				require.Nil(t, a.err)
				require.Equal(t, alone[i].tokens, a.tokens, "prompt %d", i)
				require.Equal(t, alone[i].text, a.text)
			})
		}
		asked.Wait()
	}
	stop()
	traffic.Wait()
	stats, err := f.Stats(t.Context())
	require.NoError(t, err)
	require.NotZero(t, stats.Compactions, "the pool was too large to prove anything")
	require.NotZero(t, stats.Swaps, "the pool was too large to prove anything")
}

func TestStation_FullPoolWaitsAndFinishes(t *testing.T) {
	f := start(t, stationtest.Options{Cells: 256, Sequences: 8, ContextLength: 256, BatchSize: 32, EOGEvery: -1}, station.Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			a := f.generate(t.Context(), fmt.Sprintf("prompt %d", i), 200)
			require.Nil(t, a.err)
			require.Len(t, a.tokens, 200)
			require.Equal(t, wire.ReasonLength, a.done.Reason)
		})
	}
	wg.Wait()
}

func TestStation_FailedDecodeEndsItsBatchOnly(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	before := f.generate(t.Context(), "steady", 20)
	f.eng.FailDecode(3, engine.ErrDecode)
	a := f.generate(t.Context(), "doomed", 20)
	require.NotNil(t, a.err)
	require.Equal(t, wire.CodeEngine, a.err.Code)
	require.True(t, a.err.Retryable)
	require.Equal(t, before.tokens, f.generate(t.Context(), "steady", 20).tokens, "the station goes on")
}

func TestStation_PoolFullReportIsRetriedAfterCompaction(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	want := f.generate(t.Context(), "twice", 30)
	// A session that lives keeps the pool from being emptied, so what an answer
	// leaves behind stays as dead cells.
	s, err := f.Embed(t.Context(), &wire.EmbedRequest{Prompt: wire.Prompt{Text: "a session that stays"}})
	require.NoError(t, err)
	_, err = f.Forward(t.Context(), &wire.ForwardRequest{Session: s.Session})
	require.NoError(t, err)
	require.Nil(t, f.generate(t.Context(), "dead soon", 5).err)
	f.eng.FailDecode(1, engine.ErrPoolFull)
	a := f.generate(t.Context(), "twice", 30)
	require.Nil(t, a.err)
	require.Equal(t, want.tokens, a.tokens)
	stats, err := f.Stats(t.Context())
	require.NoError(t, err)
	require.NotZero(t, stats.Compactions)
	require.Zero(t, stats.DecodeFailures)
}

func TestStation_CancelAloneAbortsTheDecode(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	before := f.eng.Decodes()
	pause := f.eng.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan answer)
	go func() { got <- f.generate(ctx, "a prompt nobody waits for", 50) }()
	<-pause.Entered() // its prefill is being computed, and will not end by itself
	cancel()
	require.Equal(t, wire.CodeCancelled, (<-got).err.Code)
	eventually(t, "the sequence is gone", func() bool {
		s, err := f.Stats(t.Context())
		return err == nil && s.Running == 0 && s.Cancelled == 1 && s.CellsUsed == 0
	})
	pause.Resume()
	require.Equal(t, before+1, f.eng.Decodes(), "no further batch was computed for it")
}

func TestStation_CancelInTheQueueIsNeverRun(t *testing.T) {
	f := start(t, stationtest.Options{Sequences: 1, EOGEvery: -1}, station.Options{})
	want := f.generate(t.Context(), "first", 40)
	pause := f.eng.Pause()
	first := make(chan answer)
	go func() { first <- f.generate(t.Context(), "first", 40) }()
	<-pause.Entered()
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 5 {
		wg.Go(func() { require.Equal(t, wire.CodeCancelled, f.generate(ctx, "queued", 40).err.Code) })
	}
	cancel()
	wg.Wait()
	pause.Resume()
	require.Equal(t, want.tokens, (<-first).tokens, "the active one is left alone")
	s, err := f.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2*len("first")+2+80, s.PromptTokens+s.DecodedTokens, "the queued ones cost nothing")
}

func TestStation_QueueIsBounded(t *testing.T) {
	f := start(t, stationtest.Options{Sequences: 1, EOGEvery: -1}, station.Options{MaxWaiting: 2})
	pause := f.eng.Pause()
	defer pause.Resume()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { f.generate(ctx, "running", 5) })
	<-pause.Entered()
	for range 2 {
		wg.Go(func() { f.generate(ctx, "waiting", 5) })
	}
	eventually(t, "429", func() bool {
		short, done := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer done()
		a := f.generate(short, "one too many", 5)
		return a.err != nil && a.err.Code == wire.CodeOverloaded
	})
	cancel()
	wg.Wait()
}

func TestStation_DrainLetsAnswersFinish(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	pause := f.eng.Pause()
	got := make(chan answer)
	go func() { got <- f.generate(t.Context(), "last words", 10) }()
	<-pause.Entered()
	drained := make(chan struct{})
	go func() { f.st.Drain(t.Context()); close(drained) }()
	eventually(t, "draining", func() bool { h, err := f.Health(t.Context()); return err == nil && h.Status == wire.StatusDraining })
	require.Equal(t, wire.CodeDraining, f.generate(t.Context(), "too late", 1).err.Code)
	pause.Resume()
	require.Len(t, (<-got).tokens, 10)
	<-drained
}

func TestStation_DrainEndsLongAnswersAtTheDeadline(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, ContextLength: 8192}, station.Options{})
	s, err := f.Generate(t.Context(), &wire.GenerateRequest{Prompt: wire.Prompt{Text: "endless"}, IgnoreEOG: true})
	require.NoError(t, err)
	_, err = s.Next()
	require.NoError(t, err)
	pause := f.eng.Pause()
	<-pause.Entered()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	drained := make(chan struct{})
	go func() { f.st.Drain(ctx); close(drained) }()
	eventually(t, "draining", func() bool { h, err := f.Health(t.Context()); return err == nil && h.Status == wire.StatusDraining })
	pause.Resume()
	<-drained
	require.Equal(t, wire.CodeDraining, collect(s, nil).err.Code, "a stream never ends silently")
}

func TestStation_LoadingAnswersHealthAtOnce(t *testing.T) {
	gate := make(chan struct{})
	eng := stationtest.NewEngine(stationtest.Options{LoadGate: gate})
	st := station.New(station.Options{})
	loaded := make(chan struct{})
	st.Start(eng.Load, func(engine.Info) { close(loaded) })
	srv := httptest.NewServer(st.Handler())
	defer srv.Close()
	defer st.Close()
	c, err := client.New(srv.URL, client.Options{})
	require.NoError(t, err)
	eventually(t, "progress", func() bool { h, err := c.Health(t.Context()); return err == nil && h.LoadProgress == 0.5 })
	h, err := c.Health(t.Context())
	require.NoError(t, err)
	require.Equal(t, wire.StatusLoading, h.Status)
	_, err = c.Model(t.Context())
	require.Equal(t, wire.CodeLoading, err.(*wire.Error).Code)
	close(gate)
	<-loaded
	h, err = c.Health(t.Context())
	require.NoError(t, err)
	require.Equal(t, wire.StatusOK, h.Status)
}

func TestStation_FailedLoadIsTold(t *testing.T) {
	bad := &engine.LoadError{Kind: engine.LoadTruncated, Msg: "model.gguf is truncated"}
	st := station.New(station.Options{})
	st.Start(stationtest.NewEngine(stationtest.Options{LoadError: bad}).Load, nil)
	<-st.Done()
	require.ErrorIs(t, st.Err(), bad)
	srv := httptest.NewServer(st.Handler())
	defer srv.Close()
	c, _ := client.New(srv.URL, client.Options{})
	h, err := c.Health(t.Context())
	require.NoError(t, err)
	require.Equal(t, wire.StatusFailed, h.Status)
	require.Equal(t, bad.Msg, h.Error)
	st.Close()
}

func TestStation_CloseDuringLoadStopsIt(t *testing.T) {
	st := station.New(station.Options{})
	st.Start(stationtest.NewEngine(stationtest.Options{LoadGate: make(chan struct{})}).Load, nil)
	st.Close() // must return
	require.Error(t, st.Err())
}

func TestStation_MetricsTellWhatStatsTell(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	require.Nil(t, f.generate(t.Context(), "count me", 7).err)
	resp, err := http.Get(f.url + wire.RouteMetrics)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	for _, line := range []string{
		"thoth_station_decoded_tokens_total 7", "thoth_station_requests_total 1", "thoth_station_cells 8192",
		"# TYPE thoth_station_running gauge", "thoth_station_step_seconds_count ",
	} {
		require.Contains(t, string(b), line)
	}
}

// KV that may not be kept in RAM is computed again: same answer, only later.
func TestStation_AnswersDoNotDependOnTheSwapBudget(t *testing.T) {
	o := stationtest.Options{Cells: 300, ContextLength: 300, Sequences: 8, BatchSize: 32, EOGEvery: -1}
	want := start(t, o, station.Options{}).generate(t.Context(), "one of eight", 200)
	f := start(t, o, station.Options{SwapBytes: 1})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			a := f.generate(t.Context(), "one of eight", 200)
			require.Nil(t, a.err)
			require.Equal(t, want.tokens, a.tokens)
		})
	}
	wg.Wait()
	s, err := f.Stats(t.Context())
	require.NoError(t, err)
	require.NotZero(t, s.Swaps)
	require.Zero(t, s.SwappedBytes)
}

// One request that cannot be sampled does not take its neighbours along.
func TestStation_SamplingFailureEndsOneRequest(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	want := f.generate(t.Context(), "a healthy neighbour", 40)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { require.Equal(t, want.tokens, f.generate(t.Context(), "a healthy neighbour", 40).tokens) })
		wg.Go(func() {
			// A grammar that asks for what no token writes.
			a := collect(f.Generate(t.Context(), &wire.GenerateRequest{Prompt: wire.Prompt{Text: "stuck"}, MaxTokens: 30,
				Sampling: wire.Sampling{Grammar: `root ::= "yes\x00"`}}))
			require.NotNil(t, a.err)
			require.Equal(t, wire.CodeInvalid, a.err.Code)
			require.Equal(t, "sampling.grammar", a.err.Param)
		})
	}
	wg.Wait()
}
