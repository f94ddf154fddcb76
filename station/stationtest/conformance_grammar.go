package stationtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

// The grammars here are alternatives of strings: what the fake knows of GBNF.

// grammar proves that a grammar binds under every way to sample, lives through
// the pieces of a staged answer, and is refused by name when it is none.
func (s *suite) grammar(t *testing.T) {
	const rule = `root ::= "yes" | "no"`
	ways := map[string]wire.Sampling{
		"greedy":     {Temperature: ptr[float32](0)},
		"warm":       {Temperature: ptr[float32](1.5), Seed: ptr(uint64(3))},
		"top_k":      {Temperature: ptr[float32](1), TopK: ptr(40)},
		"one":        {Temperature: ptr[float32](1), TopK: ptr(1)},
		"top_p":      {Temperature: ptr[float32](0.8), TopP: ptr[float32](0.95)},
		"min_p":      {Temperature: ptr[float32](1), MinP: ptr[float32](0.2)},
		"typical":    {Temperature: ptr[float32](1), TypicalP: ptr[float32](0.5)},
		"penalties":  {Temperature: ptr[float32](0), RepeatPenalty: ptr[float32](1.5), PresencePenalty: ptr[float32](2)},
		"logit_bias": {Temperature: ptr[float32](0), LogitBias: map[int32]float32{s.model.Special.EOS: 100, s.model.Special.EOG[0]: 100}},
	}
	for name, sm := range ways {
		t.Run(name, func(t *testing.T) {
			for _, ignore := range []bool{false, true} {
				r := s.greedy(32)
				r.Sampling, r.IgnoreEOG = sm, ignore
				r.Sampling.Grammar = rule
				a := s.ask(t, r)
				require.Contains(t, []string{"yes", "no"}, a.text)
				require.Equal(t, wire.ReasonEOG, a.done.Reason, "complete: it ends, also where ends are ignored")
			}
		})
	}
	t.Run("cut by the token cap", func(t *testing.T) {
		r := s.greedy(1)
		r.Sampling.Grammar = `root ::= "a long sentence of which one token is a part"`
		a := s.ask(t, r)
		require.Equal(t, wire.ReasonLength, a.done.Reason)
		require.NotEmpty(t, a.text)
		require.True(t, strings.HasPrefix(r.Sampling.Grammar[len(`root ::= "`):], a.text))
	})
	t.Run("staged, in pieces", func(t *testing.T) {
		const text = "one two three four five six"
		e := s.stage(t, wire.Prompt{Text: s.o.Prompt})
		q := &wire.DecodeRequest{Session: e.Session, N: 1, Sampling: &wire.Sampling{Temperature: ptr[float32](1.5), Grammar: `root ::= "` + text + `"`}}
		got := ""
		for {
			a := s.decode(t, q)
			got += a.text
			require.True(t, strings.HasPrefix(text, got), "%q", got)
			if a.done.Reason == wire.ReasonEOG {
				break
			}
			q.Sampling = nil
		}
		require.Equal(t, text, got)
		s.release(t, e.Session)
	})
	t.Run("none", func(t *testing.T) {
		for name, g := range map[string]string{"unclosed": `root ::= "unclosed`, "words": "hello", "no root": `start ::= "a"`} {
			r := s.greedy(8)
			r.Sampling.Grammar = g
			_, err := s.c.Generate(s.ctx(t), r)
			require.Equal(t, "sampling.grammar", requireCode(t, err, wire.CodeInvalid).Param, name)

			e := s.stage(t, wire.Prompt{Text: s.o.Prompt})
			_, err = s.c.DecodeNext(s.ctx(t), &wire.DecodeRequest{Session: e.Session, N: 8, Sampling: &r.Sampling})
			require.Equal(t, "sampling.grammar", requireCode(t, err, wire.CodeInvalid).Param, name)
			s.release(t, e.Session)
		}
	})
}

// controlText proves that control tokens are written when asked for, and that a
// grammar counts exactly what is written. It needs one that ends no turn: BOS.
func (s *suite) controlText(t *testing.T) {
	control, text := s.model.Special.BOS, s.model.Special.BOSText
	if control < 0 || text == "" {
		t.Skip("the model has no begin-of-sequence token")
	}
	for _, eog := range s.model.Special.EOG {
		require.NotEqual(t, eog, control)
	}
	forced := func(n int) *wire.GenerateRequest {
		r := s.greedy(n)
		r.Sampling.LogitBias = map[int32]float32{control: 100}
		return r
	}
	r := forced(3)
	r.Sampling.Logprobs = true
	a := s.ask(t, r)
	require.Equal(t, []int32{control, control, control}, a.tokens)
	require.Empty(t, a.text, "left out unless asked for")

	r.ControlText = true
	b := s.ask(t, r)
	require.Equal(t, a.tokens, b.tokens)
	require.Equal(t, strings.Repeat(text, 3), b.text)
	require.Len(t, b.logprobs, 3)

	t.Run("stop strings see it", func(t *testing.T) {
		q := forced(5)
		q.ControlText, q.Stop = true, []string{text[len(text)-3:] + text[:3]}
		c := s.ask(t, q)
		require.Equal(t, text[:len(text)-3], c.text)
		require.Equal(t, q.Stop[0], c.done.StopString)
	})
	t.Run("ends are never written", func(t *testing.T) {
		q := s.greedy(5)
		q.ControlText, q.Sampling.LogitBias = true, map[int32]float32{s.model.Special.EOS: 100}
		c := s.ask(t, q)
		require.Empty(t, c.text)
		require.Equal(t, wire.ReasonEOG, c.done.Reason)
	})
	t.Run("staged, in pieces", func(t *testing.T) {
		e := s.stage(t, wire.Prompt{Text: s.o.Prompt})
		q := &wire.DecodeRequest{Session: e.Session, N: 1, Sampling: &r.Sampling, ControlText: true}
		require.Equal(t, text, s.decode(t, q).text)
		q.Sampling, q.ControlText = nil, false
		require.Equal(t, text, s.decode(t, q).text, "the turn was begun so")
		s.release(t, e.Session)
	})
	t.Run("a grammar counts what is written", func(t *testing.T) {
		q := forced(32)
		q.Sampling.Grammar = `root ::= "` + text + `yes"`
		c := s.ask(t, q)
		require.Equal(t, text+"yes", c.text)
		require.NotContains(t, c.tokens, control, "what writes nothing satisfies nothing")

		q.ControlText = true
		c = s.ask(t, q)
		require.Equal(t, text+"yes", c.text)
		require.Equal(t, control, c.tokens[0])
	})
}
