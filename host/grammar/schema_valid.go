package grammar

import (
	"math/big"
	"slices"
	"unicode/utf8"
)

// types is the type of the value, as a set of one.
func (v *value) types() types {
	switch v.kind {
	case 'n':
		return typeNull
	case 't', 'f':
		return typeBoolean
	case '0':
		if v.num.IsInt() {
			return typeInteger
		}
		return typeFraction
	case '"':
		return typeString
	case '[':
		return typeArray
	}
	return typeObject
}

// valid validates a value of the schema's own, one of an enum, against a schema.
func (c *compiler) valid(v *value, s *schema) (bool, error) {
	if err := c.step(1); err != nil {
		return false, err
	}
	if err := c.load(s); err != nil {
		return false, err
	}
	// Each level of a value is a few references away from the next: more of
	// them than there may be schemas are a loop.
	if c.nested++; c.nested > c.limits.Nodes {
		return false, fail(s.path, "refers to itself without end")
	}
	defer func() { c.nested-- }()
	if s.never || s.types&v.types() == 0 {
		return false, nil
	}
	if s.limited {
		if ok, err := c.listed(v, s); err != nil || !ok {
			return false, err
		}
	}
	for _, keyword := range s.order {
		var ok bool
		var err error
		switch keyword {
		case "$ref":
			ok, err = c.validAll(v, []*schema{s.ref})
		case "allOf":
			ok, err = c.validAll(v, s.allOf)
		case "anyOf":
			n, e := c.validCount(v, s.anyOf, 1)
			ok, err = n > 0, e
		case "oneOf":
			n, e := c.validCount(v, s.oneOf, 2)
			ok, err = n == 1 || n > 1 && c.proving, e
		default:
			continue
		}
		if err != nil || !ok {
			return false, err
		}
	}
	switch v.kind {
	case '0':
		return inRange(v.num, s), nil
	case '"':
		return c.validString(v.text, s)
	case '[':
		return c.validItems(v, s)
	case '{':
		return c.validProperties(v, s)
	}
	return true, nil
}

// listed tells whether the value is one of those of enum or const. Mostly it is
// one of this very list.
func (c *compiler) listed(v *value, s *schema) (bool, error) {
	if slices.Contains(s.values, v) {
		return true, nil
	}
	return slices.ContainsFunc(s.values, v.equal), c.step(len(s.values) / 4)
}

func (c *compiler) validAll(v *value, all []*schema) (bool, error) {
	for _, s := range all {
		if ok, err := c.valid(v, s); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// validCount counts the schemas that hold, up to enough.
func (c *compiler) validCount(v *value, all []*schema, enough int) (int, error) {
	n := 0
	for _, s := range all {
		ok, err := c.valid(v, s)
		if err != nil {
			return 0, err
		}
		if ok {
			if n++; n == enough {
				break
			}
		}
	}
	return n, nil
}

func inRange(n *big.Rat, s *schema) bool {
	if s.multiple != nil && !new(big.Rat).Quo(n, s.multiple).IsInt() {
		return false
	}
	if s.lo != nil {
		if d := n.Cmp(s.lo); d < 0 || d == 0 && s.loOpen {
			return false
		}
	}
	if s.hi != nil {
		if d := n.Cmp(s.hi); d > 0 || d == 0 && s.hiOpen {
			return false
		}
	}
	return true
}

func (c *compiler) validString(text string, s *schema) (bool, error) {
	n := utf8.RuneCountInString(text)
	if n < s.minLength || s.maxLength >= 0 && n > s.maxLength {
		return false, nil
	}
	if err := c.step(n / 16); err != nil {
		return false, err
	}
	if s.hasPattern {
		if s.patternText == nil {
			d, err := c.b.compile(s.pattern, true)
			if err != nil {
				return false, at(below(s.path, "pattern"), err)
			}
			s.patternText = d
		}
		if !s.patternText.accepts(text) {
			return false, nil
		}
	}
	if s.format != "" && !c.proving { // a format's automaton may know less than all of it
		if s.formatText == nil {
			d, err := c.b.format(s.format)
			if err != nil {
				return false, at(below(s.path, "format"), err)
			}
			s.formatText = d
		}
		return s.formatText.accepts(text), nil
	}
	return true, nil
}

func (d dfa) accepts(text string) bool {
	in := 0
	for _, r := range text {
		i := slices.IndexFunc(d[in].edges, func(e edge) bool { return e.on.contains(r) })
		if i < 0 {
			return false
		}
		in = d[in].edges[i].to
	}
	return d[in].accept
}

func (c *compiler) validItems(v *value, s *schema) (bool, error) {
	if len(v.items) < s.minItems || s.maxItems >= 0 && len(v.items) > s.maxItems {
		return false, nil
	}
	for i, item := range v.items {
		under := s.items
		if i < len(s.prefix) {
			under = s.prefix[i]
		}
		if under == nil {
			continue
		}
		if ok, err := c.valid(item, under); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func (c *compiler) validProperties(v *value, s *schema) (bool, error) {
	if len(v.items) < s.minProps || s.maxProps >= 0 && len(v.items) > s.maxProps {
		return false, nil
	}
	for _, name := range s.required {
		if v.get(name) == nil {
			return false, nil
		}
	}
	for i, name := range v.names {
		under := s.properties[name]
		if under == nil {
			under = s.additional
		}
		if under == nil {
			continue
		}
		if ok, err := c.valid(v.items[i], under); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}
