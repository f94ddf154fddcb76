package bench

import (
	"fmt"
	"math"
)

// Goal is one promise about liquid memory, and what the run says of it.
type Goal struct {
	What    string   `json:"what"`
	Must    string   `json:"must"`
	Unit    string   `json:"unit"`
	Figure  *float64 `json:"figure,omitempty"` // median; absent: not measured
	Beside  *float64 `json:"beside,omitempty"` // the peer's, or that of the other setting
	Ratio   *float64 `json:"ratio,omitempty"`  // figure over beside, the median of the samples' own
	Note    string   `json:"note,omitempty"`
	Verdict string   `json:"verdict"` // ok, missed, or "not measured"
}

// The verdicts.
const (
	verdictOK     = "ok"
	verdictMissed = "missed"
	verdictNone   = "not measured"
)

// promise is a goal before it is judged.
type promise struct {
	what, cohort string
	of           metric
	unit         string
	below, above float64 // bounds of the figure; 0: none
	ratioBelow   float64 // bounds of figure over beside; 0: none
	ratioAbove   float64
	beside       string  // what is beside it
	restored     float64 // least share of the prompt that was not computed
	sameText     bool
}

// promises are the table that the project has set itself.
var promises = []promise{
	{what: "same 718-token prompt again, first token", cohort: cRepeat, of: mTTFT, unit: "ms", below: 20, beside: "peer", restored: 0.8},
	{what: "shared 700-token system prompt, other question", cohort: cShared, of: mTTFT, unit: "ms", below: 45, beside: "peer", restored: 0.8},
	{what: "next turn of a conversation", cohort: cTurns, of: mTTFT, unit: "ms", ratioBelow: 1, beside: "peer"},
	{what: "after restart of everything, prompt seen before", cohort: cRestoreFirst, of: mTTFT, unit: "ms", below: 80, beside: "peer", restored: 0.8, sameText: true},
	{what: "second replica, shared folder", cohort: cReplica, of: mTTFT, unit: "ms", below: 80, beside: "peer", restored: 0.8, sameText: true},
	{what: "a miss, 718 tokens: first token", cohort: cMissLong, of: mTTFT, unit: "ms", ratioBelow: 1.03, beside: "liquid off"},
	{what: "a miss, 718 tokens: decode", cohort: cMissLong, of: mDecode, unit: "tok/s", ratioAbove: 0.97, beside: "liquid off"},
	{what: "a miss, short prompt: first token", cohort: cMissShort, of: mTTFT, unit: "ms", ratioBelow: 1.03, beside: "liquid off"},
	{what: "a miss, short prompt: decode", cohort: cMissShort, of: mDecode, unit: "tok/s", ratioAbove: 0.97, beside: "liquid off"},
	{what: "decode with all tiers full", cohort: cTiers, of: mDecode, unit: "tok/s", ratioAbove: 0.95, beside: "empty tiers"},
	{what: "12 conversations in turn, second round", cohort: cEvict, of: mTTFT, unit: "ms", ratioBelow: 1, beside: "peer"},
}

// importGoal is measured by the bare engine.
var importGoal = promise{what: "restore, warm to device", unit: "GB/s", above: 3}

// importFigure is its name among the engine's.
const importFigure = "import_gb_s"

func (p *promise) must() string {
	switch {
	case p.below > 0 && p.sameText:
		return fmt.Sprintf("at most %g %s, same text", p.below, p.unit)
	case p.below > 0:
		return fmt.Sprintf("at most %g %s", p.below, p.unit)
	case p.above > 0:
		return fmt.Sprintf("at least %g %s", p.above, p.unit)
	case p.ratioBelow > 0:
		return fmt.Sprintf("at most %.2f of %s", p.ratioBelow, p.beside)
	}
	return fmt.Sprintf("at least %.2f of %s", p.ratioAbove, p.beside)
}

// judge makes the table of the run's samples.
func (r *liquidRun) judge() []Goal {
	var out []Goal
	for i := range promises {
		p := &promises[i]
		var sides [2]map[metric]series
		if d := r.data[p.cohort]; d != nil {
			sides = *d
		}
		out = append(out, p.judge(sides, r.changedIn(p.cohort)))
	}
	return append(out, importGoal.judge([2]map[metric]series{{importGoal.of: r.engine[importFigure]}}, 0))
}

// changedIn counts the changed answers of a cohort on the server under test.
func (r *liquidRun) changedIn(cohort string) (n int) {
	for _, c := range r.changes {
		if c.first && c.cohort == cohort {
			n++
		}
	}
	return n
}

func (p *promise) judge(sides [2]map[metric]series, changed int) Goal {
	g := Goal{What: p.what, Must: p.must(), Unit: p.unit, Verdict: verdictNone}
	figure, beside := sides[0][p.of].spread(), sides[1][p.of].spread()
	if figure == nil {
		return g
	}
	g.Figure = rounded(figure.Median)
	if beside != nil {
		g.Beside = rounded(beside.Median)
		// Figure over beside whatever the figure is: a ratio of times below 1 is good.
		if s := ratios(sides[0][p.of], sides[1][p.of], false).spread(); s != nil {
			g.Ratio = rounded(s.Median)
		}
	}
	ok := (p.below == 0 || figure.Median <= p.below) && (p.above == 0 || figure.Median >= p.above)
	if p.ratioBelow > 0 || p.ratioAbove > 0 {
		if g.Ratio == nil {
			g.Note = "nothing beside it"
			return g
		}
		ok = ok && (p.ratioBelow == 0 || *g.Ratio <= p.ratioBelow) && *g.Ratio >= p.ratioAbove
	}
	if p.restored > 0 {
		restored, prompt := sides[0][mCached].spread(), sides[0][mTokens].spread()
		if restored != nil && prompt != nil {
			g.Note = fmt.Sprintf("%.0f of %.0f tokens restored", restored.Median, prompt.Median)
			ok = ok && restored.Median >= p.restored*prompt.Median
		}
	}
	if changed > 0 {
		g.Note, ok = fmt.Sprintf("%d answers changed", changed), false
	}
	g.Verdict = verdictMissed
	if ok {
		g.Verdict = verdictOK
	}
	return g
}

func rounded(v float64) *float64 {
	v = math.Round(v*1e4) / 1e4
	return &v
}
