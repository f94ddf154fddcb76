package station_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// Turns that wait for each other, that are cut, and around which things fail.

func TestTurn_ManyWithOneNewPrefixCostOnePrefill(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, BatchSize: 64}, station.Options{})
	const clients, shared = 16, 700
	qs, wants, got := make([]*wire.GenerateRequest, clients), make([]turn, clients), make([]turn, clients)
	for i := range clients {
		qs[i] = turnOf(append(text(shared, 1), text(10, int32(i+2))...), 1+i%2, 5)
		wants[i] = f.ask(t.Context(), native(qs[i]))
	}
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { got[i] = f.ask(t.Context(), qs[i]) })
	}
	all.Wait()
	sum := 0
	for i := range clients {
		require.Nil(t, got[i].err)
		f.sameAnswers(wants[i].answers, got[i].answers)
		sum += got[i].evaluated.Evaluated
	}
	require.LessOrEqual(t, sum, shared+clients*10, "one evaluated the prefix, all their own ends")
	f.left()
}

func TestTurn_AndASessionWaitForEachOthersPrefill(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, BatchSize: 64}, station.Options{})
	held := func(lead, follow func()) {
		p := f.eng.Pause()
		var both sync.WaitGroup
		both.Go(lead)
		<-p.Entered()
		both.Go(follow)
		f.stepUntil(p, func(s *wire.Stats) bool { return s.Waiting == 1 })
		p.Resume()
		both.Wait()
	}
	q := turnOf(text(2000, 1), 1, 5)
	session := f.embed(q.Prompt.Tokens)
	f.load(session, nil)
	var a turn
	held(func() { f.forward(session) }, func() { a = f.ask(t.Context(), q) })
	require.Nil(t, a.err)
	const slack = 16 // so few are not waited for
	require.GreaterOrEqual(t, a.restored.Tiers.Hot, 2000-slack)
	require.Positive(t, a.restored.WaitMS)

	q = turnOf(text(2000, 2), 1, 5)
	session = f.embed(q.Prompt.Tokens)
	var l *wire.KVLoadResponse
	held(func() { a = f.ask(t.Context(), q) }, func() { l = f.load(session, nil) })
	require.Nil(t, a.err)
	require.GreaterOrEqual(t, l.Position, 2000-slack)
	x, err := f.KVIndex(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, x.Coalesced)
}

func TestTurn_WaitsNoLongerThanItMay(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, BatchSize: 64}, station.Options{})
	q := turnOf(text(600, 1), 1, 5)
	p := f.eng.Pause()
	var both sync.WaitGroup
	both.Go(func() { require.Nil(t, f.ask(t.Context(), q).err) })
	<-p.Entered()
	hurried := *q
	hurried.KV = &wire.KVTurn{KVLoadRequest: wire.KVLoadRequest{WaitMS: new(int64)}}
	var a turn
	both.Go(func() { a = f.ask(t.Context(), &hurried) })
	f.stepUntil(p, func(s *wire.Stats) bool { return s.Running == 2 })
	p.Resume()
	both.Wait()
	require.Nil(t, a.err)
	require.Less(t, a.restored.Position, 599, "it began before the other's prefill ended")
	require.Equal(t, 600-a.restored.Position, a.evaluated.Evaluated)
}

