package stationtest

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"thoth/station/engine"
)

func greedy() engine.SamplerParams {
	return engine.SamplerParams{TopP: 1, TypicalP: 1, RepeatPenalty: 1}
}

// run evaluates tokens from position pos in chunks and samples n tokens.
func run(t *testing.T, e *fake, s engine.SeqID, pos int, prompt []engine.Token, n, chunk int) []engine.Token {
	t.Helper()
	var b engine.Batch
	row := 0
	for len(prompt) > 0 {
		b.Reset()
		k := min(chunk, len(prompt))
		for i, tok := range prompt[:k] {
			row = b.Add(tok, pos, s, i == k-1)
			pos++
		}
		require.NoError(t, e.Decode(&b))
		prompt = prompt[k:]
	}
	var out []engine.Token
	for range n {
		var one [1]engine.Sampled
		require.NoError(t, e.Sample([]engine.SampleRequest{{Row: row, Sampler: e.sampler}}, one[:]))
		out = append(out, one[0].Token)
		b.Reset()
		row = b.Add(one[0].Token, pos, s, true)
		pos++
		require.NoError(t, e.Decode(&b))
	}
	return out
}

// fake is a fake with one sampler.
type fake struct {
	*Engine
	sampler engine.Sampler
}

func start(t *testing.T, o Options, p engine.SamplerParams) *fake {
	t.Helper()
	e := NewEngine(o)
	s, err := e.NewSampler(p, nil)
	require.NoError(t, err)
	return &fake{e, s}
}

func tokens(t *testing.T, e engine.Engine, text string, special bool) []engine.Token {
	t.Helper()
	out, err := e.Tokenize(text, special)
	require.NoError(t, err)
	return out
}

func text(e engine.Engine, toks []engine.Token) string {
	var b []byte
	for _, t := range toks {
		b = append(b, e.Piece(t, false)...)
	}
	return string(b)
}

func TestVocabulary_RoundTripsAnyBytes(t *testing.T) {
	e := NewEngine(Options{})
	for _, s := range []string{"", "hello world", "é😀日本\n\n  the", "\xff\xfe\x80 ", textIMEnd, strings.Repeat("a", 1000)} {
		require.Equal(t, s, text(e, tokens(t, e, s, false)))
	}
	require.Greater(t, len(tokens(t, e, "😀", false)), 1, "an emoji is split between tokens")
	require.Equal(t, []engine.Token{e.Info().EOT}, tokens(t, e, textIMEnd, true))
	require.NotContains(t, tokens(t, e, textIMEnd, false), e.Info().EOT)
	require.Empty(t, e.Piece(e.Info().EOT, false))
	require.Equal(t, textIMEnd, string(e.Piece(e.Info().EOT, true)))
}

func TestEngine_AnswersTheSameInAnyChunking(t *testing.T) {
	var want []engine.Token
	for _, chunk := range []int{1, 3, 7, 64} {
		e := start(t, Options{EOGEvery: -1}, greedy())
		got := run(t, e, 2, 0, tokens(t, e, "Tell me about rivers.", false), 60, chunk)
		if want == nil {
			want = got
		}
		require.Equal(t, want, got)
		require.Empty(t, e.Violations())
		written := text(e, got)
		for n := 1; n < utf8.UTFMax && !utf8.ValidString(written); n++ { // the last may be cut
			written = text(e, got)[:len(text(e, got))-n]
		}
		require.True(t, utf8.ValidString(written), "the model writes whole characters")
	}
}

func TestEngine_SaysWhatItIsTold(t *testing.T) {
	const answer = "héllo 😀 wörld\n\n日本 say yes"
	for name, prompt := range map[string]string{
		"plain": Say(answer),
		"chat":  textIMStart + "user\nsay:" + answer + textIMEnd + "\n" + textIMStart + "assistant\n",
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, Options{}, greedy())
			want := tokens(t, e, answer, false)
			got := run(t, e, 0, 0, tokens(t, e, prompt, true), len(want)+1, 64)
			require.Equal(t, answer, text(e, got))
			require.Equal(t, e.Info().EOT, got[len(want)])
		})
	}
}

func TestEngine_SeededDrawsRepeat(t *testing.T) {
	p := greedy()
	p.Temperature, p.TopK, p.TopP, p.MinP, p.TypicalP = 0.8, 40, 0.95, 0.01, 0.99
	draw := func(seed uint64) []engine.Token {
		p.Seed = seed
		e := start(t, Options{EOGEvery: -1}, p)
		return run(t, e, 0, 0, tokens(t, e, "rivers", false), 30, 64)
	}
	require.Equal(t, draw(1), draw(1))
	require.NotEqual(t, draw(1), draw(2))
}

