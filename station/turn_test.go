package station_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/client"
	"thoth/station/kvstore"
	"thoth/station/stationtest"
	"thoth/station/wire"
)

// turn is what a stream of a turn has told.
type turn struct {
	frames    []wire.FrameType // in order; of a run of text or progress frames one
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

// next is the turn that goes on with an answer.
func next(q *wire.GenerateRequest, a answer) *wire.GenerateRequest {
	n := *q
	n.Fork, n.Prompt = nil, wire.Prompt{Tokens: append(append([]int32{}, q.Prompt.Tokens...), a.tokens...)}
	n.Prompt.Tokens = append(n.Prompt.Tokens, text(30, 77)...)
	return &n
}

// native is the same request without liquid memory.
func native(q *wire.GenerateRequest) *wire.GenerateRequest {
	n := *q
	n.KV = nil
	return &n
}

func readTurn(q *wire.GenerateRequest, s *client.Stream, err error) turn {
	t := turn{answers: make([]answer, q.Answers())}
	for err == nil {
		var f *wire.Frame
		if f, err = s.Next(); err == nil {
			t.take(f)
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

func (t *turn) take(f *wire.Frame) {
	run := f.Type == wire.FrameText || f.Type == wire.FrameProgress
	if n := len(t.frames); !run || n == 0 || t.frames[n-1] != f.Type {
		t.frames = append(t.frames, f.Type)
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

func (f *fixture) ask(ctx context.Context, q *wire.GenerateRequest) turn {
	s, err := f.Generate(ctx, q)
	return readTurn(q, s, err)
}

// turn is one that goes well.
func (f *fixture) turn(q *wire.GenerateRequest) turn {
	f.t.Helper()
	a := f.ask(f.t.Context(), q)
	require.Nil(f.t, a.err)
	n := a.restored.PromptTokens
	require.Equal(f.t, []int{n, n, 0}, []int{a.restored.Position + a.restored.Staged, a.evaluated.Position, a.evaluated.Remaining})
	require.Empty(f.t, a.restored.Session+a.evaluated.Session)
	for i, x := range a.answers {
		require.Equal(f.t, n, x.done.PromptTokens)
		require.Empty(f.t, x.done.Session)
		require.Zero(f.t, x.done.Position)
		require.Equal(f.t, i == 0, x.done.KVPrompt != nil, "the prompt is saved once")
	}
	return a
}

// inRAM waits until all that was saved is copied, and nothing of it is in the pool.
func (f *fixture) inRAM() {
	f.t.Helper()
	eventually(f.t, "what was saved is in RAM only", func() bool {
		x, err := f.KVIndex(f.t.Context())
		return err == nil && x.Pending == 0 && x.Hot.Blocks == 0
	})
}

// stored is how much of a prompt is found.
func (f *fixture) stored(scope string, tokens []int32) int {
	f.t.Helper()
	_, err := f.KVFlush(f.t.Context()) // what was captured is copied
	require.NoError(f.t, err)
	a, err := f.KVLookup(f.t.Context(), &wire.KVLookupRequest{Prompt: wire.Prompt{Tokens: tokens}, Scope: scope})
	require.NoError(f.t, err)
	return a.Position
}

// stepUntil lets decodes go, one after the other, until the station's numbers are what
// is waited for. A decode waits before and after.
func (f *fixture) stepUntil(p *stationtest.Pause, ok func(*wire.Stats) bool) {
	f.t.Helper()
	for {
		told := make(chan *wire.Stats, 1)
		go func() {
			s, _ := f.Stats(f.t.Context())
			told <- s
		}()
		var s *wire.Stats
		for s == nil {
			select {
			case s = <-told:
				require.NotNil(f.t, s)
			case <-time.After(2 * time.Millisecond): // the loop looks between two decodes
				p.Step()
				<-p.Entered()
			}
		}
		if ok(s) {
			return
		}
	}
}

// left checks that of calls that have ended nothing is in the station.
func (f *fixture) left() {
	f.t.Helper()
	eventually(f.t, "nothing is left", func() bool {
		s, err := f.Stats(f.t.Context())
		return err == nil && s.Running+s.Waiting+s.Swapped+s.Sessions+s.CellsUsed == 0 && s.SwappedBytes == 0
	})
}

func TestTurn_AnswersAsACallWithoutItDoes(t *testing.T) {
	for _, n := range []int{1, 2, 7} {
		t.Run(fmt.Sprintf("%d answers", n), func(t *testing.T) {
			f := start(t, stationtest.Options{EOGEvery: -1, BatchSize: 64}, station.Options{})
			q := turnOf(text(200, 1), n, 20)
			want := f.ask(t.Context(), native(q))
			require.Nil(t, want.err)
			require.Nil(t, want.restored)

			miss := f.turn(q)
			f.sameAnswers(want.answers, miss.answers)
			require.Equal(t, wire.KVNothing, miss.restored.Reason)
			require.Equal(t, []int{0, 200}, []int{miss.restored.Position, miss.evaluated.Evaluated})

			f.inRAM()
			warm := f.turn(q)
			f.sameAnswers(want.answers, warm.answers)
			require.Equal(t, wire.KVTiers{Warm: 199}, warm.restored.Tiers)
			require.Equal(t, []int{199, 1}, []int{warm.restored.Position, warm.evaluated.Evaluated})

			session := f.embed(q.Prompt.Tokens)
			f.load(session, nil)
			f.forward(session)
			hot := f.turn(q)
			f.sameAnswers(want.answers, hot.answers)
			require.Equal(t, wire.KVTiers{Hot: 199}, hot.restored.Tiers)
			require.Equal(t, []int{199, 1}, []int{hot.restored.Position, hot.evaluated.Evaluated})
		})
	}
}

func TestTurn_APromptOfOneTokenIsOne(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	q := turnOf(text(1, 1), 1, 3)
	want := f.ask(t.Context(), native(q))
	for range 2 {
		a := f.turn(q)
		f.sameAnswers(want.answers, a.answers)
		require.Equal(t, []any{0, 1, wire.KVReason("")}, []any{a.restored.Position, a.evaluated.Evaluated, a.restored.Reason})
		require.True(t, a.answers[0].done.KVPrompt.Saved)
	}
}

func TestTurn_TellsInOrder(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, BatchSize: 16}, station.Options{})
	q := turnOf(text(100, 1), 1, 5)
	require.Equal(t, []wire.FrameType{wire.FrameRestored, wire.FrameEvaluated, wire.FrameText, wire.FrameDone}, f.turn(q).frames)
	q = turnOf(text(100, 2), 3, 1)
	q.Progress = true
	require.Equal(t, []wire.FrameType{wire.FrameRestored, wire.FrameProgress, wire.FrameEvaluated, wire.FrameText,
		wire.FrameDone, wire.FrameDone, wire.FrameDone}, f.turn(q).frames, "once for all answers")
}

// Its place in the queue is told once it is restored: what it has then is known.
func TestTurn_TellsOfTheQueueBehindItsRestore(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, Sequences: 1}, station.Options{})
	q := turnOf(text(100, 1), 1, 5)
	q.Progress = true
	f.turn(q)
	f.inRAM()
	p := f.eng.Pause()
	var both sync.WaitGroup
	both.Go(func() { f.generate(t.Context(), "it has the only place", 30) })
	<-p.Entered()
	var a turn
	both.Go(func() { a = f.ask(t.Context(), q) })
	f.stepUntil(p, func(s *wire.Stats) bool { return s.Waiting == 1 })
	p.Resume()
	both.Wait()
	require.Nil(t, a.err)
	require.Equal(t, 99, a.restored.Position)
	require.Equal(t, wire.FrameRestored, a.frames[0])
}

func TestTurn_SavesItsPromptAndItsAnswers(t *testing.T) {
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d answers", n), func(t *testing.T) {
			f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
			q := turnOf(text(200, 1), n, 20)
			q.KV.Scope = "a"
			first := f.turn(q)
			p := first.answers[0].done.KVPrompt
			require.Equal(t, []any{true, "", 200, 200}, []any{p.Saved, p.Reason, p.Tokens, p.Written})
			for i, a := range first.answers {
				k := a.done.KVAnswer
				require.Equal(t, []any{true, "", 219}, []any{k.Saved, k.Reason, k.Tokens}, "answer %d: all but its last token is evaluated", i)
				require.Positive(t, k.Written)
				require.Equal(t, 219, f.stored("a", next(q, a).Prompt.Tokens))
			}
			for _, a := range first.answers {
				q := next(q, a)
				want := f.ask(t.Context(), native(q))
				got := f.turn(q)
				f.sameAnswers(want.answers, got.answers)
				require.Equal(t, []int{219, 31}, []int{got.restored.Position, got.evaluated.Evaluated})
				require.Less(t, got.answers[0].done.KVPrompt.Written, 64, "of the old turn nothing is written again")
			}
			require.Zero(t, f.stored("", q.Prompt.Tokens), "in its scope only")
		})
	}
}

