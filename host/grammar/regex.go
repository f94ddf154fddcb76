package grammar

import (
	"encoding/binary"
	"slices"
	"strconv"
)

// Regex is a text the whole of which matches the pattern. Its characters mean
// what they mean in ECMA-262, RE2 and Python alike; what only some of these
// know, or what no automaton can decide, is refused.
func (b *Builder) Regex(pattern string) (Rule, error) {
	if b.err != nil {
		return "", b.err
	}
	d, err := b.compile(pattern, false)
	if err != nil {
		return "", err
	}
	for i := range d {
		for j, e := range d[i].edges {
			if len(e.on) > 0 && e.on[0].lo == 0 {
				d[i].edges[j].on = e.on.minus(charset{{0, 0}})
			}
		}
	}
	if !d.trim() {
		return "", &Error{Message: "no text matches the pattern"}
	}
	return b.write(d, plain, ""), nil
}

// compile makes an automaton of a pattern; anywhere: the match may stand
// anywhere in the text, unless ^ and $ bind it.
func (b *Builder) compile(pattern string, anywhere bool) (dfa, error) {
	key := strconv.FormatBool(anywhere) + pattern
	if d, ok := b.texts[key]; ok {
		return d, nil
	}
	if most := b.limits.SchemaBytes; len(pattern) > most {
		return nil, failure("the pattern has %d bytes: at most %d are allowed", len(pattern), most)
	}
	e, err := parsePattern(pattern, b.limits.Repeat)
	if err != nil {
		return nil, err
	}
	d, err := b.determine(e, anywhere)
	if err == nil {
		b.texts[key] = d
	}
	return d, err
}

// determine makes an automaton of a parsed pattern.
func (b *Builder) determine(e *expr, anywhere bool) (dfa, error) {
	if most := b.limits.GrammarSize / 8; e.size() > most {
		return nil, failure("the pattern has more than %d places when its repetitions are written out", most)
	}
	n := nfa{{}}
	if anywhere {
		n[0] = place{on: anyChar, to: 0}
	}
	first := n.add(e, 0)
	if anywhere {
		n = append(n, place{on: anyChar, to: len(n), free: []int{first}})
		first = len(n) - 1
	}
	s := subsets{
		nfa: n, loops: anywhere,
		anchored: slices.ContainsFunc(n, func(p place) bool { return p.anchor == opBegin }),
		seen:     make([]int, len(n)), ids: map[string]int{},
		states: b.limits.GrammarSize / 16, work: max(0, min(4*b.limits.GrammarSize, b.work)),
	}
	b.work -= s.work
	d, err := s.run(first)
	b.work += max(s.work, 0)
	if err != nil && b.work <= 0 {
		return nil, b.spend(1)
	}
	return d, err
}

// nfa is a pattern's places, each with the ways on from it (Thompson 1968).
// Place 0 is the end.
type nfa []place

type place struct {
	on     charset // characters that lead on
	to     int     // where they lead
	free   []int   // places reached without a character
	anchor op      // opBegin, opEnd: the condition of free; else none
}

// add puts the expression in front of a place and returns where it begins.
func (n *nfa) add(e *expr, next int) int {
	put := func(p place) int {
		*n = append(*n, p)
		return len(*n) - 1
	}
	switch e.op {
	case opSet:
		return put(place{on: e.set, to: next})
	case opBegin, opEnd:
		return put(place{free: []int{next}, anchor: e.op})
	case opChoice:
		var ways []int
		for _, s := range e.subs {
			ways = append(ways, n.add(s, next))
		}
		return put(place{free: ways})
	case opRepeat:
		at := next
		if e.most < 0 {
			at = put(place{})
			again := n.add(e.subs[0], at)
			(*n)[at].free = []int{again, next}
		}
		for range e.most - e.least {
			at = put(place{free: []int{n.add(e.subs[0], at), next}})
		}
		for range e.least {
			at = n.add(e.subs[0], at)
		}
		return at
	default:
		for _, s := range slices.Backward(e.subs) {
			next = n.add(s, next)
		}
		return next
	}
}

