package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// StructuredReport is a run of RunStructured in numbers: of each cohort's
// metrics the first target is the answer by a schema, the second the free one.
type StructuredReport struct {
	Provenance Provenance         `json:"provenance"`
	Settings   StructuredSettings `json:"settings"`
	Cohorts    []CohortReport     `json:"cohorts"`
	Errors     []string           `json:"errors,omitempty"`
}

// StructuredSettings are what the run was asked to do.
type StructuredSettings struct {
	Rounds int    `json:"rounds"`
	Tokens int    `json:"tokens"`
	Seed   uint64 `json:"seed"`
}

func (r *structuredRun) report() *StructuredReport {
	rep := &StructuredReport{Settings: StructuredSettings{r.o.Rounds, r.o.Tokens, r.seed}, Errors: r.errs}
	for _, name := range r.names {
		c := CohortReport{Name: name}
		if d := r.data[name]; d != nil {
			for _, m := range []metric{mDecode, mTotal, mTTFT50} {
				mr, _ := m.report(d[:])
				c.Metrics = append(c.Metrics, mr)
			}
		}
		rep.Cohorts = append(rep.Cohorts, c)
	}
	return rep
}

// WriteJSON writes the report for programs.
func (r *StructuredReport) WriteJSON(w io.Writer) error {
	return writeIndented(w, r)
}

// WriteTable writes the report for people.
func (r *StructuredReport) WriteTable(w io.Writer) error {
	p := &r.Provenance
	p.writeMachine(w)
	for _, s := range p.Servers {
		fmt.Fprintf(w, "%s  model %s%s\n", s.URL, s.Model, prefixed("  server ", s.Server))
		if len(s.Facts) > 0 {
			fmt.Fprintf(w, "   %s\n", strings.Join(s.Facts, "  "))
		}
	}
	fmt.Fprintf(w, "%d rounds of answers of %d tokens in %.0f s; the tool itself used %.1f %% of one CPU\n\n",
		r.Settings.Rounds, r.Settings.Tokens, p.Seconds, 100*p.BenchCPU)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "cohort\tfigure\tby a schema\tfree\tof free")
	for _, c := range r.Cohorts {
		name := c.Name
		for _, m := range c.Metrics {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", name, m.Name, m.Targets[sideBound].text(), m.Targets[sideFree].text(), m.Ratio.ratio())
			name = ""
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nmin / median / max of the rounds; of free: median of the rounds' own ratios, above 1 the answer by a schema is the faster")
	writeTroubles(w, p.Warnings, nil, r.Errors)
	return nil
}
