package bench

import (
	"encoding/json"
	"math"
	"slices"
)

// series has one value a round; NaN where the round gave none.
type series []float64

func (s series) values() []float64 {
	out := make([]float64, 0, len(s))
	for _, v := range s {
		if !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}

// Spread is how a figure varied over the rounds: the machine's noise.
type Spread struct {
	Min    float64   `json:"min"`
	Median float64   `json:"median"`
	Max    float64   `json:"max"`
	Values []float64 `json:"values"`
}

func (s series) spread() *Spread {
	v := s.values()
	if len(v) == 0 {
		return nil
	}
	return &Spread{Min: slices.Min(v), Median: quantile(v, 0.5), Max: slices.Max(v), Values: v}
}

// MarshalJSON rounds to what a measurement can mean.
func (s Spread) MarshalJSON() ([]byte, error) {
	type plain Spread
	p := plain{round(s.Min), round(s.Median), round(s.Max), make([]float64, len(s.Values))}
	for i, v := range s.Values {
		p.Values[i] = round(v)
	}
	return json.Marshal(p)
}

func round(v float64) float64 { return math.Round(v*1e4) / 1e4 }

// quantile of unsorted values, linear between neighbours; NaN for none.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Clone(v)
	slices.Sort(v)
	at := q * float64(len(v)-1)
	lo := int(at)
	if lo+1 == len(v) {
		return v[lo]
	}
	return v[lo] + (at-float64(lo))*(v[lo+1]-v[lo])
}

// ratios divides round by round, upside down where less is better, so that above
// 1 means that a is the faster.
func ratios(a, b series, lessIsBetter bool) series {
	out := make(series, min(len(a), len(b)))
	for i := range out {
		x, y := a[i], b[i]
		if lessIsBetter {
			x, y = y, x
		}
		out[i] = math.NaN()
		if y > 0 && !math.IsNaN(x) {
			out[i] = x / y
		}
	}
	return out
}
