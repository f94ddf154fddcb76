package kvstore

import (
	"context"

	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// Delete drops stored blocks of both tiers: by key, with all that hangs below; of a scope,
// of a group, or all. Who reads one just now may finish. A block
// that both tiers have counts once. On a failure of the cold tier RAM's are dropped all the same.
func (s *Store) Delete(ctx context.Context, q *wire.KVDeleteRequest) (blocks int, bytes int64, err error) {
	keys := make([]block.Key, 0, len(q.Keys))
	for _, k := range q.Keys {
		key, err := block.ParseKey(k)
		if err != nil {
			return 0, 0, &wire.Error{Code: wire.CodeInvalid, Param: "keys", Message: err.Error()}
		}
		keys = append(keys, key)
	}

	s.mu.Lock()
	var victims []*node
	for _, r := range s.roots {
		whole := q.All || q.Scope != nil && *q.Scope == r.scope.Name || q.Scope == nil && q.Group != ""
		for _, n := range r.top.below() {
			if whole && (q.Group == "" || n.group == q.Group) {
				victims = append(victims, n)
			}
		}
		for _, k := range keys {
			if n := r.top.seek(k); n != nil {
				victims = append(append(victims, n.below()...), n)
			}
		}
	}
	var which []Which // of the cold tier
	for _, k := range keys {
		which = append(which, Which{Name: block.Name{Key: k}})
	}
	cold := s.cold != nil && s.named && !s.closed
	for _, n := range victims {
		if n.gone || n.state == hollow {
			continue
		}
		if n.state == filled && !(n.durable && cold) {
			blocks++
			bytes += int64(len(n.tokens)) * int64(s.o.TokenBytes)
		}
		if n.durable && len(keys) > 0 {
			which = append(which, Which{Name: n.blockName()})
		}
		s.forget(n, wire.KVExpired)
		n.deleted = true
		s.remove(n)
	}
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
	return blocks, bytes, err
}

// seek finds a key below n.
func (n *node) seek(k block.Key) *node {
	if c := n.kids[k]; c != nil {
		return c
	}
	for _, c := range n.kids {
		if f := c.seek(k); f != nil {
			return f
		}
	}
	return nil
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
