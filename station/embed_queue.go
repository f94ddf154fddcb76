package station

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"thoth/station/engine"
	"thoth/station/wire"
)

// embedQueue has the vectors of texts made, or the scores of pairs, between the
// loop's steps.
//
// Generation and vectors share the cores and the thread that computes, so they
// take turns: while texts wait, one batch of them comes after each step, and is
// as large as a step may last (StepTarget while answers are decoded, else
// PrefillTarget). So an answer goes on however many texts wait, and a text is
// never behind more than one step. A request's texts share a batch with those of
// others; requests take one text each in turn, so that a small one does not wait
// for thousands of another.
//
// A text that is longer than a batch goes in parts where the model can, and has
// the batches for itself until it is done; an encoder sees a text as a whole, and
// its batch then takes as long as it takes.
//
// Invariants: turn runs on the loop's goroutine; one op is handed to the loop
// while there are requests, none otherwise; a request's done is closed once, when
// it has all its vectors or an error.
type embedQueue struct {
	most   int // requests
	step   time.Duration
	prompt time.Duration

	mu struct {
		sync.Mutex
		requests []*embedRequest // in turn
		handed   bool            // an op is with the loop
	}

	// The loop's.
	pace pace
	long *embedRequest // whose next text is begun; nil for none

	texts, tokens, failures atomic.Uint64
}

// embedRequest is one caller's texts.
type embedRequest struct {
	texts   []engine.Text
	done    chan struct{}
	vectors []wire.Vector // of the texts before next
	err     *wire.Error

	cancelled atomic.Bool
	next      int // the first text without a vector; the loop's
	at        int // tokens of it that were evaluated
	taken     int // texts of the batch being made
	queued    time.Time
	started   time.Time
	engine    time.Duration
}

func newEmbedQueue(o Options) *embedQueue {
	return &embedQueue{most: o.MaxWaiting, step: o.StepTarget, prompt: o.PrefillTarget}
}

// make gives the vectors of texts, or an error; none of them is empty or longer
// than the model takes.
func (q *embedQueue) make(ctx context.Context, l *loop, texts []engine.Text) (*embedRequest, *wire.Error) {
	r := &embedRequest{texts: texts, done: make(chan struct{}), queued: time.Now()}
	q.mu.Lock()
	if len(q.mu.requests) >= q.most {
		q.mu.Unlock()
		return nil, &wire.Error{Code: wire.CodeOverloaded, Retryable: true, Message: "too many requests are waiting for vectors or scores"}
	}
	q.mu.requests = append(q.mu.requests, r)
	q.hand(l)
	q.mu.Unlock()
	select {
	case <-r.done:
		return r, r.err
	case <-ctx.Done():
		r.cancelled.Store(true)
		return nil, &wire.Error{Code: wire.CodeCancelled, Message: "the caller went away"}
	}
}

// hand gives the loop its next turn; where it takes none any more, all requests
// end. mu is held.
func (q *embedQueue) hand(l *loop) {
	if q.mu.handed || len(q.mu.requests) == 0 {
		return
	}
	if l.hand(func() { q.turn(l) }) == nil {
		for _, r := range q.mu.requests {
			r.end(errDraining())
		}
		q.mu.requests = nil
		return
	}
	q.mu.handed = true
}