func TestEngine_GrammarBinds(t *testing.T) {
	p := greedy()
	p.Grammar = `root ::= "yes" | "no"`
	e := start(t, Options{}, p)
	got := run(t, e, 0, 0, tokens(t, e, "rivers?", false), 4, 64)
	require.Contains(t, []string{"yes", "no"}, text(e, got))
	for _, g := range []string{"junk", "root ::=", `root ::= "a" |`, `root ::= "a" "b"`, `other ::= "a"`} {
		_, err := e.NewSampler(engine.SamplerParams{Grammar: g}, nil)
		require.ErrorIs(t, err, engine.ErrGrammar, g)
	}
}

func TestEngine_LogprobsAreADistribution(t *testing.T) {
	e := start(t, Options{}, greedy())
	run(t, e, 0, 0, tokens(t, e, "rivers", false), 0, 64)
	lp, err := e.Logprobs(len(tokens(t, e, "rivers", false))-1, nil, 0, 20)
	require.NoError(t, err)
	require.Len(t, lp.Top, 20)
	last := float32(0)
	for _, c := range lp.Top {
		require.LessOrEqual(t, c.Logprob, last)
		last = c.Logprob
	}
}

func TestEngine_HeldRowOutlivesTheNextDecode(t *testing.T) {
	e := start(t, Options{}, greedy())
	run(t, e, 0, 0, []engine.Token{1, 2, 3}, 0, 3)
	want, err := e.Logprobs(2, nil, 7, 1)
	require.NoError(t, err)
	h, err := e.Engine.Hold(2)
	require.NoError(t, err)
	run(t, e, 1, 0, []engine.Token{9, 8, 7}, 0, 3)
	got, err := e.Logprobs(-1, h, 7, 1)
	require.NoError(t, err)
	require.Equal(t, want, got)
	h.Free()
	_, err = e.Logprobs(-1, h, 7, 1)
	require.Error(t, err)
}

func TestEngine_AnswerSurvivesForkSaveResetRestore(t *testing.T) {
	prompt := []engine.Token{10, 20, 30, 40, 50}
	o := Options{EOGEvery: -1}
	plain := start(t, o, greedy())
	want := run(t, plain, 0, 0, prompt, 20, 8)

	e := start(t, o, greedy())
	run(t, e, 3, 0, prompt, 0, 2)
	run(t, e, 4, 0, []engine.Token{1, 2}, 0, 2)
	e.Fork(3, 5, 4)
	e.Retire(3)
	live, dead := e.Cells()
	require.Equal(t, []int{6, 1}, []int{live, dead}, "the fifth cell is ballast, four are shared, two are another's")

	st, err := e.Save(5, 0, 4)
	require.NoError(t, err)
	require.Equal(t, 4, st.Len())
	e.Reset()
	require.NoError(t, e.Restore(6, st))
	st.Free()
	require.Equal(t, want, run(t, e, 6, 4, prompt[4:], 20, 8))
	require.Empty(t, e.Violations())
	e.sampler.Free()
	require.Empty(t, e.Leaks())
}

func TestEngine_FullPoolEvaluatesNothing(t *testing.T) {
	e := start(t, Options{Cells: 4, ContextLength: 4}, greedy())
	run(t, e, 0, 0, []engine.Token{1, 2, 3}, 0, 3)
	e.Retire(0)
	b := &engine.Batch{}
	b.Add(1, 0, 1, false)
	b.Add(2, 1, 1, true)
	require.ErrorIs(t, e.Decode(b), engine.ErrPoolFull, "retired cells are not used again")
	e.Reset()
	require.NoError(t, e.Decode(b))
	e.FailDecode(2, engine.ErrPoolFull)
	run(t, e, 1, 2, []engine.Token{3}, 0, 1)
	b.Reset()
	b.Add(4, 3, 1, true)
	require.ErrorIs(t, e.Decode(b), engine.ErrPoolFull)
	require.NoError(t, e.Decode(b))
	require.Empty(t, e.Violations())
}

func TestEngine_AbortReachesAPausedDecode(t *testing.T) {
	e := start(t, Options{}, greedy())
	p := e.Pause()
	done := make(chan error)
	b := &engine.Batch{}
	b.Add(1, 0, 0, true)
	go func() { done <- e.Decode(b) }()
	require.Equal(t, 1, <-p.Entered())
	e.Abort()
	require.ErrorIs(t, <-done, engine.ErrAborted)
	require.ErrorIs(t, e.Decode(b), engine.ErrAborted, "in force until cleared")
	e.ClearAbort()
	go func() { done <- e.Decode(b) }()
	p.Step()
	require.NoError(t, <-done, "no token of the aborted batches is left")
	p.Resume()
	require.Empty(t, e.Violations())
}

