package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Case is one question to a server.
type Case struct {
	Area  string // chat, stream, tools, ...
	Name  string // unique
	From  string // a public report of the fault, or what asks for it
	Right string // what is right
	check func(*trial)
}

// Cases are all there are, by area.
func Cases() []Case {
	return slices.Concat(chatCases, messageCases, sampleCases, logprobCases, streamCases, stopCases, toolCases, formatCases, errorCases, httpCases,
		completionCases, responseCases, anthropicCases, embeddingCases, rerankCases, textCases)
}

// State is how a case went.
type State string

// Verdicts.
const (
	Right   State = "right"
	Wrong   State = "wrong"
	Absent  State = "absent"
	Unshown State = "not shown"
)

// Verdict is how a case went with one server.
type Verdict struct {
	State State  `json:"state"`
	Why   string `json:"why,omitempty"` // unless it is right
}

// Result is a case with its verdicts, one a server.
type Result struct {
	Area     string    `json:"area"`
	Name     string    `json:"case"`
	From     string    `json:"from"`
	Right    string    `json:"right"`
	Verdicts []Verdict `json:"verdicts"`
}

// Report is a run.
type Report struct {
	Began   time.Time       `json:"began"`
	Servers []ReportServer  `json:"servers"`
	Results []Result        `json:"cases"`
	Totals  []map[State]int `json:"totals"` // one a server
}

// ReportServer is a server as the report names it.
type ReportServer struct {
	Name  string `json:"name"`
	URL   string `json:"url"`
	Model string `json:"model"`
}

// Run asks every server every case. An error means that the run could not be
// completed; the report then has what there was, or is nil.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	rep := &Report{Began: time.Now().UTC().Truncate(time.Second)}
	var askers []*asker
	for _, s := range o.Servers {
		a := newAsker(s, o.Timeout)
		defer a.http.CloseIdleConnections()
		if err := a.chooseModel(ctx); err != nil {
			return nil, err
		}
		askers = append(askers, a)
		rep.Servers = append(rep.Servers, ReportServer{a.Name, a.URL, a.Model})
		rep.Totals = append(rep.Totals, map[State]int{})
	}
	for _, c := range o.chosen() {
		r := Result{Area: c.Area, Name: c.Name, From: c.From, Right: c.Right}
		for i, a := range askers {
			v, err := a.try(ctx, c)
			if err == nil {
				err = a.alive(ctx)
			}
			if err != nil {
				return rep, fmt.Errorf("%s, at %q: %w", a.Name, c.Name, err)
			}
			fmt.Fprintf(o.Log, "%s\t%s\t%s: %s\t%s\n", a.Name, v.State, c.Area, c.Name, v.Why)
			rep.Totals[i][v.State]++
			r.Verdicts = append(r.Verdicts, v)
		}
		rep.Results = append(rep.Results, r)
	}
	return rep, nil
}

// try runs a case.
func (a *asker) try(ctx context.Context, c Case) (v Verdict, err error) {
	t := &trial{ctx: ctx, asker: a}
	defer func() {
		switch end := recover().(type) {
		case nil:
		case verdict:
			v = Verdict(end)
		case broken:
			err = end.error
		default: // one odd answer does not cost the run
			v = Verdict{Wrong, fmt.Sprintf("the answer is not of the expected shape: %v", end)}
		}
	}()
	c.check(t)
	return Verdict{State: Right}, nil
}

// alive tells whether the server still answers after a case.
func (a *asker) alive(ctx context.Context) error {
	r, err := a.ask(ctx, "GET", "/v1/models", nil, nil)
	switch {
	case err != nil:
		return fmt.Errorf("it answers no more: %w", err)
	case r.status >= 500:
		return errors.New("it answers no more: GET /v1/models has status " + fmt.Sprint(r.status))
	}
	return nil
}
