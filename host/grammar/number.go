package grammar

import (
	"cmp"
	"math/big"
	"strings"
)

const (
	// exactDigits is how many digits a double keeps of any decimal. A number
	// with no more of them lies where its digits say, for every reader.
	exactDigits = 15
	// maxDigits is how many a bound may ask for on its far side: 64-bit integers.
	maxDigits = 20
	// maxStep bounds the remainders a multiple has to count.
	maxStep = 1 << 20
)

// numbers is a set of numbers. They are written without an exponent, leading
// zeros, "-0" or "+"; where there is no bound they end after exactDigits, so that
// no model writes digits for ever.
type numbers struct {
	least, most           *big.Rat // nil: no bound
	aboveLeast, belowMost bool     // the bound itself is left out
	integer               bool     // no fraction
	multiple              *big.Rat // of this positive number only; nil: any
}

// integers are those from least to most; nil means no bound.
func integers(least, most *big.Int) numbers {
	n := numbers{integer: true}
	if least != nil {
		n.least = new(big.Rat).SetInt(least)
	}
	if most != nil {
		n.most = new(big.Rat).SetInt(most)
	}
	return n
}

// maxMultipleBits bounds what computing with multiples costs.
const maxMultipleBits = 2048

// common is the least number that is a multiple of both; nil is none asked for.
// Of fractions in lowest terms it is the least common multiple of what is above
// the line, over the greatest common divisor of what is below.
func common(a, b *big.Rat) *big.Rat {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	above := new(big.Int).Mul(a.Num(), b.Num())
	above.Div(above, new(big.Int).GCD(nil, nil, a.Num(), b.Num()))
	return new(big.Rat).SetFrac(above, new(big.Int).GCD(nil, nil, a.Denom(), b.Denom()))
}

// number is one of the numbers.
func (b *Builder) number(n numbers) (Rule, error) {
	if b.err != nil {
		return "", b.err
	}
	places, step, err := n.unit()
	if err != nil {
		return "", err
	}
	// From here on everything is counted in units of the last place.
	least, most := scaled(n.least, places, n.aboveLeast, 1), scaled(n.most, places, n.belowMost, -1)
	one, d := big.NewInt(1), dfa{{}}
	if most == nil || most.Sign() >= 0 {
		from := new(big.Int)
		if least != nil && least.Sign() > 0 {
			from = least
		}
		if err := b.addDecimals(&d, 0, newDecimals(from, farEnd(from, most, places), places, step)); err != nil {
			return "", err
		}
	}
	if least == nil || least.Sign() < 0 {
		from, to := one, least
		if most != nil && most.Sign() < 0 {
			from = new(big.Int).Neg(most)
		}
		if to != nil {
			to = new(big.Int).Neg(least)
		}
		minus := len(d)
		d = append(d, dfaState{})
		d[0].edges = append(d[0].edges, edge{charset{{'-', '-'}}, minus})
		if err := b.addDecimals(&d, minus, newDecimals(from, farEnd(from, to, places), places, step)); err != nil {
			return "", err
		}
	}
	if !d.trim() {
		return "", failure("no number of at most %d digits lies within the bounds", exactDigits)
	}
	return b.write(d, plain, ""), nil
}

// unit is how many digits a fraction may have, and how many units of the last
// one the step is between the numbers.
func (n numbers) unit() (places int, step int64, err error) {
	if !n.integer {
		places = exactDigits
	}
	if n.multiple == nil {
		return places, 1, nil
	}
	if n.multiple.Sign() <= 0 {
		return 0, 0, failure("a number cannot be a multiple of %s", n.multiple.RatString())
	}
	whole := new(big.Int)
	if n.integer {
		// An integer is a multiple of p/q in lowest terms if it is one of p.
		whole = n.multiple.Num()
	} else {
		for places = 0; places <= exactDigits; places++ {
			if x := new(big.Rat).Mul(n.multiple, new(big.Rat).SetInt(power(places))); x.IsInt() {
				whole = x.Num()
				break
			}
		}
	}
	if whole.Sign() == 0 || whole.Cmp(big.NewInt(maxStep)) > 0 {
		return 0, 0, failure("a multiple of %.40s has too many digits to be enforced", n.multiple.RatString())
	}
	return places, whole.Int64(), nil
}

// scaled is the bound in units of the last place, rounded towards the inside; an
// open bound is one unit further in.
func scaled(bound *big.Rat, places int, open bool, inside int64) *big.Int {
	if bound == nil {
		return nil
	}
	x := new(big.Rat).Mul(bound, new(big.Rat).SetInt(power(places)))
	floor := new(big.Int).Div(x.Num(), x.Denom()) // Euclidean: the denominator is positive
	switch {
	case inside > 0 && (!x.IsInt() || open):
		floor.Add(floor, big.NewInt(1))
	case inside < 0 && x.IsInt() && open:
		floor.Sub(floor, big.NewInt(1))
	}
	return floor
}

