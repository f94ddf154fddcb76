package station_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"thoth/station"
	"thoth/station/client"
	"thoth/station/stationtest"
	"thoth/station/wire"
)

// forkOf is a seeded request of n answers to a prompt of so many tokens.
func forkOf(n, prompt, answer int) *wire.GenerateRequest {
	hot, seed := float32(0.9), uint64(17)
	return &wire.GenerateRequest{Prompt: wire.Prompt{Tokens: text(prompt, 3)}, MaxTokens: answer, IgnoreEOG: true,
		Sampling: wire.Sampling{Temperature: &hot, Seed: &seed, Logprobs: true}, Later: wire.Later{Fork: &n}}
}

// fork gives the answers of a call, or its error.
func (f *fixture) fork(ctx context.Context, q *wire.GenerateRequest) ([]answer, *wire.Error) {
	all := make([]answer, q.Answers())
	s, err := f.Generate(ctx, q)
	for err == nil {
		var fr *wire.Frame
		if fr, err = s.Next(); err == nil {
			a := &all[fr.Choice]
			a.text += fr.Text
			a.tokens = append(a.tokens, fr.Tokens...)
			a.done = fr.Done
		}
	}
	if s != nil {
		_ = s.Close()
	}
	var e *wire.Error
	if err != io.EOF && !errors.As(err, &e) {
		e = &wire.Error{Code: wire.CodeInternal, Message: err.Error()}
	}
	return all, e
}

// apart gives the answers of calls of their own.
func (f *fixture) apart(q *wire.GenerateRequest) []answer {
	f.t.Helper()
	all := make([]answer, q.Answers())
	for i := range all {
		one := *q
		seed := *q.Sampling.Seed + uint64(i)
		one.Fork, one.Sampling.Seed = nil, &seed
		all[i] = collect(f.Generate(f.t.Context(), &one))
		require.Nil(f.t, all[i].err)
	}
	return all
}

func (f *fixture) sameAnswers(want, got []answer) {
	f.t.Helper()
	for i := range want {
		require.Equal(f.t, want[i].tokens, got[i].tokens, "answer %d", i)
		require.Equal(f.t, want[i].text, got[i].text, "answer %d", i)
		require.Equal(f.t, want[i].done.Reason, got[i].done.Reason, "answer %d", i)
	}
}

func evaluated(e *stationtest.Engine) (n int) {
	for _, b := range e.Batches() {
		n += b
	}
	return n
}

// However little room there is, no token is evaluated twice.
func TestFork_WhoWaitsForAPlaceCostsNoSecondPrefill(t *testing.T) {
	const prompt, n, long = 400, 8, 40
	for name, o := range map[string]stationtest.Options{
		"room for all":         {},
		"cells for the prompt": {Cells: 520, ContextLength: 460},
		"one sequence":         {Sequences: 1},
		"two sequences":        {Sequences: 2, Cells: 700},
	} {
		t.Run(name, func(t *testing.T) {
			o.EOGEvery, o.BatchSize = -1, 64
			f := start(t, o, station.Options{})
			q := forkOf(n, prompt, long)
			want := f.apart(q)
			before := evaluated(f.eng)
			got, e := f.fork(t.Context(), q)
			require.Nil(t, e)
			f.sameAnswers(want, got)
			require.Equal(t, prompt+n*(long-1), evaluated(f.eng)-before)
			s, err := f.Stats(t.Context())
			require.NoError(t, err)
			require.Zero(t, s.SwappedBytes+int64(s.CellsUsed)+int64(s.Swapped))
		})
	}
}

// What such a model keeps of a prompt has no positions that could be shared.
func TestFork_IsNotOfferedWhereKVCannotBeCut(t *testing.T) {
	f := start(t, stationtest.Options{CannotMove: "its state has no positions"}, station.Options{})
	h, err := f.Health(t.Context())
	require.NoError(t, err)
	require.Zero(t, h.Fork)
	_, e := f.fork(t.Context(), forkOf(2, 20, 2))
	require.Equal(t, wire.CodeUnsupported, e.Code)
	require.Equal(t, "fork", e.Param)
	require.Contains(t, e.Message, "its state has no positions")
}

