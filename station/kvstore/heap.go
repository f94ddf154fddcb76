package kvstore

import "container/heap"

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
