package station

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"thoth/station/engine"
	"thoth/station/kvstore"
	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// memory is a sequence's part in liquid memory, from its load on.
type memory struct {
	scope kvstore.Scope
	keep  bool   // full blocks are stored when the session ends unsaved
	group string // label of what is stored of it

	// promised are the tokens it is about to evaluate: a sequence that begins with
	// them had better wait than evaluate them too. A promise holds while a call
	// works on it, and between calls until promiseEnds.
	promised    []engine.Token
	promiseEnds time.Time
}

// promiseGrace is how long a session may take from its load to its /forward
// before those who wait for it go on by themselves.
const promiseGrace = 100 * time.Millisecond

// leastShared is the least number of positions worth a wait for another's
// prefill.
const leastShared = 16

// restore is the work of /kv-session/load, and the first of a turn: give a sequence
// the longest stored prefix of its tokens, from the pool itself (hot), or copied from
// blocks.
type restore struct {
	scope  kvstore.Scope
	tokens []engine.Token // all staged
	limit  int            // positions to restore at most
	keep   bool
	group  string

	match    *kvstore.Match // the loop's only while fetching is false
	fetching atomic.Bool    // a goroutine of the handler is still reading from the cold tier
	leave    func()         // the loop needs match no more

	giveUp    time.Time // wait for others no longer
	waiting   time.Time // since when it waits, zero: it does not
	coalesced bool      // it waited for another's prefill

	hot  *sequence // chosen source in the pool, nil: none
	hotN int
	warm int // positions the match gives, 0 unless more than hot

	answer wire.KVLoadResponse
}

// newRestore is a restore of a sequence's tokens; limit bounds the positions, 0 does not.
func newRestore(s *sequence, q *wire.KVLoadRequest, limit int) *restore {
	x := &restore{scope: kvstore.Scope{Name: q.Scope, Adapters: s.adapter}, tokens: s.tokens, limit: max(0, len(s.tokens)-1), keep: q.Keep, group: q.Group}
	if limit > 0 {
		x.limit = min(x.limit, limit)
	}
	return x
}

// chooseSource decides where a load's KV comes from. It reports false while another
// sequence is about to evaluate more of its prefix, or blocks are being read that
// the pool does not have: the load is better served a little later.
func (l *loop) chooseSource(c *call) bool {
	x := c.restore
	x.hot, x.hotN, x.warm = nil, 0, 0
	if c.seq.pos == 0 {
		x.hot, x.hotN = l.hottest(c)
	}
	fetching := x.fetching.Load()
	if !fetching {
		if x.hotN < x.limit && x.match.Tokens() < x.limit {
			// A copy may have been finished since the handler looked, and its cells be
			// gone: what was hot then is warm now.
			x.match.Refresh()
		}
		x.warm = min(x.match.Tokens(), x.limit)
	}
	have := max(x.hotN, x.warm, c.seq.pos)
	if have < x.limit {
		promised := l.promise(c) - have
		if (fetching || promised >= leastShared) && (x.giveUp.IsZero() || time.Now().Before(x.giveUp)) {
			if x.waiting.IsZero() {
				x.waiting = time.Now()
			}
			x.coalesced = x.coalesced || promised >= leastShared
			return false
		}
	}
	if x.warm <= max(x.hotN, c.seq.pos) {
		x.warm = 0
	}
	c.target = c.seq.pos
	if x.warm > 0 {
		c.target = x.warm - x.hotN
	}
	return true
}

// kin says whether a sequence may share KV with a load.
func (x *restore) kin(c *call, s *sequence) bool {
	return s != c.seq && s.memory != nil && s.memory.scope == x.scope
}

// hottest finds the resident that shares the longest prefix.
func (l *loop) hottest(c *call) (*sequence, int) {
	var best *sequence
	n := 0
	for _, s := range l.pool.residents {
		if c.restore.kin(c, s) {
			if m := block.Common(c.restore.tokens[:c.restore.limit], s.known()); m > n {
				best, n = s, m
			}
		}
	}
	return best, n
}

// promise is the longest prefix that others are about to evaluate.
func (l *loop) promise(c *call) int {
	n := 0
	look := func(s *sequence) {
		if !c.restore.kin(c, s) || s.pos >= len(s.memory.promised) {
			return
		}
		if !s.working && time.Now().After(s.memory.promiseEnds) {
			return
		}
		if m := block.Common(c.restore.tokens[:c.restore.limit], s.memory.promised); m > s.pos {
			n = max(n, m)
		}
	}
	for _, o := range l.running {
		look(o.seq)
	}
	for _, o := range l.waiting {
		if o.restore == nil { // a load evaluates nothing: two would wait for each other
			look(o.seq)
		}
	}
	for _, s := range l.idle {
		look(s)
	}
	return n
}

