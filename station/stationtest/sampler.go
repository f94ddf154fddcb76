package stationtest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"thoth/station/engine"
)

// sampler is one sequence's chain. Its generator advances once a draw, so that
// an answer in pieces equals the answer in one go.
type sampler struct {
	e       *Engine
	p       engine.SamplerParams
	state   uint64
	window  []engine.Token // prompt and answer, for the repeat penalty
	answer  map[engine.Token]int
	grammar *literals
}

var _ engine.Sampler = (*sampler)(nil)

// Seed is the seed in use.
func (s *sampler) Seed() uint64 { return s.p.Seed }

// Free gives the sampler back; a second call is a violation.
func (s *sampler) Free() { s.e.owned.free(s, "sampler") }

// draw chooses a token from the model's logits, which it leaves alone.
func (s *sampler) draw(logits []float32, noEOG bool) (engine.Token, error) {
	l := append([]float32(nil), logits...)
	for t, b := range s.p.LogitBias {
		l[t] += b
	}
	s.penalise(l)
	if s.grammar != nil {
		s.grammar.mask(l, s.e.vocab, s.e.info.EOG, s.p.ControlText)
	}
	if noEOG {
		for _, t := range s.e.info.EOG {
			l[t] = float32(math.Inf(-1))
		}
	}
	t := argmax(l)
	switch nothing := math.IsInf(float64(l[t]), -1); {
	case nothing && s.grammar == nil, nothing && s.grammar.complete():
		return s.e.info.EOG[0], nil // an answer that can only end ends, asked to or not
	case nothing:
		return 0, fmt.Errorf("%w: no token goes on with it", engine.ErrGrammar)
	}
	if s.p.Temperature > 0 {
		t = s.pick(l)
	}
	s.accept(t)
	return t, nil
}

// penalise follows llama.cpp's penalties sampler: the repeat penalty divides or
// multiplies by sign, the other two subtract.
func (s *sampler) penalise(l []float32) {
	if n := min(s.p.RepeatLastN, len(s.window)); s.p.RepeatPenalty != 1 && n > 0 {
		seen := map[engine.Token]bool{}
		for _, t := range s.window[len(s.window)-n:] {
			if seen[t] {
				continue
			}
			seen[t] = true
			if l[t] > 0 {
				l[t] /= s.p.RepeatPenalty
			} else {
				l[t] *= s.p.RepeatPenalty
			}
		}
	}
	for t, n := range s.answer {
		l[t] -= float32(n)*s.p.FrequencyPenalty + s.p.PresencePenalty
	}
}

// pick cuts the candidates by top_k, typical_p, top_p and min_p, then draws
// from what is left at the temperature.
func (s *sampler) pick(l []float32) engine.Token {
	ids := ranked(l)
	for len(ids) > 1 && math.IsInf(float64(l[ids[len(ids)-1]]), -1) {
		ids = ids[:len(ids)-1]
	}
	if s.p.TopK > 0 {
		ids = ids[:min(s.p.TopK, len(ids))]
	}
	if s.p.TypicalP < 1 {
		ids = typical(l, ids, float64(s.p.TypicalP))
	}
	if s.p.TopP < 1 {
		ids = ids[:massLen(softmax(l, ids, 1), float64(s.p.TopP))]
	}
	if s.p.MinP > 0 {
		p := softmax(l, ids, 1)
		n := 1
		for n < len(ids) && p[n] >= p[0]*float64(s.p.MinP) {
			n++
		}
		ids = ids[:n]
	}
	s.state += 0x9e3779b97f4a7c15
	u := float64(mix(s.state)>>11) / (1 << 53)
	for i, p := range softmax(l, ids, float64(s.p.Temperature)) {
		if u -= p; u < 0 {
			return ids[i]
		}
	}
	return ids[0]
}