func TestFork_AnswersDoNotDependOnTheSwapBudget(t *testing.T) {
	for name, o := range map[string]stationtest.Options{"small pool": {Cells: 260, ContextLength: 250}, "few sequences": {Sequences: 2}} {
		t.Run(name, func(t *testing.T) {
			o.EOGEvery = -1
			var logs bytes.Buffer
			f := start(t, o, station.Options{SwapBytes: 1, Logger: zerolog.New(zerolog.SyncWriter(&logs))})
			q := forkOf(6, 200, 30)
			want := f.apart(q)
			before := evaluated(f.eng)
			got, e := f.fork(t.Context(), q)
			require.Nil(t, e)
			f.sameAnswers(want, got)
			s, err := f.Stats(t.Context())
			require.NoError(t, err)
			require.NotZero(t, s.DroppedTokens)
			require.Equal(t, 200+6*29+int(s.DroppedTokens), evaluated(f.eng)-before, "what is lost is evaluated again once, and shared")
			require.Equal(t, 1, strings.Count(logs.String(), "does not fit the RAM"), "and it is said")
		})
	}
}

func TestFork_AnswersThatEndAtAnyTimeLeaveTheOthersTheirPrompt(t *testing.T) {
	for _, sequences := range []int{1, 2, 3, 32} {
		f := start(t, stationtest.Options{EOGEvery: 3, Sequences: sequences, Cells: 400, ContextLength: 200}, station.Options{})
		for length := range 20 {
			q := forkOf(9, 60+length, 12)
			q.IgnoreEOG = false
			want := f.apart(q)
			for _, width := range []int{0, 1, 4} {
				q.ForkWidth = width
				got, e := f.fork(t.Context(), q)
				require.Nil(t, e)
				f.sameAnswers(want, got)
			}
		}
	}
}

func TestFork_AFailingBranchEndsAll(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	q := forkOf(6, 50, 30)
	hot := float32(2)
	q.Sampling.Temperature, q.Sampling.Grammar = &hot, `root ::= "all is well"`
	for c := 'b'; c <= 'z'; c++ {
		q.Sampling.Grammar += fmt.Sprintf(` | "%c\x00"`, c) // no token writes a NUL
	}
	failed := false
	for seed := range uint64(20) {
		q.Sampling.Seed = &seed
		_, e := f.fork(t.Context(), q)
		if e != nil {
			failed = true
			require.Equal(t, wire.CodeInvalid, e.Code)
			require.Equal(t, "sampling.grammar", e.Param)
		}
	}
	require.True(t, failed)
	q.Sampling.Grammar = ""
	want := f.apart(q)
	got, e := f.fork(t.Context(), q)
	require.Nil(t, e)
	f.sameAnswers(want, got)
}

func TestFork_AFailedDecodeEndsItWhole(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1, Sequences: 4}, station.Options{})
	q := forkOf(6, 50, 10)
	for at := 1; at < 12; at++ {
		f.eng.FailDecode(at, errors.New("the engine stumbled"))
		_, e := f.fork(t.Context(), q)
		require.NotNil(t, e, "decode %d", at)
		require.Equal(t, wire.CodeEngine, e.Code)
		s, err := f.Stats(t.Context())
		require.NoError(t, err)
		require.Zero(t, s.Running+s.Waiting+s.CellsUsed)
		require.Zero(t, s.SwappedBytes)
	}
}

// A fork alone in its batches is aborted when its caller goes, like a call alone.
func TestFork_CancelAloneAbortsTheDecode(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	for decodes := range 5 {
		p := f.eng.Pause()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_, e := f.fork(ctx, forkOf(5, 40, 100))
			require.Equal(t, wire.CodeCancelled, e.Code)
		})
		for range decodes {
			<-p.Entered()
			p.Step()
		}
		<-p.Entered()
		cancel()
		wg.Wait()
		eventually(t, "the decode is aborted", func() bool {
			s, err := f.Stats(t.Context())
			return err == nil && s.Aborts >= uint64(decodes+1) && s.Running+s.Waiting+s.CellsUsed == 0
		})
		p.Resume()
	}
}

