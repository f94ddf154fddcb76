package station

// The plan of one step: which tokens go into the batch. Pure functions.

// share is a part of the batch: n tokens of one call.
type share struct {
	call *call
	n    int
}

// planStep fills a batch of at most size tokens from calls in order of arrival:
// first one token of every decoding call, then at most prefill prompt tokens.
// Half of the prompt tokens go to the oldest prompt, so it is never starved; the
// rest goes to those that lack least, so short prompts pass long ones. Only
// calls of one adapter set share a batch: that of the first call which has been
// passed over longest, given by the rotation of calls that the loop keeps.
func planStep(calls []*call, size, prefill int) []share {
	var plan []share
	var prompts []*call
	set := ""
	for i, c := range calls {
		if i == 0 {
			set = c.seq.adapter
		}
		if c.seq.adapter != set || c.missing() == 0 {
			continue
		}
		if !c.decodes() {
			prompts = append(prompts, c)
			continue
		}
		if size > 0 {
			plan = append(plan, share{c, 1})
			size--
		}
	}
	prefill = min(prefill, size)
	given := make(map[*call]int, len(prompts))
	give := func(c *call, most int) {
		n := min(c.missing()-given[c], most, prefill)
		given[c] += n
		prefill -= n
	}
	if len(prompts) > 0 {
		give(prompts[0], max(1, (prefill+1)/2))
	}
	for prefill > 0 {
		var least *call
		for _, c := range prompts {
			left := c.missing() - given[c]
			if left > 0 && (least == nil || left < least.missing()-given[least]) {
				least = c
			}
		}
		if least == nil {
			break
		}
		give(least, prefill)
	}
	for _, c := range prompts {
		if given[c] > 0 {
			plan = append(plan, share{c, given[c]})
		}
	}
	return plan
}

// tokens counts the tokens of a plan.
func tokens(plan []share) int {
	n := 0
	for _, s := range plan {
		n += s.n
	}
	return n
}

// rotate moves the calls of the adapter set that just had its step behind the
// others, keeping the order of arrival inside each set.
func rotate(calls []*call) []*call {
	if len(calls) == 0 {
		return calls
	}
	set := calls[0].seq.adapter
	var had, rest []*call
	for _, c := range calls {
		if c.seq.adapter == set {
			had = append(had, c)
		} else {
			rest = append(rest, c)
		}
	}
	if len(rest) == 0 {
		return calls
	}
	return append(rest, had...)
}

// pace sizes prefill chunks to a time, from the speed seen.
type pace struct {
	perToken float64 // seconds per token of a batch, moving average; 0: nothing seen
}

// startChunk is the first chunk, before any speed was seen.
const startChunk = 64

// minChunk keeps a slow machine from crawling through a prompt token by token,
// where the weights are read once for each.
const minChunk = 16

// chunk is the number of prompt tokens that take about seconds.
func (p *pace) chunk(seconds float64) int {
	if p.perToken == 0 {
		return startChunk
	}
	return max(minChunk, int(seconds/p.perToken))
}

// saw records a batch of n tokens. Small batches cost more per token than a
// chunk does, so they teach nothing.
func (p *pace) saw(n int, seconds float64) {
	if n < minChunk {
		return
	}
	const weight = 0.3
	if p.perToken == 0 {
		p.perToken = seconds / float64(n)
		return
	}
	p.perToken += weight * (seconds/float64(n) - p.perToken)
}
