package grammar

import (
	"fmt"
	"slices"
)

// plan names the shape's children: what of an object or an array is written.
func (c *compiler) plan(sh *shape) error {
	if sh.limited {
		return nil
	}
	if sh.writes&typeObject != 0 {
		open := true // nothing is declared, or more than that is allowed
		for _, m := range sh.members {
			open = open && !m.hasProperties
		}
		for _, m := range sh.members {
			open = open || m.additional != nil
		}
		for _, name := range sh.names {
			n, err := c.property(sh, name)
			if err != nil {
				return err
			}
			sh.fields = append(sh.fields, field{name, n, sh.required[name]})
		}
		if open {
			n, err := c.otherProperties(sh)
			if err != nil {
				return err
			}
			if !n.never() {
				sh.extra = n
			}
		}
	}
	if sh.writes&typeArray != 0 {
		return c.planArray(sh)
	}
	return nil
}

func (sh *shape) children() []*node {
	var all []*node
	for _, f := range sh.fields {
		all = append(all, f.node)
	}
	all = append(all, sh.prefix...)
	for _, n := range []*node{sh.extra, sh.rest} {
		if n != nil {
			all = append(all, n)
		}
	}
	return all
}

// objectWriter writes the properties of an object in order, each at most once, as
// rules linear in their number: one for what may come at a place, one for what
// may follow it. When the number of properties is bounded, there is one of each
// for every count, too.
//
// An object that has one of several shapes is written along all of them at once,
// and those that go on with the same property stay together. Apart, a recursive
// one would have twice as many readings with every level.
type objectWriter struct {
	b     *Builder
	lines []line
	made  map[string]Rule // what comes next, by the spots
}

// line is what one shape lets an object have.
type line struct {
	pairs    []Rule // "name": value
	required []bool
	needed   []int // required properties from here on
	more     Rule  // a further pair, "" for none
	min, max int
	counting bool
}

// spot is a place in a line: the properties before at are settled, and count of
// them written, if the line counts.
type spot struct{ line, at, count int }

// writeObjects writes an object that has one of the shapes.
func (c *compiler) writeObjects(shapes []*shape) (Rule, error) {
	w := objectWriter{b: c.b, made: map[string]Rule{}}
	var begin []spot
	for i, sh := range shapes {
		l, err := c.line(sh)
		if err != nil {
			return "", err
		}
		w.lines = append(w.lines, l)
		begin = append(begin, spot{line: i})
	}
	var alts [][]Rule
	if w.mayEnd(begin) {
		alts = append(alts, []Rule{`"{}"`})
	}
	if first := w.next(begin); first != "" {
		alts = append(alts, []Rule{`"{"`, first, `"}"`})
	}
	return c.b.oneOf(alts), nil
}

func (c *compiler) line(sh *shape) (line, error) {
	l := line{min: sh.minProps, max: sh.maxProps}
	for _, f := range sh.fields {
		if !f.node.possible {
			continue
		}
		r, err := c.write(f.node)
		if err != nil {
			return line{}, err
		}
		l.pairs = append(l.pairs, c.b.Sequence(c.b.Literal(quoteJSON(f.name)+": "), r))
		l.required = append(l.required, f.required)
	}
	l.needed = make([]int, len(l.pairs)+1)
	for i, required := range slices.Backward(l.required) {
		l.needed[i] = l.needed[i+1]
		if required {
			l.needed[i]++
		}
	}
	if sh.extra != nil && sh.extra.possible {
		if known := len(l.pairs) + 1; l.min > known {
			return line{}, fail(below(sh.path(), "minProperties"), "is %d, but no more than %s can be told apart: "+
				"a grammar cannot keep two additional properties from having one name", l.min, plural(known, "property", "properties"))
		}
		r, err := c.write(sh.extra)
		if err != nil {
			return line{}, err
		}
		l.more = c.b.Sequence(c.otherKey(sh.names), `": "`, r)
	} else {
		l.max = least(l.max, len(l.pairs))
	}
	l.counting = l.min > l.needed[0] || l.max >= 0 && (l.more != "" || l.max < len(l.pairs))
	return l, nil
}

