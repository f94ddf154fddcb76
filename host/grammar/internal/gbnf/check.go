package gbnf

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
)

// What the engine's recursion and its sets of stacks can bear.
const (
	maxDepth  = 4000    // calls in each other while it looks for the next characters
	maxPaths  = 1 << 20 // visits while it looks for left recursion
	maxOpen   = 5000    // alternatives open at one place
	maxStacks = 2000    // readings of one text, as far as the probe finds them

	probeSteps = 48      // characters
	probeWork  = 300_000 // stacks looked at
)

// infinite is the length of what never ends, or ends after a million characters.
const infinite = 1 << 20

// Check finds what the engine cannot work with: it would recurse without end, or
// need time or memory without bound. Its error is an *Error.
func (g *Grammar) Check() error {
	lengths := g.lengths()
	for i, r := range g.rules {
		if lengths[i] == infinite {
			return &Error{r.line, fmt.Sprintf("the rule %s never comes to an end", r.name)}
		}
	}
	c := checker{g: g, lengths: lengths, state: make([]int, len(g.rules)), facts: make([]facts, len(g.rules))}
	paths := 0
	for i, r := range g.rules {
		if err := c.visit(i); err != nil {
			return err
		}
		f := c.facts[i]
		switch paths = add(paths, f.paths); {
		case f.depth > maxDepth:
			return &Error{r.line, fmt.Sprintf("the rule %s begins with more than %d rules in each other", r.name, maxDepth)}
		case f.open > maxOpen:
			return &Error{r.line, fmt.Sprintf("more than %d alternatives are open where the rule %s begins", maxOpen, r.name)}
		case paths > maxPaths:
			return &Error{r.line, "the rules begin with each other in too many ways"}
		}
	}
	if err := g.piles(lengths); err != nil {
		return err
	}
	if !NewMachine(g).probe() {
		return &Error{0, fmt.Sprintf("the grammar reads some texts in more than %d ways", maxStacks)}
	}
	return nil
}

// lengths are the fewest characters each rule can do with; infinite: it has no
// text, or none that ends. A rule of length 0 may be empty. Rules are settled in
// the order of their lengths, each once (Knuth 1977).
func (g *Grammar) lengths() []int {
	lengths := make([]int, len(g.rules))
	waiting := make([][]*sum, len(g.rules)) // by the rule they wait for
	var ready sums
	for i, r := range g.rules {
		lengths[i] = infinite
		for _, seq := range r.alts {
			s := &sum{rule: i}
			for _, e := range seq {
				if e.ref >= 0 {
					s.missing++
					waiting[e.ref] = append(waiting[e.ref], s)
				} else if _, ok := e.set.first(); ok {
					s.length = add(s.length, 1)
				} else {
					s.length = infinite
				}
			}
			if s.missing == 0 {
				ready = append(ready, s)
			}
		}
	}
	heap.Init(&ready)
	for len(ready) > 0 {
		s := heap.Pop(&ready).(*sum)
		if lengths[s.rule] <= s.length {
			continue
		}
		lengths[s.rule] = s.length
		for _, w := range waiting[s.rule] {
			w.length = add(w.length, s.length)
			if w.missing--; w.missing == 0 {
				heap.Push(&ready, w)
			}
		}
		waiting[s.rule] = nil
	}
	return lengths
}

// sum is the length of one sequence as far as its rules are settled.
type sum struct{ rule, length, missing int }

// sums is a heap, the shortest first.
type sums []*sum

func (s sums) Len() int           { return len(s) }
func (s sums) Less(i, j int) bool { return s[i].length < s[j].length }
func (s sums) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sums) Push(x any)        { *s = append(*s, x.(*sum)) }
func (s *sums) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// facts of a rule, all about what happens before its first character.
type facts struct {
	depth int // rules entered in each other
	paths int // ways through the rules it may begin with
	open  int // places where its first character may stand, or its end
	empty int // ways to be empty
}

// checker visits rules along their beginnings.
type checker struct {
	g       *Grammar
	lengths []int
	state   []int // 0: to visit, 1: being visited, 2: done
	facts   []facts
	way     []int // rules being visited
}

