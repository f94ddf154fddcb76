package grammar

// planArray names the nodes of an array's items. Items behind those that
// prefixItems describes are written only when the schema speaks of them, or
// demands them.
func (c *compiler) planArray(sh *shape) error {
	prefixed := sh.prefixed()
	for i := range prefixed {
		n, err := c.item(sh, i)
		if err != nil {
			return err
		}
		sh.prefix = append(sh.prefix, n)
	}
	open := prefixed == 0 || sh.minItems > prefixed
	for _, m := range sh.members {
		open = open || m.items != nil
	}
	if !open {
		return nil
	}
	n, err := c.item(sh, prefixed)
	if err == nil && !n.never() {
		sh.rest = n
	}
	return err
}

func (c *compiler) writeArray(sh *shape) (Rule, error) {
	least, most := sh.minItems, sh.maxItems
	var items []Rule
	var rest Rule
	for i, n := range append(sh.prefix, sh.rest) {
		if n == nil || !n.possible || most >= 0 && i >= most {
			break
		}
		r, err := c.write(n)
		if err != nil {
			return "", err
		}
		if i < len(sh.prefix) {
			items = append(items, r)
		} else {
			rest = r
		}
	}
	// What may follow when all of items are written, then when fewer are.
	var after Rule
	if rest != "" {
		from, to := max(0, least-len(items)), -1
		if most >= 0 {
			to = most - len(items)
		}
		if len(items) == 0 {
			// The first has no comma before it.
			items, from = []Rule{rest}, max(0, from-1)
			if most >= 0 {
				to--
			}
		}
		after = c.b.Repeat(c.b.Sequence(`", "`, rest), from, to)
	}
	for i := len(items) - 1; i > 0; i-- {
		more := c.b.Sequence(`", "`, items[i], after)
		if i < least {
			after = more
		} else {
			after = c.b.add([]Rule{more}, nil)
		}
	}
	var alts [][]Rule
	if len(items) > 0 {
		alts = append(alts, []Rule{`"["`, items[0], after, `"]"`})
	}
	if least == 0 {
		alts = append(alts, []Rule{`"[]"`})
	}
	for i := range alts {
		alts[i] = compact(alts[i])
	}
	return c.b.oneOf(alts), nil
}
