package grammar

import (
	"fmt"
	"math"
	"slices"
)

// Repeat is r from least to most times; most < 0 means no bound.
func (b *Builder) Repeat(r Rule, least, most int) Rule {
	if b.err != nil || r == "" || most == 0 {
		return ""
	}
	if least < 0 || most >= 0 && most < least {
		return b.fail("a repetition from %d to %d times is not possible", least, most)
	}
	if n := max(least, most); n > b.limits.Repeat {
		return b.fail("a repetition of %d is too large: at most %d is allowed", n, b.limits.Repeat)
	}
	if b.nullable(r) {
		// Each turn may be empty, so any number of turns that are not will do; a
		// loop over an empty turn would never end in the engine.
		r, least = b.nonEmpty(r), 0
		if r == "" {
			return ""
		}
	}
	return b.Sequence(b.times(r, least), b.upTo(r, most-least, most < 0, ""))
}

// times is r exactly n times, by doubling: x4 is x2 x2.
func (b *Builder) times(r Rule, n int) Rule {
	if isLiteral(r) && len(r)*n > b.limits.GrammarSize {
		return b.tooLarge()
	}
	if n <= 4 {
		return b.Sequence(slices.Repeat([]Rule{r}, n)...)
	}
	half := b.times(r, n/2)
	return b.Sequence(half, half, b.times(r, n%2))
}

// longChain is the most turns of which each has a rule of its own.
const longChain = 1000

// upTo is r at most n times, or any number of times, and then end. Every count is
// a rule, and one text has one way through them; the rules of smaller counts are
// shared. Where that would be too many rules, blocks of turns are counted: whole
// ones, or what is less than one and the end. A text has one way through these,
// too, but the engine has to follow both until it knows.
func (b *Builder) upTo(r Rule, n int, unbounded bool, end Rule) Rule {
	if unbounded {
		return b.add([]Rule{r, self}, compact([]Rule{end}))
	}
	if n > longChain {
		size := int(math.Sqrt(float64(n)))
		block, less := b.times(r, size), b.upTo(r, size-1, false, end)
		rest := b.upTo(r, n%size, false, end)
		for range n / size {
			rest = b.add(compact([]Rule{block, rest}), compact([]Rule{less}))
		}
		return rest
	}
	// What was made before ends in all smaller counts.
	key := func(n int) string { return fmt.Sprintf("\x00up to %d of %s and %s", n, r, end) }
	known := n
	for known > 0 && b.made[key(known)] == "" {
		known--
	}
	rest := end
	if known > 0 {
		rest = b.made[key(known)]
	}
	for i := known + 1; i <= n; i++ {
		rest = b.once(key(i), func() Rule { return b.add(compact([]Rule{r, rest}), compact([]Rule{end})) })
	}
	return rest
}

// nonEmpty is r without the empty text; "" when r is nothing but the empty text.
func (b *Builder) nonEmpty(r Rule) Rule {
	if !b.nullable(r) {
		return r
	}
	d := b.rules[r]
	if d == nil {
		return ""
	}
	var alts [][]Rule
	for _, seq := range d.alts {
		// The first item that is not empty stands at any place that only items
		// that may be empty precede.
		for i, item := range seq {
			if first := b.nonEmpty(item); first != "" {
				alts = append(alts, compact(append([]Rule{first}, seq[i+1:]...)))
			}
			if !b.nullable(item) {
				break
			}
		}
	}
	if len(alts) == 0 {
		return ""
	}
	return b.add(alts...)
}
