package kvstore

import (
	"encoding/hex"
	"maps"
	"time"

	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// topPrefixes is how many stored ends Index shows.
const topPrefixes = 20

// Index is what is stored, in numbers, as far as the store knows: what the loop
// counts, and the hot tier, are left empty.
func (s *Store) Index() wire.KVIndex {
	s.mu.Lock()
	x := wire.KVIndex{BlockTokens: block.Tokens, TokenBytes: s.o.TokenBytes, TokensWritten: s.counts.written}
	common := s.rootKey(Scope{})
	if s.named {
		x.Root = hex.EncodeToString(common[:8])
	}
	s.census(&x)
	ours := make(map[block.Key]struct{}, len(s.rootKeys))
	for _, k := range s.rootKeys {
		ours[k] = struct{}{}
	}
	// What could not be written may have gone since, and nobody tries again.
	hits, tokens, failing := s.counts.coldHits, s.counts.coldTokens, s.failing && len(s.dirty) > 0
	s.mu.Unlock()

	x.Cold = wire.KVTier{State: "off", Reason: s.o.ColdReason}
	if s.cold != nil {
		x.Cold = s.cold.Stats(func(root block.Key) bool { _, ok := ours[root]; return ok })
		if x.Cold.State == "on" && failing {
			x.Cold.State, x.Cold.Reason = "failing", "the last write failed"
		}
		x.Cold.Hits, x.Cold.HitTokens = hits, tokens
	}
	return x
}

// census counts what is in RAM.
func (s *Store) census(x *wire.KVIndex) {
	s.expire()
	w := &x.Warm
	*w = wire.KVTier{State: "on", BudgetBytes: s.slabs.budget, Bytes: s.slabs.used, Evictions: s.counts.evictions,
		Hits: s.counts.warmHits, HitTokens: s.counts.warmTokens, Drops: maps.Clone(s.counts.drops)}
	if w.Reason = s.off(); w.Reason != "" {
		w.State = "off"
	}
	x.Dirty, x.Pinned = len(s.dirty), len(s.held)
	x.DirtyBytes = s.sums.dirty
	x.Pending, x.HeldByReader, x.Scopes = s.sums.pending, s.sums.read, len(s.sums.scopes)
	w.Blocks, w.UsableBytes = s.sums.blocks, s.sums.usable
	x.Top = top(s.ends.least(topPrefixes))
}

// top tells of ends.
func top(ends []*node) []wire.KVPrefix {
	var l []wire.KVPrefix
	for _, n := range ends {
		l = append(l, wire.KVPrefix{Key: n.key.String(), Name: n.name, Scope: n.root.scope.Name, Group: n.group, Tokens: n.end(),
			Hits: n.hits, TokensSaved: n.saved, Pinned: n.pinned, LastUsed: n.used.Round(time.Millisecond)})
	}
	return l
}
