package grammar

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// A node is a place in an answer: what must be valid under all of some schemas
// at once. Merging is this union of schemas, so that allOf, the siblings of a
// $ref and properties declared twice are one thing, and a recursive schema comes
// back to a node that is there already.
type node struct {
	path     string
	conj     []*schema
	expanded bool
	shapes   []*shape // one of them
	oneOfs   []oneOf  // to be proven exclusive if the node is written

	loosened bool
	loose    []*shape // more than shapes, for proofs that there is none

	possible bool // some finite value is valid, and can be written
	rule     Rule
}

// A shape is a node's conjunction without any choice left in it.
type shape struct {
	members []*schema
	types   types // valid ones
	writes  types // those to generate: what the keywords speak of, when no type is stated
	limited bool  // to values, which satisfy all else
	values  []*value

	lo, hi               *big.Rat
	loOpen, hiOpen       bool
	multiple             *big.Rat
	minLength, maxLength int
	minItems, maxItems   int
	minProps, maxProps   int
	names                []string // declared or required properties, in order
	required             map[string]bool

	// The children, filled when the shape's node is to be written.
	fields []field
	extra  *node // further properties; nil: none are written
	prefix []*node
	rest   *node // further items; nil: none are written
}

type field struct {
	name     string
	node     *node
	required bool
}

// A oneOf asks that no value fits two of its alternatives in this state.
type oneOf struct {
	owner  *schema
	state  gathering
	alts   []*schema
	chain  *link
	writes []types // by alternative
}

// gathering is a conjunction while its schemas are gathered.
type gathering struct {
	entered []*schema
	members []*schema // entered, in the order in which their properties come
	pending []pending
	never   bool
}

type pending struct {
	owner *schema
	alts  []*schema
	one   bool
	chain *link
}

// link is the way from a node's schema to one gathered: meeting a schema on its
// own way is a reference without end.
type link struct {
	schema *schema
	up     *link
}

func (g gathering) clone() gathering {
	g.entered, g.members, g.pending = slices.Clone(g.entered), slices.Clone(g.members), slices.Clone(g.pending)
	return g
}

// node is the node of a conjunction. Schemas that say nothing are left out, a
// bare $ref is what it points at.
func (c *compiler) node(path string, conj []*schema) (*node, error) {
	var all []*schema
	for _, s := range conj {
		for hops := 0; ; hops++ {
			if err := c.load(s); err != nil {
				return nil, err
			}
			if s.ref == nil || s.otherThanRef || hops > len(c.schemas) {
				break
			}
			s = s.ref
		}
		if (s.otherThanRef || s.ref != nil) && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	ids := make([]int, len(all))
	for i, s := range all {
		ids[i] = s.id
	}
	slices.Sort(ids)
	var key strings.Builder
	for _, id := range ids {
		key.WriteString(strconv.Itoa(id) + " ")
	}
	if err := c.step(1 + len(ids)); err != nil {
		return nil, err
	}
	if n := c.nodes[key.String()]; n != nil {
		return n, nil
	}
	if len(ids) > 1 && !c.proving { // a schema alone was counted when it was read
		if err := c.visit(path); err != nil {
			return nil, err
		}
	}
	if len(all) == 1 {
		path = all[0].path
	}
	n := &node{path: path, conj: all}
	c.nodes[key.String()] = n
	return n, nil
}

// expand finds the node's shapes.
func (c *compiler) expand(n *node) (err error) {
	if !n.expanded {
		n.expanded = true
		n.shapes, err = c.shapes(n, &n.oneOfs)
	}
	return err
}

func (c *compiler) shapes(n *node, met *[]oneOf) ([]*shape, error) {
	var g gathering
	for _, s := range n.conj {
		if err := c.gather(&g, s, nil); err != nil {
			return nil, err
		}
	}
	return c.branch(g, met)
}

// gather adds a schema, and what it refers to, to the conjunction.
func (c *compiler) gather(st *gathering, s *schema, chain *link) error {
	if err := c.step(1 + len(st.entered)/8); err != nil {
		return err
	}
	if err := c.load(s); err != nil {
		return err
	}
	if slices.Contains(st.entered, s) {
		for l := chain; l != nil; l = l.up {
			if l.schema == s {
				return fail(s.path, "refers to itself without end")
			}
		}
		return nil
	}
	st.entered = append(st.entered, s)
	st.never = st.never || s.never
	chain = &link{s, chain}
	placed := false
	for _, keyword := range s.order {
		var refs []*schema
		switch keyword {
		case "$ref":
			refs = []*schema{s.ref}
		case "allOf":
			refs = s.allOf
		case "anyOf":
			st.pending = append(st.pending, pending{s, s.anyOf, false, chain})
		case "oneOf":
			st.pending = append(st.pending, pending{s, s.oneOf, true, chain})
		case "properties", "required":
			if !placed {
				st.members, placed = append(st.members, s), true
			}
		}
		for _, r := range refs {
			if err := c.gather(st, r, chain); err != nil {
				return err
			}
		}
	}
	if !placed {
		st.members = append(st.members, s)
	}
	return nil
}

// branch takes the choices of a conjunction one by one and gives the shapes of
// all combinations that are not plainly empty. The oneOfs it met are appended to
// met, unless met is nil.
func (c *compiler) branch(st gathering, met *[]oneOf) ([]*shape, error) {
	if err := c.step(1 + len(st.entered)); err != nil {
		return nil, err
	}
	if st.never {
		return nil, nil
	}
	sh, err := c.shape(st)
	if err != nil || sh.types == 0 && !sh.limited {
		return nil, err
	}
	if sh.limited || len(st.pending) == 0 {
		return []*shape{sh}, nil
	}
	next := st.pending[0]
	st.pending = st.pending[1:]
	var all []*shape
	writes := make([]types, len(next.alts))
	for i, alt := range next.alts {
		one := st.clone()
		if err := c.gather(&one, alt, next.chain); err != nil {
			return nil, err
		}
		shapes, err := c.branch(one, met)
		if err != nil {
			return nil, err
		}
		for _, sh := range shapes {
			writes[i] |= sh.writes
		}
		all = append(all, shapes...)
	}
	if next.one && met != nil && len(next.alts) > 1 {
		*met = append(*met, oneOf{next.owner, st, next.alts, next.chain, writes})
	}
	return all, nil
}

// shape puts together what the members of a conjunction say. When one of them
// lists values, these are tried against all of it, choices included.
func (c *compiler) shape(st gathering) (*shape, error) {
	sh := &shape{members: st.members, types: typeAny, maxLength: -1, maxItems: -1, maxProps: -1, required: map[string]bool{}}
	var stated bool
	var implied types
	var limiting *schema
	for _, m := range st.members {
		sh.types &= m.types
		stated = stated || m.stated
		implied |= m.implied()
		if m.limited && (limiting == nil || len(m.values) < len(limiting.values)) {
			limiting = m
		}
		sh.lo, sh.loOpen = tighter(sh.lo, sh.loOpen, m.lo, m.loOpen, 1)
		sh.hi, sh.hiOpen = tighter(sh.hi, sh.hiOpen, m.hi, m.hiOpen, -1)
		if sh.multiple = common(sh.multiple, m.multiple); sh.multiple != nil && sh.multiple.Num().BitLen() > maxMultipleBits {
			return nil, fail(below(m.path, "multipleOf"), "has no common multiple with others that is small enough to be enforced")
		}
		sh.minLength, sh.maxLength = max(sh.minLength, m.minLength), least(sh.maxLength, m.maxLength)
		sh.minItems, sh.maxItems = max(sh.minItems, m.minItems), least(sh.maxItems, m.maxItems)
		sh.minProps, sh.maxProps = max(sh.minProps, m.minProps), least(sh.maxProps, m.maxProps)
	}
	if sh.multiple != nil && sh.multiple.IsInt() {
		sh.types &^= typeFraction
	}
	if err := c.nameProperties(sh); err != nil {
		return nil, err
	}
	sh.writes = sh.types
	if !stated && implied != 0 {
		sh.writes &= implied
	}
	if limiting == nil {
		return sh, nil
	}
	sh.limited, sh.types = true, 0
	for _, v := range limiting.values {
		ok := true
		for _, m := range st.members {
			var err error
			if ok, err = c.valid(v, m); err != nil {
				return nil, err
			} else if !ok {
				break
			}
		}
		if ok {
			sh.values = append(sh.values, v)
			sh.types |= v.types()
		}
	}
	sh.writes = sh.types
	return sh, nil
}

// nameProperties lists the properties in the order of declaration, then those
// that are only required.
func (c *compiler) nameProperties(sh *shape) error {
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			sh.names = append(sh.names, name)
		}
	}
	for _, m := range sh.members {
		if err := c.step((len(m.names) + len(m.required)) / 8); err != nil {
			return err
		}
		for _, name := range m.names {
			add(name)
		}
	}
	for _, m := range sh.members {
		for _, name := range m.required {
			add(name)
			sh.required[name] = true
		}
	}
	return nil
}

