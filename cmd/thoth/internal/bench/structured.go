package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// StructuredOptions of a run that measures what structured output costs.
type StructuredOptions struct {
	Target  Target
	Rounds  int           // measured rounds; default 5
	Tokens  int           // length of each answer; default 96
	Clients []int         // default 1, 8
	Timeout time.Duration // of one request; default 10 min

	Log io.Writer // progress; default: discarded

	idleWatch time.Duration // how long the machine is watched before the run, 1 s; shorter in tests
}

func (o *StructuredOptions) fill() error {
	server := Options{Targets: []Target{o.Target}, Rounds: o.Rounds, Clients: o.Clients, Timeout: o.Timeout, Log: o.Log, idleWatch: o.idleWatch}
	if o.Rounds == 0 {
		server.Rounds = 5
	}
	if server.Tokens = o.Tokens; o.Tokens == 0 {
		server.Tokens = 96
	}
	if len(o.Clients) == 0 {
		server.Clients = []int{1, 8}
	}
	if err := server.fill(); err != nil {
		return err
	}
	if server.Tokens < 2 || server.Tokens > 4096 { // the schema asks for more than that
		return fmt.Errorf("tokens %d: want 2 to 4096", server.Tokens)
	}
	*o = StructuredOptions{Target: server.Targets[0], Rounds: server.Rounds, Tokens: server.Tokens, Clients: server.Clients,
		Timeout: server.Timeout, Log: server.Log, idleWatch: server.idleWatch}
	return nil
}

// way is a way to sample.
type way struct {
	name              string
	temperature, topP float64
	topK              int
}

var ways = []way{{name: "greedy"}, {name: "top_k_40", temperature: 0.8, topK: 40}, {name: "top_p_95", temperature: 0.8, topP: 0.95}}

// The sides of a cohort: an answer by a schema, and a free one of the same length.
const (
	sideBound = iota
	sideFree
)

// structuredRun is one run of RunStructured, used by one goroutine.
type structuredRun struct {
	o    StructuredOptions
	s    *server
	seed uint64

	names []string
	data  map[string]*[2]map[metric]series
	errs  []string
}

// RunStructured measures and returns the report. The report is complete also
// with ErrBad.
func RunStructured(ctx context.Context, o StructuredOptions) (*StructuredReport, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	r := &structuredRun{o: o, s: newServer(o.Target, o.Timeout), seed: rand.Uint64(), data: map[string]*[2]map[metric]series{}}
	defer r.s.http.CloseIdleConnections()
	if err := r.s.chooseModel(ctx); err != nil {
		return nil, err
	}
	began, before := time.Now(), readMachine()
	idle := idleCheck(ctx, o.idleWatch)
	if err := r.whole(ctx); err != nil {
		return nil, err
	}
	for round := -1; round < o.Rounds; round++ { // the first one warms both sides up
		if err := r.round(ctx, round); err != nil {
			return nil, err
		}
	}
	rep := r.report()
	rep.Provenance = provenance(began, before, idle)
	rep.Provenance.Servers = []ServerIdentity{r.s.identity(ctx)}
	if len(rep.Errors) > 0 {
		return rep, ErrBad
	}
	return rep, nil
}

// whole asks for a small object in every way to sample, and looks at each to its end.
func (r *structuredRun) whole(ctx context.Context) error {
	for _, w := range ways {
		q := w.ask(ordersPrompt(r.seed, -2, 0), 256, 1)
		q.schema = ticketSchema
		a, err := r.s.ask(ctx, q)
		if err != nil {
			return fmt.Errorf("%s does not answer by a schema: %w", r.s.URL, err)
		}
		if a.finish == "length" {
			r.errs = append(r.errs, fmt.Sprintf("%s: a ticket does not end within %d tokens", w.name, q.maxTokens))
		} else if err := checkTicket(a.text); err != nil {
			r.errs = append(r.errs, fmt.Sprintf("%s: %q is no ticket: %v", w.name, a.text, err))
		}
	}
	return nil
}

// round does every cohort once. The two sides take turns, and so does who goes first.
func (r *structuredRun) round(ctx context.Context, round int) error {
	for _, n := range r.o.Clients {
		for _, w := range ways {
			name := fmt.Sprintf("clients_%d_%s", n, w.name)
			if round < 0 {
				r.names = append(r.names, name)
			}
			sides := []int{sideBound, sideFree}
			if round%2 == 0 {
				slices.Reverse(sides)
			}
			for _, side := range sides {
				f, err := r.cohort(ctx, w, round, n, side)
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err != nil {
					r.errs = append(r.errs, fmt.Sprintf("round %d, %s: %v", round+1, name, err))
				} else if round >= 0 {
					r.put(name, side, round, f)
				}
			}
			if d := r.data[name]; d != nil {
				fmt.Fprintf(r.o.Log, "round %d of %d: %-20s %s of free decode\n", round+1, r.o.Rounds, name,
					ratios(d[sideBound][mDecode], d[sideFree][mDecode], false).spread().ratio())
			}
		}
	}
	return nil
}

// cohort lets n clients ask at once, and measures their pace after the first token.
func (r *structuredRun) cohort(ctx context.Context, w way, round, n, side int) (figures, error) {
	answers, errs := make([]*answer, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			q := w.ask(ordersPrompt(r.seed, round, i), r.o.Tokens, i+1)
			if side == sideBound {
				q.schema = ordersSchema
			} else {
				q.toTheCap = true
			}
			answers[i], errs[i] = r.s.ask(ctx, q)
		})
	}
	start := time.Now()
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	f := together(start, answers)
	f[mDecode] = 0
	for _, a := range answers {
		if a.completionTokens != r.o.Tokens || a.finish != "length" {
			return nil, fmt.Errorf("an answer has %d tokens and ends with %q; both sides need %d and the cap", a.completionTokens, a.finish, r.o.Tokens)
		}
		if side == sideBound {
			if err := checkBeginning(a.text); err != nil {
				return nil, fmt.Errorf("%q does not begin as JSON: %w", a.text, err)
			}
		}
		one := figures{}
		a.decode(one)
		f[mDecode] += one[mDecode]
	}
	return f, nil
}

func (w way) ask(prompt string, tokens, seed int) question {
	return question{prompt: prompt, maxTokens: tokens, seed: seed, temperature: w.temperature, topP: w.topP, topK: w.topK}
}

func (r *structuredRun) put(name string, side, round int, f figures) {
	d := r.data[name]
	if d == nil {
		d = &[2]map[metric]series{{}, {}}
		r.data[name] = d
	}
	for m, v := range f {
		d[side][m] = put(d[side][m], round, v)
	}
}
