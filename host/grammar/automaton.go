package grammar

import "slices"

// A dfa reads a text one code point at a time and is always in one state. It is
// what text rules are made of: written as rules, one a state, it keeps exactly
// one way open through any text, and the engine's work for a token is the least.
type dfa []dfaState

// dfaState's edges have disjoint sets. State 0 is the first.
type dfaState struct {
	edges  []edge
	accept bool // the text may end here
	then   Rule // what follows it if it ends here
}

type edge struct {
	on charset
	to int
}

// trim drops the edges into states from which no text can end. It reports
// whether the automaton accepts any text.
func (d dfa) trim() bool {
	from := make([][]int, len(d))
	var queue []int
	alive := make([]bool, len(d))
	for i, s := range d {
		d[i].edges = slices.DeleteFunc(s.edges, func(e edge) bool { return len(e.on) == 0 })
		for _, e := range d[i].edges {
			from[e.to] = append(from[e.to], i)
		}
		if s.accept {
			alive[i] = true
			queue = append(queue, i)
		}
	}
	for len(queue) > 0 {
		last := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, i := range from[last] {
			if !alive[i] {
				alive[i] = true
				queue = append(queue, i)
			}
		}
	}
	for i := range d {
		d[i].edges = slices.DeleteFunc(d[i].edges, func(e edge) bool { return !alive[e.to] })
	}
	return len(d) > 0 && alive[0]
}

// A speller writes a set of characters as they stand in the answer: each
// sequence of rules is one way, none empty.
type speller func(charset) [][]Rule

// plain writes characters as they are. The engine cannot match U+0000.
func plain(s charset) [][]Rule {
	if s = s.minus(charset{{0, 0}}); len(s) == 0 {
		return nil
	}
	return [][]Rule{{s.rule()}}
}

// write makes rules of the automaton: what it reads, spelled, and then end. The
// automaton must be trimmed.
func (b *Builder) write(d dfa, spell speller, end Rule) Rule {
	w := writer{b: b, d: d, spell: spell, end: compact([]Rule{end}),
		uses: make([]int, len(d)), open: make([]bool, len(d)), names: make([]Rule, len(d)), alts: make([][][]Rule, len(d)),
		spellings: map[setKey][][]Rule{}}
	for _, s := range d {
		for _, e := range s.edges {
			w.uses[e.to]++
		}
	}
	w.visit(0)
	if len(w.alts[0]) == 1 {
		return b.Sequence(w.alts[0][0]...)
	}
	return w.rule(0)
}

// writer writes an automaton's states, those a state leads to first: states that
// do the same from there on then have the same body, and the builder gives them
// one name. Only a state that leads back to one still open needs a name early.
type writer struct {
	b     *Builder
	d     dfa
	spell speller
	end   []Rule

	uses  []int      // edges that lead to the state
	open  []bool     // its visit has not ended
	names []Rule     // "" as long as nothing refers to it
	alts  [][][]Rule // its body, once visited

	spellings map[setKey][][]Rule
}

// setKey is a set by its place in memory.
type setKey struct {
	first *interval
	n     int
}

func (w *writer) visit(i int) {
	if err := w.b.spend(perState + 2*len(w.d[i].edges)); err != nil {
		w.b.failed(err)
		return
	}
	w.open[i] = true
	alts := [][]Rule{}
	var ons [][]charset // what the alternatives begin with, before it is spelled
	for _, e := range w.d[i].edges {
		if w.b.err != nil {
			return
		}
		if w.alts[e.to] == nil && !w.open[e.to] {
			w.visit(e.to)
		}
		next := w.next(i, e.to)
		if j := slices.IndexFunc(alts, func(seq []Rule) bool { return slices.Equal(seq, next) }); j >= 0 {
			ons[j] = append(ons[j], e.on)
		} else {
			alts, ons = append(alts, next), append(ons, []charset{e.on})
		}
	}
	w.open[i] = false
	w.alts[i] = [][]Rule{}
	for j, next := range alts {
		for _, way := range w.spelled(union(ons[j])) {
			w.alts[i] = append(w.alts[i], compact(append(way, next...)))
		}
	}
	if w.d[i].accept {
		w.alts[i] = append(w.alts[i], compact(append([]Rule{w.d[i].then}, w.end...)))
	}
	if w.names[i] != "" {
		w.b.define(w.names[i], w.alts[i]...)
	}
}

// next is how state i goes on with state to.
func (w *writer) next(i, to int) []Rule {
	if i == to {
		return []Rule{self}
	}
	if w.open[to] {
		if w.names[to] == "" {
			w.names[to] = w.b.declare("")
		}
		return []Rule{w.names[to]}
	}
	// What has one way on and one way in needs no name. A long run is cut, or to
	// put it together from its end would take the square of its length.
	if alts := w.alts[to]; len(alts) == 1 && (len(alts[0]) <= 1 || w.uses[to] == 1 && len(alts[0]) < 64) {
		if len(alts[0]) == 0 || len(alts[0][0]) < 256 {
			return alts[0]
		}
	}
	return []Rule{w.rule(to)}
}

