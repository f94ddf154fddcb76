package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// ErrBad is returned with a report that has errors or changed answers in it.
var ErrBad = errors.New("the run had errors or changed answers; see the report")

// runner is one run. It is used by one goroutine; the cohorts' clients do not
// touch it.
type runner struct {
	o         Options
	servers   []*server
	seed      uint64
	coldWords int
	list      []cohort

	data     map[string][]map[metric]series // cohort -> target -> metric -> value a round
	engine   map[string]series
	streamed map[*server]string
	errs     []string
	changes  []Change
}

// Run measures and returns the report. The report is complete also with ErrBad.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	r := &runner{o: o, seed: rand.Uint64(), coldWords: o.ColdTokens,
		data: map[string][]map[metric]series{}, engine: map[string]series{}, streamed: map[*server]string{}}
	for _, t := range o.Targets {
		s := newServer(t, o.Timeout)
		defer s.http.CloseIdleConnections()
		if err := s.chooseModel(ctx); err != nil {
			return nil, err
		}
		r.servers = append(r.servers, s)
	}
	r.list = r.cohorts()
	began := time.Now()
	before := readMachine()
	idle := idleCheck(ctx, o.idleWatch)
	for _, s := range r.servers {
		if err := r.warm(ctx, s); err != nil {
			return nil, fmt.Errorf("%s does not answer: %w", s.URL, err)
		}
	}
	if err := r.calibrate(ctx); err != nil {
		return nil, err
	}
	for round := range o.Rounds {
		if err := r.round(ctx, round); err != nil {
			return nil, err
		}
	}
	rep := r.report()
	rep.Provenance = provenance(began, before, idle)
	rep.Provenance.EngineCmd = o.EngineCmd
	for _, s := range r.servers {
		rep.Provenance.Servers = append(rep.Provenance.Servers, s.identity(ctx))
	}
	if len(rep.Errors) > 0 || failedByChange(rep.Changes) {
		return rep, ErrBad
	}
	return rep, nil
}

func (r *runner) logf(format string, args ...any) { fmt.Fprintf(r.o.Log, format+"\n", args...) }

// warm pays for what only first requests pay for.
func (r *runner) warm(ctx context.Context, s *server) error {
	for range r.o.Warmup {
		if _, err := s.ask(ctx, question{prompt: warmupPrompt, maxTokens: 16}); err != nil {
			return err
		}
	}
	return nil
}

// calibrate finds how many words make a cold prompt of the wanted tokens, from
// two prompts: the template adds some, and not every word is one token.
func (r *runner) calibrate(ctx context.Context) error {
	wanted := false
	for _, c := range r.list {
		wanted = wanted || c.name == "cold_prefill"
	}
	if !wanted || r.o.ColdTokens < 32 {
		return nil
	}
	const few, many = 16, 144
	var tokens [2]int
	for i, n := range []int{few, many} {
		a, err := r.servers[0].ask(ctx, question{prompt: coldPrompt(r.seed, -1-i, n), maxTokens: 1})
		if err != nil {
			return fmt.Errorf("%s does not answer: %w", r.servers[0].URL, err)
		}
		tokens[i] = a.promptTokens
	}
	if slope := float64(tokens[1]-tokens[0]) / (many - few); slope > 0 {
		r.coldWords = max(1, few+int(math.Round(float64(r.o.ColdTokens-tokens[0])/slope)))
	}
	return nil
}

// round does every cohort once on every target, target by target within the
// cohort, after the bare engine.
func (r *runner) round(ctx context.Context, round int) error {
	if r.o.EngineCmd != "" {
		r.logf("round %d of %d: engine alone", round+1, r.o.Rounds)
		figures, err := runEngine(ctx, r.o.EngineCmd)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			r.errs = append(r.errs, fmt.Sprintf("round %d, engine: %v", round+1, err))
		}
		for name, v := range figures {
			r.engine[name] = put(r.engine[name], round, v)
		}
	}
	for _, c := range r.list {
		for i, s := range r.servers {
			f, err := c.run(ctx, s, round)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				r.errs = append(r.errs, fmt.Sprintf("round %d, %s, %s: %v", round+1, c.name, s.URL, err))
				r.logf("round %d of %d: %-18s %s: %v", round+1, r.o.Rounds, c.name, s.URL, err)
				continue
			}
			for m, v := range f {
				r.put(c.name, i, m, round, v)
			}
			r.logf("round %d of %d: %-18s %s: %s", round+1, r.o.Rounds, c.name, s.URL, brief(c, f))
		}
	}
	return nil
}

// brief is the first figure of a cohort that there is.
func brief(c cohort, f figures) string {
	for _, m := range c.metrics {
		if v, ok := f[m]; ok {
			return fmt.Sprintf("%.1f %s", v, m.name)
		}
	}
	return "done"
}

func (r *runner) put(cohort string, target int, m metric, round int, v float64) {
	if r.data[cohort] == nil {
		r.data[cohort] = make([]map[metric]series, len(r.servers))
		for i := range r.servers {
			r.data[cohort][i] = map[metric]series{}
		}
	}
	r.data[cohort][target][m] = put(r.data[cohort][target][m], round, v)
}

func put(s series, round int, v float64) series {
	for len(s) <= round {
		s = append(s, math.NaN())
	}
	s[round] = v
	return s
}

// sameAsBefore compares the one-stream answer with the first round's.
func (r *runner) sameAsBefore(s *server, round int, text string) {
	before, ok := r.streamed[s]
	if !ok {
		r.streamed[s] = text
		return
	}
	if before != text {
		r.changed(s, round, "the one-stream answer differs from the first round's", before, text)
	}
}

func (r *runner) changed(s *server, round int, what, want, got string) {
	r.changes = append(r.changes, Change{URL: s.URL, Round: round + 1, What: what, Byte: parting(want, got), first: s == r.servers[0]})
}

// parting is the first byte where two texts differ.
func parting(a, b string) int {
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	return at
}
