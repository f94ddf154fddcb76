//go:build cgo

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/client"
	"thoth/station/native"
	"thoth/station/wire"
)

// The answers of a fork are, to the token and the bits of their log-probabilities,
// those of calls of their own: alone, and beside eight clients that come and go in
// a pool too small for all.
func TestStation_ForkedAnswersAreThoseOfCallsOfTheirOwn(t *testing.T) {
	for _, kv := range []string{"f16", "q8_0"} {
		t.Run(kv, func(t *testing.T) {
			url := realStation(t, native.Options{Cells: 640, ContextLength: 640, Sequences: 8, KVTypeK: kv, KVTypeV: kv})
			c, err := client.New(url, client.Options{})
			require.NoError(t, err)
			rng := rand.New(rand.NewPCG(7, 8))
			var asked []*wire.GenerateRequest
			var want [][]forkedAnswer
			for i := range 3 {
				q := &wire.GenerateRequest{Prompt: wire.Prompt{Text: story(rng, 120+rng.IntN(80))}, MaxTokens: 90, IgnoreEOG: true, Later: wire.Later{Fork: new(5 + i)}}
				if i%2 == 0 {
					q.Sampling = wire.Sampling{Temperature: new(float32(0)), Logprobs: true, TopLogprobs: 2}
				} else {
					q.Sampling = wire.Sampling{Temperature: new(float32(0.9)), TopP: new(float32(0.95)), Seed: new(uint64(50 * i)), Logprobs: true}
				}
				apart := make([]forkedAnswer, *q.Fork)
				for choice := range apart {
					one := *q
					one.Fork = nil
					if q.Sampling.Seed != nil {
						one.Sampling.Seed = new(*q.Sampling.Seed + uint64(choice))
					}
					a, err := forked(t.Context(), c, &one)
					require.NoError(t, err)
					apart[choice] = a[0]
				}
				asked, want = append(asked, q), append(want, apart)
			}
			for i, q := range asked {
				before := evaluated(t, c)
				got, err := forked(t.Context(), c, q)
				require.NoError(t, err)
				require.Equal(t, want[i], got, "fork %d alone", i)
				require.Equal(t, uint64(got[0].prompt), evaluated(t, c)-before, "one prefill")
				staged, err := forkedSession(t.Context(), c, q)
				require.NoError(t, err)
				require.Equal(t, want[i], staged, "fork %d of a session", i)
			}
			ctx, stop := context.WithCancel(t.Context())
			var traffic, all sync.WaitGroup
			for w := range 8 {
				traffic.Go(func() { disturb(ctx, c, rand.New(rand.NewPCG(5, uint64(w)))) })
			}
			got, errs := make([][]forkedAnswer, len(asked)), make([]error, len(asked))
			limit := make(chan struct{}, 3)
			for i, q := range asked {
				all.Go(func() {
					limit <- struct{}{}
					defer func() { <-limit }()
					got[i], errs[i] = forked(ctx, c, q)
				})
			}
			all.Wait()
			stop()
			traffic.Wait()
			for i := range asked {
				require.NoError(t, errs[i])
				require.Equal(t, want[i], got[i], "fork %d beside others", i)
			}
			s, err := c.Stats(t.Context())
			require.NoError(t, err)
			require.NotZero(t, s.Compactions, "the pool was too large to prove anything")
			require.NotZero(t, s.Swaps, "nobody had to leave it")
			require.NotZero(t, s.Cancelled, "no traffic was cancelled")
			t.Logf("%d compactions, %d swaps, %d cancelled", s.Compactions, s.Swaps, s.Cancelled)
		})
	}
}

type forkedAnswer struct {
	text     string
	tokens   []int32
	logprobs []wire.TokenLogprob
	reason   wire.Reason
	prompt   int
}

func forked(ctx context.Context, c *client.Client, q *wire.GenerateRequest) ([]forkedAnswer, error) {
	s, err := c.Generate(ctx, q)
	return readForked(s, err, q.Answers())
}

func forkedSession(ctx context.Context, c *client.Client, q *wire.GenerateRequest) ([]forkedAnswer, error) {
	e, err := c.Embed(ctx, &wire.EmbedRequest{Prompt: q.Prompt})
	if err != nil {
		return nil, err
	}
	if _, err := c.Forward(ctx, &wire.ForwardRequest{Session: e.Session}); err != nil {
		return nil, err
	}
	s, err := c.DecodeNext(ctx, &wire.DecodeRequest{Session: e.Session, Sampling: &q.Sampling, N: q.MaxTokens, IgnoreEOG: q.IgnoreEOG, Release: true, Later: q.Later})
	return readForked(s, err, q.Answers())
}

func readForked(s *client.Stream, err error, n int) ([]forkedAnswer, error) {
	if err != nil {
		return nil, err
	}
	defer s.Close()
	all := make([]forkedAnswer, n)
	for {
		f, err := s.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the stream of %d answers: %w", n, err)
		}
		a := &all[f.Choice]
		a.text += f.Text
		a.tokens = append(a.tokens, f.Tokens...)
		a.logprobs = append(a.logprobs, f.Logprobs...)
		if f.Done != nil {
			a.reason, a.prompt = f.Done.Reason, f.Done.PromptTokens
		}
	}
}

// evaluated is the number of prompt tokens so far.
func evaluated(t *testing.T, c *client.Client) uint64 {
	t.Helper()
	s, err := c.Stats(t.Context())
	require.NoError(t, err)
	return s.PromptTokens
}