// The pieces of a turn's time to the first token are told once each.
func TestTurn_TellsTheTimesOfOneCall(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, BatchSize: 64, Sequences: 2}, station.Options{})
	q := turnOf(text(300, 1), 1, 20)
	check := func(a turn) {
		t.Helper()
		require.Nil(t, a.err)
		m, r := a.answers[0].done.Timings, a.restored
		require.LessOrEqual(t, m.TokenizeMS+m.QueueMS+r.WaitMS+r.LoadMS+m.PrefillMS, m.TTFTMS+0.001)
		require.GreaterOrEqual(t, m.QueueMS+0.001, r.QueueMS+a.evaluated.QueueMS)
		require.InDelta(t, a.evaluated.PrefillMS, m.PrefillMS, m.PrefillMS, "to the first token both")
		require.Positive(t, m.TokenizeMS)
		require.GreaterOrEqual(t, m.PrefillMS, m.EngineMS)
	}
	var together [2]turn
	var both sync.WaitGroup
	for i := range together { // one waits for the other's prefill
		both.Go(func() { together[i] = f.ask(t.Context(), q) })
	}
	both.Wait()
	for _, a := range together {
		check(a)
	}
	f.inRAM()
	p := f.eng.Pause() // both places are taken: it waits for one to restore in
	for _, prompt := range []string{"one", "two"} {
		both.Go(func() { f.generate(t.Context(), prompt, 30) })
	}
	var a turn
	<-p.Entered()
	f.stepUntil(p, func(s *wire.Stats) bool { return s.Running == 2 })
	both.Go(func() { a = f.ask(t.Context(), q) })
	f.stepUntil(p, func(s *wire.Stats) bool { return s.Waiting == 1 })
	p.Resume()
	both.Wait()
	check(a)
	require.Positive(t, a.restored.QueueMS)
}

// hanging is a cold tier that answers no read.
type hanging struct {
	*shelf
	asked chan struct{}
}

func (s hanging) Get(ctx context.Context, n block.Name, into func(int) ([]byte, error)) (*block.Block, error) {
	select {
	case s.asked <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestTurn_ReadsWhatTheColdTierHas(t *testing.T) {
	cold := hanging{emptyShelf(), make(chan struct{}, 1)}
	q := turnOf(text(200, 1), 1, 10)
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{OpenCold: openShelf(cold.shelf)})
	f.st.SetDigest("aa")
	want := f.turn(q)
	_, err := f.KVFlush(t.Context())
	require.NoError(t, err)

	g := start(t, stationtest.Options{EOGEvery: -1}, station.Options{OpenCold: openShelf(cold)})
	g.st.SetDigest("aa")
	wait := int64(60_000)
	q.KV.WaitMS = &wait
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan turn)
	go func() { gone <- g.ask(ctx, q) }()
	<-cold.asked
	cancel()
	require.Equal(t, wire.CodeCancelled, (<-gone).err.Code)
	eventually(t, "whoever goes away waits for no read", func() bool { return g.st.Busy() == 0 })
	g.left()

	h := start(t, stationtest.Options{EOGEvery: -1}, station.Options{OpenCold: openShelf(cold.shelf)})
	h.st.SetDigest("aa")
	got := h.turn(q)
	h.sameAnswers(want.answers, got.answers)
	require.Equal(t, wire.KVTiers{Cold: 199}, got.restored.Tiers)
}

func TestTurn_ThatIsCutLeavesNothing(t *testing.T) {
	for _, n := range []int{1, 3} {
		f := start(t, stationtest.Options{EOGEvery: -1, BatchSize: 64}, station.Options{})
		stages := []struct {
			name    string
			decodes int // before the cut
		}{{"its first chunk", 0}, {"its prefill", 2}, {"its first token", 4}, {"its answer", 20}}
		for i, stage := range stages {
			t.Run(fmt.Sprintf("%d answers, in %s", n, stage.name), func(t *testing.T) {
				q := turnOf(text(250, int32(i)), n, 100)
				p := f.eng.Pause()
				ctx, cancel := context.WithCancel(t.Context())
				gone := make(chan turn)
				go func() { gone <- f.ask(ctx, q) }()
				for range stage.decodes {
					<-p.Entered()
					p.Step()
				}
				<-p.Entered()
				cancel()
				require.Equal(t, wire.CodeCancelled, (<-gone).err.Code)
				eventually(t, "its decode is aborted", func() bool { return f.st.Busy() == 0 })
				p.Resume()
				f.left()
				require.Equal(t, stage.decodes >= 4, f.stored("", q.Prompt.Tokens) == 250, "its prompt is saved with its first token")
			})
		}
		t.Run(fmt.Sprintf("%d answers, in its wait for another", n), func(t *testing.T) {
			q := turnOf(text(250, 9), n, 5)
			p := f.eng.Pause()
			var leads sync.WaitGroup
			leads.Go(func() { require.Nil(t, f.ask(t.Context(), q).err) })
			<-p.Entered()
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan turn)
			go func() { gone <- f.ask(ctx, q) }()
			p.Step()
			<-p.Entered()
			cancel()
			require.Equal(t, wire.CodeCancelled, (<-gone).err.Code)
			p.Resume()
			leads.Wait()
			f.left()
		})
	}
}

