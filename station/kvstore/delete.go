package kvstore

import (
	"context"
	"maps"
	"slices"

	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// Delete drops stored blocks of both tiers: by key, with all that hangs below; of a scope,
// of a group, or all. Who reads one just now may finish. A block
// that both tiers have counts once. On a failure of the cold tier RAM's are dropped all the same.
func (s *Store) Delete(ctx context.Context, q *wire.KVDeleteRequest) (blocks int, bytes int64, err error) {
	keys := make(map[block.Key]bool, len(q.Keys))
	for _, k := range q.Keys {
		key, err := block.ParseKey(k)
		if err != nil {
			return 0, 0, &wire.Error{Code: wire.CodeInvalid, Param: "keys", Message: err.Error()}
		}
		keys[key] = true
	}

	s.mu.Lock()
	since := s.tick
	victims := s.chosen(q, keys, 0)
	var which []Which // of the cold tier
	cold := s.cold != nil && s.named && !s.closed
	for _, n := range victims {
		if n.state == filled && !(n.durable && cold) {
			blocks++
			bytes += int64(len(n.tokens)) * int64(s.o.TokenBytes)
		}
	}
	if len(keys) > 0 {
		all := maps.Clone(keys)
		for _, n := range victims {
			if n.durable {
				all[n.key] = true // what hangs below
			}
		}
		which = append(which, Which{Keys: slices.Collect(maps.Keys(all))})
	}
	s.expel(victims)
	switch {
	case q.All || q.Scope == nil && q.Group != "":
		which = append(which, Which{Group: q.Group})
	case q.Scope != nil:
		for _, root := range s.rootsOf(*q.Scope) {
			which = append(which, Which{Name: block.Name{Root: root}, Group: q.Group})
		}
	}
	s.mu.Unlock()

	if !cold {
		return blocks, bytes, nil
	}
	for _, w := range which {
		n, b, e := s.cold.Delete(ctx, w)
		blocks += n
		bytes += b
		if e != nil && err == nil {
			err = e
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expel(s.chosen(q, keys, since)) // what a request has read before the cold tier had dropped it
	return blocks, bytes, err
}

// chosen lists the blocks in RAM that q names, children before their parents; of
// those read from the cold tier after since, when that is set. Reads that may bring such a
// block are made void.
func (s *Store) chosen(q *wire.KVDeleteRequest, keys map[block.Key]bool, since uint64) (l []*node) {
	whole := func(r *root) bool {
		return q.All || q.Scope != nil && *q.Scope == r.scope.Name || q.Scope == nil && q.Group != ""
	}
	for _, f := range s.flights {
		if len(keys) > 0 || whole(f.parent.root) {
			f.void = true
		}
	}
	var walk func(n *node, all, below bool)
	walk = func(n *node, all, below bool) { // below a key that was named
		for _, k := range n.kids {
			named := below || keys[k.key]
			walk(k, all, named)
			if k.state != hollow && k.landed >= since && (named || all && (q.Group == "" || k.group == q.Group)) {
				l = append(l, k)
			}
		}
	}
	for _, r := range s.roots {
		walk(r.top, whole(r), false)
	}
	return l
}

// expel drops blocks on request.
func (s *Store) expel(l []*node) {
	for _, n := range l {
		s.forget(n, wire.KVExpired)
		n.deleted = true
		s.remove(n)
	}
}

// rootsOf lists the keys of a scope's roots: one for each adapter set seen with any scope.
func (s *Store) rootsOf(scope string) []block.Key {
	adapters := map[string]struct{}{"": {}}
	for sc := range s.rootKeys {
		adapters[sc.Adapters] = struct{}{}
	}
	var l []block.Key
	for a := range adapters {
		l = append(l, s.identity.Root(scope, a))
	}
	return l
}