func (s *sampler) accept(t engine.Token) {
	s.window = append(s.window, t)
	s.answer[t]++
	if s.grammar != nil {
		s.grammar.accept(s.e.vocab.piece(t, s.p.ControlText))
	}
}

// typical keeps the tokens whose surprise is nearest to the entropy, up to mass
// p, in their order of likelihood.
func typical(l []float32, ids []engine.Token, p float64) []engine.Token {
	probs := softmax(l, ids, 1)
	var entropy float64
	for _, q := range probs {
		if q > 0 {
			entropy -= q * math.Log(q)
		}
	}
	kept := make([]bool, len(ids))
	for mass := 0.0; mass < p; {
		best, dist := -1, math.Inf(1)
		for i, q := range probs {
			if d := math.Abs(-math.Log(q) - entropy); !kept[i] && q > 0 && d < dist {
				best, dist = i, d
			}
		}
		if best < 0 {
			break
		}
		kept[best] = true
		mass += probs[best]
	}
	out := ids[:0:0]
	for i, id := range ids {
		if kept[i] {
			out = append(out, id)
		}
	}
	return out
}

// massLen is the number of leading probabilities that reach mass p, at least 1.
func massLen(probs []float64, p float64) int {
	sum := 0.0
	for i, q := range probs {
		if sum += q; sum >= p {
			return i + 1
		}
	}
	return len(probs)
}

func softmax(l []float32, ids []engine.Token, temperature float64) []float64 {
	out := make([]float64, len(ids))
	best, sum := math.Inf(-1), 0.0
	for _, id := range ids {
		best = math.Max(best, float64(l[id]))
	}
	for i, id := range ids {
		out[i] = math.Exp((float64(l[id]) - best) / temperature)
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// literals is the part of GBNF that the fake knows: one rule, root, whose
// alternatives are strings. It is enough to prove that a grammar reaches the
// sampler and binds; the real engine knows all of GBNF. No token writes a NUL
// here, so that tests have a grammar that cannot go on.
type literals struct {
	alternatives []string
	sofar        string
}

func parseLiterals(g string) (*literals, error) {
	name, rest, ok := strings.Cut(g, "::=")
	if !ok || strings.TrimSpace(name) != "root" {
		return nil, fmt.Errorf("%w: want root ::= \"text\" | \"text\"", engine.ErrGrammar)
	}
	out := &literals{}
	for {
		rest = strings.TrimSpace(rest)
		q, err := strconv.QuotedPrefix(rest)
		if err != nil || q[0] != '"' {
			return nil, fmt.Errorf("%w: want a string at %q", engine.ErrGrammar, rest)
		}
		s, err := strconv.Unquote(q)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", engine.ErrGrammar, q)
		}
		out.alternatives = append(out.alternatives, s)
		if rest = strings.TrimSpace(rest[len(q):]); rest == "" {
			return out, nil
		}
		if rest[0] != '|' {
			return nil, fmt.Errorf("%w: want | at %q", engine.ErrGrammar, rest)
		}
		rest = rest[1:]
	}
}

// mask leaves the tokens that keep the answer a prefix of an alternative, and
// the end of the turn when it is one. Control tokens take part only where they
// are written, and those that end the turn never by their text.
func (g *literals) mask(l []float32, v *vocabulary, eog []engine.Token, written bool) {
	for t := range l {
		tok := engine.Token(t)
		ok := false
		if slices.Contains(eog, tok) {
			ok = g.complete()
		} else if p := v.piece(tok, written); len(p) > 0 && p[0] != 0 {
			ok = slices.ContainsFunc(g.alternatives, func(a string) bool { return strings.HasPrefix(a, g.sofar+string(p)) })
		}
		if !ok {
			l[t] = float32(math.Inf(-1))
		}
	}
}

// complete says whether what was written is an alternative.
func (g *literals) complete() bool { return slices.Contains(g.alternatives, g.sofar) }

func (g *literals) accept(piece []byte) { g.sofar += string(piece) }
