package grammar

import "slices"

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

// objectWriter writes an object's properties in order, each at most once, as
// rules linear in their number: one for what may come at a place, one for what
// may follow it. When the number of properties is bounded, there is one of each
// for every count, too.
type objectWriter struct {
	b        *Builder
	fields   []field
	pairs    []Rule // "name": value
	needed   []int  // required properties from here on
	more     Rule   // a further pair, "" for none
	min, max int
	counting bool
	made     map[[2]int]Rule
}

func (c *compiler) writeObject(sh *shape) (Rule, error) {
	w := objectWriter{b: c.b, min: sh.minProps, max: sh.maxProps, made: map[[2]int]Rule{}}
	for _, f := range sh.fields {
		if !f.node.possible {
			continue
		}
		r, err := c.write(f.node)
		if err != nil {
			return "", err
		}
		w.fields = append(w.fields, f)
		w.pairs = append(w.pairs, c.b.Sequence(c.b.Literal(quoteJSON(f.name)+": "), r))
	}
	w.needed = make([]int, len(w.fields)+1)
	for i, f := range slices.Backward(w.fields) {
		w.needed[i] = w.needed[i+1]
		if f.required {
			w.needed[i]++
		}
	}
	if sh.extra != nil && sh.extra.possible {
		if w.min > len(w.fields)+1 {
			return "", fail(below(sh.path(), "minProperties"), "is %d, but no more than %s can be told apart: "+
				"a grammar cannot keep two additional properties from having one name", w.min, plural(len(w.fields)+1, "property", "properties"))
		}
		r, err := c.write(sh.extra)
		if err != nil {
			return "", err
		}
		w.more = c.b.Sequence(c.otherKey(sh.names), `": "`, r)
	}
	if w.max < 0 || w.more == "" {
		w.max = least(w.max, len(w.fields))
		if w.more != "" {
			w.max = -1
		}
	}
	w.counting = w.min > w.needed[0] || w.max >= 0 && (w.more != "" || w.max < len(w.fields))
	var alts [][]Rule
	if first := w.next(0, 0); first != "" {
		alts = append(alts, []Rule{`"{"`, first, `"}"`})
	}
	if w.mayEnd(0, 0) {
		alts = append(alts, []Rule{`"{}"`})
	}
	return c.b.oneOf(alts), nil
}

// otherKey is a name that is none of these, written without escapes: each
// character leads down the tree of the names, or out of it for good.
func (c *compiler) otherKey(names []string) Rule {
	if len(names) == 0 {
		return c.b.jsonString(0, -1)
	}
	return c.b.once("a name besides "+quoteJSON(joinNames(names)), func() Rule {
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

// mayEnd tells whether the object may end after n properties, those before i
// being settled.
func (w *objectWriter) mayEnd(i, n int) bool {
	return w.needed[i] == 0 && (!w.counting || n >= w.min)
}

// next is one property or more, of those from i on, after n others; "" when
// there can be none.
func (w *objectWriter) next(i, n int) Rule {
	key := [2]int{i, n}
	if !w.counting {
		key[1] = 0
	}
	if r, ok := w.made[key]; ok {
		return r
	}
	if w.b.err != nil || w.max >= 0 && w.counting && n+max(w.needed[i], 1) > w.max {
		return ""
	}
	var alts [][]Rule
	if i == len(w.fields) {
		if w.more != "" {
			least, most := max(0, w.min-n-1), -1
			if w.max >= 0 {
				most = w.max - n - 1
			}
			if !w.counting {
				least = 0
			}
			alts = append(alts, []Rule{w.more, w.b.Repeat(w.b.Sequence(`", "`, w.more), least, most)})
		}
	} else {
		var tail [][]Rule
		if r := w.next(i+1, n+1); r != "" {
			tail = append(tail, []Rule{`", "`, r})
		}
		if w.mayEnd(i+1, n+1) {
			tail = append(tail, nil)
		}
		if len(tail) == 1 {
			alts = append(alts, append([]Rule{w.pairs[i]}, tail[0]...))
		} else if len(tail) > 1 {
			alts = append(alts, []Rule{w.pairs[i], w.b.add(tail...)})
		}
		if !w.fields[i].required {
			if r := w.next(i+1, n); r != "" {
				alts = append(alts, []Rule{r})
			}
		}
	}
	var r Rule
	if len(alts) > 0 {
		r = w.b.oneOf(alts)
	}
	w.made[key] = r
	return r
}

// oneOf is any of the sequences; a single one needs no rule of alternatives.
func (b *Builder) oneOf(alts [][]Rule) Rule {
	if len(alts) == 1 {
		return b.Sequence(alts[0]...)
	}
	return b.add(alts...)
}
