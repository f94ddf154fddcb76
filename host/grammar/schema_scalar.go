package grammar

import (
	"errors"
	"fmt"
	"slices"
)

func (c *compiler) writeString(sh *shape) (Rule, error) {
	var patterns, formats []string
	path := sh.path() // of the last pattern or format
	for _, m := range sh.members {
		if m.hasPattern && !slices.Contains(patterns, m.pattern) {
			patterns, path = append(patterns, m.pattern), below(m.path, "pattern")
		}
		if m.format != "" && !slices.Contains(formats, m.format) {
			formats, path = append(formats, m.format), below(m.path, "format")
		}
	}
	if len(patterns)+len(formats) == 0 {
		return c.b.jsonString(sh.minLength, sh.maxLength), nil
	}
	slices.Sort(patterns)
	slices.Sort(formats)
	key := fmt.Sprintf("string %q %q %d %d", patterns, formats, sh.minLength, sh.maxLength)
	r, err := c.b.remember(key, func() (Rule, error) {
		return c.b.jsonMatching(patterns, formats, sh.minLength, sh.maxLength)
	})
	return r, at(path, err)
}

func (c *compiler) writeNumber(sh *shape) (Rule, error) {
	n := numbers{least: sh.lo, most: sh.hi, aboveLeast: sh.loOpen, belowMost: sh.hiOpen, multiple: sh.multiple}
	if sh.writes&typeFraction == 0 {
		lo, hi := sh.integers()
		n = integers(lo, hi)
		n.multiple = sh.multiple
	}
	key := fmt.Sprintf("number %v %v %v %v %v %v", n.least, n.most, n.aboveLeast, n.belowMost, n.integer, n.multiple)
	r, err := c.b.remember(key, func() (Rule, error) { return c.b.number(n) })
	return r, at(sh.path(), err)
}

// remember is once for rules that may fail.
func (b *Builder) remember(key string, make func() (Rule, error)) (Rule, error) {
	if r, ok := b.made["\x00"+key]; ok {
		return r, nil
	}
	r, err := make()
	if err == nil {
		b.keep("\x00"+key, r)
	}
	return r, err
}

// at gives an error its place in the schema.
func at(path string, err error) error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Path != "":
		return err
	case e != nil:
		return &Error{Path: path, Message: e.Message}
	}
	return &Error{Path: path, Message: err.Error()}
}
