package kvstore

// sums are what Index tells of RAM, kept up as blocks change: the engine's loop
// waits for Store.mu, and there may be a hundred thousand blocks to walk over.
type sums struct {
	pending int // reserved
	blocks  int // filled
	read    int // of these, with readers
	usable  int64
	dirty   int64          // bytes of rows
	scopes  map[string]int // filled blocks, by scope
}

// mark is how a node is in the sums.
type mark struct {
	pending, filled, read bool
	usable                bool // filled, and all its parents are
}

// reckon brings the sums up to what n is now, and the blocks below up to what n is for them.
func (s *Store) reckon(n *node) {
	if n.isTop() {
		return
	}
	var now mark
	if !n.gone {
		now.pending, now.filled = n.state == reserved, n.state == filled
		now.read = now.filled && n.refs > 0
		now.usable = now.filled && (n.parent.isTop() || n.parent.mark.usable)
	}
	was := n.mark
	if now == was {
		return
	}
	n.mark = now
	s.sums.pending += change(was.pending, now.pending)
	s.sums.read += change(was.read, now.read)
	if d := change(was.filled, now.filled); d != 0 {
		s.sums.blocks += d
		scope := n.root.scope.Name
		if s.sums.scopes[scope] += d; s.sums.scopes[scope] == 0 {
			delete(s.sums.scopes, scope)
		}
		s.rank(n)
	}
	if d := change(was.usable, now.usable); d != 0 {
		s.sums.usable += int64(d) * s.slabs.size(len(n.tokens))
		for _, k := range n.ready {
			s.reckon(k)
		}
	}
}

func change(was, now bool) int {
	switch {
	case now && !was:
		return 1
	case was && !now:
		return -1
	}
	return 0
}

// soil notes that only RAM has n.
func (s *Store) soil(n *node) {
	if _, ok := s.dirty[n]; !ok {
		s.dirty[n] = struct{}{}
		s.sums.dirty += int64(len(n.tokens)) * int64(s.o.TokenBytes)
	}
}

// clean notes that n is written, or will not be.
func (s *Store) clean(n *node) {
	if _, ok := s.dirty[n]; ok {
		delete(s.dirty, n)
		s.sums.dirty -= int64(len(n.tokens)) * int64(s.o.TokenBytes)
	}
}

// rank puts n where it belongs among the ends worth showing.
func (s *Store) rank(n *node) {
	if n.state == filled && !n.gone && (n.saved > 0 || n.name != "") {
		s.ends.set(n)
	} else {
		s.ends.drop(n)
	}
}

func savedMore(a, b *node) bool {
	return a.saved > b.saved || a.saved == b.saved && a.tick > b.tick
}