func TestTurn_SavesNoAnswerThatItIsNotAskedFor(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	q := turnOf(text(64, 1), 2, 200)
	q.KV.Answers, q.KV.Keep = false, true
	a := f.turn(q)
	for _, x := range a.answers {
		require.Nil(t, x.done.KVAnswer)
		require.Equal(t, 64, f.stored("", next(q, x).Prompt.Tokens))
	}
}

func TestTurn_SavesNoAnswerWithTheTextThatExcludesIt(t *testing.T) {
	mark, err := stationtest.NewEngine(stationtest.Options{}).Tokenize("<|im_start|>", true)
	require.NoError(t, err)
	said := func(history []int32) (int32, bool) { // a control token behind "!!"
		n := len(history)
		return mark[0], n > 1 && history[n-1] == '!' && history[n-2] == '!'
	}
	f := start(t, stationtest.Options{EOGEvery: -1, Next: said}, station.Options{})
	for _, k := range []struct {
		answer, unless string
		saved          bool
	}{
		{"no reasoning at all", "</think>", true},
		{"it thinks </think> and says", "</think>", false},
		{"at its very end </think>", "</think>", false},
		{"almost </think", "</think>", true},
		{"a control token follows!!", "<|im_start|>", false},
		{"what ends an answer is none of its text", "<|im_end|>", true},
		{"nothing excludes it </think>", "", true},
	} {
		t.Run(k.answer, func(t *testing.T) {
			q := turnOf(nil, 1, len(k.answer)+1)
			q.Prompt = wire.Prompt{Text: "</think> may stand in the prompt. " + stationtest.Say(k.answer)}
			q.KV.Unless, q.IgnoreEOG = k.unless, false
			a := f.turn(q)
			require.Contains(t, a.answers[0].text, k.answer)
			require.True(t, a.answers[0].done.KVPrompt.Saved)
			require.Equal(t, k.saved, a.answers[0].done.KVAnswer != nil)
		})
	}
}