// otherKey is a name that is none of these, written without escapes: each
// character leads down the tree of the names, or out of it for good.
func (c *compiler) otherKey(names []string) Rule {
	if len(names) == 0 {
		return c.b.jsonString(0, -1)
	}
	return c.b.once("\x00a name besides "+quoteJSON(joinNames(names)), func() Rule {
		const out = 1 // the state of a name that is none of them
		d := dfa{{accept: true}, {edges: []edge{{jsonRaw, out}}, accept: true}}
		for _, name := range names {
			at := 0
			for _, r := range name {
				i := slices.IndexFunc(d[at].edges, func(e edge) bool { return e.on.contains(r) })
				if i < 0 {
					i = len(d[at].edges)
					d[at].edges = append(d[at].edges, edge{charset{{r, r}}, len(d)})
					d = append(d, dfaState{accept: true})
				}
				at = d[at].edges[i].to
			}
			d[at].accept = false
		}
		for i := range d {
			if i == out {
				continue
			}
			rest := jsonRaw
			for _, e := range d[i].edges {
				rest = rest.minus(e.on)
			}
			// A name with a character that is never written raw needs no telling apart.
			d[i].edges = slices.DeleteFunc(d[i].edges, func(e edge) bool { return !jsonRaw.contains(e.on[0].lo) })
			d[i].edges = append(d[i].edges, edge{rest, out})
		}
		d.trim()
		return c.b.Sequence(`"\""`, c.b.write(d, plain, `"\""`))
	})
}

func joinNames(names []string) string {
	sorted := slices.Sorted(slices.Values(names))
	var all string
	for _, n := range sorted {
		all += quoteJSON(n)
	}
	return all
}

// mayEnd tells whether the object may end here.
func (w *objectWriter) mayEnd(spots []spot) bool {
	return slices.ContainsFunc(spots, func(s spot) bool {
		l := &w.lines[s.line]
		return l.needed[s.at] == 0 && (!l.counting || s.count >= l.min)
	})
}

// after is the spot behind one more property.
func (w *objectWriter) after(s spot, at int) spot {
	if w.lines[s.line].counting {
		s.count++
	}
	s.at = at
	return s
}

// next is one property or more; "" when there can be none. It takes the spots
// over.
func (w *objectWriter) next(spots []spot) Rule {
	spots = slices.DeleteFunc(spots, func(s spot) bool {
		l := &w.lines[s.line]
		return l.counting && l.max >= 0 && s.count+max(l.needed[s.at], 1) > l.max
	})
	if w.b.err != nil || len(spots) == 0 {
		return ""
	}
	key := fmt.Sprint(spots)
	if r, ok := w.made[key]; ok {
		return r
	}
	var alts [][]Rule
	var pair Rule // the one to take or to leave
	for _, s := range spots {
		if l := &w.lines[s.line]; s.at < len(l.pairs) {
			pair = l.pairs[s.at]
			break
		}
	}
	if pair == "" {
		for _, s := range spots {
			// Additional properties may have one name: they count as one.
			if l := &w.lines[s.line]; l.more != "" && (!l.counting || s.count+1 >= l.min) {
				alts = append(alts, []Rule{l.more, w.furthers(l, s)})
			}
		}
	} else {
		var taken, rest []spot
		for _, s := range spots {
			l := &w.lines[s.line]
			if s.at == len(l.pairs) || l.pairs[s.at] != pair {
				rest = append(rest, s)
				continue
			}
			taken = append(taken, w.after(s, s.at+1))
			if !l.required[s.at] {
				rest = append(rest, spot{s.line, s.at + 1, s.count})
			}
		}
		var tail [][]Rule
		mayEnd := w.mayEnd(taken)
		if r := w.next(taken); r != "" {
			tail = append(tail, []Rule{`", "`, r})
		}
		if mayEnd {
			tail = append(tail, nil)
		}
		if len(tail) > 0 {
			alts = append(alts, []Rule{pair, w.b.oneOf(tail)})
		}
		if r := w.next(rest); r != "" {
			alts = append(alts, []Rule{r})
		}
	}
	var r Rule
	if len(alts) > 0 {
		r = w.b.oneOf(alts)
	}
	w.made[key] = r
	return r
}

// furthers are the additional pairs behind the first of them.
func (w *objectWriter) furthers(l *line, s spot) Rule {
	pair := w.b.Sequence(`", "`, l.more)
	if !l.counting {
		return w.b.Repeat(pair, 0, -1)
	}
	most := -1
	if l.max >= 0 {
		most = l.max - s.count - 1
	}
	return w.b.Repeat(pair, 0, most)
}

// oneOf is any of the sequences; a single one needs no rule of alternatives.
func (b *Builder) oneOf(alts [][]Rule) Rule {
	if len(alts) == 1 {
		return b.Sequence(alts[0]...)
	}
	return b.add(alts...)
}
