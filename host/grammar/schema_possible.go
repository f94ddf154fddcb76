package grammar

import (
	"fmt"
	"math/big"
	"slices"
)

// A judge decides whether a shape has any value at all of some types. It is
// asked for two reasons: to prove that two branches of a oneOf exclude each
// other, where what is not generated still counts as valid; and to find what can
// be written to an end.
type judge struct {
	c       *compiler
	proving bool
	child   func(*node) (bool, error)
}

// possible tells whether the shape has a value of one of the types.
func (j judge) possible(sh *shape, among types) (bool, error) {
	if sh.limited {
		return slices.ContainsFunc(sh.values, func(v *value) bool { return v.types()&among != 0 }), nil
	}
	among &= sh.types
	if among&(typeNull|typeBoolean) != 0 {
		return true, nil
	}
	if among&typeFraction != 0 && !sh.rangeEmpty() {
		return true, nil
	}
	if lo, hi := sh.integers(); among&typeInteger != 0 && (lo == nil || hi == nil || lo.Cmp(hi) <= 0) {
		return true, nil
	}
	if among&typeString != 0 && (sh.maxLength < 0 || sh.minLength <= sh.maxLength) {
		return true, nil
	}
	if among&typeArray != 0 {
		if ok, err := j.array(sh); ok || err != nil {
			return ok, err
		}
	}
	if among&typeObject != 0 {
		return j.object(sh)
	}
	return false, nil
}