func TestFork_EveryAnswersSessionCanBeSavedAndGoneOnWith(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	q := forkOf(7, 150, 20)
	session := f.embed(q.Prompt.Tokens)
	f.load(session, nil)
	f.forward(session)
	s, err := f.DecodeNext(t.Context(), &wire.DecodeRequest{Session: session, Sampling: &q.Sampling, N: 20, IgnoreEOG: true, LeaveLast: true, Later: q.Later})
	require.NoError(t, err)
	defer s.Close()
	tokens := make([][]int32, 7)
	for left := 7; left > 0; {
		fr, err := s.Next()
		require.NoError(t, err)
		tokens[fr.Choice] = append(tokens[fr.Choice], fr.Tokens...)
		if fr.Done == nil {
			continue
		}
		left--
		require.Equal(t, 169, fr.Done.Position)
		a, err := f.KVSave(t.Context(), fr.Done.Session, 169, &wire.KVSaveRequest{Release: true})
		require.NoError(t, err)
		require.True(t, a.Saved, "while the others go on: %s", a.Reason)
	}
	for i, answer := range tokens {
		next := append(append(text(150, 3), answer...), 5)
		s := f.embed(next)
		require.Equal(t, 169, f.load(s, nil).Position, "answer %d", i)
		f.forward(s)
		require.Equal(t, f.fresh(next, 10), f.greedy(s, 10))
	}
}

// The caller may never have heard of them.
func TestFork_WhoGoesAwayLosesTheSessionsOfAnswersThatHaveEnded(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{SessionLease: time.Hour})
	const n = 5
	q := forkOf(4, 50, n)
	trunk := f.embed(q.Prompt.Tokens)
	p := f.eng.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	q.ForkWidth = 1 // one answer after the other
	var s *client.Stream
	var opened sync.WaitGroup
	opened.Go(func() {
		var err error
		s, err = f.DecodeNext(ctx, &wire.DecodeRequest{Session: trunk, Sampling: &q.Sampling, N: n, IgnoreEOG: true, LeaveLast: true, Later: q.Later})
		require.NoError(t, err)
	})
	for range 1 + 2*(n-1) {
		p.Step()
	}
	opened.Wait()
	ended := 0
	for ended < 2 {
		fr, err := s.Next()
		require.NoError(t, err)
		if fr.Done != nil {
			ended++
		}
	}
	cancel()
	_ = s.Close()
	eventually(t, "the trunk's session is left, which has a name its caller knows", func() bool {
		s, err := f.Stats(t.Context())
		return err == nil && s.Sessions == 1 && s.Running+s.Waiting == 0
	})
	p.Resume()
	_, err := f.KVDelete(t.Context(), trunk, &wire.KVDeleteRequest{})
	require.NoError(t, err)
}

// Also of answers that have no place yet, and wait for others to end.
func TestFork_WhatIsDeletedIsNotKeptWhenItsAnswersEnd(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{})
	q := forkOf(4, 200, 300)
	trunk := f.embed(q.Prompt.Tokens)
	f.load(trunk, &wire.KVLoadRequest{Keep: true})
	q.ForkWidth = 1
	p := f.eng.Pause()
	var wg sync.WaitGroup
	deleted := make(chan struct{})
	var sessions []string
	wg.Go(func() {
		s, err := f.DecodeNext(t.Context(), &wire.DecodeRequest{Session: trunk, Sampling: &q.Sampling, N: 300, IgnoreEOG: true, LeaveLast: true, Later: q.Later})
		require.NoError(t, err)
		defer s.Close()
		for {
			fr, err := s.Next()
			if err == io.EOF {
				return
			}
			require.NoError(t, err)
			if fr.Done != nil {
				sessions = append(sessions, fr.Done.Session)
			}
		}
	})
	p.Step() // the prompt
	wg.Go(func() {
		_, err := f.KVDelete(t.Context(), "", &wire.KVDeleteRequest{All: true})
		require.NoError(t, err)
		close(deleted)
	})
	for done := false; !done; {
		select {
		case <-p.Entered():
			p.Step()
		case <-deleted:
			done = true
		}
	}
	p.Resume()
	wg.Wait()
	require.Len(t, sessions, 4)
	for _, s := range sessions {
		_, err := f.KVDelete(t.Context(), s, &wire.KVDeleteRequest{})
		require.NoError(t, err)
	}
	require.Zero(t, f.load(f.embed(q.Prompt.Tokens), nil).Position)
}

