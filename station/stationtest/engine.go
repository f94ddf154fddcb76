package stationtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"thoth/station/engine"
)

// Engine is the fake. Invariants it checks, besides those of its pool: loop
// methods are never entered twice at a time; a sequence whose decode failed is
// retired before it is used again; nothing is used after Free or Close.
type Engine struct {
	o     Options
	info  engine.Info
	vocab *vocabulary
	model *model

	inLoop atomic.Pointer[string] // loop method running now
	closed atomic.Bool

	mu       sync.Mutex // the loop's state, so that tests may look at it meanwhile
	pool     *pool
	rows     map[int][]float32 // logits of the last decode
	poisoned map[engine.SeqID]bool
	batches  []int // sizes of all decode calls that evaluated
	decodes  int   // calls
	resets   int
	failures map[int]error // by call number
	moves    moves
	embeds   embeds

	pauseMu sync.Mutex
	pause   *Pause

	abortMu sync.Mutex
	abort   chan struct{} // closed while an abort is in force
	aborted bool

	owned owned

	violationsMu sync.Mutex
	violations   []string
}

var (
	_ engine.Engine = (*Engine)(nil)
	_ engine.Mover  = (*Engine)(nil)
)

// NewEngine makes a fake. Options that contradict each other panic.
func NewEngine(o Options) *Engine {
	o.fill()
	v := newVocabulary()
	e := &Engine{
		o: o, info: o.info(v), vocab: v,
		model:    &model{v: v, eogEvery: uint64(max(o.EOGEvery, 0)), next: o.Next},
		pool:     newPool(o.Cells, o.Sequences),
		rows:     map[int][]float32{},
		poisoned: map[engine.SeqID]bool{},
		failures: map[int]error{},
		abort:    make(chan struct{}),
	}
	e.owned.violate = e.violate
	return e
}

// Info describes the fake model.
func (e *Engine) Info() engine.Info { return e.info }

// Tokenize takes the longest piece at each place.
func (e *Engine) Tokenize(text string, special bool) ([]engine.Token, error) {
	e.alive("Tokenize")
	return e.vocab.tokenize(text, special), nil
}

// Piece gives a token's bytes.
func (e *Engine) Piece(t engine.Token, special bool) []byte { return e.vocab.piece(t, special) }

// Abort makes the running and coming decodes fail until ClearAbort.
func (e *Engine) Abort() {
	e.abortMu.Lock()
	defer e.abortMu.Unlock()
	if !e.o.CannotAbort && !e.aborted {
		e.aborted = true
		close(e.abort)
	}
}

// ClearAbort ends the abort.
func (e *Engine) ClearAbort() {
	e.abortMu.Lock()
	defer e.abortMu.Unlock()
	if e.aborted {
		e.aborted = false
		e.abort = make(chan struct{})
	}
}

func (e *Engine) abortChannel() <-chan struct{} {
	e.abortMu.Lock()
	defer e.abortMu.Unlock()
	return e.abort
}