func TestEngine_LoadWaitsAndFailsOnOrder(t *testing.T) {
	gate := make(chan struct{})
	e := NewEngine(Options{LoadGate: gate})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Load(ctx, func(float32) {})
	require.Error(t, err)
	close(gate)
	var last float32
	got, err := e.Load(t.Context(), func(p float32) { last = p })
	require.NoError(t, err)
	require.Same(t, e, got)
	require.Equal(t, float32(1), last)
	want := &engine.LoadError{Kind: engine.LoadTruncated, Msg: "cut"}
	_, err = NewEngine(Options{LoadError: want}).Load(t.Context(), func(float32) {})
	require.Equal(t, want, err)
}

// Each case breaks one rule; a rule whose breach goes unseen proves nothing
// about the station.
func TestEngine_SeesBrokenRules(t *testing.T) {
	decode := func(e *fake, tok engine.Token, pos int, s engine.SeqID) {
		b := &engine.Batch{}
		b.Add(tok, pos, s, true)
		_ = e.Decode(b)
	}
	cases := map[string]func(e *fake){
		"decode of 0 tokens": func(e *fake) { _ = e.Decode(&engine.Batch{}) },
		"decode of 3 tokens": func(e *fake) {
			b := engine.Batch{}
			b.Add(1, 0, 0, false)
			b.Add(1, 1, 0, false)
			b.Add(1, 2, 0, false)
			_ = e.Decode(&b)
		},
		"slices differ":                  func(e *fake) { _ = e.Decode(&engine.Batch{Tokens: []engine.Token{1}}) },
		"decode of sequence 4":           func(e *fake) { decode(e, 1, 0, 4) },
		"decode of token 100000":         func(e *fake) { decode(e, 100000, 0, 0) },
		"context_length is 8":            func(e *fake) { decode(e, 1, 8, 0) },
		"the pool holds 0 of its tokens": func(e *fake) { decode(e, 1, 5, 0) },
		"the pool holds 1 of its tokens": func(e *fake) { decode(e, 1, 0, 0); decode(e, 1, 0, 0) },
		"not retired after its decode":   func(e *fake) { e.FailDecode(1, engine.ErrDecode); decode(e, 1, 0, 0); decode(e, 1, 0, 0) },
		"use of row 3":                   func(e *fake) { _, _ = e.Logprobs(3, nil, 0, 0) },
		"sampler was freed twice":        func(e *fake) { e.sampler.Free(); e.sampler.Free() },
		"freed or foreign sampler": func(e *fake) {
			decode(e, 1, 0, 0)
			e.sampler.Free()
			_ = e.Sample([]engine.SampleRequest{{Sampler: e.sampler}}, make([]engine.Sampled, 1))
		},
		"one sampler serves two rows": func(e *fake) {
			decode(e, 1, 0, 0)
			r := engine.SampleRequest{Sampler: e.sampler}
			_ = e.Sample([]engine.SampleRequest{r, r}, make([]engine.Sampled, 2))
		},
		"Save of sequence 1":              func(e *fake) { _, _ = e.Save(1, 0, 1) },
		"Restore of position 1 into":      func(e *fake) { decode(e, 1, 0, 0); decode(e, 1, 1, 0); st, _ := e.Save(0, 1, 2); _ = e.Restore(1, st) },
		"freed or foreign state":          func(e *fake) { decode(e, 1, 0, 0); st, _ := e.Save(0, 0, 1); st.Free(); _ = e.Restore(1, st) },
		"Fork to sequence 1, which holds": func(e *fake) { decode(e, 1, 0, 0); decode(e, 1, 0, 1); e.Fork(0, 1, 1) },
		"Fork of 2 tokens":                func(e *fake) { decode(e, 1, 0, 0); e.Fork(0, 1, 2) },
		"Retire of sequence -1":           func(e *fake) { e.Retire(-1) },
		"was called after Close":          func(e *fake) { e.Close(); e.Reset() },
		"Decode ran": func(e *fake) {
			p := e.Pause()
			done := make(chan struct{})
			go func() { decode(e, 1, 0, 0); close(done) }()
			<-p.Entered()
			e.Retire(1)
			p.Resume()
			<-done
		},
	}
	for want, breach := range cases {
		t.Run(want, func(t *testing.T) {
			e := start(t, Options{Sequences: 4, ContextLength: 8, BatchSize: 2}, greedy())
			breach(e)
			require.Contains(t, strings.Join(e.Violations(), "\n"), want)
		})
	}
}

func TestEngine_CountsLeaks(t *testing.T) {
	e := start(t, Options{}, greedy())
	run(t, e, 0, 0, []engine.Token{1}, 0, 1)
	st, err := e.Save(0, 0, 1)
	require.NoError(t, err)
	h, err := e.Engine.Hold(0)
	require.NoError(t, err)
	require.Equal(t, []string{"held row not freed: 1", "sampler not freed: 1", "state not freed: 1"}, e.Leaks())
	st.Free()
	h.Free()
	e.sampler.Free()
	require.Empty(t, e.Leaks())
}