// Of such an answer nothing is evaluated.
func TestTurn_ThatEndsWithItsFirstTokenSavesItsPrompt(t *testing.T) {
	eng := stationtest.NewEngine(stationtest.Options{})
	end := eng.Info().EOG[0]
	ends := func(history []int32) (int32, bool) { return end, len(history) == 101 }
	for _, n := range []int{1, 3} {
		f := start(t, stationtest.Options{EOGEvery: -1, Next: ends}, station.Options{})
		q := turnOf(text(150, 1), n, 1)
		eog := turnOf(text(101, 2), n, 50)
		eog.IgnoreEOG = false
		stop := turnOf(text(150, 3), n, 50)
		for _, a := range f.ask(t.Context(), native(stop)).answers {
			stop.Stop = append(stop.Stop, a.text[:1])
		}
		for reason, q := range map[wire.Reason]*wire.GenerateRequest{wire.ReasonLength: q, wire.ReasonEOG: eog, wire.ReasonStop: stop} {
			t.Run(fmt.Sprintf("%d answers, %s", n, reason), func(t *testing.T) {
				prompt := q.Prompt.Tokens
				a := f.turn(q)
				require.Equal(t, len(prompt), a.answers[0].done.KVPrompt.Tokens)
				for _, x := range a.answers {
					require.Equal(t, reason, x.done.Reason)
					require.Nil(t, x.done.KVAnswer)
				}
				require.Equal(t, len(prompt), f.stored("", next(q, a.answers[0]).Prompt.Tokens))
				f.left()
			})
		}
	}
}

// The others go on, as many at a time as they may.
func TestTurn_OneOfWhoseAnswersEndsWithItsFirstToken(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	for seed := range uint64(5) {
		q := turnOf(text(150, 3), 5, 20)
		q.Sampling.Seed = &seed
		for choice, a := range f.ask(t.Context(), native(q)).answers {
			q.Stop = []string{a.text[:1]}
			for _, width := range []int{1, 2, 0} {
				q.ForkWidth = width
				want := f.ask(t.Context(), native(q))
				require.Zero(t, want.answers[choice].text)
				got := f.turn(q)
				f.sameAnswers(want.answers, got.answers)
				for _, x := range got.answers {
					require.Equal(t, len(x.tokens) > 1, x.done.KVAnswer != nil)
				}
			}
		}
	}
	f.left()
}

// However little room there is, and whenever its answers end.
func TestTurn_OfManyAnswersInASmallPool(t *testing.T) {
	for name, o := range map[string]stationtest.Options{
		"cells for the prompt": {Cells: 520, ContextLength: 460},
		"one sequence":         {Sequences: 1, Cells: 520, ContextLength: 460},
		"two sequences":        {Sequences: 2, Cells: 700},
	} {
		for _, swap := range []int{0, 1} { // 0: the default, enough
			t.Run(fmt.Sprintf("%s, %d", name, swap), func(t *testing.T) {
				o.EOGEvery, o.BatchSize = 9, 64
				f := start(t, o, station.Options{SwapBytes: swap})
				for length := range 6 {
					q := turnOf(text(330+length, 3), 6, 40)
					q.IgnoreEOG = false
					want := f.ask(t.Context(), native(q))
					for _, width := range []int{0, 1, 4} {
						q.ForkWidth, q.KV.Scope = width, fmt.Sprint(width)
						got := f.turn(q)
						f.sameAnswers(want.answers, got.answers)
						for _, a := range got.answers {
							n := 330 + length + len(a.tokens)
							if a.done.Reason != wire.ReasonEOG {
								n--
							}
							require.True(t, got.answers[0].done.KVPrompt.Saved)
							if n == 330+length {
								require.Nil(t, a.done.KVAnswer)
								continue
							}
							require.Equal(t, []any{true, n}, []any{a.done.KVAnswer.Saved, a.done.KVAnswer.Tokens}, a.done.KVAnswer.Reason)
							require.Equal(t, n, f.stored(q.KV.Scope, next(q, a).Prompt.Tokens))
						}
					}
				}
				f.left()
			})
		}
	}
}

