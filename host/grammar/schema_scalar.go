package grammar

import (
	"errors"
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
	r, err := c.b.jsonMatching(patterns, formats, sh.minLength, sh.maxLength)
	return r, at(path, err)
}

func (c *compiler) writeNumber(sh *shape) (Rule, error) {
	if sh.writes&typeFraction == 0 {
		lo, hi := sh.integers()
		return c.b.integerRange(lo, hi), nil
	}
	r, err := c.b.numberRange(sh.lo, sh.hi, sh.loOpen, sh.hiOpen)
	return r, at(sh.path(), err)
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
		return fail(path, "%s", e.Message)
	}
	return fail(path, "%v", err)
}
