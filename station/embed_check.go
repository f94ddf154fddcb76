package station

import (
	"fmt"
	"math"

	"thoth/station/engine"
)

// vectorsCheck is an encoder's self-test: a text's vector, or a pair's score, is
// the same alone and beside another.
func vectorsCheck(eng engine.Engine, m engine.Embedder) (string, error) {
	e := m.Embedding()
	if e.Scores {
		return scoresCheck(m)
	}
	a, err := eng.Tokenize(selfTestText[:80], false)
	if err != nil {
		return "", err
	}
	b, err := eng.Tokenize("Nobody.", false)
	if err != nil {
		return "", err
	}
	half := max(1, e.MaxTokens/2-2)
	first := engine.Text{Tokens: around(a[:min(len(a), half)], e)}
	alone, beside, err := besides(m, first, engine.Text{Tokens: around(b[:min(len(b), half)], e)})
	if err != nil {
		return "", err
	}
	same, other := cosine(alone, beside[1]), cosine(alone, beside[0])
	if !(same > 0.9999) {
		return "", fmt.Errorf("a text's vector changes beside another: cosine %.6f", same)
	}
	return fmt.Sprintf("%d dimensions, cosine %.6f beside another text, %.3f to it", e.Dimensions, same, other), nil
}

// maxScoreDrift is how far a score may move beside another, of numbers that rank
// by whole units.
const maxScoreDrift = 0.02

func scoresCheck(m engine.Embedder) (string, error) {
	pairs, err := m.Pairs("river", []string{"boats", "Nobody said a word."})
	if err != nil {
		return "", err
	}
	alone, beside, err := besides(m, pairs[0], pairs[1])
	if err != nil {
		return "", err
	}
	drift := math.Abs(float64(alone[0] - beside[1][0]))
	if !(drift <= maxScoreDrift) {
		return "", fmt.Errorf("a pair's score changes beside another: by %g", drift)
	}
	return fmt.Sprintf("score %.3f, beside another pair %+.6f", alone[0], beside[1][0]-alone[0]), nil
}

// besides gives what a text has alone, and what b and it have together.
func besides(m engine.Embedder, a, b engine.Text) (alone []float32, together [][]float32, err error) {
	one, err := m.Embed([]engine.Text{a})
	if err != nil {
		return nil, nil, err
	}
	together, err = m.Embed([]engine.Text{b, a})
	return one[0], together, err
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}