func (j judge) array(sh *shape) (bool, error) {
	if sh.maxItems >= 0 && sh.minItems > sh.maxItems {
		return false, nil
	}
	for i := range min(sh.minItems, sh.prefixed()+1) {
		n, err := j.c.item(sh, i)
		if err != nil {
			return false, err
		}
		if ok, err := j.child(n); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func (j judge) object(sh *shape) (bool, error) {
	if sh.maxProps >= 0 && (sh.minProps > sh.maxProps || len(sh.required) > sh.maxProps) {
		return false, nil
	}
	most, unbounded := 0, false
	if j.proving {
		others, err := j.c.otherProperties(sh)
		if err != nil {
			return false, err
		}
		most, unbounded = len(sh.names), !others.never()
	}
	for _, name := range sh.names {
		if j.proving && !sh.required[name] {
			continue
		}
		n, err := j.c.property(sh, name)
		if err != nil {
			return false, err
		}
		ok, err := j.child(n)
		if err != nil || !ok && sh.required[name] {
			return false, err
		}
		if ok && !j.proving {
			most++
		}
	}
	if !j.proving && sh.extra != nil {
		var err error
		if unbounded, err = j.child(sh.extra); err != nil {
			return false, err
		}
	}
	return unbounded || sh.minProps <= most, nil
}

// integers is the range of whole numbers, both ends included and multiples where
// these are demanded; nil is unbounded.
func (sh *shape) integers() (lo, hi *big.Int) {
	step := big.NewInt(1)
	if sh.multiple != nil {
		step = sh.multiple.Num() // of a fraction in lowest terms
	}
	lo, hi = sh.steps(new(big.Rat).SetInt(step))
	if lo != nil {
		lo.Mul(lo, step)
	}
	if hi != nil {
		hi.Mul(hi, step)
	}
	return lo, hi
}

// steps is how often the step fits into a number of the range, least and most.
func (sh *shape) steps(step *big.Rat) (least, most *big.Int) {
	if sh.lo != nil {
		n := new(big.Rat).Quo(sh.lo, step)
		least = floor(n)
		if sh.loOpen || !n.IsInt() {
			least.Add(least, big.NewInt(1))
		}
	}
	if sh.hi != nil {
		n := new(big.Rat).Quo(sh.hi, step)
		most = floor(n)
		if sh.hiOpen && n.IsInt() {
			most.Sub(most, big.NewInt(1))
		}
	}
	return least, most
}

// floor is the largest whole number that is not above r. Div rounds down, the
// denominator of a big.Rat being positive.
func floor(r *big.Rat) *big.Int { return new(big.Int).Div(r.Num(), r.Denom()) }

func (sh *shape) rangeEmpty() bool {
	if sh.lo == nil || sh.hi == nil {
		return false
	}
	if sh.multiple != nil {
		least, most := sh.steps(sh.multiple)
		return least.Cmp(most) > 0
	}
	d := sh.lo.Cmp(sh.hi)
	return d > 0 || d == 0 && (sh.loOpen || sh.hiOpen)
}

func (n *node) never() bool {
	return slices.ContainsFunc(n.conj, func(s *schema) bool { return s.never })
}

// exclusive proves that of a node's oneOfs no two alternatives hold for a value
// that is generated. What cannot be proven is an error.
func (c *compiler) exclusive(n *node) error {
	for _, o := range n.oneOfs {
		for i := range o.alts {
			for k := i + 1; k < len(o.alts); k++ {
				both := o.state.clone()
				for _, alt := range []*schema{o.alts[i], o.alts[k]} {
					if err := c.gather(&both, alt, o.chain); err != nil {
						return err
					}
				}
				ok, err := c.mayHold(both, o.writes[i]|o.writes[k])
				if err != nil {
					return err
				}
				if ok {
					return fail(below(o.owner.path, "oneOf"), "branches %d and %d may both hold; "+
						"enforced are branches that exclude each other by type, by range or by a required property with a const or enum; anyOf has no such condition", i, k)
				}
			}
		}
	}
	return nil
}

// mayHold is false when it is proven that no value of these types is valid in
// the state. Inside, all that is not exact counts as holding: a oneOf as an anyOf,
// a format for each value.
func (c *compiler) mayHold(g gathering, among types) (bool, error) {
	c.proving = true
	defer func() { c.proving = false }()
	shapes, err := c.branch(g, nil)
	if err != nil {
		return false, err
	}
	open := map[*node]bool{}
	j := judge{c: c, proving: true}
	j.child = func(n *node) (bool, error) {
		if err := c.step(1); err != nil {
			return false, err
		}
		if open[n] { // needs itself: not a proof worth having
			return true, nil
		}
		if len(open) > c.limits.Depth {
			return true, nil
		}
		open[n] = true
		defer delete(open, n)
		if !n.loosened {
			n.loosened = true
			var err error
			if n.loose, err = c.shapes(n, nil); err != nil {
				return false, err
			}
		}
		return j.any(n.loose, typeAny)
	}
	return j.any(shapes, among)
}

func (j judge) any(shapes []*shape, among types) (bool, error) {
	for _, sh := range shapes {
		if ok, err := j.possible(sh, among); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// finish finds which nodes have a finite value: the least fixpoint, begun with
// none. nodes come in the order of discovery, so that walking it backwards meets
// children before their parents.
func (c *compiler) finish(nodes []*node) error {
	j := judge{c: c, child: func(n *node) (bool, error) { return n.possible, nil }}
	for again := true; again; {
		again = false
		for _, n := range slices.Backward(nodes) {
			if n.possible {
				continue
			}
			for _, sh := range n.shapes {
				if err := c.step(1 + len(sh.names)/4); err != nil {
					return err
				}
				ok, err := j.possible(sh, sh.writes)
				if err != nil {
					return err
				}
				n.possible = n.possible || ok
			}
			again = again || n.possible
		}
	}
	return nil
}

// impossible says why a node has no value, with the place of the reason.
func (c *compiler) impossible(n *node, open map[*node]bool) error {
	if open[n] {
		return fail(n.path, "can never end: every value of it holds another one")
	}
	open[n] = true
	for _, s := range n.conj {
		if s.never {
			return fail(s.path, "is false, which nothing satisfies")
		}
	}
	if len(n.shapes) == 0 {
		return fail(n.path, "has parts that exclude each other: no value satisfies all of them")
	}
	sh := n.shapes[0]
	if sh.limited {
		for _, m := range sh.members {
			for _, keyword := range []string{"enum", "const"} {
				if m.value.get(keyword) != nil {
					return fail(below(m.path, keyword), "allows no value that satisfies the rest of the schema")
				}
			}
		}
	}
	if sh.writes&typeArray != 0 {
		for i := range min(sh.minItems, sh.prefixed()+1) {
			item, err := c.item(sh, i)
			if err != nil {
				return err
			}
			if !item.possible {
				return c.impossible(item, open)
			}
		}
	}
	if sh.writes&typeObject != 0 {
		for _, f := range sh.fields {
			if f.required && !f.node.possible {
				return c.impossible(f.node, open)
			}
		}
		if sh.minProps > len(sh.fields) {
			return fail(below(n.path, "minProperties"), "is %d, and %s can be written", sh.minProps, plural(len(sh.fields), "property", "properties"))
		}
	}
	return fail(n.path, "has bounds that leave no value between them")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
