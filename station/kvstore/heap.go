package kvstore

import (
	"container/heap"
	"slices"
)

// nodeHeap is a priority queue of nodes that knows where each node stands in it,
// so that a node can be moved or taken out in O(log n).
type nodeHeap struct {
	nodes []*node
	less  func(a, b *node) bool
	at    func(n *node) *int // the node's place plus 1; 0: not in this heap
}

func (h *nodeHeap) has(n *node) bool { return *h.at(n) > 0 }

// set adds n, or moves it to where it belongs now.
func (h *nodeHeap) set(n *node) {
	if h.has(n) {
		heap.Fix(h, *h.at(n)-1)
	} else {
		heap.Push(h, n)
	}
}

func (h *nodeHeap) drop(n *node) {
	if h.has(n) {
		heap.Remove(h, *h.at(n)-1)
	}
}

// first is the least node; nil when there is none.
func (h *nodeHeap) first() *node {
	if len(h.nodes) == 0 {
		return nil
	}
	return h.nodes[0]
}

// least lists the k least nodes, in order, and looks at some of their children only.
func (h *nodeHeap) least(k int) []*node {
	var l []*node
	var next []int // places whose parents are listed
	if h.Len() > 0 {
		next = []int{0}
	}
	for len(l) < k && len(next) > 0 {
		best := 0
		for j := range next {
			if h.Less(next[j], next[best]) {
				best = j
			}
		}
		i := next[best]
		l = append(l, h.nodes[i])
		next = slices.Delete(next, best, best+1)
		for c := 2*i + 1; c <= 2*i+2 && c < h.Len(); c++ {
			next = append(next, c)
		}
	}
	return l
}

// Len, Less, Swap, Push and Pop are heap.Interface.
func (h *nodeHeap) Len() int           { return len(h.nodes) }
func (h *nodeHeap) Less(i, j int) bool { return h.less(h.nodes[i], h.nodes[j]) }
func (h *nodeHeap) Swap(i, j int) {
	h.nodes[i], h.nodes[j] = h.nodes[j], h.nodes[i]
	*h.at(h.nodes[i]), *h.at(h.nodes[j]) = i+1, j+1
}

func (h *nodeHeap) Push(x any) {
	n := x.(*node)
	h.nodes = append(h.nodes, n)
	*h.at(n) = len(h.nodes)
}

func (h *nodeHeap) Pop() any {
	n := h.nodes[len(h.nodes)-1]
	h.nodes[len(h.nodes)-1] = nil
	h.nodes = h.nodes[:len(h.nodes)-1]
	*h.at(n) = 0
	return n
}
