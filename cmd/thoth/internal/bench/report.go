package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is a run in numbers.
type Report struct {
	Provenance Provenance         `json:"provenance"`
	Settings   Settings           `json:"settings"`
	Cohorts    []CohortReport     `json:"cohorts"`
	Engine     map[string]*Spread `json:"engine,omitempty"`
	Changes    []Change           `json:"changes,omitempty"`
	Errors     []string           `json:"errors,omitempty"`
}

// Settings are what the run was asked to do.
type Settings struct {
	Rounds       int    `json:"rounds"`
	Warmup       int    `json:"warmup"`
	Tokens       int    `json:"tokens"`
	StreamTokens int    `json:"stream_tokens"`
	ColdTokens   int    `json:"cold_tokens"`
	Seed         uint64 `json:"seed"`
}

// CohortReport is one cohort.
type CohortReport struct {
	Name    string         `json:"name"`
	Metrics []MetricReport `json:"metrics"`
}

// MetricReport is one figure of a cohort for every target, in the order of the
// targets. Ratio is first over second, OfEngine first over the bare engine; both
// are medians of the rounds' own ratios, and above 1 the first target is faster.
type MetricReport struct {
	Name     string    `json:"name"`
	Targets  []*Spread `json:"targets"`
	Ratio    *Spread   `json:"ratio,omitempty"`
	OfEngine []*Spread `json:"of_engine,omitempty"`
}

// Change is a greedy answer that was not the same twice.
type Change struct {
	URL    string `json:"url,omitempty"`
	Server string `json:"server,omitempty"` // instead, of one that the run started
	Round  int    `json:"round"`
	What   string `json:"what"`
	Byte   int    `json:"byte"` // where the texts part
	first  bool   // of a server under test
	cohort string
}

// failedByChange says whether a server under test changed an answer; a peer's
// changes are reported only.
func failedByChange(all []Change) bool {
	return slices.ContainsFunc(all, func(c Change) bool { return c.first })
}

func (r *runner) report() *Report {
	rep := &Report{
		Settings: Settings{r.o.Rounds, r.o.Warmup, r.o.Tokens, r.o.StreamTokens, r.o.ColdTokens, r.seed},
		Changes:  r.changes, Errors: r.errs,
	}
	for name, s := range r.engine {
		if rep.Engine == nil {
			rep.Engine = map[string]*Spread{}
		}
		rep.Engine[name] = s.spread()
	}
	for _, c := range r.list {
		byTarget := r.data[c.name]
		if byTarget == nil {
			continue // every round failed: that is in Errors
		}
		cr := CohortReport{Name: c.name}
		for _, m := range c.metrics {
			mr, any := m.report(byTarget)
			if !any {
				continue
			}
			if engine := r.engine[c.engineKey]; m == c.engineOf && engine != nil {
				for i := range r.servers {
					mr.OfEngine = append(mr.OfEngine, ratios(byTarget[i][m], engine, m.lessIsBetter).spread())
				}
			}
			cr.Metrics = append(cr.Metrics, mr)
		}
		rep.Cohorts = append(rep.Cohorts, cr)
	}
	return rep
}

// report compares a figure over targets; any is false when none has it.
func (m metric) report(byTarget []map[metric]series) (mr MetricReport, any bool) {
	mr.Name = m.name
	for _, t := range byTarget {
		s := t[m].spread()
		any = any || s != nil
		mr.Targets = append(mr.Targets, s)
	}
	if m.compare && len(byTarget) == 2 {
		mr.Ratio = ratios(byTarget[0][m], byTarget[1][m], m.lessIsBetter).spread()
	}
	return mr, any
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	return writeIndented(w, r)
}

// writeIndented writes a report of any kind as JSON that people can read too.
func writeIndented(w io.Writer, report any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	p := &r.Provenance
	p.writeMachine(w)
	for i, s := range p.Servers {
		fmt.Fprintf(w, "%c: %s  model %s%s\n", 'A'+i, s.URL, s.Model, prefixed("  server ", s.Server))
		if len(s.Facts) > 0 {
			fmt.Fprintf(w, "   %s\n", strings.Join(s.Facts, "  "))
		}
	}
	if p.EngineCmd != "" {
		fmt.Fprintf(w, "engine: %s\n", p.EngineCmd)
	}
	fmt.Fprintf(w, "%d rounds in %.0f s; each figure is min / median / max of the rounds; the tool itself used %.1f %% of one CPU\n\n",
		r.Settings.Rounds, p.Seconds, 100*p.BenchCPU)

	two, engine := len(p.Servers) == 2, len(r.Engine) > 0
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "cohort\tfigure\tA"
	if two {
		head += "\tB\tA:B"
	}
	if engine {
		head += "\tA:engine"
		if two {
			head += "\tB:engine"
		}
	}
	fmt.Fprintln(tw, head)
	for _, c := range r.Cohorts {
		name := c.Name
		for _, m := range c.Metrics {
			cells := []string{name, m.Name}
			for _, s := range m.Targets {
				cells = append(cells, s.text())
			}
			if two {
				cells = append(cells, m.Ratio.ratio())
			}
			for i := range m.OfEngine {
				cells = append(cells, m.OfEngine[i].ratio())
			}
			fmt.Fprintln(tw, strings.Join(cells, "\t"))
			name = ""
		}
	}
	for _, name := range sortedKeys(r.Engine) {
		fmt.Fprintf(tw, "engine\t%s\t%s\n", name, r.Engine[name].text())
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if two || engine {
		fmt.Fprintln(w, "\nratios: median of the rounds' own ratios; above 1 the first one is faster, also for times")
	}
	writeTroubles(w, p.Warnings, r.Changes, r.Errors)
	return nil
}

// writeTroubles ends a report with what makes its figures doubtful.
func writeTroubles(w io.Writer, warnings []string, changes []Change, errs []string) {
	for _, s := range warnings {
		fmt.Fprintln(w, "warning:", s)
	}
	for _, c := range changes {
		fmt.Fprintf(w, "changed: round %d, %s: %s, from byte %d on\n", c.Round, c.URL+c.Server, c.What, c.Byte)
	}
	for _, s := range errs {
		fmt.Fprintln(w, "error:", s)
	}
}

// writeMachine is a report's first line.
func (p *Provenance) writeMachine(w io.Writer) {
	fmt.Fprintf(w, "%s  %s, %d CPUs, %.1f GiB, %s %s\n", p.Date.Format("2006-01-02 15:04 UTC"), p.CPU, p.CPUs, float64(p.MemoryBytes)/(1<<30), p.Go, p.OS)
}

func (s *Spread) text() string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%s / %s / %s", number(s.Min), number(s.Median), number(s.Max))
}

func (s *Spread) ratio() string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%.3f", s.Median)
}

func number(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func sortedKeys(m map[string]*Spread) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
