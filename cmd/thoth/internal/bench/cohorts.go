package bench

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// metric is one figure of a cohort.
type metric struct {
	name         string
	lessIsBetter bool
	compare      bool // a ratio of two servers means something
}

// The figures, in the order of the report.
var (
	mDecode   = metric{"decode_tok_s", false, true}
	mTotal    = metric{"total_tok_s", false, true}
	mPrompt   = metric{"prompt_tok_s", false, true}
	mTTFT     = metric{"ttft_ms", true, true}
	mTTFT50   = metric{"ttft_p50_ms", true, true}
	mTTFT95   = metric{"ttft_p95_ms", true, true}
	mOverhead = metric{"over_engine_ms", true, false}
	mClient   = metric{"client_side_ms", true, false}
	mTokens   = metric{"prompt_tokens", false, false}
	mMin      = metric{"tokens_min", false, false}
	mMax      = metric{"tokens_max", false, false}
	mFairness = metric{"fairness", false, false}
	mCached   = metric{"cached_tokens", false, false}
	mReady    = metric{"ready_s", true, true}
	mImport   = metric{"import_gb_s", false, false}
)

// figures of one cohort in one round; a missing one could not be measured.
type figures map[metric]float64

// cohort is one way to load a server.
type cohort struct {
	name      string
	metrics   []metric
	engineKey string // the bare engine's figure to compare with, "" for none
	engineOf  metric // and the metric to compare
	run       func(ctx context.Context, s *server, round int) (figures, error)
}

// cohorts gives the run's cohorts in order.
func (r *runner) cohorts() []cohort {
	var out []cohort
	has := func(group string) bool {
		for _, c := range r.o.Cohorts {
			if c == group {
				return true
			}
		}
		return false
	}
	if has(groupStream) {
		out = append(out, cohort{"one_stream", []metric{mDecode, mTTFT, mOverhead, mClient}, "decode_1", mDecode, r.oneStream})
	}
	if has(groupCold) {
		out = append(out, cohort{"cold_prefill", []metric{mPrompt, mTTFT, mTokens, mOverhead, mClient},
			fmt.Sprintf("prefill_%d", r.o.ColdTokens), mPrompt, r.cold})
	}
	if has(groupClients) {
		for i, n := range r.o.Clients {
			for j, sampled := range []bool{false, true} {
				name := fmt.Sprintf("clients_%d_greedy", n)
				if sampled {
					name = fmt.Sprintf("clients_%d_sampled", n)
				}
				check := i == len(r.o.Clients)-1 && !sampled
				out = append(out, cohort{name, []metric{mTotal, mDecode, mTTFT50, mTTFT95, mMin, mMax, mFairness},
					fmt.Sprintf("decode_%d", n), mDecode,
					func(ctx context.Context, s *server, round int) (figures, error) {
						return r.clients(ctx, s, round, 2*i+j, n, sampled, check)
					}})
			}
		}
	}
	return out
}

// oneStream is decode as one client sees it, the first token excluded.
func (r *runner) oneStream(ctx context.Context, s *server, round int) (figures, error) {
	a, err := s.ask(ctx, question{prompt: streamPrompt, maxTokens: r.o.StreamTokens})
	if err != nil {
		return nil, err
	}
	r.sameAsBefore(s, round, a.text)
	f := firstToken(a)
	a.decode(f)
	return f, nil
}

// decode notes the pace of the tokens after the first, of an answer with more.
func (a *answer) decode(f figures) {
	if last := a.arrivals[len(a.arrivals)-1]; last > a.first {
		f[mDecode] = float64(a.completionTokens-1) / (last - a.first).Seconds()
	}
}

// cold is the time to the first token of a prompt nobody has seen.
func (r *runner) cold(ctx context.Context, s *server, round int) (figures, error) {
	a, err := s.ask(ctx, question{prompt: coldPrompt(r.seed, round, r.coldWords), maxTokens: 1})
	if err != nil {
		return nil, err
	}
	f := firstToken(a)
	f[mTokens] = float64(a.promptTokens)
	if a.promptTokens > 0 {
		f[mPrompt] = float64(a.promptTokens) / a.first.Seconds()
	}
	return f, nil
}