func TestTurn_RefusesByName(t *testing.T) {
	f := start(t, stationtest.Options{}, station.Options{})
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	for _, k := range []struct{ kv, param string }{
		{`{"scope":` + long(129) + `}`, "kv.scope"},
		{`{"group":` + long(65) + `}`, "kv.group"},
		{`{"wait_ms":-1}`, "kv.wait_ms"},
		{`{"wait_ms":"long"}`, "kv.wait_ms"},
		{`{"ttl_seconds":-1}`, "kv.ttl_seconds"},
		{`{"ttl_seconds":2592001}`, "kv.ttl_seconds"},
		{`{"unless":` + long(65) + `}`, "kv.unless"},
		{`{"pin":"yes"}`, "kv.pin"},
		{`5`, "kv"},
	} {
		e := f.refused(`{"prompt":{"text":"a"},"kv":` + k.kv + `}`)
		require.Equal(t, []any{wire.CodeInvalid, k.param}, []any{e.Code, e.Param}, e.Message)
		require.True(t, strings.HasPrefix(e.Message, k.param+" "), e.Message)
	}
	require.Equal(t, "fork", f.refused(`{"prompt":{"text":"a"},"fork":"two"}`).Param, "no name of ours is in a path")
	most := &wire.KVTurn{KVLoadRequest: wire.KVLoadRequest{Scope: strings.Repeat("x", 128), Group: strings.Repeat("x", 64)}, TTLSeconds: 2592000, Unless: strings.Repeat("x", 64)}
	require.Nil(t, f.ask(t.Context(), &wire.GenerateRequest{Prompt: wire.Prompt{Text: "a"}, MaxTokens: 1, KV: most}).err)
}

// refused is the error that /generate answers a body with.
func (f *fixture) refused(body string) *wire.Error {
	f.t.Helper()
	resp, err := http.Post(f.url+wire.RouteGenerate, "application/json", strings.NewReader(body))
	require.NoError(f.t, err)
	defer resp.Body.Close()
	require.Equal(f.t, http.StatusBadRequest, resp.StatusCode)
	var b wire.ErrorBody
	require.NoError(f.t, json.NewDecoder(resp.Body).Decode(&b))
	return b.Error
}

func TestTurn_IsOfferedWhereKVSessionsAre(t *testing.T) {
	on := start(t, stationtest.Options{}, station.Options{})
	h, err := on.Health(t.Context())
	require.NoError(t, err)
	require.True(t, h.KVTurn)
	for name, k := range map[string]struct {
		eo  stationtest.Options
		so  station.Options
		why string
	}{
		"no memory":     {so: station.Options{KV: kvstore.Options{WarmBytes: -1}}, why: "THOTH_KV_WARM_BYTES"},
		"a setting":     {so: station.Options{NoKVSession: true}, why: "left out by a setting"},
		"it cannot cut": {eo: stationtest.Options{CannotMove: "its state has no positions"}, why: "its state has no positions"},
		"it drifts":     {eo: stationtest.Options{ImportDrifts: true}, why: "self-test"},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, k.eo, k.so)
			h, err := f.Health(t.Context())
			require.NoError(t, err)
			require.False(t, h.KVTurn)
			a := f.ask(t.Context(), turnOf(text(10, 1), 1, 1))
			require.Equal(t, []any{wire.CodeUnsupported, "kv"}, []any{a.err.Code, a.err.Param})
			require.Contains(t, a.err.Message, k.why)
			require.Nil(t, f.ask(t.Context(), native(turnOf(text(10, 1), 1, 1))).err)
		})
	}
	encoder := start(t, stationtest.Options{Encoder: true, ContextLength: 100}, station.Options{})
	h, err = encoder.Health(t.Context())
	require.NoError(t, err)
	require.False(t, h.KVTurn)
	require.Equal(t, wire.CodeUnsupported, encoder.ask(t.Context(), turnOf(text(10, 1), 1, 1)).err.Code)
}
