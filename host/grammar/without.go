package grammar

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Without is any text, also the empty one, in which none of the markers occurs.
// A marker may follow it: the text may well end in the beginning of one.
func (b *Builder) Without(markers ...string) Rule {
	return b.once("\x00without "+strings.Join(markers, "\x00"), func() Rule {
		marks := make([]Mark, len(markers))
		for i, m := range markers {
			marks[i].Marker = m
		}
		return b.scan(marks, false)
	})
}

// Mark is a marker and what follows it.
type Mark struct {
	Marker string
	Then   Rule
}

// Until is any text up to the first marker that occurs in it, that marker, and
// what follows that one. It is like Sequence(Without("x"), Literal("x"), then),
// but the engine follows one reading of the text where it has two of that.
// Where two markers end together, the longer one counts.
func (b *Builder) Until(marks ...Mark) Rule { return b.scan(marks, true) }

// scan is text in which markers are found (Aho and Corasick 1975). It ends where
// the first one is, or else only with none found.
func (b *Builder) scan(marks []Mark, found bool) Rule {
	if b.err != nil {
		return ""
	}
	// A node of the tree is the longest beginning of a marker that the text so
	// far ends in.
	type node struct {
		next map[rune]int
		fail int // the node of the next shorter one
		mark int // index in marks; -1: none ends here
	}
	nodes := []node{{next: map[rune]int{}, mark: -1}}
	var alphabet []rune
	for i, m := range marks {
		if m.Marker == "" || !utf8.ValidString(m.Marker) {
			return b.fail("the marker %.40q must be valid UTF-8 and not empty", m.Marker)
		}
		at := 0
		for _, c := range m.Marker {
			to, ok := nodes[at].next[c]
			if !ok {
				to = len(nodes)
				nodes[at].next[c] = to
				nodes = append(nodes, node{next: map[rune]int{}, mark: -1})
				alphabet = append(alphabet, c)
			}
			at = to
		}
		if nodes[at].mark < 0 {
			nodes[at].mark = i
		}
	}
	slices.Sort(alphabet)
	alphabet = slices.Compact(alphabet)

	d := make(dfa, len(nodes))
	order := []int{0} // nodes, the shorter before the longer
	for i := 0; i < len(order); i++ {
		at := order[i]
		n := nodes[at]
		if n.mark < 0 {
			n.mark = nodes[n.fail].mark
			nodes[at].mark = n.mark
		}
		// A marker that was found ends the search.
		if n.mark >= 0 {
			d[at] = dfaState{accept: found, then: marks[n.mark].Then}
		} else {
			d[at].accept = !found
		}
		on := map[int][]interval{}
		for _, c := range alphabet {
			to, child := n.next[c]
			if child {
				order = append(order, to)
				if at != 0 {
					nodes[to].fail = nodes[n.fail].next[c]
				}
			} else {
				// All of a shorter node's ways are complete by now.
				to = nodes[n.fail].next[c]
				n.next[c] = to
			}
			on[to] = append(on[to], interval{c, c})
		}
		if n.mark >= 0 {
			continue
		}
		var known []interval
		for to := range nodes {
			if set := newCharset(on[to]...); len(set) > 0 && to != 0 {
				d[at].edges = append(d[at].edges, edge{set, to})
				known = append(known, set...)
			}
		}
		d[at].edges = append(d[at].edges, edge{anyChar.minus(newCharset(known...)), 0})
	}
	if !d.trim() {
		return b.fail("no text is without a marker")
	}
	return b.write(d, plain, "")
}