// implied are the types the schema's keywords speak of.
func (s *schema) implied() types {
	var t types
	if s.lo != nil || s.hi != nil || s.multiple != nil {
		t |= typeNumber
	}
	if s.minLength > 0 || s.maxLength >= 0 || s.hasPattern || s.format != "" {
		t |= typeString
	}
	if s.items != nil || s.prefix != nil || s.minItems > 0 || s.maxItems >= 0 {
		t |= typeArray
	}
	if s.hasProperties || s.required != nil || s.additional != nil || s.minProps > 0 || s.maxProps >= 0 {
		t |= typeObject
	}
	return t
}

// least is the stricter of two maxima, -1 being none.
func least(a, b int) int {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

func (c *compiler) merged(path string, members []*schema, child func(*schema) *schema) (*node, error) {
	var conj []*schema
	for _, m := range members {
		if s := child(m); s != nil {
			conj = append(conj, s)
		}
	}
	return c.node(path, conj)
}

// property is the node of a property, additional ones included.
func (c *compiler) property(sh *shape, name string) (*node, error) {
	return c.merged(below(below(sh.path(), "properties"), name), sh.members, func(m *schema) *schema {
		if s := m.properties[name]; s != nil {
			return s
		}
		return m.additional
	})
}

// otherProperties is the node of properties nobody declares.
func (c *compiler) otherProperties(sh *shape) (*node, error) {
	return c.merged(below(sh.path(), "additionalProperties"), sh.members, func(m *schema) *schema { return m.additional })
}

// item is the node of the item at i.
func (c *compiler) item(sh *shape, i int) (*node, error) {
	return c.merged(below(sh.path(), "items"), sh.members, func(m *schema) *schema {
		if i < len(m.prefix) {
			return m.prefix[i]
		}
		return m.items
	})
}

// prefixed is the number of items that have a schema of their own.
func (sh *shape) prefixed() int {
	n := 0
	for _, m := range sh.members {
		n = max(n, len(m.prefix))
	}
	return n
}

func (sh *shape) path() string {
	if len(sh.members) == 0 {
		return ""
	}
	return sh.members[0].path
}