// turn makes one batch.
func (q *embedQueue) turn(l *loop) {
	requests := q.waiting(l)
	var err error
	var took []*embedRequest
	if len(requests) > 0 {
		took, err = q.batch(l, l.eng.(engine.Embedder), requests)
	}
	if err != nil {
		q.failures.Add(1)
		l.opts.Logger.Error().Err(err).Int("requests", len(took)).Msg("texts could not be embedded; their requests end")
		q.long = nil
		for _, r := range took {
			r.end(embedError(err))
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.handed = false
	for _, r := range took {
		switch i := slices.Index(q.mu.requests, r); {
		case r.err != nil:
			q.mu.requests = slices.Delete(q.mu.requests, i, i+1)
		case r.next == len(r.texts):
			q.mu.requests = slices.Delete(q.mu.requests, i, i+1)
			close(r.done)
		case r != q.long: // it had its turn
			q.mu.requests = append(slices.Delete(q.mu.requests, i, i+1), r)
		}
	}
	q.hand(l)
}

// waiting drops who has gone and gives the others, in turn, the one with a begun
// text first.
func (q *embedQueue) waiting(l *loop) []*embedRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	over := l.inboxAbandon()
	q.mu.requests = slices.DeleteFunc(q.mu.requests, func(r *embedRequest) bool {
		switch {
		case over:
			r.end(errDraining())
		case !r.cancelled.Load():
			return false
		default:
			close(r.done)
		}
		if q.long == r {
			q.long = nil
		}
		return true
	})
	if q.long != nil {
		return []*embedRequest{q.long}
	}
	return slices.Clone(q.mu.requests)
}

// batch evaluates whole texts, or a part of a long one, and notes the vectors. It
// gives the requests that had a part in it.
func (q *embedQueue) batch(l *loop, eng engine.Embedder, requests []*embedRequest) ([]*embedRequest, error) {
	m := eng.Embedding()
	budget := min(m.BatchTokens, q.pace.chunk(q.target(l).Seconds()))
	start := time.Now()
	tokens := 0
	defer func() {
		took := time.Since(start)
		q.pace.saw(tokens, took.Seconds())
		q.tokens.Add(uint64(tokens))
	}()
	first := requests[0]
	if text := first.texts[first.next].Tokens; m.Parts && (first.at > 0 || len(text) > budget) {
		n := min(budget, len(text)-first.at)
		tokens = n
		vector, err := eng.EmbedPart(text[first.at:first.at+n], first.at == 0, first.at+n == len(text))
		first.ran(start)
		if err != nil {
			return requests[:1], err
		}
		q.long, first.at = first, first.at+n
		if first.at == len(text) {
			q.long, first.at = nil, 0
			first.gets(vector)
			q.texts.Add(1)
		}
		return requests[:1], nil
	}
	texts, owners := choose(requests, budget, m)
	for _, t := range texts {
		tokens += len(t.Tokens)
	}
	vectors, err := eng.Embed(texts)
	var took []*embedRequest
	for i, r := range owners {
		if err == nil {
			r.gets(vectors[i])
		}
		if r.taken > 0 {
			r.taken = 0
			r.ran(start)
			took = append(took, r)
		}
	}
	if err == nil {
		q.texts.Add(uint64(len(texts)))
	}
	return took, err
}

// choose fills a batch: a text of each request in turn, round after round, and
// the first one in any case.
func choose(requests []*embedRequest, budget int, m engine.Embedding) (texts []engine.Text, owners []*embedRequest) {
	tokens := 0
	for more := true; more; {
		more = false
		for _, r := range requests {
			next := r.next + r.taken
			if next == len(r.texts) || len(texts) == m.BatchTexts {
				continue
			}
			n := len(r.texts[next].Tokens)
			if len(texts) > 0 && tokens+n > budget {
				continue
			}
			texts, owners = append(texts, r.texts[next]), append(owners, r)
			tokens += n
			r.taken++
			more = true
		}
	}
	// A request's texts keep their order among themselves; that is all gets needs.
	return texts, owners
}

// target is how long a batch should take.
func (q *embedQueue) target(l *loop) time.Duration {
	if slices.ContainsFunc(l.running, (*call).decodes) {
		return q.step
	}
	return q.prompt
}

// gets notes the vector of the next text.
func (r *embedRequest) gets(v []float32) {
	r.vectors = append(r.vectors, v)
	r.next++
}

// ran notes the time of a batch that began at start.
func (r *embedRequest) ran(start time.Time) {
	if r.started.IsZero() {
		r.started = start
	}
	r.engine += time.Since(start)
}

// end ends a request with an error.
func (r *embedRequest) end(e *wire.Error) {
	r.err = e
	close(r.done)
}

func embedError(err error) *wire.Error {
	if errors.Is(err, engine.ErrEmbedMemory) {
		return &wire.Error{Code: wire.CodeUnavailable, Message: err.Error(), Retryable: true}
	}
	return &wire.Error{Code: wire.CodeEngine, Message: "the engine failed to embed this request's texts; send it again", Retryable: true}
}

func (q *embedQueue) stats(s *wire.Stats) {
	s.EmbedTexts, s.EmbedTokens, s.EmbedFailures = q.texts.Load(), q.tokens.Load(), q.failures.Load()
	q.mu.Lock()
	defer q.mu.Unlock()
	s.EmbedWaiting = len(q.mu.requests)
}