func (c *checker) visit(i int) error {
	if c.state[i] == 2 {
		return nil
	}
	if len(c.way) > maxDepth {
		r := c.g.rules[c.way[0]]
		return &Error{r.line, fmt.Sprintf("the rule %s begins with more than %d rules in each other", r.name, maxDepth)}
	}
	c.way = append(c.way, i)
	defer func() { c.way = c.way[:len(c.way)-1] }()
	if c.state[i] == 1 {
		return c.leftRecursion(i)
	}
	c.state[i] = 1
	f := facts{depth: 1, paths: 1}
	for _, seq := range c.g.rules[i].alts {
		ways, depth, ended := 1, 1, true
		for _, e := range seq {
			if e.ref < 0 {
				f.open = add(f.open, ways)
				ended = false
				break
			}
			if err := c.visit(e.ref); err != nil {
				return err
			}
			of := c.facts[e.ref]
			depth = add(depth, of.depth)
			f.paths = add(f.paths, of.paths)
			f.open = add(f.open, mul(ways, of.open-of.empty))
			if ways = mul(ways, of.empty); ways == 0 {
				ended = false
				break
			}
		}
		if ended {
			f.open, f.empty = add(f.open, ways), add(f.empty, ways)
		}
		f.depth = max(f.depth, depth)
	}
	c.facts[i] = f
	c.state[i] = 2
	return nil
}

// leftRecursion says how the rule comes back to itself.
func (c *checker) leftRecursion(i int) error {
	way := c.way[slices.Index(c.way, i):]
	line := c.g.rules[i].line
	var names []string
	for _, j := range way {
		if r := c.g.rules[j]; len(names) == 0 || names[len(names)-1] != r.name {
			names = append(names, r.name)
		}
	}
	if len(names) == 1 {
		return &Error{line, fmt.Sprintf("the rule %s begins with itself (left recursion), or repeats what may be empty", names[0])}
	}
	return &Error{line, fmt.Sprintf("the rule %s begins with itself (left recursion): %.200s", names[0], strings.Join(names, " -> "))}
}

// piles finds a rule that contains itself in front of something that may be
// left out. Each turn leaves such a thing behind, and when the text may end the
// engine goes through all of them at once, by recursion.
func (g *Grammar) piles(lengths []int) error {
	// Only those uses count behind which everything may be empty.
	last := make([][]int, len(g.rules))
	for i, r := range g.rules {
		for _, seq := range r.alts {
			for j := len(seq) - 1; j >= 0 && seq[j].ref >= 0; j-- {
				last[i] = append(last[i], seq[j].ref)
				if lengths[seq[j].ref] > 0 {
					break
				}
			}
		}
	}
	group := components(last)
	for i, r := range g.rules {
		for _, seq := range r.alts {
			for j := len(seq) - 1; j >= 0 && seq[j].ref >= 0; j-- {
				if j < len(seq)-1 && group[seq[j].ref] == group[i] {
					return &Error{r.line, fmt.Sprintf("the rule %s contains itself before something that may be left out", r.name)}
				}
				if lengths[seq[j].ref] > 0 {
					break
				}
			}
		}
	}
	return nil
}

// components numbers the strongly connected components of a graph (Tarjan).
func components(to [][]int) []int {
	group := make([]int, len(to))
	index, low := make([]int, len(to)), make([]int, len(to))
	var stack []int
	count, groups := 0, 0
	var visit func(int)
	visit = func(i int) {
		count++
		index[i], low[i] = count, count
		stack = append(stack, i)
		for _, j := range to[i] {
			switch {
			case index[j] == 0:
				visit(j)
				low[i] = min(low[i], low[j])
			case group[j] == 0:
				low[i] = min(low[i], index[j])
			}
		}
		if low[i] < index[i] {
			return
		}
		groups++
		for {
			j := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			group[j] = groups
			if j == i {
				return
			}
		}
	}
	for i := range to {
		if index[i] == 0 {
			visit(i)
		}
	}
	return group
}

// add and mul stop at infinite.
func add(a, b int) int { return min(a+b, infinite) }

func mul(a, b int) int {
	if a != 0 && b > infinite/a {
		return infinite
	}
	return a * b
}
