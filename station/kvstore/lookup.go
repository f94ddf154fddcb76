package kvstore

import (
	"context"
	"errors"
	"sync"

	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// errSeen ends a read that was made to learn whether a block is there.
var errSeen = errors.New("only asked for")

// Lookup tells what of tokens is stored, and where. Nothing is moved: RAM is looked
// at, and the cold tier asked by name.
func (s *Store) Lookup(ctx context.Context, sc Scope, tokens []int32) wire.KVLookupResponse {
	m := s.Find(sc, tokens, len(tokens))
	defer m.Release()
	r := wire.KVLookupResponse{Tokens: len(tokens), Position: m.pos, Tiers: wire.KVTiers{Warm: m.pos}}
	w := m.Short()

	s.mu.Lock()
	root := s.rootKey(sc)
	parent := root
	for i, p := range m.parts {
		r.Keys = append(r.Keys, p.n.key.String())
		if i < m.whole {
			parent = p.n.key
		}
	}
	cold := s.cold != nil && s.named && s.off() == ""
	s.mu.Unlock()

	if cold && m.pos < len(tokens) {
		names, pos := s.peek(ctx, root, parent, tokens[m.whole*block.Tokens:])
		if pos += m.whole * block.Tokens; pos > m.pos {
			w = Short{DiffersAt: -1, Prompt: -1, Stored: -1}
			if pos < len(tokens) {
				w.Reason = wire.KVEnds
			}
			r.Keys = r.Keys[:m.whole] // a block that was cut is left for a longer one
			for _, n := range names {
				r.Keys = append(r.Keys, n.Key.String())
			}
			r.Tiers = wire.KVTiers{Warm: m.whole * block.Tokens, Cold: pos - m.whole*block.Tokens}
			r.Position = pos
		}
	}
	r.Reason, r.DiffersAt = w.Reason, w.DiffersAt
	if w.DiffersAt >= 0 {
		r.PromptToken, r.StoredToken = &w.Prompt, &w.Stored
	}
	return r
}

// peek asks the cold tier for the blocks that rest, which follows parent, begins
// with, and tells how far they reach.
func (s *Store) peek(ctx context.Context, root, parent block.Key, rest []int32) (found []block.Name, tokens int) {
	for len(rest)-tokens >= block.Tokens {
		var names []block.Name
		for next := parent; len(names) < s.o.Readers && len(rest)-tokens-len(names)*block.Tokens >= block.Tokens; {
			from := tokens + len(names)*block.Tokens
			n := block.Name{Root: root, Parent: next, Key: next.Child(rest[from : from+block.Tokens])}
			names = append(names, n)
			next = n.Key
		}
		there := make([]bool, len(names))
		var wg sync.WaitGroup
		for i, n := range names {
			wg.Go(func() { there[i] = s.there(ctx, n) })
		}
		wg.Wait()
		for i, n := range names {
			if !there[i] {
				names = names[:i]
				break
			}
			found = append(found, n)
			parent = n.Key
			tokens += block.Tokens
		}
		if len(names) < len(there) {
			break
		}
	}
	list, err := s.cold.Tails(ctx, root, parent)
	if err != nil {
		return found, tokens
	}
	best := Tail{}
	for _, t := range list { // what a tail shares with rest only in part, a read would tell: nothing is read here
		if n := t.Tokens; n > best.Tokens && n <= min(block.Tokens, len(rest)-tokens) && parent.Child(rest[tokens:tokens+n]) == t.Key {
			best = t
		}
	}
	if best.Tokens > 0 {
		found = append(found, best.Name)
		tokens += best.Tokens
	}
	return found, tokens
}

// there is whether the cold tier has a block: a read that ends before the rows.
func (s *Store) there(ctx context.Context, n block.Name) bool {
	_, err := s.cold.Get(ctx, n, func(int) ([]byte, error) { return nil, errSeen })
	return errors.Is(err, errSeen)
}
