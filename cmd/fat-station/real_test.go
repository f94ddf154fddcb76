//go:build cgo

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/client"
	"thoth/station/engine"
	"thoth/station/kvstore"
	"thoth/station/native"
	"thoth/station/stationtest"
	"thoth/station/wire"
)

// The real engine with the real model behind the real station. make test builds
// the kernel libraries and fetches the model first.

// realStation starts a station in this process and returns its address.
func realStation(t *testing.T, o native.Options) string {
	t.Helper()
	o.Model = testModel(t)
	return serveModel(t, o)
}

func serveModel(t *testing.T, o native.Options) string {
	t.Helper()
	lib, err := filepath.Abs("../../build/lib/ollama")
	require.NoError(t, err)
	o.LibraryDir, o.Poll = lib, -1
	st := station.New(station.Options{Build: "test", KV: kvstore.Options{WarmBytes: 1 << 30}})
	loaded := make(chan struct{})
	st.Start(func(ctx context.Context, p func(float32)) (engine.Engine, error) { return native.Load(ctx, o, p) },
		func(engine.Info) { close(loaded) })
	srv := httptest.NewServer(st.Handler())
	t.Cleanup(func() { srv.Close(); st.Close() })
	select {
	case <-loaded:
	case <-st.Done():
		t.Fatal(st.Err())
	}
	return srv.URL
}

func testModel(t *testing.T) string {
	t.Helper()
	m := os.Getenv("THOTH_TEST_MODEL")
	require.NotEmpty(t, m, "THOTH_TEST_MODEL must name the GGUF of the default model: run make test")
	return m
}

func TestStation_ConformsWithTheRealEngine(t *testing.T) {
	ends := stationtest.Chat("What is the capital of France?")
	stationtest.Conformance(t, realStation(t, native.Options{Cells: 8192}), stationtest.ConformanceOptions{
		Prompt: "Once upon a time, in a village by the sea, there lived", Ends: &ends, StopStride: 5,
	})
}

func TestStation_ConformsWithARealEncoder(t *testing.T) {
	m := os.Getenv("THOTH_TEST_EMBED_MODEL")
	require.NotEmpty(t, m, "THOTH_TEST_EMBED_MODEL must name the converted embedding model: run make test")
	stationtest.EncoderConformance(t, serveModel(t, native.Options{Model: m}), stationtest.ConformanceOptions{})
}

func TestStation_SelfTestPasses(t *testing.T) {
	lib, err := filepath.Abs("../../build/lib/ollama")
	require.NoError(t, err)
	eng, err := native.Load(t.Context(), native.Options{LibraryDir: lib, Model: testModel(t), Cells: 2048, ContextLength: 2048, Poll: -1}, nil)
	require.NoError(t, err)
	defer eng.Close()
	checks := station.SelfTest(eng)
	require.NotEmpty(t, checks)
	for _, c := range checks {
		require.True(t, c.OK, "%s: %s", c.Name, c.Detail)
	}
}

// Placement is part of the answer: 12 prompts of about 500 tokens give the same
// tokens alone and amid traffic of other sizes, cancellations, compactions and
// sequences moved out and back.
func TestStation_PlacementKeepsAnswers(t *testing.T) {
	for _, kv := range []string{"f16", "q8_0"} {
		t.Run(kv, func(t *testing.T) {
			url := realStation(t, native.Options{Cells: 3072, ContextLength: 2048, Sequences: 16, KVTypeK: kv, KVTypeV: kv})
			c, err := client.New(url, client.Options{})
			require.NoError(t, err)
			rng := rand.New(rand.NewPCG(3, 4))
			prompts := make([]string, 12)
			alone := make([][]int32, len(prompts))
			for i := range prompts {
				prompts[i] = story(rng, 380+rng.IntN(60))
				alone[i] = greedy(t, c, prompts[i], 24)
			}
			ctx, stop := context.WithCancel(t.Context())
			var traffic, asked sync.WaitGroup
			for w := range 3 {
				traffic.Go(func() { disturb(ctx, c, rand.New(rand.NewPCG(5, uint64(w)))) })
			}
			limit := make(chan struct{}, 4)
			for i := range prompts {
				asked.Go(func() {
					limit <- struct{}{}
					defer func() { <-limit }()
					require.Equal(t, alone[i], greedy(t, c, prompts[i], 24), "prompt %d", i)
				})
			}
			asked.Wait()
			stop()
			traffic.Wait()
			s, err := c.Stats(t.Context())
			require.NoError(t, err)
			require.NotZero(t, s.Compactions, "the pool was too large to prove anything")
			require.NotZero(t, s.Cancelled, "no traffic was cancelled")
			t.Logf("%d compactions of %.1f ms, %d swaps, %d cancelled", s.Compactions, s.CompactionMS/float64(s.Compactions), s.Swaps, s.Cancelled)
		})
	}
}

var nouns = strings.Fields("river mill boat stone garden letter window captain winter bridge lantern orchard harbour violin market shadow meadow clock ladder engine")
var verbs = strings.Fields("carried found painted followed repaired forgot opened crossed counted remembered traded lifted")

// story is a prompt of about n words, of ordinary English.
func story(rng *rand.Rand, n int) string {
	var sb strings.Builder
	for i := 0; i < n; i += 6 {
		fmt.Fprintf(&sb, "The %s %s the %s. ", nouns[rng.IntN(len(nouns))], verbs[rng.IntN(len(verbs))], nouns[rng.IntN(len(nouns))])
	}
	return sb.String()
}

func greedy(t *testing.T, c *client.Client, prompt string, n int) []int32 {
	t.Helper()
	zero := float32(0)
	s, err := c.Generate(t.Context(), &wire.GenerateRequest{Prompt: wire.Prompt{Text: prompt}, MaxTokens: n, IgnoreEOG: true,
		Sampling: wire.Sampling{Temperature: &zero}})
	require.NoError(t, err)
	defer s.Close()
	var tokens []int32
	for {
		f, err := s.Next()
		if err == io.EOF {
			require.Len(t, tokens, n)
			return tokens
		}
		require.NoError(t, err)
		tokens = append(tokens, f.Tokens...)
	}
}

// disturb sends requests of random size and leaves many of them midway.
func disturb(ctx context.Context, c *client.Client, rng *rand.Rand) {
	for ctx.Err() == nil {
		s, err := c.Generate(ctx, &wire.GenerateRequest{Prompt: wire.Prompt{Text: story(rng, 6+rng.IntN(150))}, MaxTokens: 8 + rng.IntN(60)})
		if err != nil {
			continue
		}
		for frames := rng.IntN(30); frames > 0; frames-- {
			if _, err := s.Next(); err != nil {
				break
			}
		}
		_ = s.Close()
	}
}
