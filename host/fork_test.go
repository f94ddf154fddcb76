package host

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// forking answers as a station that forks: each answer is its seed, a token at a
// time, the last one first.
func forking(_ context.Context, q *wire.GenerateRequest, out *frames) {
	n := q.Answers()
	for _, part := range []string{"s", "%d"} {
		for i := n - 1; i >= 0; i-- {
			text := part
			if part == "%d" {
				text = fmt.Sprint(*q.Sampling.Seed + uint64(i))
			}
			out.send(wire.Frame{Type: wire.FrameText, Choice: i, Text: text, Tokens: []int32{1}})
		}
	}
	for i := n - 1; i >= 0; i-- {
		out.send(wire.Frame{Type: wire.FrameDone, Choice: i, Done: &wire.Done{Reason: wire.ReasonEOG, PromptTokens: 9, CompletionTokens: 2}})
	}
}

func newForkingStation(t *testing.T, most int) *fakeStation {
	f := newFakeStation(t)
	f.health.Fork = most
	f.does(forking)
	return f
}

// asked are the calls so far as their first seed, answers and width.
func (f *fakeStation) asked() (calls []string) {
	for _, q := range f.got() {
		calls = append(calls, fmt.Sprintf("%d+%d/%d", *q.Sampling.Seed, q.Answers(), q.ForkWidth))
	}
	return calls
}

func contents(t *testing.T, r reply) (texts []string) {
	t.Helper()
	for i, c := range r.json(t)["choices"].([]any) {
		require.EqualValues(t, i, c.(map[string]any)["index"])
		texts = append(texts, c.(map[string]any)["message"].(map[string]any)["content"].(string))
	}
	return texts
}

func TestFork_ChoicesAreOneCall(t *testing.T) {
	f := newForkingStation(t, 64)
	h := newHost(t, f)
	r := h.chat(`"n":4`, `"seed":7`)
	require.Equal(t, []string{"s7", "s8", "s9", "s10"}, contents(t, r))
	require.Equal(t, []string{"7+4/0"}, f.asked())
	usage := r.json(t)["usage"].(map[string]any)
	require.Equal(t, []any{9., 8.}, []any{usage["prompt_tokens"], usage["completion_tokens"]}, "the prompt counts once")

	data, done := events(t, h.chat(`"n":3`, `"seed":7`, `"stream":true`).body)
	require.True(t, done)
	texts, ends := map[float64]string{}, 0
	for _, d := range data {
		for _, c := range d["choices"].([]any) {
			choice := c.(map[string]any)
			if s, ok := choice["delta"].(map[string]any)["content"].(string); ok {
				texts[choice["index"].(float64)] += s
			}
			if choice["finish_reason"] != nil {
				ends++
			}
		}
	}
	require.Equal(t, map[float64]string{0: "s7", 1: "s8", 2: "s9"}, texts)
	require.Equal(t, 3, ends)

	require.Equal(t, []string{"s5"}, contents(t, h.chat(`"seed":5`)))
	require.Nil(t, f.got()[2].Fork, "one choice is no fork")
}

func TestFork_EveryPromptOfACompletionIsOneCall(t *testing.T) {
	f := newForkingStation(t, 64)
	h := newHost(t, f)
	var texts []string
	for _, c := range h.completion(`["a","b"]`, `"n":3,"seed":1`).texts(t) {
		texts = append(texts, c.Text)
	}
	require.Equal(t, []string{"s1", "s2", "s3", "s1", "s2", "s3"}, texts)
	require.Equal(t, []string{"1+3/0", "1+3/0"}, f.asked())
	require.Equal(t, 18., h.completion(`["a","b"]`, `"n":3,"seed":1`).json(t)["usage"].(map[string]any)["prompt_tokens"])
}

func TestFork_NoMoreGoOnAtOnceThanThereArePlacesFor(t *testing.T) {
	f := newForkingStation(t, 64)
	h := newHost(t, f, func(o *Options) { o.MaxInFlight = 8 })
	require.Len(t, contents(t, h.chat(`"n":5`, `"seed":1`)), 5)
	require.Equal(t, []string{"1+5/2"}, f.asked(), "a quarter of the places, and one prefill")
}

func TestFork_NoMoreInACallThanTheStationTakes(t *testing.T) {
	f := newForkingStation(t, 3)
	h := newHost(t, f)
	require.Equal(t, []string{"s1", "s2", "s3", "s4", "s5", "s6", "s7"}, contents(t, h.chat(`"n":7`, `"seed":1`)))
	require.ElementsMatch(t, []string{"1+3/0", "4+3/0", "7+1/0"}, f.asked())
}

func TestFork_AnOlderStationIsAskedForEach(t *testing.T) {
	for name, most := range map[string]int{"silent about it": 0, "refuses it": 64} {
		t.Run(name, func(t *testing.T) {
			f := newForkingStation(t, most)
			forks := 0
			f.does(func(ctx context.Context, q *wire.GenerateRequest, out *frames) {
				if q.Fork != nil {
					f.set(func(*fakeStation) { forks++ })
					out.refuse(&wire.Error{Code: wire.CodeUnsupported, Param: "fork", Message: "fork is not supported by this station"})
					return
				}
				forking(ctx, q, out)
			})
			h := newHost(t, f)
			for range 2 {
				require.Equal(t, []string{"s1", "s2", "s3"}, contents(t, h.chat(`"n":3`, `"seed":1`)))
			}
			if most == 0 {
				require.Zero(t, forks, "it is not tried")
			}
			require.Equal(t, 1, strings.Count(h.logs.String(), "does not share a prompt between choices"))
			require.Contains(t, h.get("/metrics").body, "thoth_choices_unforked_total 6\n")
		})
	}
}

func TestFork_OneErrorEndsAll(t *testing.T) {
	f := newForkingStation(t, 64)
	h := newHost(t, f)
	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.send(wire.Frame{Type: wire.FrameText, Choice: 1, Text: "a", Tokens: []int32{1}})
		out.send(wire.Frame{Type: wire.FrameError, Error: &wire.Error{Code: wire.CodeEngine, Message: "a decode failed"}})
	})
	require.Equal(t, 500, h.chat(`"n":2`, `"seed":1`).status)
	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.send(wire.Frame{Type: wire.FrameText, Choice: 2, Text: "a"})
	})
	require.GreaterOrEqual(t, h.chat(`"n":2`, `"seed":1`).status, 500, "an answer that was not asked for")
}
