package kvstore

import (
	"slices"

	"golang.org/x/sys/unix"

	"thoth/station/engine"
)

// Fill is a reserved block: positions [From, From+N) of the sequence. It ends
// with Done or Drop, once. Several captures may have a Fill of one block: the first
// that is done shows it, and the block goes only when all are dropped.
type Fill struct {
	From, N int

	s      *Store
	n      *node
	owner  any
	shared bool   // another capture had reserved the block
	spare  []byte // for rows that are not wanted any more
	over   bool
}

// fill adds a Fill of n to a capture.
func (s *Store) fill(n *node, owner any, c *Capture) *Fill {
	f := &Fill{From: n.start, N: len(n.tokens), s: s, n: n, owner: owner}
	n.fills = append(n.fills, f)
	s.pin(n)
	c.Fills = append(c.Fills, f)
	return f
}

// Needed is false when nothing need be copied: another Fill has brought the rows,
// or the block was deleted. Done is due then as well.
func (f *Fill) Needed() bool {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return !f.over && !f.n.gone && f.n.state == reserved
}

// Piece is the memory for the block's rows, to be filled by Export. It is valid until Done or Drop.
func (f *Fill) Piece() engine.Piece {
	s, n := f.s, f.n
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.state == reserved && (n.filler == nil || n.filler == f) {
		n.filler = f
		return engine.Piece{Data: s.data(n), Rows: f.N, Take: f.N}
	}
	// The rows are there, with readers, or another Fill is writing them. Evaluated in
	// another batch, rows differ in their last bits: nothing may be written over.
	size := f.N * s.o.TokenBytes
	if f.spare == nil {
		f.spare, _ = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // else the engine refuses the piece
	}
	return engine.Piece{Data: f.spare, Rows: f.N, Take: f.N}
}

// Drop gives up all of a capture's fills.
func (c *Capture) Drop() {
	for _, f := range c.Fills {
		f.Drop()
	}
}

// Done says that the rows are in: readers may have the block, and the writers write it down.
func (f *Fill) Done() {
	s, n := f.s, f.n
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.over {
		return
	}
	mine := n.filler == nil || n.filler == f
	if f.spare != nil && n.filler == nil && n.state == reserved { // who was writing them has given up
		copy(s.data(n), f.spare)
	}
	f.end()
	if !n.gone && n.state == reserved && mine { // else it was deleted meanwhile, or another was first
		s.counts.written += uint64(f.N)
		n.due = s.o.Now()
		if !n.full() {
			n.due = n.due.Add(s.o.TailDelay)
		}
		s.show(n)
	}
	f.leave()
	s.enqueue(n)
}

// Drop says that the rows will not come: the reservation ends, unless another
// capture has it too.
func (f *Fill) Drop() {
	s := f.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.over {
		return
	}
	f.end()
	f.leave()
}

// end takes f out of its block's list.
func (f *Fill) end() {
	f.over = true
	f.n.fills = slices.DeleteFunc(f.n.fills, func(o *Fill) bool { return o == f })
	if f.n.filler == f {
		f.n.filler = nil
	}
	if f.spare != nil {
		_ = unix.Munmap(f.spare) // fails only for memory that was not mapped
		f.spare = nil
	}
}

// leave gives up f's hold on the block, and with the last one a block that nobody brought.
func (f *Fill) leave() {
	if n := f.n; !n.gone && n.state == reserved && len(n.fills) == 0 {
		f.s.remove(n)
	}
	f.s.unpin(f.n)
}
