package kvstore

import (
	"context"
	"errors"
	"slices"

	"thoth/station/kvstore/block"
	"thoth/station/wire"
)

// flight is one read of a block, for all who wait for it.
type flight struct {
	parent *node // pinned; nil when there was nothing to read
	name   block.Name
	size   int     // tokens, as far as the name tells
	tokens []int32 // expected; nil: whatever the name stands for
	place  *node   // pinned: keeps the blocks below it in the tree; nil of a tail
	void   bool    // what it brings was deleted on request
	done   chan struct{}
	node   *node // valid after done: where the rows are
	err    error // valid after done
}

// fly starts the read of a child of parent, or joins the one that is on.
func (s *Store) fly(parent *node, key block.Key, size int, tokens []int32, place *node) *flight {
	if f := s.flights[key]; f != nil && !f.void && !f.parent.gone {
		return f
	}
	if err := s.ctx.Err(); err != nil {
		return ended(nil, err)
	}
	f := &flight{parent: parent, size: size, tokens: tokens, place: place, done: make(chan struct{}),
		name: block.Name{Root: parent.root.top.key, Parent: parent.key, Key: key}}
	s.pin(parent)
	if place != nil {
		s.pin(place)
	}
	s.flights[key] = f
	s.wg.Go(func() { s.read(f) })
	return f
}

func ended(n *node, err error) *flight {
	f := &flight{node: n, err: err, done: make(chan struct{})}
	close(f.done)
	return f
}

// read reads a block into memory of the budget.
func (s *Store) read(f *flight) {
	var b *block.Block
	var mem [][]byte // all that the tier asked for: it may try twice
	err := s.ctx.Err()
	select {
	case s.readers <- struct{}{}:
		ctx, cancel := context.WithTimeout(s.ctx, readTimeout)
		get := s.cold.Get
		if f.size < block.Tokens {
			get = func(ctx context.Context, n block.Name, into func(int) ([]byte, error)) (*block.Block, error) {
				return s.cold.GetTail(ctx, n, f.size, into)
			}
		}
		b, err = get(ctx, f.name, func(positions int) ([]byte, error) {
			if positions < 1 || positions > block.Tokens {
				return nil, &block.Fault{Reason: block.Size, Detail: "no number of positions of a block"}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			m, err := s.alloc(positions)
			if err != nil {
				return nil, err
			}
			mem = append(mem, m)
			return m[:positions*s.o.TokenBytes], nil
		})
		cancel()
		<-s.readers
	case <-s.ctx.Done():
	}
	if err == nil {
		if fault := s.check(f, b, mem); fault != nil {
			err = fault
			s.discard(f.name, fault)
		}
	}
	s.land(f, b, mem, err)
}

// discard drops a block of the cold tier that is not what its name says.
func (s *Store) discard(name block.Name, fault *block.Fault) {
	s.mu.Lock()
	s.counts.drops[string(fault.Reason)]++
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, readTimeout)
	defer cancel()
	if _, _, err := s.cold.Delete(ctx, Which{Name: name}); err != nil {
		s.o.Logger.Warn().Str("fault", string(fault.Reason)).Msg("a block of stored KV that failed a check could not be deleted")
	}
}

// check compares a block with what was asked for: keys only find.
func (s *Store) check(f *flight, b *block.Block, mem [][]byte) *block.Fault {
	n := len(b.Tokens)
	switch {
	case n < 1 || n > block.Tokens || len(mem) == 0 || len(b.Data) != n*s.o.TokenBytes || &b.Data[0] != &mem[len(mem)-1][0]:
		return &block.Fault{Reason: block.Size, Detail: "the rows do not fit the tokens"}
	case f.tokens != nil && !slices.Equal(b.Tokens, f.tokens), f.name.Parent.Child(b.Tokens) != f.name.Key:
		return &block.Fault{Reason: block.OtherText, Detail: "the tokens are not those that were asked for"}
	}
	return nil
}

// land puts a block that was read into its place, and ends the flight.
func (s *Store) land(f *flight, b *block.Block, mem [][]byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var fault *block.Fault
	if errors.As(err, &fault) {
		s.gone.add(lost{key: f.name.Key, parent: f.name.Parent, tokens: f.size, reason: wire.KVDamaged})
	}
	if err == nil && (f.void || f.parent.gone) {
		err = ErrNotFound // deleted while it was read
	}
	if err == nil {
		p := f.parent
		n := p.kids[f.name.Key]
		if n == nil {
			n = s.grow(p, f.name.Key, b.Tokens)
		}
		switch n.state {
		case hollow:
			n.mem = mem[len(mem)-1]
			mem = mem[:len(mem)-1]
			n.group, n.durable = b.Group, true
			n.refs++ // a look at it by show must not prune it
			s.show(n)
			n.landed = s.tick
			s.unpin(n)
		default: // computed here meanwhile: no need to write it down
			s.written(n)
		}
		for n.cover != nil {
			n = n.cover
		}
		f.node = n
	}
	for _, m := range mem {
		s.slabs.put(m)
	}
	f.err = err
	if s.flights[f.name.Key] == f {
		delete(s.flights, f.name.Key)
	}
	if f.place != nil {
		s.unpin(f.place)
	}
	s.unpin(f.parent)
	close(f.done)
}