// Decode appends the batch to the pool and computes the wanted rows.
func (e *Engine) Decode(b *engine.Batch) error {
	defer e.enter("Decode")()
	e.mu.Lock()
	e.decodes++
	number := e.decodes
	clear(e.rows)
	e.mu.Unlock()

	if e.o.OnDecode != nil {
		e.o.OnDecode(number, b)
	}
	abort := e.abortChannel()
	e.waitPause(number, abort)
	select {
	case <-abort:
		return engine.ErrAborted
	default:
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.checkBatch(b); err != nil {
		return err
	}
	failure := e.failures[number]
	if failure == engine.ErrPoolFull || b.Len() > e.pool.room() {
		return engine.ErrPoolFull
	}
	if failure != nil {
		// Half of the batch stays behind: what the caller must clean up.
		for i := range b.Len() / 2 {
			e.pool.append(kv{token: b.Tokens[i], pos: b.Pos[i]}, b.Seq[i])
		}
		for _, s := range b.Seq {
			e.poisoned[s] = true
		}
		return failure
	}
	e.batches = append(e.batches, b.Len())
	pasts := map[engine.SeqID]uint64{}
	for i := range b.Len() {
		s, pos := b.Seq[i], b.Pos[i]
		if want := e.pool.length[s]; int(pos) != want {
			e.violate("decode of sequence %d at position %d, but the pool holds %d of its tokens", s, pos, want)
		}
		past, known := pasts[s]
		if !known {
			h, _ := e.pool.history(s, pos-1)
			past = read(h)
		}
		e.pool.append(kv{b.Tokens[i], pos, past}, s)
		pasts[s] = after(past, b.Tokens[i])
	}
	for i, wanted := range b.Output {
		if !wanted {
			continue
		}
		h, err := e.pool.history(b.Seq[i], b.Pos[i])
		if err != nil {
			e.violate("%v", err)
		}
		e.rows[i] = e.model.logits(h)
	}
	return nil
}

// checkBatch refuses what would end a real engine's process.
func (e *Engine) checkBatch(b *engine.Batch) error {
	n := b.Len()
	bad := func(format string, args ...any) error {
		e.violate(format, args...)
		return engine.ErrDecode
	}
	if n == 0 || n > e.info.BatchSize {
		return bad("decode of %d tokens, want 1 to %d", n, e.info.BatchSize)
	}
	if len(b.Pos) != n || len(b.Seq) != n || len(b.Output) != n {
		return bad("a batch's slices differ in length: %d tokens, %d positions, %d sequences, %d outputs", n, len(b.Pos), len(b.Seq), len(b.Output))
	}
	for i := range n {
		switch {
		case !e.validSeq(b.Seq[i]):
			return bad("decode of sequence %d, want 0 to %d", b.Seq[i], e.info.Sequences-1)
		case b.Tokens[i] < 0 || int(b.Tokens[i]) >= e.info.Vocabulary:
			return bad("decode of token %d, the vocabulary has %d", b.Tokens[i], e.info.Vocabulary)
		case b.Pos[i] < 0 || int(b.Pos[i]) >= e.info.ContextLength:
			return bad("decode of sequence %d at position %d, context_length is %d", b.Seq[i], b.Pos[i], e.info.ContextLength)
		case e.poisoned[b.Seq[i]]:
			return bad("decode of sequence %d, which was not retired after its decode failed", b.Seq[i])
		}
	}
	return nil
}

// Sample draws a token for each request.
func (e *Engine) Sample(reqs []engine.SampleRequest, out []engine.Sampled) error {
	defer e.enter("Sample")()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(reqs) != len(out) {
		e.violate("Sample of %d requests into %d results", len(reqs), len(out))
		return engine.ErrDecode
	}
	used := map[*sampler]bool{}
	for i, r := range reqs {
		l, err := e.row(r.Row, r.Held)
		if err != nil {
			return err
		}
		s, mine := r.Sampler.(*sampler)
		switch {
		case !mine || !e.owned.has(s):
			e.violate("Sample with a freed or foreign sampler")
			return engine.ErrDecode
		case used[s]:
			e.violate("one sampler serves two rows of a step")
			return engine.ErrDecode
		}
		used[s] = true
		t, err := s.draw(l, r.NoEOG)
		if err != nil {
			out[i] = engine.Sampled{Err: err}
			continue
		}
		out[i] = engine.Sampled{Token: t}
		if r.Logprobs {
			lp := logprobs(l, t, r.Top)
			out[i].Logprob, out[i].Top = lp.Logprob, lp.Top
		}
	}
	return nil
}

// Logprobs reads a row's distribution.
func (e *Engine) Logprobs(row int, held engine.Held, next engine.Token, top int) (engine.TokenLogprob, error) {
	defer e.enter("Logprobs")()
	e.mu.Lock()
	defer e.mu.Unlock()
	l, err := e.row(row, held)
	if err != nil {
		return engine.TokenLogprob{}, err
	}
	if next < 0 || int(next) >= len(l) {
		e.violate("Logprobs of token %d, the vocabulary has %d", next, len(l))
		return engine.TokenLogprob{}, engine.ErrDecode
	}
	return logprobs(l, next, top), nil
}

// Hold keeps a row past the next decode; the caller frees it.
func (e *Engine) Hold(row int) (engine.Held, error) {
	defer e.enter("Hold")()
	e.mu.Lock()
	defer e.mu.Unlock()
	l, err := e.row(row, nil)
	if err != nil {
		return nil, err
	}
	h := &heldRow{owned: &e.owned, logits: l}
	e.owned.add(h, "held row")
	return h, nil
}

// row finds logits: held, or of the last decode.
func (e *Engine) row(row int, held engine.Held) ([]float32, error) {
	if held != nil {
		h, mine := held.(*heldRow)
		if !mine || !e.owned.has(h) {
			e.violate("use of a freed or foreign held row")
			return nil, engine.ErrDecode
		}
		return h.logits, nil
	}
	l, ok := e.rows[row]
	if !ok {
		e.violate("use of row %d, which the last decode has no output for", row)
		return nil, engine.ErrDecode
	}
	return l, nil
}

// NewSampler builds a chain; the caller frees it.
func (e *Engine) NewSampler(p engine.SamplerParams, prompt []engine.Token) (engine.Sampler, error) {
	e.alive("NewSampler")
	for t := range p.LogitBias {
		if t < 0 || int(t) >= e.info.Vocabulary {
			e.violate("logit bias of token %d, the vocabulary has %d", t, e.info.Vocabulary)
			return nil, fmt.Errorf("logit bias of token %d", t)
		}
	}
	s := &sampler{e: e, p: p, state: p.Seed, window: append([]engine.Token(nil), prompt...), answer: map[engine.Token]int{}}
	if p.Grammar != "" {
		g, err := parseLiterals(p.Grammar)
		if err != nil {
			return nil, err
		}
		s.grammar = g
	}
	e.owned.add(s, "sampler")
	return s, nil
}

// Close ends the engine; any later call is a violation.
func (e *Engine) Close() {
	defer e.enter("Close")()
	if e.closed.Swap(true) {
		e.violate("Close was called twice")
	}
}

func (e *Engine) validSeq(s engine.SeqID) bool { return s >= 0 && int(s) < e.info.Sequences }

// enter marks a loop method as running and gives the function that ends it.
func (e *Engine) enter(method string) func() {
	if method != "Close" {
		e.alive(method)
	}
	if !e.inLoop.CompareAndSwap(nil, &method) {
		if other := e.inLoop.Load(); other != nil {
			e.violate("%s was called while %s ran", method, *other)
		}
		return func() {}
	}
	return func() { e.inLoop.Store(nil) }
}

func (e *Engine) alive(method string) {
	if e.closed.Load() {
		e.violate("%s was called after Close", method)
	}
}

func (e *Engine) violate(format string, args ...any) {
	e.violationsMu.Lock()
	defer e.violationsMu.Unlock()
	if len(e.violations) < 100 {
		e.violations = append(e.violations, fmt.Sprintf(format, args...))
	}
}

// Check fails the test for every violation and leak so far. Call it after the
// station has stopped.
func (e *Engine) Check(t testing.TB) {
	t.Helper()
	for _, v := range e.Violations() {
		t.Errorf("engine rule broken: %s", v)
	}
	for _, l := range e.Leaks() {
		t.Errorf("engine leak: %s", l)
	}
}