// As of a session: full blocks until the prompt is saved, and then no more than that.
func TestTurn_ThatIsCutKeepsWhatItPromised(t *testing.T) {
	for _, k := range []struct {
		name          string
		keep          bool
		decodes, kept int
	}{
		{"in its prefill", true, 3, 192}, {"in its prefill, without keep", false, 3, 0}, {"in its answer", true, 100, 250},
	} {
		t.Run(k.name, func(t *testing.T) {
			f := start(t, stationtest.Options{EOGEvery: -1, BatchSize: 64}, station.Options{})
			q := turnOf(text(250, 1), 1, 300)
			q.KV.Keep, q.KV.Group = k.keep, "g"
			p := f.eng.Pause()
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan turn)
			go func() { gone <- f.ask(ctx, q) }()
			for range k.decodes {
				<-p.Entered()
				p.Step()
			}
			<-p.Entered()
			cancel()
			a := <-gone
			require.Equal(t, wire.CodeCancelled, a.err.Code)
			eventually(t, "its decode is aborted", func() bool { return f.st.Busy() == 0 })
			p.Resume()
			f.left()
			require.Equal(t, k.kept, f.stored("", next(q, a.answers[0]).Prompt.Tokens))
			d, err := f.KVDelete(t.Context(), "", &wire.KVDeleteRequest{Group: "g"})
			require.NoError(t, err)
			require.Equal(t, (k.kept+63)/64, d.Blocks)
		})
	}
}

func TestTurn_ThatFindsNoPlaceInTheQueueLeavesNothing(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, Sequences: 1}, station.Options{MaxWaiting: 1})
	q := turnOf(text(100, 1), 3, 5)
	f.turn(q)
	p := f.eng.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	others.Go(func() { f.generate(ctx, "running", 50) })
	<-p.Entered()
	others.Go(func() { f.generate(ctx, "waiting", 50) })
	eventually(t, "429", func() bool {
		short, done := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer done()
		a := f.ask(short, q)
		return a.err != nil && a.err.Code == wire.CodeOverloaded && a.frames == nil
	})
	cancel()
	p.Resume()
	others.Wait()
	f.left()
	require.Equal(t, 99, f.turn(q).restored.Position)
}

func TestTurn_IsFinishedByADrain(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	q := turnOf(text(100, 1), 2, 10)
	p := f.eng.Pause()
	got := make(chan turn)
	go func() { got <- f.ask(t.Context(), q) }()
	<-p.Entered()
	drained := make(chan struct{})
	go func() { f.st.Drain(t.Context()); close(drained) }()
	eventually(t, "draining", func() bool { h, err := f.Health(t.Context()); return err == nil && h.Status == wire.StatusDraining })
	require.Equal(t, wire.CodeDraining, f.ask(t.Context(), q).err.Code)
	p.Resume()
	a := <-got
	require.Nil(t, a.err)
	require.True(t, a.answers[0].done.KVPrompt.Saved && a.answers[0].done.KVAnswer.Saved && a.answers[1].done.KVAnswer.Saved)
	<-drained
}