// With the last that had it in the pool, what the others share of it is gone where
// RAM has no room. A save must not promise it.
func TestFork_ASaveThatLosesTheKVOnItsWaySaysSo(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{SwapBytes: 1})
	q := forkOf(2, 150, 1)
	trunk := f.embed(q.Prompt.Tokens)
	f.forward(trunk)
	s, err := f.DecodeNext(t.Context(), &wire.DecodeRequest{Session: trunk, Sampling: &q.Sampling, N: 1, IgnoreEOG: true, LeaveLast: true, Later: q.Later})
	require.NoError(t, err)
	defer s.Close()
	branch := ""
	for {
		fr, err := s.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if fr.Done != nil && fr.Choice == 1 {
			branch = fr.Done.Session
		}
	}
	a, err := f.KVSave(t.Context(), trunk, 150, &wire.KVSaveRequest{Scope: "a", Release: true})
	require.NoError(t, err)
	require.True(t, a.Saved, a.Reason)
	a, err = f.KVSave(t.Context(), branch, 150, &wire.KVSaveRequest{Scope: "b", Release: true})
	require.NoError(t, err)
	require.Equal(t, []any{false, 0}, []any{a.Saved, a.Written})
	require.Contains(t, a.Reason, "has left the pool")
	eventually(t, "what is promised is copied", func() bool {
		s, err := f.Stats(t.Context())
		return err == nil && s.CellsUsed == 0
	})
}

// A trunk that forks again is at another length then.
func TestFork_AnEarlierForksAnswersGoOnAfterAnother(t *testing.T) {
	for name, o := range map[string]station.Options{"room in RAM": {}, "none": {SwapBytes: 1}} {
		t.Run(name, func(t *testing.T) {
			f := start(t, stationtest.Options{EOGEvery: -1}, o)
			q := forkOf(2, 150, 1)
			trunk, branch := f.embed(q.Prompt.Tokens), ""
			f.forward(trunk)
			var first int32
			for _, n := range []int{1, 4} {
				s, err := f.DecodeNext(t.Context(), &wire.DecodeRequest{Session: trunk, Sampling: &q.Sampling, N: n, IgnoreEOG: true, LeaveLast: true, Later: q.Later})
				require.NoError(t, err)
				for {
					fr, err := s.Next()
					if err == io.EOF {
						break
					}
					require.NoError(t, err)
					switch {
					case fr.Choice == 0 || branch != "":
					case fr.Done != nil:
						branch = fr.Done.Session
					default:
						first = fr.Tokens[0]
					}
				}
				require.NoError(t, s.Close())
			}
			got := collect(f.DecodeNext(t.Context(), &wire.DecodeRequest{Session: branch, Sampling: &wire.Sampling{Temperature: new(float32)}, N: 5, IgnoreEOG: true}))
			require.Nil(t, got.err)
			require.Equal(t, f.fresh(append(text(150, 3), first), 5), got.tokens)
		})
	}
}

func TestFork_SessionsThatAreTooManyEndWithTheCall(t *testing.T) {
	f := start(t, stationtest.Options{EOGEvery: -1}, station.Options{MaxSessions: 3})
	q := forkOf(5, 50, 8)
	want := f.apart(q)
	s, err := f.DecodeNext(t.Context(), &wire.DecodeRequest{Session: f.embed(q.Prompt.Tokens), Sampling: &q.Sampling, N: 8, IgnoreEOG: true, Later: q.Later})
	require.NoError(t, err)
	defer s.Close()
	sessions, got := 0, make([]answer, 5)
	for {
		fr, err := s.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		got[fr.Choice].tokens = append(got[fr.Choice].tokens, fr.Tokens...)
		got[fr.Choice].text += fr.Text
		if got[fr.Choice].done = fr.Done; fr.Done != nil && fr.Done.Session != "" {
			sessions++
			require.Equal(t, 58, fr.Done.Position)
		}
	}
	require.Equal(t, 3, sessions)
	f.sameAnswers(want, got)
}
