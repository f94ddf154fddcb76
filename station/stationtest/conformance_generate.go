package stationtest

import (
	"sort"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

func (s *suite) info(t *testing.T) {
	h := s.health
	require.Equal(t, wire.StatusOK, h.Status)
	require.Equal(t, wire.Version, h.Wire)
	require.NotNil(t, h.KVSession, "absent would call for the probe of older stations")
	require.NotNil(t, h.DecodeNext)
	require.True(t, *h.DecodeNext)
	if !*h.KVSession {
		require.NotEmpty(t, h.KVReason)
	}
	require.NotEmpty(t, h.EngineABI)
	require.NotEmpty(t, h.Backend.Selected)
	require.NotEmpty(t, h.Backend.Device)
	require.Positive(t, h.Backend.Threads)
	require.Equal(t, float32(1), h.LoadProgress)
	require.Positive(t, h.ContextLength)
	require.GreaterOrEqual(t, h.Cells, h.ContextLength)
	require.Positive(t, h.Sequences)

	m := s.model
	require.NotEmpty(t, m.Name)
	require.NotContains(t, m.File, "/", "no path leaves the station")
	require.NotEmpty(t, m.Architecture)
	require.Greater(t, m.Vocabulary, 256)
	require.Positive(t, m.KVBytesToken)
	require.NotEmpty(t, m.Special.EOG)
	require.True(t, sort.SliceIsSorted(m.Special.EOG, func(i, j int) bool { return m.Special.EOG[i] < m.Special.EOG[j] }))

	before := s.stats(t)
	a := s.ask(t, s.greedy(4))
	after := s.stats(t)
	require.Equal(t, wire.StatusOK, after.Status)
	require.Equal(t, before.Requests+1, after.Requests)
	require.Equal(t, before.DecodedTokens+4, after.DecodedTokens)
	require.Equal(t, before.PromptTokens+uint64(a.done.PromptTokens), after.PromptTokens)
	require.Greater(t, after.Steps, before.Steps)
	require.Equal(t, h.Cells, after.Cells)
}

func (s *suite) tokens(t *testing.T) {
	for _, text := range []string{"hello world", " leading and  double blanks ", "é 😀 日本 \n\n\ttab", "<|im_end|> in text", "0000 1000 10"} {
		r, err := s.c.Tokenize(s.ctx(t), &wire.TokenizeRequest{Prompt: wire.Prompt{Text: text, AddBOS: ptr(false)}, Pieces: true})
		require.NoError(t, err)
		require.Len(t, r.Pieces, len(r.Tokens))
		var joined []byte
		for _, p := range r.Pieces {
			joined = append(joined, p...)
		}
		require.Equal(t, text, string(joined))
		d, err := s.c.Detokenize(s.ctx(t), &wire.DetokenizeRequest{Tokens: r.Tokens})
		require.NoError(t, err)
		require.Equal(t, text, d.Text)
	}

	t.Run("begin of sequence", func(t *testing.T) {
		plain := s.tokenize(t, wire.Prompt{Text: "hello", AddBOS: ptr(false)})
		with := s.tokenize(t, wire.Prompt{Text: "hello"})
		if s.model.Special.AddBOS {
			require.Equal(t, append([]int32{s.model.Special.BOS}, plain...), with)
			again := s.tokenize(t, wire.Prompt{Segments: []wire.Segment{{Text: s.model.Special.BOSText, Special: true}, {Text: "hello"}}})
			require.Equal(t, with, again, "not a second one")
		} else {
			require.Equal(t, plain, with)
		}
		require.Equal(t, plain, s.tokenize(t, wire.Prompt{Tokens: plain}), "token prompts are taken as they are")
	})

	t.Run("text never becomes a control token", func(t *testing.T) {
		eos := s.model.Special.EOSText
		require.NotEmpty(t, eos)
		no := ptr(false)
		special := s.tokenize(t, wire.Prompt{Segments: []wire.Segment{{Text: eos, Special: true}}, AddBOS: no})
		require.Equal(t, []int32{s.model.Special.EOS}, special)
		for _, p := range []wire.Prompt{{Text: eos, AddBOS: no}, {Segments: []wire.Segment{{Text: eos}}, AddBOS: no}} {
			plain := s.tokenize(t, p)
			require.NotContains(t, plain, s.model.Special.EOS)
			d, err := s.c.Detokenize(s.ctx(t), &wire.DetokenizeRequest{Tokens: plain})
			require.NoError(t, err)
			require.Equal(t, eos, d.Text)
		}
		// Half a marker in a plain segment and half in a special one: no marker.
		halves := s.tokenize(t, wire.Prompt{Segments: []wire.Segment{{Text: eos[:4]}, {Text: eos[4:], Special: true}}, AddBOS: no})
		require.NotContains(t, halves, s.model.Special.EOS)

		d, err := s.c.Detokenize(s.ctx(t), &wire.DetokenizeRequest{Tokens: special})
		require.NoError(t, err)
		require.Empty(t, d.Text)
		d, err = s.c.Detokenize(s.ctx(t), &wire.DetokenizeRequest{Tokens: special, Special: true})
		require.NoError(t, err)
		require.Equal(t, eos, d.Text)
	})
}

func (s *suite) generate(t *testing.T) {
	prompt := s.tokenize(t, wire.Prompt{Text: s.o.Prompt})
	a := s.ask(t, s.greedy(s.o.AnswerTokens))
	require.Equal(t, wire.ReasonLength, a.done.Reason, "the prompt of this test must have an answer that long")
	require.Len(t, a.tokens, s.o.AnswerTokens)
	require.Equal(t, len(prompt), a.done.PromptTokens)
	require.Empty(t, a.logprobs, "nobody asked for log-probabilities")
	require.Empty(t, a.progress, "nobody asked for progress")
	d, err := s.c.Detokenize(s.ctx(t), &wire.DetokenizeRequest{Tokens: a.tokens})
	require.NoError(t, err)
	require.Equal(t, withoutCut(d.Text), withoutCut(a.text))

	t.Run("repeats", func(t *testing.T) {
		require.Equal(t, a.tokens, s.ask(t, s.greedy(s.o.AnswerTokens)).tokens)
	})
	t.Run("shorter is a prefix", func(t *testing.T) {
		for _, n := range []int{1, 2, 7} {
			b := s.ask(t, s.greedy(n))
			require.Equal(t, a.tokens[:n], b.tokens)
			require.Equal(t, wire.ReasonLength, b.done.Reason)
		}
	})
	t.Run("prompt as tokens and as segments", func(t *testing.T) {
		r := s.greedy(s.o.AnswerTokens)
		r.Prompt = wire.Prompt{Tokens: prompt}
		require.Equal(t, a.tokens, s.ask(t, r).tokens)
		r.Prompt = wire.Prompt{Segments: []wire.Segment{{Text: s.o.Prompt}}}
		require.Equal(t, a.tokens, s.ask(t, r).tokens)
	})
	t.Run("progress", func(t *testing.T) {
		r := s.greedy(2)
		r.Progress = true
		b := s.ask(t, r)
		require.NotEmpty(t, b.progress)
		last := b.progress[len(b.progress)-1]
		require.Equal(t, wire.Progress{Position: len(prompt), Total: len(prompt)}, last)
	})
	t.Run("ends by itself, or not", func(t *testing.T) {
		r := &wire.GenerateRequest{Prompt: *s.o.Ends, Sampling: wire.Sampling{Temperature: ptr[float32](0)}, MaxTokens: 256}
		b := s.ask(t, r)
		require.Equal(t, wire.ReasonEOG, b.done.Reason)
		require.Less(t, len(b.tokens), 256)
		r.IgnoreEOG, r.MaxTokens = true, len(b.tokens)+5
		on := s.ask(t, r)
		require.Equal(t, wire.ReasonLength, on.done.Reason)
		require.Len(t, on.tokens, r.MaxTokens)
		require.Equal(t, b.tokens, on.tokens[:len(b.tokens)])
	})
}

func (s *suite) sampling(t *testing.T) {
	warm := wire.Sampling{Temperature: ptr[float32](0.9), TopK: ptr(50), TopP: ptr[float32](0.95), MinP: ptr[float32](0.01), Seed: ptr(uint64(7)),
		RepeatPenalty: ptr[float32](1.1), FrequencyPenalty: ptr[float32](0.2), PresencePenalty: ptr[float32](0.2)}
	ask := func(sm wire.Sampling) *answer {
		r := s.greedy(s.o.AnswerTokens)
		r.Sampling, r.IgnoreEOG = sm, true
		return s.ask(t, r)
	}
	a := ask(warm)
	require.Equal(t, uint64(7), a.done.Seed, "the done frame tells the seed")
	require.Equal(t, a.tokens, ask(warm).tokens, "a seed repeats")

	other := warm
	other.Seed = ptr(uint64(8))
	require.NotEqual(t, a.tokens, ask(other).tokens)

	t.Run("without a seed the seed used is told", func(t *testing.T) {
		free := warm
		free.Seed = nil
		b := ask(free)
		free.Seed = &b.done.Seed
		require.Equal(t, b.tokens, ask(free).tokens)
		require.NotEqual(t, b.done.Seed, ask(wire.Sampling{}).done.Seed)
	})
	t.Run("large seeds are exact", func(t *testing.T) {
		for _, seed := range []uint64{0, 9007199254740993, 18446744073709551615} {
			r := warm
			r.Seed = &seed
			require.Equal(t, seed, ask(r).done.Seed)
		}
	})

	cold := s.ask(t, s.greedy(s.o.AnswerTokens))
	t.Run("what amounts to greedy is greedy", func(t *testing.T) {
		for name, sm := range map[string]wire.Sampling{
			"top_k 1": {Temperature: ptr[float32](1.5), TopK: ptr(1)}, "top_p 0": {Temperature: ptr[float32](1.5), TopP: ptr[float32](0)},
			"min_p 1": {Temperature: ptr[float32](1.5), MinP: ptr[float32](1)},
		} {
			r := s.greedy(s.o.AnswerTokens)
			r.Sampling = sm
			require.Equal(t, cold.tokens, s.ask(t, r).tokens, name)
		}
	})
	t.Run("logit bias", func(t *testing.T) {
		r := s.greedy(1)
		r.Sampling.LogitBias = map[int32]float32{cold.tokens[0]: -100}
		b := s.ask(t, r)
		require.NotEqual(t, cold.tokens[0], b.tokens[0])
		r.Sampling.LogitBias = map[int32]float32{cold.tokens[0]: -100, cold.tokens[1]: 100}
		require.Equal(t, cold.tokens[1:2], s.ask(t, r).tokens)
	})
}

func (s *suite) logprobs(t *testing.T) {
	plain := s.ask(t, s.greedy(s.o.AnswerTokens))
	r := s.greedy(s.o.AnswerTokens)
	r.Sampling.Logprobs, r.Sampling.TopLogprobs = true, 5
	a := s.ask(t, r)
	require.Equal(t, plain.tokens, a.tokens, "asking changes nothing")
	require.Len(t, a.logprobs, len(a.tokens))
	var text []byte
	for i, lp := range a.logprobs {
		require.Equal(t, a.tokens[i], lp.ID)
		require.Len(t, lp.Top, 5)
		require.Equal(t, lp.ID, lp.Top[0].ID, "greedy takes the most likely")
		require.Equal(t, lp.Logprob, lp.Top[0].Logprob)
		last := float32(0)
		for _, alt := range lp.Top {
			require.LessOrEqual(t, alt.Logprob, last, "at most 0, most likely first")
			last = alt.Logprob
		}
		text = append(text, lp.Bytes...)
	}
	require.Equal(t, withoutCut(a.text), withoutCut(strings.ToValidUTF8(string(text), "\ufffd")))

	t.Run("of the model, not of the sampling", func(t *testing.T) {
		q := s.greedy(1)
		q.Sampling = wire.Sampling{Temperature: ptr[float32](0), Logprobs: true, LogitBias: map[int32]float32{a.tokens[1]: 100}}
		b := s.ask(t, q)
		require.Equal(t, a.tokens[1], b.tokens[0])
		require.Len(t, b.logprobs, 1)
		require.Empty(t, b.logprobs[0].Top)
		require.Less(t, b.logprobs[0].Logprob, a.logprobs[0].Logprob, "the forced token is not the likely one")
	})
	t.Run("none for tokens that a stop string swallowed", func(t *testing.T) {
		q := s.greedy(s.o.AnswerTokens)
		q.Sampling.Logprobs = true
		q.Stop = []string{stopAt(a.text, utf8.RuneCountInString(a.text)/2, 4)}
		b := s.ask(t, q)
		var shown []byte
		for _, lp := range b.logprobs {
			shown = append(shown, lp.Bytes...)
		}
		require.True(t, strings.HasPrefix(a.text, b.text))
		require.LessOrEqual(t, len(b.logprobs), len(b.tokens))
		require.Contains(t, a.text, strings.ToValidUTF8(string(shown), ""), "only of the answer")
	})
}

// withoutCut drops what stands for a character cut by the token cap.
func withoutCut(text string) string { return strings.TrimRight(text, "\ufffd") }

// stopAt is up to n characters of text from character at.
func stopAt(text string, at, n int) string {
	r := []rune(text)
	at = min(at, len(r)-1)
	return string(r[at:min(at+n, len(r))])
}

func (s *suite) stop(t *testing.T) {
	r := s.greedy(s.o.AnswerTokens)
	whole := s.ask(t, r).text
	runes := utf8.RuneCountInString(whole)
	for _, n := range []int{1, 2, 6} {
		for at := 0; at < runes; at += s.o.StopStride {
			stop := stopAt(whole, at, n)
			if strings.ContainsRune(stop, utf8.RuneError) {
				continue
			}
			r.Stop = []string{stop}
			a := s.ask(t, r)
			want := whole[:strings.Index(whole, stop)]
			require.Equal(t, want, a.text, "stop %q", stop)
			require.Equal(t, wire.ReasonStop, a.done.Reason)
			require.Equal(t, stop, a.done.StopString)
		}
	}
	t.Run("the earliest of several wins", func(t *testing.T) {
		late, early := stopAt(whole, runes*2/3, 5), stopAt(whole, runes/3, 5)
		for _, stops := range [][]string{{late, early}, {early, late}, {"never in it \x01", late, early, "neither this \x02"}} {
			r.Stop = stops
			a := s.ask(t, r)
			first := min(strings.Index(whole, late), strings.Index(whole, early))
			require.Equal(t, whole[:first], a.text)
			require.True(t, strings.HasPrefix(whole[first:], a.done.StopString))
		}
	})
	t.Run("a false alarm is given back", func(t *testing.T) {
		for at := 0; at < runes; at += max(1, s.o.StopStride*3) {
			r.Stop = []string{stopAt(whole, at, 12) + "\x01"}
			a := s.ask(t, r)
			require.Equal(t, whole, a.text, "stop %q", r.Stop)
			require.Equal(t, wire.ReasonLength, a.done.Reason)
		}
	})
	t.Run("held back at the end is given back", func(t *testing.T) {
		r.Stop = []string{stopAt(whole, runes-3, 3) + "\x01"}
		require.Equal(t, whole, s.ask(t, r).text)
	})
}

// characters has the model write text of many-byte characters, by a grammar,
// and cuts it everywhere.
func (s *suite) characters(t *testing.T) {
	const text = "é😀日本 naïve 🦜 ’end"
	r := s.greedy(0)
	r.Sampling.Grammar = `root ::= "` + text + `"`
	r.MaxTokens = 100
	a := s.ask(t, r)
	require.Equal(t, text, a.text)
	require.Equal(t, wire.ReasonEOG, a.done.Reason)
	for n := 1; n < len(a.tokens); n++ {
		r.MaxTokens = n
		b := s.ask(t, r)
		require.Equal(t, wire.ReasonLength, b.done.Reason)
		require.Len(t, b.tokens, n)
		require.True(t, utf8.ValidString(b.text))
		require.True(t, strings.HasPrefix(text, b.text), "%q: a cut character does not leave", b.text)
	}
	r.MaxTokens = 100
	for _, stop := range []string{"é", "😀", "日本", "🦜 ", "’"} {
		r.Stop = []string{stop}
		b := s.ask(t, r)
		require.Equal(t, text[:strings.Index(text, stop)], b.text)
		require.Equal(t, wire.ReasonStop, b.done.Reason)
	}
}
