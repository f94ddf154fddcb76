package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// LiquidReport is a run of RunLiquid in numbers.
type LiquidReport struct {
	Provenance Provenance         `json:"provenance"`
	Settings   LiquidSettings     `json:"settings"`
	Goals      []Goal             `json:"goals"`
	Cohorts    []LiquidCohort     `json:"cohorts"`
	Engine     map[string]*Spread `json:"engine,omitempty"`
	Tiers      string             `json:"tiers,omitempty"` // of the server whose tiers were filled
	Changes    []Change           `json:"changes,omitempty"`
	Errors     []string           `json:"errors,omitempty"`
}

// LiquidSettings are what the run was asked to do.
type LiquidSettings struct {
	Rounds       int      `json:"rounds"`
	Tokens       int      `json:"tokens"`
	Families     []string `json:"families"`
	TierSettings []string `json:"tier_settings"`
	PeerCommand  string   `json:"peer_command,omitempty"`
	Seed         uint64   `json:"seed"`
}

// LiquidCohort is one cohort; Sides name what Targets of its metrics stand for.
type LiquidCohort struct {
	CohortReport
	Sides []string `json:"sides"`
}

// liquidCohorts is the order of the report.
var liquidCohorts = []struct {
	name    string
	sides   []string
	metrics []metric
}{
	{cFill, []string{"thoth", peerName}, []metric{mTTFT, mTokens, mCached, mDecode}},
	{cRepeat, []string{"thoth", peerName}, []metric{mTTFT, mCached, mDecode}},
	{cShared, []string{"thoth", peerName}, []metric{mTTFT, mTokens, mCached, mDecode}},
	{cTurns, []string{"thoth", peerName}, []metric{mTTFT, mTokens, mCached, mDecode}},
	{cEvict, []string{"thoth", peerName}, []metric{mTTFT, mTokens, mCached, mDecode}},
	{cRestart, []string{"thoth", peerName}, []metric{mReady}},
	{cRestoreFirst, []string{"thoth", peerName}, []metric{mTTFT, mCached, mDecode}},
	{cRestoreRepeat, []string{"thoth", peerName}, []metric{mTTFT, mCached, mDecode}},
	{cReplica, []string{"thoth"}, []metric{mTTFT, mCached, mDecode}},
	{cService, []string{"thoth"}, []metric{mImport}},
	{cMissLong, []string{"on", "off"}, []metric{mTTFT, mTokens, mCached, mDecode}},
	{cMissShort, []string{"on", "off"}, []metric{mTTFT, mTokens, mCached, mDecode}},
	{cTiers, []string{"full", "empty"}, []metric{mDecode, mTTFT}},
}

func (r *liquidRun) report() *LiquidReport {
	rep := &LiquidReport{
		Settings: LiquidSettings{r.o.Rounds, r.o.Tokens, r.o.Families, r.o.TierSettings, r.o.PeerCommand, r.seed},
		Goals:    r.judge(), Changes: r.changes, Errors: r.errs,
	}
	if r.filled != nil {
		rep.Tiers = tierText(r.filled)
	}
	for name, s := range r.engine {
		if rep.Engine == nil {
			rep.Engine = map[string]*Spread{}
		}
		rep.Engine[name] = s.spread()
	}
	for _, c := range liquidCohorts {
		d := r.data[c.name]
		if d == nil {
			continue
		}
		lc := LiquidCohort{CohortReport{Name: c.name}, c.sides}
		for _, m := range c.metrics {
			if mr, any := m.report(d[:len(c.sides)]); any {
				lc.Metrics = append(lc.Metrics, mr)
			}
		}
		rep.Cohorts = append(rep.Cohorts, lc)
	}
	return rep
}

// WriteJSON writes the report for programs.
func (r *LiquidReport) WriteJSON(w io.Writer) error {
	return writeIndented(w, r)
}

// WriteTable writes the report for people: the goals, then every cohort.
func (r *LiquidReport) WriteTable(w io.Writer) error {
	p := &r.Provenance
	p.writeMachine(w)
	for _, f := range p.Files {
		fmt.Fprintf(w, "%s  sha256 %s  %d bytes\n", f.Path, f.SHA256, f.Bytes)
	}
	for _, s := range p.Servers {
		fmt.Fprintf(w, "%s: model %s%s\n", s.Name, s.Model, prefixed("  ", strings.Join(s.Facts, "  ")))
	}
	fmt.Fprintf(w, "%s%s%s", prefixed("peer: ", line(r.Settings.PeerCommand)), prefixed("engine: ", line(p.EngineCmd)), prefixed("stores on: ", line(p.Store)))
	fmt.Fprintf(w, "%d rounds in %.0f s; the tool itself used %.1f %% of one CPU\n\n", r.Settings.Rounds, p.Seconds, 100*p.BenchCPU)

	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "what\tmust\tfigure\tbeside it\tratio\tverdict\t")
	for _, g := range r.Goals {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.What, g.Must, withUnit(g.Figure, g.Unit), withUnit(g.Beside, g.Unit), optional(g.Ratio, "%.3f"), g.Verdict, g.Note)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprint(w, "\nfigures are medians of all samples; ratio: figure over what is beside it, median of the samples' own\n\n")

	fmt.Fprintln(tw, "cohort\tfigure\tA\tB\tA:B\tA, B")
	for _, c := range r.Cohorts {
		name := c.Name
		for _, m := range c.Metrics {
			b := "-"
			if len(m.Targets) > 1 {
				b = m.Targets[1].text()
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", name, m.Name, m.Targets[0].text(), b, m.Ratio.ratio(), strings.Join(c.Sides, ", "))
			name = ""
		}
	}
	for _, name := range sortedKeys(r.Engine) {
		fmt.Fprintf(tw, "engine\t%s\t%s\t\t\t\n", name, r.Engine[name].text())
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nmin / median / max of the samples; A:B above 1: A is the faster, also for times")
	if r.Tiers != "" {
		fmt.Fprintln(w, "tiers, full:", r.Tiers)
	}
	writeTroubles(w, p.Warnings, r.Changes, r.Errors)
	return nil
}

func line(s string) string {
	if s == "" {
		return ""
	}
	return s + "\n"
}

func withUnit(v *float64, unit string) string {
	if v == nil {
		return "-"
	}
	return number(*v) + " " + unit
}

func optional(v *float64, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}