// subsets makes a pattern's places an automaton whose states are sets of places
// (Rabin and Scott 1959). Their number may be exponential, so both it and the
// work are bounded.
type subsets struct {
	nfa          nfa
	loops        bool // at its end the pattern takes any text
	anchored     bool // it has a ^, so that its beginning is like no later state
	states, work int  // how many more are allowed

	seen  []int // by place, the round in which it was met
	round int
	ids   map[string]int // states by their set
	sets  [][]int
	out   dfa
}

func (s *subsets) run(first int) (dfa, error) {
	s.state(s.closure([]int{first}, true, false))
	for i := 0; i < len(s.sets); i++ {
		s.step(i)
		if len(s.sets) > s.states || s.work < 0 {
			return nil, failure("the pattern is too complex: its automaton has more than %d states or takes too long to make", s.states)
		}
	}
	return s.out, nil
}

// closure is the set of places reached without a character, sorted: those that
// matter, because a character leads on from them or the text may end there.
func (s *subsets) closure(from []int, begin, end bool) []int {
	s.round++
	var out []int
	todo := slices.Clone(from)
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if s.seen[i] == s.round {
			continue
		}
		s.seen[i] = s.round
		s.work--
		p := s.nfa[i]
		if p.on != nil || i == 0 || p.anchor == opEnd {
			out = append(out, i)
		}
		if p.anchor == opBegin && !begin || p.anchor == opEnd && !end {
			continue
		}
		todo = append(todo, p.free...)
	}
	slices.Sort(out)
	if s.loops && len(out) > 0 && out[0] == 0 && !end {
		return []int{0} // whatever else is open, any text may follow
	}
	return out
}

// state is the automaton's state for a set of places.
func (s *subsets) state(set []int) int {
	key := string(binaryKey(set))
	id, ok := s.ids[key]
	if !ok {
		id = len(s.sets)
		if id > 0 || !s.anchored {
			s.ids[key] = id
		}
		s.sets = append(s.sets, set)
		ended := s.closure(set, id == 0, true)
		s.out = append(s.out, dfaState{accept: len(ended) > 0 && ended[0] == 0})
	}
	return id
}

// step finds where the characters lead from a state: it walks along the code
// points and looks which places' sets begin and end there.
func (s *subsets) step(id int) {
	type turn struct {
		at    rune
		begin bool
		to    int
	}
	var open []place
	for _, i := range s.sets[id] {
		if len(s.nfa[i].on) > 0 {
			open = append(open, s.nfa[i])
		}
	}
	if len(open) == 1 {
		to := s.state(s.closure([]int{open[0].to}, false, false))
		s.out[id].edges = []edge{{open[0].on, to}}
		return
	}
	var turns []turn
	for _, p := range open {
		for _, span := range p.on {
			turns = append(turns, turn{span.lo, true, p.to}, turn{span.hi + 1, false, p.to})
		}
	}
	s.work -= 4 * len(turns) // they are sorted
	slices.SortFunc(turns, func(a, b turn) int { return int(a.at) - int(b.at) })
	var order []string
	spans := map[string][]interval{}
	targets := map[string][]int{}
	active := map[int]int{}
	for i := 0; i < len(turns); {
		at := turns[i].at
		for ; i < len(turns) && turns[i].at == at; i++ {
			to := turns[i].to
			if turns[i].begin {
				active[to]++
			} else if active[to]--; active[to] == 0 {
				delete(active, to)
			}
		}
		if len(active) == 0 || s.work < 0 {
			continue
		}
		s.work -= len(active)
		var set []int
		for to := range active {
			set = append(set, to)
		}
		slices.Sort(set)
		key := string(binaryKey(set))
		if targets[key] == nil {
			order = append(order, key)
			targets[key] = set
		}
		spans[key] = append(spans[key], interval{at, turns[i].at - 1})
	}
	for _, key := range order {
		to := s.state(s.closure(targets[key], false, false))
		s.out[id].edges = append(s.out[id].edges, edge{newCharset(spans[key]...), to})
	}
}

func binaryKey(set []int) []byte {
	var key []byte
	for _, i := range set {
		key = binary.AppendUvarint(key, uint64(i))
	}
	return key
}
