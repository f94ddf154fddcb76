package grammar

import (
	"errors"
	"slices"
)

// formatLengths are the formats all values of which have one length.
var formatLengths = map[string]int{"date": 10, "uuid": 36}

func (c *compiler) writeString(sh *shape) (Rule, error) {
	var patterns, formats []string
	var path string // of the last of them
	for _, m := range sh.members {
		if m.hasPattern && !slices.Contains(patterns, m.pattern) {
			patterns, path = append(patterns, m.pattern), below(m.path, "pattern")
		}
		if m.format != "" && !slices.Contains(formats, m.format) {
			formats, path = append(formats, m.format), below(m.path, "format")
		}
	}
	if len(patterns)+len(formats) > 1 {
		return "", fail(path, "is not enforced together with another pattern or format")
	}
	var r Rule
	var err error
	switch {
	case len(patterns) == 1:
		r, err = c.b.jsonPattern(patterns[0], sh.minLength, sh.maxLength)
	case len(formats) == 1:
		if n, ok := formatLengths[formats[0]]; (sh.minLength > 0 || sh.maxLength >= 0) &&
			!(ok && sh.minLength <= n && (sh.maxLength < 0 || sh.maxLength >= n)) {
			return "", fail(path, "is not enforced together with minLength or maxLength")
		}
		r, err = c.b.jsonFormat(formats[0])
	default:
		r = c.b.jsonString(sh.minLength, sh.maxLength)
	}
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