func TestTurn_IsCutByTheEndOfADrain(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, BatchSize: 64}, station.Options{OpenCold: openShelf(emptyShelf())})
	q := turnOf(text(250, 1), 2, 1500)
	q.KV.Keep = true
	p := f.eng.Pause()
	got := make(chan turn)
	go func() { got <- f.ask(t.Context(), q) }()
	for range 2 {
		<-p.Entered()
		p.Step()
	}
	<-p.Entered()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	drained := make(chan wire.KVFlushResponse)
	go func() { drained <- f.st.Drain(ctx) }()
	eventually(t, "draining", func() bool { h, err := f.Health(t.Context()); return err == nil && h.Status == wire.StatusDraining })
	p.Resume()
	require.Equal(t, wire.CodeDraining, (<-got).err.Code, "a stream never ends silently")
	require.GreaterOrEqual(t, (<-drained).Lost, 2, "what it had evaluated was there to be written down")
}

// What was restored may have to leave before its turn begins: then all of it is
// evaluated, and told.
func TestTurn_WhoseKVHadToGoEvaluatesItAgain(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, Cells: 400, ContextLength: 400, BatchSize: 64}, station.Options{SwapBytes: 1})
	first := turnOf(text(100, 1), 1, 1)
	f.turn(first)
	f.inRAM()
	q := turnOf(append(text(100, 1), text(100, 2)...), 1, 20)
	want := f.ask(t.Context(), native(q))
	p := f.eng.Pause()
	var both sync.WaitGroup
	both.Go(func() { f.generate(t.Context(), "it grows until nobody has room beside it", 340) })
	for range 150 {
		<-p.Entered()
		p.Step()
	}
	<-p.Entered()
	var a turn
	both.Go(func() { a = f.ask(t.Context(), q) })
	f.stepUntil(p, func(s *wire.Stats) bool { return s.Waiting == 1 })
	p.Resume()
	both.Wait()
	require.Nil(t, a.err)
	f.sameAnswers(want.answers, a.answers)
	require.Equal(t, []int{100, 200, 200}, []int{a.restored.Position, a.evaluated.Evaluated, a.evaluated.Position})
}

func TestTurn_WhoseImportFailsIsComputed(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	q := turnOf(text(200, 1), 2, 10)
	want := f.turn(q)
	f.inRAM()
	f.eng.FailImport(1, errors.New("refused"))
	got := f.turn(q)
	f.sameAnswers(want.answers, got.answers)
	require.Equal(t, []any{wire.KVEngine, 0, 200}, []any{got.restored.Reason, got.restored.Position, got.evaluated.Evaluated})
	require.Equal(t, 199, f.turn(q).restored.Position, "what is stored is still there")
}

func TestTurn_WhoseExportFailsIsAnswered(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	q := turnOf(text(200, 1), 2, 10)
	want := f.ask(t.Context(), native(q))
	for i := range 10 {
		f.eng.FailExport(1+i, errors.New("device lost"))
	}
	f.sameAnswers(want.answers, f.turn(q).answers)
	require.Zero(t, f.stored("", q.Prompt.Tokens))
	f.left()
}

func TestTurn_ThatFitsNoStoreSaysSo(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{KV: kvstore.Options{WarmBytes: 1 << 16}})
	q := turnOf(text(1500, 1), 2, 30)
	want := f.ask(t.Context(), native(q))
	for range 2 {
		got := f.turn(q)
		f.sameAnswers(want.answers, got.answers)
		for _, k := range []*wire.KVSaveResponse{got.answers[0].done.KVPrompt, got.answers[0].done.KVAnswer, got.answers[1].done.KVAnswer} {
			require.False(t, k.Saved)
			require.Contains(t, k.Reason, "of 15")
			require.Less(t, k.Tokens, 1500)
		}
	}
	f.left()
}