// nextPromise is when the first promise between two calls ends that a load may
// be waiting for; zero when none is.
func (l *loop) nextPromise() time.Time {
	var first time.Time
	now := time.Now()
	earlier := func(t time.Time) {
		if t.After(now) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	loads := false
	for _, c := range l.waiting {
		if c.restore != nil {
			loads = true
			earlier(c.restore.giveUp)
		}
	}
	if !loads {
		return time.Time{}
	}
	for _, s := range l.idle {
		if m := s.memory; m != nil && s.pos < len(m.promised) {
			earlier(m.promiseEnds)
		}
	}
	return first
}

// restoreNow gives a placed, or a not yet placed, sequence its KV and ends the
// call, unless that is a turn, which goes on.
func (l *loop) restoreNow(c *call) {
	x, s := c.restore, c.seq
	start := time.Now()
	if !x.waiting.IsZero() {
		x.answer.WaitMS = ms(x.waiting, start)
	}
	x.answer.QueueMS = max(0, ms(c.queued, start)-x.answer.WaitMS)
	before := s.pos
	var failed error
	if x.hotN > 0 {
		l.pool.join(s, x.hot, x.hotN)
		x.answer.Tiers.Hot = s.pos
		l.kv.hotHits++
		l.kv.hotTokens += uint64(s.pos)
	}
	if from := s.pos; x.warm > from {
		if failed = l.importRows(s, x.match.Pieces(from, x.warm)); failed == nil {
			if from > 0 {
				l.kv.scattered++ // cells of its own behind shared ones, or behind what it had
			}
			x.answer.Tiers.Cold = x.match.FromCold(from, x.warm)
			x.answer.Tiers.Warm = x.warm - from - x.answer.Tiers.Cold
			x.match.Used(x.warm)
		}
	}
	if s.pos > before && s.pos == x.hotN {
		l.store.Shared(x.scope, x.tokens[:s.pos], x.hot.promised(s.pos))
	}
	if s.pos == 0 {
		x.answer.Tiers = wire.KVTiers{} // an import that failed took the shared cells with it
	}
	s.evaluated = x.tokens[:s.pos]
	s.memory = &memory{scope: x.scope, keep: x.keep, group: x.group, promised: x.tokens, promiseEnds: time.Now().Add(promiseGrace)}
	if s.pos > before {
		s.forgetRow()
	}

	l.kv.loads++
	l.kv.asked += uint64(len(x.tokens))
	if x.coalesced && x.answer.Tiers.Hot > 0 {
		l.kv.coalesced++
	}
	l.explain(x, s.pos, failed)
	x.answer.Session, x.answer.Position, x.answer.Staged = c.session, s.pos, len(x.tokens)-s.pos
	x.answer.LoadMS = ms(start, time.Now())
	x.leave()
	if c.kv == nil {
		l.finish(c)
	} else {
		c.restored()
	}
}

// explain says why no more was restored.
func (l *loop) explain(x *restore, pos int, failed error) {
	x.answer.DiffersAt = -1
	switch {
	case errors.Is(failed, engine.ErrPoolFull):
		x.answer.Reason = wire.KVNoRoom
	case failed != nil:
		x.answer.Reason = wire.KVEngine
	case pos >= x.limit && pos >= len(x.tokens)-1:
	case pos >= x.limit:
		x.answer.Reason = wire.KVLimit
	case pos > 0 && pos == x.hotN:
		x.answer.Reason = wire.KVEnds
		if known := x.hot.known(); len(known) > pos {
			l.differs(x, pos, known[pos])
		}
		// The pool knows other prompts that begin alike; that the store has lost what
		// it had of this one says more.
		if !x.fetching.Load() && pos < x.match.Tokens()+block.Tokens {
			switch r := x.match.Short().Reason; r {
			case wire.KVDamaged, wire.KVStoreFails, wire.KVEvicted, wire.KVExpired:
				x.answer.Reason = r
			}
		}
	default:
		short := kvstore.Short{Reason: wire.KVStoreSlow, DiffersAt: -1}
		if !x.fetching.Load() {
			short = x.match.Short()
		}
		x.answer.Reason = short.Reason
		if short.DiffersAt >= 0 && short.DiffersAt < len(x.tokens) {
			x.answer.DiffersAt = short.DiffersAt
			x.answer.PromptToken, x.answer.StoredToken = &short.Prompt, &short.Stored
		}
	}
	if x.answer.Reason != "" {
		l.kv.short[x.answer.Reason]++
	}
}

func (l *loop) differs(x *restore, at int, stored engine.Token) {
	prompt := x.tokens[at]
	x.answer.Reason, x.answer.DiffersAt, x.answer.PromptToken, x.answer.StoredToken = wire.KVDiffers, at, &prompt, &stored
}

// importRows appends rows to a resident. A failure leaves it as it was.
func (l *loop) importRows(s *sequence, pieces []engine.Piece) error {
	n := engine.Positions(pieces)
	if l.pool.live()+n > l.pool.cells {
		return engine.ErrPoolFull // another took the room between making it and here
	}
	if l.pool.top+n > l.pool.cells {
		l.pool.compact()
		l.reap()
		if s.id == noSeq {
			return errLostMeanwhile
		}
	}
	start := time.Now()
	err := l.eng.Import(s.id, s.pos, pieces)
	if err != nil {
		if !errors.Is(err, engine.ErrPoolFull) {
			l.opts.Logger.Error().Err(err).Msg("stored KV was refused by the engine; its tokens are evaluated")
		}
		return fmt.Errorf("import: %w", err)
	}
	l.pool.took(n)
	s.pos += n
	l.kv.importSeconds += time.Since(start).Seconds()
	l.kv.importBytes += uint64(n * l.pool.cellBytes)
	return nil
}

var errLostMeanwhile = errors.New("the shared cells were lost while room was made")
