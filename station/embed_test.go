package station_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/engine"
	"thoth/station/stationtest"
	"thoth/station/wire"
)

// Between two batches of texts the answers beside them go on by a step, and
// between two steps no more than one batch is made.
func TestEmbed_TakesTurnsWithAnswers(t *testing.T) {
	var mu sync.Mutex
	var order []byte // d for a decode, e for a batch of texts
	note := func(c byte) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, c)
	}
	begun := make(chan struct{})
	var once sync.Once
	f := start(t, stationtest.Options{EOGEvery: -1,
		OnDecode: func(int, *engine.Batch) { note('d') },
		OnEmbed:  func(int, int) { note('e') }}, station.Options{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var answer sync.WaitGroup
	answer.Go(func() {
		s, err := f.Generate(ctx, &wire.GenerateRequest{Prompt: wire.Prompt{Text: "Tell me."}, MaxTokens: 1900, IgnoreEOG: true})
		if err != nil {
			return
		}
		defer s.Close()
		for {
			if _, err := s.Next(); err != nil {
				return
			}
			once.Do(func() { close(begun) })
		}
	})
	<-begun
	mu.Lock()
	order = nil
	mu.Unlock()
	var texts sync.WaitGroup
	for range 4 {
		texts.Go(func() {
			many := make([]string, 40)
			for i := range many {
				many[i] = "The river carried the boats."
			}
			_, err := f.Vectors(t.Context(), &wire.EmbedRequest{Input: many})
			if err != nil {
				t.Error(err)
			}
		})
	}
	texts.Wait()
	mu.Lock()
	seen := string(order)
	mu.Unlock()
	stop()
	answer.Wait()
	require.NotContains(t, seen, "ee", "texts have kept an answer waiting for more than a batch")
	require.Greater(t, strings.Count(seen, "e"), 20)
}

func TestEmbed_LeavesWhenTheCallerGoes(t *testing.T) {
	gate := make(chan struct{})
	entered := make(chan struct{}, 100)
	f := start(t, stationtest.Options{OnEmbed: func(int, int) { entered <- struct{}{}; <-gate }}, station.Options{})
	ctx, stop := context.WithCancel(t.Context())
	var call sync.WaitGroup
	call.Go(func() {
		_, err := f.Vectors(ctx, &wire.EmbedRequest{Input: []string{strings.Repeat("word ", 300)}})
		if err == nil {
			t.Error("an abandoned request was answered")
		}
	})
	<-entered
	stop()
	call.Wait()
	require.Eventually(t, func() bool { return f.st.Busy() == 0 }, 10*time.Second, time.Millisecond)
	close(gate)
	a, err := f.Vectors(t.Context(), &wire.EmbedRequest{Input: []string{"next"}})
	require.NoError(t, err)
	require.Len(t, a.Vectors, 1)
	require.Less(t, len(f.eng.EmbedBatches()), 10, "the abandoned text was evaluated to its end")
	s, err := f.Stats(t.Context())
	require.NoError(t, err)
	require.Zero(t, s.EmbedWaiting)
}

func TestEmbed_AFailureEndsItsRequestsOnly(t *testing.T) {
	f := start(t, stationtest.Options{}, station.Options{})
	f.eng.FailEmbed(1, engine.ErrDecode)
	f.eng.FailEmbed(3, engine.ErrEmbedMemory)
	ask := func(text string) error {
		_, err := f.Vectors(t.Context(), &wire.EmbedRequest{Input: []string{text}})
		return err
	}
	require.Equal(t, wire.CodeEngine, ask("a").(*wire.Error).Code)
	require.NoError(t, ask("a"))
	require.Equal(t, wire.CodeUnavailable, ask(strings.Repeat("word ", 200)).(*wire.Error).Code, "a part of a long text")
	require.NoError(t, ask(strings.Repeat("word ", 200)))
	s, err := f.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, s.EmbedFailures)
	require.EqualValues(t, 2, s.EmbedTexts)
}

func TestEmbed_AModelWithoutVectorsSaysSo(t *testing.T) {
	f := start(t, stationtest.Options{NoVectors: "the model is a reranker"}, station.Options{})
	_, err := f.Vectors(t.Context(), &wire.EmbedRequest{Input: []string{"a"}})
	require.Equal(t, "input is not supported: the model is a reranker", err.(*wire.Error).Message)
	h, err := f.Health(t.Context())
	require.NoError(t, err)
	require.Equal(t, "the model is a reranker", h.Embeddings.Reason)
	require.True(t, *h.DecodeNext)
}

func TestEmbed_BoundsWhoWaits(t *testing.T) {
	gate := make(chan struct{})
	entered := make(chan struct{}, 10)
	f := start(t, stationtest.Options{OnEmbed: func(int, int) { entered <- struct{}{}; <-gate }}, station.Options{MaxWaiting: 1})
	var call sync.WaitGroup
	call.Go(func() {
		if _, err := f.Vectors(t.Context(), &wire.EmbedRequest{Input: []string{"a"}}); err != nil {
			t.Error(err)
		}
	})
	<-entered
	_, err := f.Vectors(t.Context(), &wire.EmbedRequest{Input: []string{"b"}})
	require.Equal(t, wire.CodeOverloaded, err.(*wire.Error).Code)
	close(gate)
	call.Wait()
}