// What a turn was restored from is free for others once that is done, and its answer
// may stream for long.
func TestTurn_HoldsNothingOfTheStoreWhileItAnswers(t *testing.T) {
	const memory = 40 * 8192 // either prompt takes 24 blocks, of two pages each
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{KV: kvstore.Options{WarmBytes: memory}})
	q, other := turnOf(text(1500, 1), 1, 500), turnOf(text(1500, 2), 1, 3)
	q.KV.Answers = false
	require.True(t, f.turn(q).answers[0].done.KVPrompt.Saved)
	f.inRAM()
	p := f.eng.Pause()
	answers, saved := make(chan turn, 1), make(chan turn, 1)
	go func() { answers <- f.ask(t.Context(), q) }()
	for range 5 {
		<-p.Entered()
		p.Step()
	}
	go func() { saved <- f.ask(t.Context(), other) }()
	var a turn
	for a.answers == nil {
		select {
		case a = <-saved:
		case <-p.Entered():
			p.Step()
		}
	}
	require.Empty(t, answers, "the first still answers")
	require.Nil(t, a.err)
	require.True(t, a.answers[0].done.KVPrompt.Saved, a.answers[0].done.KVPrompt.Reason)
	p.Resume()
	first := <-answers
	require.Nil(t, first.err)
	require.Equal(t, wire.KVTiers{Warm: 1499}, first.restored.Tiers)
}

func TestTurn_ThatFailsTellsWhyAndLeavesNothing(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, BatchSize: 64}, station.Options{})
	for _, n := range []int{1, 3} {
		q := turnOf(text(200, int32(n)), n, 20)
		for at := 1; at < 8; at++ {
			f.eng.FailDecode(at, errors.New("the engine stumbled"))
			a := f.ask(t.Context(), q)
			require.Equal(t, wire.CodeEngine, a.err.Code, "decode %d", at)
			require.Equal(t, wire.FrameRestored, a.frames[0])
			f.left()
		}
		q.Sampling.Grammar = `root ::= "\x00"` // no token writes a NUL
		a := f.ask(t.Context(), q)
		require.Equal(t, []any{wire.CodeInvalid, "sampling.grammar"}, []any{a.err.Code, a.err.Param})
		f.left()
		q.Sampling.Grammar = `root ::= (`
		a = f.ask(t.Context(), q)
		require.Equal(t, "sampling.grammar", a.err.Param)
		require.Empty(t, a.frames, "what is wrong with a request is said before anything is restored")
	}
}

// Answers do not depend on what else is served, and nothing is left of what is cut.
func TestTurn_AnswersDoNotDependOnTraffic(t *testing.T) {
	for name, swap := range map[string]int{"room in RAM": 0, "none": 1} {
		t.Run(name, func(t *testing.T) {
			f := start(t, stationtest.Options{Cells: 700, Sequences: 8, ContextLength: 640, BatchSize: 64, EOGEvery: 200},
				station.Options{SwapBytes: swap, KV: kvstore.Options{WarmBytes: 1 << 19}})
			qs, wants := make([]*wire.GenerateRequest, 12), make([]turn, 12)
			for i := range qs {
				qs[i] = turnOf(append(text(150+50*(i%3), int32(i%2)), text(10*i, int32(i))...), 1+i%4, 150)
				qs[i].IgnoreEOG, qs[i].KV.Keep, qs[i].KV.Pin = false, i%2 == 0, i%5 == 0
				wants[i] = f.ask(t.Context(), native(qs[i]))
				require.Nil(t, wants[i].err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var traffic, asked sync.WaitGroup
			for w := range 3 {
				traffic.Go(func() {
					rng := rand.New(rand.NewPCG(9, uint64(w)))
					for ctx.Err() == nil {
						cut, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(20))*time.Millisecond)
						f.ask(cut, qs[rng.IntN(len(qs))])
						cancel()
					}
				})
			}
			for range 3 {
				for i := range qs {
					asked.Go(func() {
						got := f.ask(t.Context(), qs[i])
						require.Nil(t, got.err)
						f.sameAnswers(wants[i].answers, got.answers)
					})
				}
				asked.Wait()
			}
			stop()
			traffic.Wait()
			f.left()
			s, err := f.Stats(t.Context())
			require.NoError(t, err)
			require.NotZero(t, s.Swaps, "the pool was too large to prove anything")
		})
	}
}
