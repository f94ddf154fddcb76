package grammar

// jsonString is the JSON literal, quotes included, of a string of least to most
// code points; most < 0 means no bound. Every way JSON has to write a character
// is open, for a model that has begun an escape must be able to end it in the
// character it means; a pair of surrogates is one character and stays together.
func (b *Builder) jsonString(least, most int) Rule {
	if n := max(least, most); n > b.limits.Repeat {
		return b.fail("a string of %d characters is too large a bound: at most %d is allowed", n, b.limits.Repeat)
	}
	char := b.once("a character of a JSON string", func() Rule {
		hex := Rule("[0-9A-Fa-f]")
		low := b.Sequence(`"\\u"`, "[Dd]", "[C-Fc-f]", hex, hex)
		unit := b.Choice(
			b.Sequence("[0-9A-CEFa-cef]", hex, hex, hex),
			b.Sequence("[Dd]", b.Choice(
				b.Sequence("[0-7]", hex, hex),
				b.Sequence("[89ABab]", hex, hex, low))))
		return b.Choice(jsonRaw.rule(), b.Sequence(`"\\"`, b.Choice(`["\\/bfnrt]`, b.Sequence(`"u"`, unit))))
	})
	return b.Sequence(`"\""`, b.times(char, least), b.upTo(char, most-least, most < 0, `"\""`))
}

// jsonRaw are the characters that stand in a JSON string as they are.
var jsonRaw = anyChar.minus(charset{{0, 0x1f}, {0x7f, 0x7f}}).minus(chars(`"\`))