// spelled gives what is long a name. States share their sets, some of which have
// hundreds of intervals, so each set is written once.
func (w *writer) spelled(on charset) [][]Rule {
	key := setKey{&on[0], len(on)}
	ways, ok := w.spellings[key]
	if !ok {
		if ways = w.spell(on); len(body(ways)) > 40 {
			ways = [][]Rule{{w.b.add(ways...)}}
		}
		w.spellings[key] = ways
	}
	out := make([][]Rule, len(ways))
	for i, way := range ways {
		out[i] = slices.Clone(way)
	}
	return out
}

// rule is the rule of a state that was visited.
func (w *writer) rule(i int) Rule {
	if w.names[i] == "" {
		w.names[i] = w.b.add(w.alts[i]...)
	}
	return w.names[i]
}

// words is any one of the texts, as a tree of their letters.
func (b *Builder) words(texts []string) Rule {
	if len(texts) == 1 {
		return b.Literal(texts[0])
	}
	d := dfa{{}}
	for _, text := range texts {
		at := 0
		for _, c := range text {
			i := slices.IndexFunc(d[at].edges, func(e edge) bool { return e.on[0].lo == c })
			if i < 0 {
				i = len(d[at].edges)
				d[at].edges = append(d[at].edges, edge{charset{{c, c}}, len(d)})
				d = append(d, dfaState{})
			}
			at = d[at].edges[i].to
		}
		d[at].accept = true
	}
	return b.write(d, plain, "")
}

// both is the automaton of the texts both automata accept, trimmed; it is an error
// if there are none. Its work counts: the states of one are multiplied with those
// of the other.
func (b *Builder) both(d, o dfa) (dfa, error) {
	most := b.limits.GrammarSize / 16
	pair := func(s, t int) uint64 { return uint64(s)<<32 | uint64(t) }
	ids := map[uint64]int{0: 0}
	pairs := []uint64{0}
	var out dfa
	for i := 0; i < len(pairs); i++ {
		if len(pairs) > most {
			return nil, failure("the conditions on the text together need more than %d states", most)
		}
		s, t := d[pairs[i]>>32], o[uint32(pairs[i])]
		if err := b.spend(perState + len(s.edges)*len(t.edges)); err != nil {
			return nil, err
		}
		both := dfaState{accept: s.accept && t.accept}
		for _, es := range s.edges {
			for _, et := range t.edges {
				if err := b.spend((len(es.on) + len(et.on)) / 4); err != nil {
					return nil, err
				}
				on := es.on.intersect(et.on)
				if len(on) == 0 {
					continue
				}
				to := pair(es.to, et.to)
				id, ok := ids[to]
				if !ok {
					id = len(pairs)
					ids[to] = id
					pairs = append(pairs, to)
				}
				both.edges = append(both.edges, edge{on, id})
			}
		}
		out = append(out, both)
	}
	if !out.trim() {
		return nil, failure("no text meets the pattern, the format and the lengths together")
	}
	return out, nil
}

// lengths are how many characters the shortest and the longest text of a trimmed
// automaton have; longest < 0: there is none.
func (d dfa) lengths() (shortest, longest int) {
	// Breadth first for the shortest, and in the order in which all that leads to
	// a state is done for the longest: what is left over then goes in circles.
	depth, into := make([]int, len(d)), make([]int, len(d))
	shortest = -1
	queue, seen := []int{0}, make([]bool, len(d))
	seen[0] = true
	for i := 0; i < len(queue); i++ {
		at := queue[i]
		if d[at].accept && (shortest < 0 || depth[at] < shortest) {
			shortest = depth[at]
		}
		for _, e := range d[at].edges {
			into[e.to]++
			if !seen[e.to] {
				seen[e.to] = true
				depth[e.to] = depth[at] + 1
				queue = append(queue, e.to)
			}
		}
	}
	clear(depth)
	reached := len(queue)
	var done []int
	if into[0] == 0 {
		done = append(done, 0)
	}
	for i := 0; i < len(done); i++ {
		at := done[i]
		if d[at].accept {
			longest = max(longest, depth[at])
		}
		for _, e := range d[at].edges {
			depth[e.to] = max(depth[e.to], depth[at]+1)
			if into[e.to]--; into[e.to] == 0 {
				done = append(done, e.to)
			}
		}
	}
	if len(done) < reached {
		return shortest, -1
	}
	return shortest, longest
}

// count is the automaton of any text of least to most characters.
func count(least, most int) dfa {
	d := make(dfa, max(least, most)+1)
	for i := range d {
		d[i].accept = i >= least
		if i+1 < len(d) {
			d[i].edges = []edge{{anyChar, i + 1}}
		}
	}
	if most < 0 {
		d[least].edges = []edge{{anyChar, least}}
	}
	return d
}