// farEnd is the largest magnitude to write: the bound, unless it asks for more
// digits than anyone needs.
func farEnd(from, to *big.Int, places int) *big.Int {
	digits := exactDigits
	if to != nil {
		digits = maxDigits
	}
	if n := len(from.String()) - places; n >= digits {
		digits = n + 1
	}
	end := power(digits + places)
	end.Sub(end, big.NewInt(1))
	if to != nil && to.Cmp(end) < 0 {
		return to
	}
	return end
}

func power(places int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
}

// decimals are the decimals from least to most that are multiples of step, in
// units of the last place.
type decimals struct {
	least, most bound
	places      int
	step        int64
	carried     int64 // remainders that are the same by this lead to the same ones
}

// bound is the digits before and after the point.
type bound struct{ whole, fraction string }

func newDecimals(least, most *big.Int, places int, step int64) decimals {
	split := func(x *big.Int) bound {
		text := x.String()
		if n := places + 1 - len(text); n > 0 {
			text = strings.Repeat("0", n) + text
		}
		return bound{text[:len(text)-places], text[len(text)-places:]}
	}
	// Ten times a remainder by the step is known from the remainder by this.
	common := new(big.Int).GCD(nil, nil, big.NewInt(step), big.NewInt(10)).Int64()
	return decimals{split(least), split(most), places, step, step / common}
}

// digits is what is known of a number that is read from the left.
type digits struct {
	fraction bool  // the point was read
	zero     bool  // it begins with 0
	count    int16 // digits read before the point, or after it
	left     int16 // digits that may still follow the point
	multiple bool  // all digits so far are a multiple of the step
	rem      int32 // their remainder, as far as it matters to the digits that follow

	// How they compare with as many digits of the bounds: -1, 0 or 1.
	least, most int8
}

// read is what is known after one more character, and whether it may come.
func (m decimals) read(at digits, c rune) (digits, bool) {
	if c == '.' {
		next := m.whole(at)
		next.fraction, next.zero, next.count = true, false, 0
		if next.left = min(int16(m.places), exactDigits-at.count); at.zero {
			next.left = int16(m.places)
		}
		return next, !at.fraction && at.count > 0 && next.left > 0 && next.least >= 0 && next.most <= 0
	}
	next := at
	next.count++
	rem := (int64(at.rem)*10 + int64(c-'0')) % m.step
	next.multiple, next.rem = rem == 0, int32(rem%m.carried)
	if at.fraction {
		next.left--
		next.least = compare(at.least, c, m.least.fraction, int(at.count))
		next.most = compare(at.most, c, m.most.fraction, int(at.count))
		return next, at.left > 0 && next.least >= 0 && next.most <= 0
	}
	next.zero = at.count == 0 && c == '0'
	next.least = compare(at.least, c, m.least.whole, int(at.count))
	next.most = compare(at.most, c, m.most.whole, int(at.count))
	return next, !at.zero && int(at.count) < len(m.most.whole)
}

// whole compares the digits before the point once none follows: with more of
// them a number is larger.
func (m decimals) whole(at digits) digits {
	if n := len(m.least.whole); int(at.count) != n {
		at.least = int8(cmp.Compare(int(at.count), n))
	}
	if n := len(m.most.whole); int(at.count) != n {
		at.most = int8(cmp.Compare(int(at.count), n))
	}
	return at
}

// accepts tells whether the number may end here.
func (m decimals) accepts(at digits) bool {
	read := int(at.count)
	if !at.fraction {
		at, read = m.whole(at), 0
	}
	multiple, rem := at.multiple, int64(at.rem)
	for range m.places - read { // zeros that are not written
		rem = rem * 10 % m.step
		multiple = rem == 0
	}
	atLeast := at.least > 0 || at.least == 0 && strings.Trim(m.least.fraction[read:], "0") == ""
	return at.count > 0 && multiple && atLeast && at.most <= 0
}

func compare(before int8, c rune, digits string, i int) int8 {
	switch {
	case before != 0:
		return before
	case i >= len(digits):
		return 1
	}
	return int8(cmp.Compare(c, rune(digits[i])))
}

// addDecimals puts the automaton of the decimals at a state.
func (b *Builder) addDecimals(d *dfa, start int, m decimals) error {
	most := b.limits.GrammarSize / 16
	ids := map[digits]int{{}: start}
	queue := []digits{{}}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if err := b.spend(4 * perState); err != nil {
			return err
		}
		id := ids[at]
		(*d)[id].accept = m.accepts(at)
		for _, on := range decimalChars {
			next, ok := m.read(at, on[0].lo)
			if !ok {
				continue
			}
			to, ok := ids[next]
			if !ok {
				to = len(*d)
				ids[next] = to
				*d = append(*d, dfaState{})
				queue = append(queue, next)
			}
			(*d)[id].edges = append((*d)[id].edges, edge{on, to})
		}
		if len(*d) > most {
			return failure("the bounds and the step of the number together need more than %d states", most)
		}
	}
	return nil
}

// decimalChars are those of a number besides its sign, each a set that all states
// share.
var decimalChars = func() (sets []charset) {
	for _, c := range ".0123456789" {
		sets = append(sets, charset{{c, c}})
	}
	return sets
}()