// firstToken splits the time to the first token: over_engine_ms is all but the
// engine's own time for the prompt, client_side_ms what lies outside the server.
func firstToken(a *answer) figures {
	f := figures{mTTFT: ms(a.first)}
	if a.engineMS > 0 {
		f[mOverhead] = ms(a.first) - a.engineMS
	}
	if a.serverTTFTMS > 0 {
		f[mClient] = ms(a.first) - a.serverTTFTMS
	}
	return f
}

// clients lets n clients start at once.
func (r *runner) clients(ctx context.Context, s *server, round, index, n int, sampled, check bool) (figures, error) {
	ask := func(ctx context.Context, i int) (*answer, error) {
		q := question{prompt: clientPrompt(r.seed, round, index, i), maxTokens: r.o.Tokens, seed: i + 1}
		if sampled {
			q.temperature, q.topP = 0.8, 0.95
		}
		return s.ask(ctx, q)
	}
	answers, errs := make([]*answer, n), make([]error, n)
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			answers[i], errs[i] = ask(ctx, i)
		})
	}
	start := time.Now()
	close(gate)
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("client %d of %d: %w", i+1, n, err)
		}
	}
	if check && n > 1 {
		alone, err := ask(ctx, 0)
		if err != nil {
			return nil, fmt.Errorf("client 1 again, alone: %w", err)
		}
		if alone.text != answers[0].text {
			r.changed(s, round, fmt.Sprintf("a greedy answer among %d clients differs from the same one alone", n), alone.text, answers[0].text)
		}
	}
	return together(start, answers), nil
}

// together makes figures of answers that were given at the same time.
func together(start time.Time, answers []*answer) figures {
	var sum, most int
	least := math.MaxInt
	var first []float64
	end, lastFirst := start, start
	firstEnd := start.Add(time.Duration(math.MaxInt64))
	for _, a := range answers {
		sum += a.completionTokens
		least, most = min(least, a.completionTokens), max(most, a.completionTokens)
		first = append(first, ms(a.first))
		stop := a.began.Add(a.arrivals[len(a.arrivals)-1])
		if stop.After(end) {
			end = stop
		}
		if stop.Before(firstEnd) {
			firstEnd = stop
		}
		if t := a.began.Add(a.first); t.After(lastFirst) {
			lastFirst = t
		}
	}
	f := figures{
		mTTFT50: quantile(first, 0.5), mTTFT95: quantile(first, 0.95),
		mMin: float64(least), mMax: float64(most),
	}
	if end.After(start) {
		f[mTotal] = float64(sum) / end.Sub(start).Seconds()
	}
	f[mFairness] = fairness(answers, firstEnd)
	// Pure decode: every client has its first token, and none is done.
	if firstEnd.After(lastFirst) {
		var tokens float64
		for _, a := range answers {
			weight := a.tokensPerChunk()
			for _, at := range a.arrivals {
				if t := a.began.Add(at); t.After(lastFirst) && !t.After(firstEnd) {
					tokens += weight
				}
			}
		}
		f[mDecode] = tokens / firstEnd.Sub(lastFirst).Seconds()
	}
	return f
}

// fairness is the slowest client's pace over the fastest's, each from its first
// token to the moment the first client is done: 1 is even, near 0 means that a
// client starved.
func fairness(answers []*answer, firstEnd time.Time) float64 {
	slow, fast := math.Inf(1), 0.0
	for _, a := range answers {
		var tokens float64
		for _, at := range a.arrivals[1:] {
			if !a.began.Add(at).After(firstEnd) {
				tokens += a.tokensPerChunk()
			}
		}
		spent := firstEnd.Sub(a.began.Add(a.first)).Seconds()
		if spent <= 0 {
			return 0 // still without a first token when another was done
		}
		slow, fast = min(slow, tokens/spent), max(fast, tokens/spent)
	}
	if fast == 0 {
		return 0
	}
	return slow / fast
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
