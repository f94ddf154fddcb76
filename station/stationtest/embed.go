package stationtest

import (
	"fmt"
	"slices"

	"thoth/station/engine"
)

// fakeDimensions is the length of the fake's vectors.
const fakeDimensions = 16

// embeds is the fake's embedding half. Invariants it checks: batches within the
// bounds of engine.Embedding, parts of a text in order, none while another call
// of the loop runs.
type embeds struct {
	part    []engine.Token // of the text that comes in parts; nil for none
	calls   int            // of Embed and EmbedPart
	sizes   []int          // tokens of each
	failure map[int]error  // by call number
}

var _ engine.Embedder = (*Engine)(nil)

// Embedding says what the fake's vectors are.
func (e *Engine) Embedding() engine.Embedding {
	m := engine.Embedding{Pooling: "mean", Dimensions: fakeDimensions, MaxTokens: e.info.ContextLength,
		BatchTokens: min(64, e.info.BatchSize), BatchTexts: 8, Parts: true, Only: e.o.Encoder}
	if e.o.NoVectors != "" {
		m.Pooling, m.Reason = "", e.o.NoVectors
	}
	if m.NoScores = "the model has no classification head: it is no reranker"; e.o.Reranker {
		m.Scores, m.NoScores, m.Dimensions = true, "", 1
		m.Pooling, m.Reason = "", "the model is a reranker"
	}
	if e.info.AddBOS {
		m.Prefix = []engine.Token{e.info.BOS}
	}
	m.Suffix = []engine.Token{e.info.EOS}
	if m.Only {
		m.Parts, m.BatchTokens = false, max(e.info.ContextLength, e.info.BatchSize)
	}
	return m
}

// Embed gives each text's vector, or its score.
func (e *Engine) Embed(texts []engine.Text) ([][]float32, error) {
	defer e.enter("Embed")()
	e.mu.Lock()
	defer e.mu.Unlock()
	m, n := e.Embedding(), 0
	for _, t := range texts {
		if len(t.Tokens) == 0 || len(t.Tokens) > m.MaxTokens {
			return nil, e.badText("Embed of a text of %d tokens, want 1 to %d", len(t.Tokens), m.MaxTokens)
		}
		if t.Second < 0 || t.Second >= len(t.Tokens) {
			return nil, e.badText("Embed of a pair whose second text begins at %d of %d tokens", t.Second, len(t.Tokens))
		}
		n += len(t.Tokens)
	}
	if len(texts) == 0 || len(texts) > m.BatchTexts {
		return nil, e.badText("Embed of %d texts, want 1 to %d", len(texts), m.BatchTexts)
	}
	if err := e.embedCall(m, n); err != nil {
		return nil, err
	}
	e.embeds.part = nil
	out := make([][]float32, len(texts))
	for i, t := range texts {
		out[i] = e.result(t.Tokens)
	}
	return out, nil
}

// EmbedPart evaluates the next tokens of a text.
func (e *Engine) EmbedPart(tokens []engine.Token, first, last bool) ([]float32, error) {
	defer e.enter("EmbedPart")()
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.Embedding()
	switch {
	case !m.Parts:
		return nil, e.badText("EmbedPart of an encoder")
	case !first && e.embeds.part == nil:
		return nil, e.badText("EmbedPart goes on with a text that was not begun")
	case len(tokens) == 0:
		return nil, e.badText("EmbedPart of no tokens")
	}
	if err := e.embedCall(m, len(tokens)); err != nil {
		return nil, err
	}
	if first {
		e.embeds.part = nil
	}
	e.embeds.part = append(e.embeds.part, tokens...)
	if len(e.embeds.part) > m.MaxTokens {
		return nil, e.badText("EmbedPart of %d tokens in all, want at most %d", len(e.embeds.part), m.MaxTokens)
	}
	if !last {
		return nil, nil
	}
	v := e.result(e.embeds.part)
	e.embeds.part = nil
	return v, nil
}

// FailEmbed makes the call with that number, from 1, fail.
func (e *Engine) FailEmbed(number int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.embeds.failure == nil {
		e.embeds.failure = map[int]error{}
	}
	e.embeds.failure[number] = err
}

// EmbedBatches are the sizes, in tokens, of all batches of texts so far.
func (e *Engine) EmbedBatches() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]int(nil), e.embeds.sizes...)
}

func (e *Engine) embedCall(m engine.Embedding, n int) error {
	if m.Pooling == "" && !m.Scores {
		return e.badText("a model without vectors was asked for some")
	}
	if n > m.BatchTokens && !m.Only {
		return e.badText("a batch of texts has %d tokens, want at most %d", n, m.BatchTokens)
	}
	e.embeds.calls++
	e.embeds.sizes = append(e.embeds.sizes, n)
	if e.o.OnEmbed != nil {
		e.o.OnEmbed(e.embeds.calls, n)
	}
	if err := e.embeds.failure[e.embeds.calls]; err != nil {
		e.embeds.part = nil
		return err
	}
	return nil
}

func (e *Engine) badText(format string, args ...any) error {
	e.violate(format, args...)
	return fmt.Errorf("%w: "+format, append([]any{engine.ErrDecode}, args...)...)
}

// Pairs puts a token between the query and each document, and at the end.
func (e *Engine) Pairs(query string, documents []string) ([]engine.Text, error) {
	e.alive("Pairs")
	m := e.Embedding()
	if !m.Scores {
		return nil, e.badText("a model without scores was asked for some")
	}
	head := append(append(append([]engine.Token{}, m.Prefix...), e.vocab.tokenize(query, false)...), m.Suffix...)
	out := make([]engine.Text, len(documents))
	for i, d := range documents {
		out[i].Tokens = append(append(append(out[i].Tokens, head...), e.vocab.tokenize(d, false)...), m.Suffix...)
		if m.Only {
			out[i].Second = len(head)
		}
	}
	return out, nil
}

// result is a text's vector, or a pair's score.
func (e *Engine) result(tokens []engine.Token) []float32 {
	if !e.o.Reranker {
		return vector(tokens)
	}
	cut := slices.Index(tokens, e.info.EOS) + 1
	shared := 0
	for _, t := range tokens[cut:] {
		if slices.Contains(tokens[:cut], t) && t != e.info.EOS {
			shared++
		}
	}
	return []float32{8*float32(shared)/float32(max(len(tokens)-cut, 1)) - 4}
}

// vector is the mean of what stands for each token at its position.
func vector(tokens []engine.Token) []float32 {
	sum := make([]float64, fakeDimensions)
	for pos, t := range tokens {
		h := mix(mix(uint64(t)+1) ^ uint64(pos/4)) // near positions are alike
		for i := range sum {
			h = mix(h + uint64(i))
			sum[i] += float64(h>>40)/(1<<23) - 1
		}
	}
	out := make([]float32, fakeDimensions)
	for i, s := range sum {
		out[i] = float32(s / float64(len(tokens)))
	}
	return out
}
