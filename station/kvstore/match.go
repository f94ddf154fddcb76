package kvstore

import (
	"cmp"
	"slices"

	"thoth/station/engine"
	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// Scope is whose blocks, computed with which adapters; "" for common and none.
type Scope struct{ Name, Adapters string }

// Match is a prefix that is in RAM, and stays so until Release. It is used by
// one goroutine at a time.
type Match struct {
	s       *Store
	scope   Scope
	tokens  []int32
	text    []int32 // of which tokens are the first
	parts   []part  // whole blocks, then at most one that is cut
	whole   int     // parts that are whole
	pos     int     // tokens matched
	brought map[*node]struct{}
	short   Short
	given   [2]int // positions that went out as pieces
	over    bool
}

// part is a block of a match, or its first positions.
type part struct {
	n    *node
	take int
}

// Short is why a match is no longer. DiffersAt is the position where the prompt
// leaves what is stored, with both tokens; all three are -1 when nothing stored
// goes on from the match's end.
type Short struct {
	Reason         wire.KVReason // "" when all is matched
	DiffersAt      int
	Prompt, Stored int32
}

// Find gives the longest prefix of the first limit of tokens that is in RAM, and
// pins its blocks until Release. The caller sets limit to what need not be
// evaluated anyway; the tokens behind it tell the names of blocks that are longer.
func (s *Store) Find(sc Scope, tokens []int32, limit int) *Match {
	m := &Match{s: s, scope: sc, text: slices.Clone(tokens)}
	m.tokens = m.text[:limit]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.extend(m)
	m.short = s.why(m)
	return m
}

// Tokens is the number of positions that can be used now.
func (m *Match) Tokens() int { return m.pos }

// Refresh extends the match by what has come into RAM since.
func (m *Match) Refresh() {
	s := m.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := m.pos; !m.over {
		if s.extend(m); m.pos > before {
			m.short = s.why(m)
		}
	}
}

// Short is why it is no more.
func (m *Match) Short() Short { return m.short }

// Pieces gives the rows of positions [from, to), 0 <= from < to <= Tokens(); valid until Release.
func (m *Match) Pieces(from, to int) []engine.Piece {
	m.given = [2]int{from, to}
	var l []engine.Piece
	for _, p := range m.parts {
		a, b := max(from, p.n.start), min(to, p.n.start+p.take)
		if a < b {
			l = append(l, engine.Piece{Data: m.s.data(p.n), Rows: len(p.n.tokens), Skip: a - p.n.start, Take: b - a})
		}
	}
	return l
}

// FromCold is how many of positions [from, to) Fetch brought for this match.
func (m *Match) FromCold(from, to int) int {
	sum := 0
	for _, p := range m.parts {
		if _, ok := m.brought[p.n]; ok {
			sum += max(0, min(to, p.n.start+p.take)-max(from, p.n.start))
		}
	}
	return sum
}

// Used says that the first n tokens of the match were restored. A tier's hits
// count what went out as pieces: the rest was shared with cells of the pool.
func (m *Match) Used(n int) {
	s := m.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.over || n <= 0 {
		return
	}
	var end *node
	for _, p := range m.parts {
		if p.n.start >= n {
			break
		}
		end = p.n
		s.touch(end)
	}
	if end != nil {
		s.credit(end, n)
	}
	given := max(0, min(m.given[1], n)-m.given[0])
	cold := m.FromCold(m.given[0], m.given[0]+given)
	if cold > 0 {
		s.counts.coldHits++
		s.counts.coldTokens += uint64(cold)
	}
	if given > cold {
		s.counts.warmHits++
		s.counts.warmTokens += uint64(given - cold)
	}
}

// Shared says that a load got these tokens from cells of the pool. What is stored
// of them was of use too: left out of the order of use, the prompt asked for most
// would be evicted first, once its cells are gone. promised is the last block of
// them whose rows are still to come, nil for none.
func (s *Store) Shared(sc Scope, tokens []int32, promised *Fill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.roots[sc]
	if r == nil || s.closed {
		return
	}
	var end *node
	rest := tokens
	for at := r.top; len(rest) >= block.Tokens; rest = rest[block.Tokens:] {
		k := at.kids[at.key.Child(rest[:block.Tokens])]
		if k == nil || !slices.Equal(k.tokens, rest[:block.Tokens]) {
			break
		}
		s.touch(k)
		end, at = k, k
	}
	if at := cmp.Or(end, r.top); len(rest) < block.Tokens {
		if k, n := at.longest(rest); n > 0 {
			s.touch(k)
			end = k
		}
	}
	if promised != nil && !promised.n.gone && (end == nil || promised.n.end() > end.end()) {
		s.touch(promised.n)
		end = promised.n
	}
	if end != nil {
		s.credit(end, len(tokens))
	}
}

// touch notes that n was of use, here and in the cold tier.
func (s *Store) touch(n *node) {
	if !n.gone {
		s.use(n)
	}
	if n.durable && s.cold != nil {
		select {
		case s.touches <- n.blockName():
		default: // the cold tier is behind: its order of use gets coarser
		}
	}
}

// credit counts a load that ended in n.
func (s *Store) credit(n *node, tokens int) {
	n.hits++
	n.saved += uint64(tokens)
	s.rank(n)
}

// Release ends the match: its pieces must not be used any more. Once is enough.
func (m *Match) Release() {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.over {
		return
	}
	m.over = true
	for i := len(m.parts) - 1; i >= 0; i-- {
		m.s.unpin(m.parts[i].n)
	}
	m.parts, m.whole, m.pos = nil, 0, 0
}

// extend follows the tokens of m down the tree as far as rows are in RAM.
func (s *Store) extend(m *Match) {
	var at *node
	if m.whole > 0 {
		at = m.parts[m.whole-1].n
	} else if r := s.roots[m.scope]; r != nil {
		at = r.top
	}
	if at == nil || at.gone || s.closed { // gone: deleted while it is read
		return
	}
	for _, cut := range slices.Clone(m.parts[m.whole:]) {
		defer s.unpin(cut.n) // only then: a tail may go with its last reader
	}
	m.parts = m.parts[:m.whole]
	m.pos = at.end()
	for rest := m.tokens[m.pos:]; len(rest) >= block.Tokens; rest = m.tokens[m.pos:] {
		k := at.kids[at.key.Child(rest[:block.Tokens])]
		if k == nil || k.state != filled || !slices.Equal(k.tokens, rest[:block.Tokens]) {
			break
		}
		s.pin(k)
		m.parts = append(m.parts, part{k, block.Tokens})
		m.whole++
		at, m.pos = k, k.end()
	}
	if k, n := at.longest(m.tokens[m.pos:]); n > 0 {
		s.pin(k)
		m.parts = append(m.parts, part{k, n})
		m.pos += n
	}
}

// why explains where m ends.
func (s *Store) why(m *Match) Short {
	w := Short{DiffersAt: -1, Prompt: -1, Stored: -1}
	if m.pos == len(m.tokens) {
		return w
	}
	var at *node
	key := s.rootKey(m.scope)
	if m.whole > 0 {
		at = m.parts[m.whole-1].n
		key = at.key
	} else if r := s.roots[m.scope]; r != nil {
		at = r.top
	}
	whole := m.whole * block.Tokens
	rest := m.tokens[whole:]
	n := 0
	if at != nil {
		var k *node
		if k, n = at.longest(rest); k != nil && n < len(k.tokens) && n < len(rest) {
			w.DiffersAt, w.Prompt, w.Stored = whole+n, rest[n], k.tokens[n]
		}
	}
	switch {
	case m.pos == 0:
		w.Reason = wire.KVNothing
	case w.DiffersAt >= 0:
		w.Reason = wire.KVDiffers
	default:
		w.Reason = wire.KVEnds
	}
	if l, ok := s.gone.find(key, rest, n); ok {
		w.Reason = l.reason
	} else if s.cold != nil && !s.named && w.DiffersAt < 0 {
		w.Reason = wire.KVUnnamed // the cold tier may have it
	}
	return w
}
