package stationtest

import (
	"fmt"

	"thoth/station/engine"
)

// maxSequences is what the owner set of a cell holds, llama.cpp's own limit.
const maxSequences = 256

// owners is the set of sequences that see a cell.
type owners [maxSequences / 64]uint64

func (o *owners) has(s engine.SeqID) bool { return o[s/64]>>(s%64)&1 == 1 }
func (o *owners) set(s engine.SeqID)      { o[s/64] |= 1 << (s % 64) }
func (o *owners) clear(s engine.SeqID)    { o[s/64] &^= 1 << (s % 64) }
func (o *owners) empty() bool             { return *o == owners{} }

// kv is what a cell holds: the KV of one token at its position.
type kv struct {
	token engine.Token
	pos   int32
	// past stands for what a real model's KV holds of all tokens before it: the
	// hash that [read] gave when the token was evaluated.
	past uint64
}

type cell struct {
	kv
	owner owners
}

// pool is the KV pool. Invariants: cells fill upward and a cell is not used
// twice before reset; cells[:head] that no sequence owns are ballast; length[s]
// counts the cells that s owns.
type pool struct {
	cells  []cell
	head   int
	length []int
}

func newPool(cells, sequences int) *pool {
	return &pool{cells: make([]cell, cells), length: make([]int, sequences)}
}

func (p *pool) room() int { return len(p.cells) - p.head }

func (p *pool) append(k kv, s engine.SeqID) {
	c := cell{kv: k}
	c.owner.set(s)
	p.cells[p.head] = c
	p.head++
	p.length[s]++
}

// history reads the cells of s at positions up to pos, in cell order. It
// reports cells whose positions do not ascend one by one from 0.
func (p *pool) history(s engine.SeqID, pos int32) ([]kv, error) {
	out := make([]kv, 0, p.length[s])
	var err error
	for i := range p.cells[:p.head] {
		c := &p.cells[i]
		if !c.owner.has(s) || c.pos > pos {
			continue
		}
		if int(c.pos) != len(out) && err == nil {
			err = fmt.Errorf("sequence %d: cell %d holds position %d where %d belongs", s, i, c.pos, len(out))
		}
		out = append(out, c.kv)
	}
	return out, err
}

func (p *pool) retire(s engine.SeqID) {
	for i := range p.cells[:p.head] {
		p.cells[i].owner.clear(s)
	}
	p.length[s] = 0
}

func (p *pool) fork(src, dst engine.SeqID, n int) {
	for i := range p.cells[:p.head] {
		if c := &p.cells[i]; c.owner.has(src) && int(c.pos) < n {
			c.owner.set(dst)
			p.length[dst]++
		}
	}
}

func (p *pool) reset() {
	clear(p.cells)
	clear(p.length)
	p.head = 0
}

// live counts cells that a sequence owns; the rest below head is ballast.
func (p *pool) live() int {
	n := 0
	for i := range p.cells[:p.head] {
		if !p.cells[i].owner.empty() {
			n++
		}
	}
	return n
}
