package station_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/client"
	"thoth/station/stationtest"
	"thoth/station/wire"
)

// turn is what a stream of a turn has told.
type turn struct {
	frames    []wire.FrameType // in order; of a run of text frames, or of progress, one
	restored  *wire.KVRestored
	evaluated *wire.ForwardResponse
	answers   []answer // by choice
	err       *wire.Error
}

// turnOf is a seeded turn of n answers.
func turnOf(prompt []int32, n, answer int) *wire.GenerateRequest {
	hot, seed := float32(0.9), uint64(17)
	q := &wire.GenerateRequest{Prompt: wire.Prompt{Tokens: prompt}, MaxTokens: answer, IgnoreEOG: true,
		Sampling: wire.Sampling{Temperature: &hot, Seed: &seed}, KV: &wire.KVTurn{Answers: true}}
	if n > 1 {
		q.Fork = &n
	}
	return q
}

// native is the same request without liquid memory.
func native(q *wire.GenerateRequest) *wire.GenerateRequest {
	n := *q
	n.KV = nil
	return &n
}

func read(q *wire.GenerateRequest, s *client.Stream, err error) turn {
	t := turn{answers: make([]answer, q.Answers())}
	for err == nil {
		var f *wire.Frame
		if f, err = s.Next(); err != nil {
			break
		}
		if k := f.Type; len(t.frames) == 0 || t.frames[len(t.frames)-1] != k || k == wire.FrameDone {
			t.frames = append(t.frames, k)
		}
		a := &t.answers[f.Choice]
		a.text += f.Text
		a.tokens = append(a.tokens, f.Tokens...)
		switch f.Type {
		case wire.FrameRestored:
			t.restored = f.Restored
		case wire.FrameEvaluated:
			t.evaluated = f.Forward
		case wire.FrameDone:
			a.done = f.Done
		}
	}
	if s != nil {
		_ = s.Close()
	}
	if err != io.EOF && !errors.As(err, &t.err) {
		t.err = &wire.Error{Code: wire.CodeInternal, Message: err.Error()}
	}
	return t
}

func (f *fixture) ask(ctx context.Context, q *wire.GenerateRequest) turn {
	s, err := f.Generate(ctx, q)
	return read(q, s, err)
}

// turn is a turn that goes well.
func (f *fixture) turn(q *wire.GenerateRequest) turn {
	f.t.Helper()
	a := f.ask(f.t.Context(), q)
	require.Nil(f.t, a.err)
	require.Equal(f.t, len(q.Prompt.Tokens), a.restored.PromptTokens)
	require.Equal(f.t, len(q.Prompt.Tokens), a.restored.Position+a.restored.Staged)
	require.Equal(f.t, len(q.Prompt.Tokens), a.evaluated.Position)
	require.Zero(f.t, a.evaluated.Remaining)
	require.Empty(f.t, a.restored.Session+a.evaluated.Session)
	return a
}

func TestTurn_AnswersAsACallWithoutItDoes(t *testing.T) {
	for _, n := range []int{1, 3} {
		f := start(t, stationtest.Options{EOGEvery: -1, BatchSize: 64}, station.Options{})
		q := turnOf(text(200, 1), n, 20)
		want := f.ask(t.Context(), native(q))
		require.Nil(t, want.err)
		require.Nil(t, want.restored)

		miss := f.turn(q)
		f.sameAnswers(want.answers, miss.answers)
		require.Zero(t, miss.restored.Position)
		require.Equal(t, wire.KVNothing, miss.restored.Reason)
		require.Equal(t, 200, miss.evaluated.Evaluated)

		hit := f.turn(q)
		f.sameAnswers(want.answers, hit.answers)
		require.Equal(t, 199, hit.restored.Position)
		require.Equal(t, 1, hit.evaluated.Evaluated)
	}
}
