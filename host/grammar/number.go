package grammar

import "math/big"

func (b *Builder) integerRange(least, most *big.Int) Rule {
	return b.Sequence(b.Choice(`"-"`, ""), b.Choice(`"0"`, b.Sequence("[1-9]", b.Repeat("[0-9]", 0, 14))))
}

func (b *Builder) numberRange(least, most *big.Rat, aboveLeast, belowMost bool) (Rule, error) {
	return b.Sequence(b.integerRange(nil, nil), b.Choice("", b.Sequence(`"."`, b.Repeat("[0-9]", 1, 15)))), nil
}
