package gbnf

import (
	"math/rand"
	"slices"
	"unicode"
)

// A Machine follows texts through a grammar. Its stacks are the engine's: what is
// still to come after the place reached, once for each way to have got there.
// Stacks share their lower parts, and equal ones are one.
type Machine struct {
	rules   []rule // without the alternatives that never end
	root    int
	lengths []int // the fewest characters of each rule

	stacks      []stack
	ids         map[stack]int
	work, limit int // stacks looked at, and when to stop; limit 0: never
}

// stack is a place in a sequence and the stack to go on with after it. Stack 0
// is the empty one: the text may end.
type stack struct {
	rule, alt, at int
	below         int
}

// NewMachine prepares a grammar for reading. It must have passed Check, or at
// least be free of left recursion.
func NewMachine(g *Grammar) *Machine {
	m := &Machine{root: g.root, lengths: g.lengths(), stacks: make([]stack, 1), ids: map[stack]int{}}
	for _, r := range g.rules {
		r.alts = slices.DeleteFunc(slices.Clone(r.alts), func(seq []element) bool { return m.length(seq) == infinite })
		m.rules = append(m.rules, r)
	}
	return m
}

// Start is the set of stacks before the first character.
func (m *Machine) Start() []int {
	var out []int
	seen := map[int]bool{}
	for alt := range m.rules[m.root].alts {
		out = m.advance(m.push(stack{m.root, alt, 0, 0}), seen, out)
	}
	return out
}

// Step is the set of stacks after one more character.
func (m *Machine) Step(stacks []int, c rune) []int {
	var out []int
	seen := map[int]bool{}
	for _, id := range stacks {
		if id == 0 {
			continue
		}
		if s := m.stacks[id]; m.element(s).set.has(c) && c != 0 {
			s.at++
			out = m.advance(m.push(s), seen, out)
		}
	}
	return out
}

// Read is the set of stacks after a text, and the most there were on the way.
func (m *Machine) Read(text string) (stacks []int, most int) {
	stacks = m.Start()
	most = len(stacks)
	for _, c := range text {
		stacks = m.Step(stacks, c)
		most = max(most, len(stacks))
	}
	return stacks, most
}

// Ended tells whether the text may end here.
func Ended(stacks []int) bool {
	for _, id := range stacks {
		if id == 0 {
			return true
		}
	}
	return false
}

func (m *Machine) element(s stack) element { return m.rules[s.rule].alts[s.alt][s.at] }

// push is the number of a stack; nothing stands for a place at a sequence's end.
func (m *Machine) push(s stack) int {
	if s.at == len(m.rules[s.rule].alts[s.alt]) {
		return s.below
	}
	id, ok := m.ids[s]
	if !ok {
		id = len(m.stacks)
		m.ids[s] = id
		m.stacks = append(m.stacks, s)
	}
	return id
}

// advance enters rules until every stack is at a character or empty.
func (m *Machine) advance(id int, seen map[int]bool, out []int) []int {
	if seen[id] || m.limit > 0 && m.work > m.limit {
		return out
	}
	seen[id] = true
	m.work++
	if id == 0 {
		return append(out, id)
	}
	s := m.stacks[id]
	e := m.element(s)
	if e.ref < 0 {
		return append(out, id)
	}
	s.at++
	below := m.push(s)
	for alt := range m.rules[e.ref].alts {
		out = m.advance(m.push(stack{e.ref, alt, 0, below}), seen, out)
	}
	return out
}

// probe reads the text that keeps the most stacks open, as far as it sees from
// one character to the next, and reports whether their number and its own work
// stay within bounds.
func (m *Machine) probe() bool {
	m.limit = probeWork
	stacks := m.Start()
	for range probeSteps {
		var next []int
		tried := map[rune]bool{}
		for _, id := range stacks {
			c, ok := rune(0), false
			if id != 0 {
				c, ok = m.element(m.stacks[id]).set.first()
			}
			if !ok || tried[c] || len(tried) == 16 {
				continue
			}
			tried[c] = true
			after := m.Step(stacks, c)
			if len(after) > maxStacks || m.work > m.limit {
				return false
			}
			if len(after) > len(next) {
				next = after
			}
		}
		stacks = next
	}
	return true
}

// first is a character of the set, one that many sets have where it can be.
// U+0000 is none: the engine ends texts with it.
func (s set) first() (rune, bool) {
	for _, c := range "ae0 \"" {
		if s.has(c) {
			return c, true
		}
	}
	for _, i := range s.in {
		c := max(i.lo, 1)
		if s.not {
			c = i.hi + 1
		}
		if c <= unicode.MaxRune && s.has(c) {
			return c, true
		}
	}
	return 0, false
}

// pick is a character of the set, drawn at random with a liking for the first.
func (s set) pick(r *rand.Rand) (rune, bool) {
	for range 64 {
		var c rune
		switch {
		case !s.not:
			i := s.in[r.Intn(len(s.in))]
			c = i.lo + rune(r.Int63n(int64(i.hi-i.lo)+1))
		case r.Intn(4) > 0:
			c = 1 + rune(r.Intn(0x7e))
		default:
			c = 1 + rune(r.Intn(unicode.MaxRune))
		}
		if c != 0 && (c < 0xd800 || c > 0xdfff) && s.has(c) {
			return c, true
		}
	}
	return s.first()
}

// Generate draws a text. Once max characters are written it takes the shortest
// way to the end. It is false when the grammar has no text.
func (m *Machine) Generate(r *rand.Rand, max int) (string, bool) {
	if m.lengths[m.root] == infinite {
		return "", false
	}
	var out []rune
	todo := []element{{ref: m.root}}
	for steps := 0; len(todo) > 0; steps++ {
		e := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if e.ref < 0 {
			c, ok := e.set.pick(r)
			if !ok {
				return "", false
			}
			out = append(out, c)
			continue
		}
		alts := m.rules[e.ref].alts
		seq := alts[r.Intn(len(alts))]
		if len(out) >= max || steps > 64*max {
			seq = slices.MinFunc(alts, func(a, b []element) int { return m.length(a) - m.length(b) })
		}
		for _, e := range slices.Backward(seq) {
			todo = append(todo, e)
		}
	}
	return string(out), true
}

// length is the fewest characters of a sequence.
func (m *Machine) length(seq []element) int {
	sum := 0
	for _, e := range seq {
		if e.ref >= 0 {
			sum = add(sum, m.lengths[e.ref])
		} else if _, ok := e.set.first(); ok {
			sum = add(sum, 1)
		} else {
			return infinite
		}
	}
	return sum
}
